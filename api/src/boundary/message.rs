//! Messages: JSON and one run of raw bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorData, ErrorKind, ErrorStatus, Result};
use crate::item::{Item, Part};

/// A message of one's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// UTF-8 JSON, or nothing.
    pub json: Vec<u8>,
    /// Raw bytes: whatever is too large to be escaped.
    pub blob: Vec<u8>,
}

impl Message {
    /// A message without anything in it.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A value as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the value can't be written as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        Self::with_blob(value, Vec::new())
    }

    /// A value as JSON, and raw bytes beside it.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn with_blob(value: &impl Serialize, blob: Vec<u8>) -> Result<Self> {
        let json = serde_json::to_vec(value).map_err(|e| {
            Error::new(ErrorKind::InvalidInput, format!("can't be sent: {e}")).source(e)
        })?;
        Ok(Self { json, blob })
    }

    /// Lends it.
    pub fn as_ref(&self) -> MessageRef<'_> {
        MessageRef {
            json: &self.json,
            blob: &self.blob,
        }
    }
}

/// A message of somebody else's.
#[derive(Debug, Clone, Copy)]
pub struct MessageRef<'a> {
    /// UTF-8 JSON, or nothing; not checked yet.
    pub json: &'a [u8],
    /// Raw bytes.
    pub blob: &'a [u8],
}

impl MessageRef<'_> {
    /// Reads the JSON. An empty text is read as `null`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it isn't what it must be.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let json = if self.json.is_empty() {
            b"null"
        } else {
            self.json
        };
        serde_json::from_slice(json).map_err(|e| {
            Error::new(ErrorKind::Corrupt, format!("not the expected JSON: {e}"))
                .context("json", excerpt(self.json))
        })
    }

    /// Reads the JSON as an error. One of a kind that isn't known here is of
    /// kind "unexpected", and says so.
    pub fn read_error(&self) -> Error {
        #[derive(serde::Deserialize)]
        struct Lenient {
            kind: Option<String>,
            status: Option<ErrorStatus>,
            message: String,
            retry_after_ms: Option<u64>,
        }
        if let Ok(data) = serde_json::from_slice::<ErrorData>(self.json) {
            return data.into();
        }
        let Ok(data) = serde_json::from_slice::<Lenient>(self.json) else {
            return Error::new(ErrorKind::Corrupt, "failed without a readable error")
                .context("json", excerpt(self.json));
        };
        let kind = data.kind.as_deref().and_then(|kind| {
            serde_json::from_value(serde_json::Value::String(kind.to_owned())).ok()
        });
        let mut error = Error::new(kind.unwrap_or(ErrorKind::Unexpected), data.message);
        if let (None, Some(kind)) = (kind, data.kind) {
            error = error.context("kind", kind);
        }
        error = match data.status {
            Some(ErrorStatus::Permanent) => error.permanent(),
            Some(ErrorStatus::Temporary) => error.temporary(),
            Some(ErrorStatus::Persistent) => error.temporary().persistent(),
            None => error,
        };
        match data.retry_after_ms {
            Some(delay) => error.with_retry_after_ms(delay),
            None => error,
        }
    }
}

/// The beginning of a text that couldn't be read.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 120;
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let text: String = String::from_utf8_lossy(cut)
        .chars()
        .flat_map(char::escape_default)
        .collect();
    if bytes.len() > SHOWN {
        format!("{text}…")
    } else {
        text
    }
}

/// An error as the JSON it travels as.
pub(crate) fn error_json(error: &Error) -> Vec<u8> {
    serde_json::to_vec(&error.to_data()).unwrap_or_default()
}

/// Pictures travel as raw bytes beside the JSON: here their data are moved out
/// of the parts to the end of `blob`. Returns how many bytes each took.
pub fn take_images<'a>(
    parts: impl IntoIterator<Item = &'a mut Part>,
    blob: &mut Vec<u8>,
) -> Vec<usize> {
    let mut lengths = Vec::new();
    for part in parts {
        if let Part::Image { data, .. } = part {
            lengths.push(data.len());
            blob.extend_from_slice(std::mem::take(data).as_bytes());
        }
    }
    lengths
}

/// The reverse of [`take_images`].
///
/// # Errors
/// [`ErrorKind::Corrupt`] if pictures, lengths and bytes don't fit each other.
pub fn put_images<'a>(
    parts: impl IntoIterator<Item = &'a mut Part>,
    lengths: &[usize],
    blob: &[u8],
) -> Result<()> {
    let corrupt = || Error::new(ErrorKind::Corrupt, "the pictures' bytes don't fit");
    let (mut lengths, mut rest) = (lengths.iter(), blob);
    for part in parts {
        if let Part::Image { data, .. } = part {
            let length = lengths.next().ok_or_else(corrupt)?;
            let (bytes, others) = rest.split_at_checked(*length).ok_or_else(corrupt)?;
            rest = others;
            *data = String::from_utf8(bytes.to_vec()).map_err(|_| corrupt())?;
        }
    }
    if lengths.next().is_none() && rest.is_empty() {
        Ok(())
    } else {
        Err(corrupt())
    }
}

/// Whether a part is a picture.
pub(crate) fn has_image(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Image { .. }))
}

/// The parts of an item that has some.
pub(crate) fn item_parts(item: &Item) -> &[Part] {
    match item {
        Item::UserMessage { parts } => parts,
        Item::ToolResult(result) => &result.parts,
        _ => &[],
    }
}

/// As [`item_parts`].
pub(crate) fn item_parts_mut(item: &mut Item) -> &mut [Part] {
    match item {
        Item::UserMessage { parts } => parts,
        Item::ToolResult(result) => &mut result.parts,
        _ => &mut [],
    }
}

/// JSON that is read in a second step, once it is known what it is.
pub(crate) fn read_raw<T: DeserializeOwned>(raw: &RawValue) -> Result<T> {
    MessageRef {
        json: raw.get().as_bytes(),
        blob: &[],
    }
    .read()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_leave_the_json_and_come_back() {
        let image = |data: &str| Part::Image {
            media_type: "image/png".to_owned(),
            data: data.to_owned(),
        };
        let original = vec![
            image("AAAA"),
            Part::text("between"),
            image(""),
            image("BBBBBBBB"),
        ];
        let mut parts = original.clone();
        let mut blob = Vec::new();
        let lengths = take_images(&mut parts, &mut blob);
        assert_eq!((&*lengths, &*blob), (&[4, 0, 8][..], &b"AAAABBBBBBBB"[..]));
        assert!(!serde_json::to_string(&parts).unwrap().contains("AAAA"));
        let mut back = parts.clone();
        put_images(&mut back, &lengths, &blob).unwrap();
        assert_eq!(back, original);

        let refused = |lengths: &[usize], blob: &[u8]| {
            let kind = put_images(&mut parts.clone(), lengths, blob).map_err(|e| e.kind());
            assert_eq!(kind, Err(ErrorKind::Corrupt), "{lengths:?} {blob:?}");
        };
        refused(&[4, 0], b"AAAA");
        refused(&[4, 0, 8, 0], b"AAAABBBBBBBB");
        refused(&[4, 0, 9], b"AAAABBBBBBBB");
        refused(&[4, 0, 8], b"AAAABBBBBBBBC");
        refused(&[1, 0, 0], b"\xff");
    }

    #[test]
    fn errors_of_a_later_version_stay_readable() {
        let check = |json: &str, kind: ErrorKind, temporary: bool, shown: &str| {
            let error = MessageRef {
                json: json.as_bytes(),
                blob: &[],
            }
            .read_error();
            assert_eq!((error.kind(), error.is_temporary()), (kind, temporary));
            assert!(error.to_string().contains(shown), "{error}");
        };
        check(
            r#"{"kind":"busy","status":"temporary","message":"m","context":[["a","b"]]}"#,
            ErrorKind::Busy,
            true,
            "m (a: b)",
        );
        check(
            r#"{"kind":"bored","status":"temporary","message":"m","more":1}"#,
            ErrorKind::Unexpected,
            true,
            "m (kind: bored)",
        );
        check(r#"{"message":"m"}"#, ErrorKind::Unexpected, false, "m");
        check(
            r#"{"kind":"unavailable","message":"m"}"#,
            ErrorKind::Unavailable,
            true,
            "m",
        );
        check("gibberish", ErrorKind::Corrupt, false, "gibberish");
    }
}
