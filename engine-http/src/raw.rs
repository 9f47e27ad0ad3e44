//! JSON values that servers don't agree on.

use std::borrow::Cow;
use std::fmt;

use haft_api::{Error, ErrorKind, Result};
use serde::Deserializer;
use serde::de::Visitor;
use serde_json::value::RawValue;

/// What kind of value a raw one is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// A string.
    String,
    /// A list.
    List,
    /// An object.
    Object,
    /// A number or a truth value.
    Other,
}

/// The kind of a value.
pub fn kind(raw: &RawValue) -> Kind {
    match raw.get().as_bytes().first() {
        Some(b'n') | None => Kind::Null,
        Some(b'"') => Kind::String,
        Some(b'[') => Kind::List,
        Some(b'{') => Kind::Object,
        Some(_) => Kind::Other,
    }
}

/// A string's content; `None` for a value of another kind. Half a surrogate
/// pair, which JSON can write and text can't hold, becomes U+FFFD.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    if kind(raw) != Kind::String {
        return None;
    }
    let text = raw.get();
    let inner = &text[1..text.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    match serde_json::from_str::<String>(text) {
        Ok(text) => Some(Cow::Owned(text)),
        Err(_) => serde_json::Deserializer::from_str(text)
            .deserialize_bytes(Lossy)
            .ok()
            .map(Cow::Owned),
    }
}

/// A number, also one that is written as a string or with a point.
pub fn number(raw: &RawValue) -> Option<u64> {
    let text = raw.get().trim_matches('"');
    text.parse().ok().or_else(|| {
        // Casts of floats saturate.
        let number: f64 = text.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    })
}

/// A value of this shape. `what` says in an error what it should have been.
///
/// # Errors
/// [`ErrorKind::Corrupt`], quoting the value.
pub fn shaped<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue, what: &str) -> Result<T> {
    serde_json::from_str(raw.get()).map_err(|e| {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "the server sent {what} of an unknown shape ({e}): {}",
                crate::failure::quote(raw.get())
            ),
        )
    })
}

/// Takes a string's bytes, in which halves of surrogate pairs are encoded as if
/// they were characters.
struct Lossy;

impl Visitor<'_> for Lossy {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            // A half is three bytes, each of which is invalid by itself.
            if chunk.invalid().first() == Some(&0xed) {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn strings() {
        let check = |json: &str, expected: Option<&str>| {
            assert_eq!(string(&raw(json)).as_deref(), expected, "{json}");
        };
        check(r#""""#, Some(""));
        check(r#""a é""#, Some("a é"));
        check(r#""a\n\u00e9\ud83d\ude00""#, Some("a\né\u{1f600}"));
        check(r#""x\ud83dy""#, Some("x\u{fffd}y"));
        check(r#""\ude00\ud83d""#, Some("\u{fffd}\u{fffd}"));
        check("null", None);
        check("7", None);
        check("{}", None);
    }

    #[test]
    fn numbers() {
        let check = |json: &str, expected: Option<u64>| {
            assert_eq!(number(&raw(json)), expected, "{json}");
        };
        check("7", Some(7));
        check("7.0", Some(7));
        check(r#""7""#, Some(7));
        check("-1", None);
        check("null", None);
        check(r#""seven""#, None);
        check("{}", None);
    }
}
