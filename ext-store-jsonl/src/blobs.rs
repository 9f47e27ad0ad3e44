//! Large payloads, beside the log by their content's hash.
//!
//! A string of a record's data that is too long for a line to be looked through
//! stands in a file of its own, once a thread, and in the line a reference to it:
//! the string `blob:sha256-` and the hash of the payload's text. The line's field
//! `b` says where the references are and how long their payloads, so that a
//! string that merely looks like one isn't taken for one.

use std::io::{self, Read as _, Write as _};

use haft_api::{Diagnostic, DiagnosticCode, ThreadId};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::disk::{Access, Folder};
use crate::frame::{Frame, MAX_LINE};
use crate::layout::{Layout, NEW_PREFIX, unique_name};
use crate::repair::write_all;

/// The folder beside the log.
pub(crate) const FOLDER: &str = "blobs";
/// A string of this length, with its quotes, gets a file of its own.
pub(crate) const BLOB_BYTES: usize = 32 * 1024;
/// What a reference begins with, its quote included.
const PREFIX: &str = "\"blob:sha256-";
/// What stands before the hash wherever a payload is named.
pub(crate) const MENTION: &str = "blob:sha256-";
/// The digits of a hash, which is a payload's name.
pub(crate) const HASH_LEN: usize = 64;
/// A reference's length: prefix, hash, quote.
const REFERENCE: usize = PREFIX.len() + HASH_LEN + 1;

/// Data whose long strings are references.
pub(crate) struct Split<'d> {
    pub(crate) data: String,
    /// Where the references stand in `data`, and the length of their payloads.
    pub(crate) places: Vec<(usize, usize)>,
    payloads: Vec<(String, &'d str)>,
}

/// Takes the long strings out of JSON text; `None` if it has none.
pub(crate) fn split(json: &str) -> Option<Split<'_>> {
    if json.len() < BLOB_BYTES {
        return None;
    }
    let mut split = Split {
        data: String::new(),
        places: Vec::new(),
        payloads: Vec::new(),
    };
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'"', &json.as_bytes()[at..]) {
        let start = at + found;
        let end = string_end(json.as_bytes(), start + 1)?;
        at = end;
        // Names of fields stay: a reader of the line may want to know them.
        let is_name = json[end..].trim_start().starts_with(':');
        if end - start < BLOB_BYTES || is_name {
            continue;
        }
        let payload = &json[start..end];
        let hash = hash(payload.as_bytes());
        split.data.push_str(&json[kept..start]);
        split.places.push((split.data.len(), payload.len()));
        split.data.push_str(PREFIX);
        split.data.push_str(&hash);
        split.data.push('"');
        split.payloads.push((hash, payload));
        kept = end;
    }
    split.data.push_str(&json[kept..]);
    (!split.places.is_empty()).then_some(split)
}

/// Where the string ends that begins before this place; behind its quote.
fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', &json[at..])?;
        match json[at] {
            b'"' => return Some(at + 1),
            // Whatever is escaped is no end.
            _ => at += 2,
        }
        if at > json.len() {
            return None;
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Split<'_> {
    /// Puts the payloads into files that aren't there yet, durably if that is
    /// asked for.
    ///
    /// A file that was begun and not finished never gets its name: what has the
    /// name is whole.
    pub(crate) fn write(&self, thread: &Folder, durable: bool) -> io::Result<()> {
        let (folder, created) = thread.ensure_folder(FOLDER)?;
        if created && durable {
            thread.sync()?;
        }
        let mut changed = false;
        for (hash, payload) in &self.payloads {
            match folder.file(hash, Access::Read) {
                // What a power cut took the bytes of has another length.
                Ok(file) if file.metadata()?.len() == payload.len() as u64 => continue,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
            write(&folder, hash, payload.as_bytes(), durable)?;
            changed = true;
        }
        if changed && durable {
            folder.sync()?;
        }
        Ok(())
    }
}

fn write(folder: &Folder, name: &str, bytes: &[u8], durable: bool) -> io::Result<()> {
    let fresh = format!("{NEW_PREFIX}{}", unique_name());
    let file = folder.create_file(&fresh, Access::ReadWrite)?;
    let written = (|| {
        write_all(&**folder.ops(), &file, bytes)?;
        if durable {
            folder.ops().sync_data(&file)?;
        }
        folder.rename_to(&fresh, folder, name)
    })();
    if written.is_err() {
        // It has no use; and if it can't be removed, it costs room and no more.
        folder.remove_file(&fresh).ok();
    }
    written
}

/// Puts payloads back where their references are.
pub(crate) struct Payloads<'l> {
    layout: &'l Layout,
    /// The folder that was used last, and whose it is.
    folder: Option<(ThreadId, Folder)>,
    diagnostics: Vec<Diagnostic>,
}

impl<'l> Payloads<'l> {
    pub(crate) fn new(layout: &'l Layout) -> Self {
        Self {
            layout,
            folder: None,
            diagnostics: Vec::new(),
        }
    }

    pub(crate) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// A record's data with its payloads; `None` if it has none. A payload that
    /// isn't there leaves its reference in place, and is reported.
    pub(crate) fn whole(&mut self, thread: &ThreadId, frame: &Frame<'_>) -> Option<String> {
        let places = frame.blobs.as_deref()?;
        let Ok(places) = serde_json::from_str::<Vec<Place>>(places) else {
            self.report(thread, frame.seq, "the record's field `b` isn't readable");
            return None;
        };
        let mut whole = String::with_capacity(frame.data.len());
        let mut kept = 0;
        for Place(at, len) in places {
            let reference = frame.data.get(at..at.saturating_add(REFERENCE));
            let name = reference.and_then(|r| r.strip_prefix(PREFIX)?.strip_suffix('"'));
            let Some(name) = name.filter(|_| at >= kept && len <= MAX_LINE) else {
                self.report(
                    thread,
                    frame.seq,
                    "the record's field `b` points at no payload",
                );
                continue;
            };
            match self.payload(thread, name, len) {
                Ok(payload) => {
                    whole.push_str(&frame.data[kept..at]);
                    whole.push_str(&payload);
                    kept = at + REFERENCE;
                }
                Err(why) => {
                    let what = format!("the payload blobs/{name} of the record {why}");
                    self.report(thread, frame.seq, &what);
                }
            }
        }
        whole.push_str(&frame.data[kept..]);
        Some(whole)
    }

    fn payload(&mut self, thread: &ThreadId, name: &str, len: usize) -> Result<String, String> {
        let unreadable = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => "is missing".to_owned(),
            _ => format!("can't be read: {e}"),
        };
        let file = self.folder(thread).and_then(|f| f.file(name, Access::Read));
        let mut bytes = Vec::with_capacity(len);
        file.map_err(unreadable)?
            .take(len as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() != len || hash(&bytes) != name {
            return Err("isn't what was written".to_owned());
        }
        String::from_utf8(bytes).map_err(|_| "isn't what was written".to_owned())
    }

    fn folder(&mut self, thread: &ThreadId) -> io::Result<&Folder> {
        if self.folder.as_ref().is_none_or(|(id, _)| id != thread) {
            let of_thread = self.layout.thread(thread).map_err(io::Error::other)?;
            self.folder = Some((thread.clone(), of_thread.folder(FOLDER)?));
        }
        match &self.folder {
            Some((_, folder)) => Ok(folder),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn report(&mut self, thread: &ThreadId, seq: u64, what: &str) {
        let place = self.layout.thread_path(thread);
        self.diagnostics.push(Diagnostic {
            code: DiagnosticCode::DamagedRecord,
            lost: true,
            seq: Some(seq),
            place: Some(place.display().to_string()),
            message: what.to_owned(),
        });
    }
}

/// Where a reference stands, and its payload's length.
#[derive(Deserialize)]
struct Place(usize, usize);

/// Appends the field `b`.
pub(crate) fn push_places(buffer: &mut Vec<u8>, places: &[(usize, usize)]) {
    for (index, (at, len)) in places.iter().enumerate() {
        let before = if index == 0 { "" } else { "," };
        // Writing to memory can't fail.
        let _ = write!(buffer, "{before}[{at},{len}]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(letter: &str) -> String {
        format!("\"{}\"", letter.repeat(BLOB_BYTES - 2))
    }

    #[test]
    fn only_long_values_are_taken_out() {
        let check = |json: &str, expected: &[&str]| {
            let split = split(json);
            let found = split.as_ref().map_or(Vec::new(), |split| {
                split.payloads.iter().map(|(_, text)| *text).collect()
            });
            assert_eq!(found, expected);
            for (at, _) in split.iter().flat_map(|split| &split.places) {
                let data = &split.as_ref().unwrap().data;
                assert!(data[*at..].starts_with(PREFIX));
                assert_eq!(&data[at + REFERENCE - 1..=at + REFERENCE - 1], "\"");
            }
        };
        let (a, b) = (long("a"), long("b"));
        check(&a, &[&a]);
        check(&a[1..], &[]);
        check(&format!(r#"{{"x":"{}"}}"#, "y".repeat(BLOB_BYTES - 3)), &[]);
        check(&format!(r#"{{"x":{a},"y":[1,{b}, {a} ]}}"#), &[&a, &b, &a]);
        check(&format!(r#"{{{a} : "x"}}"#), &[]);
        let escaped = format!("\"{}\\\"\\\\\"", "e".repeat(BLOB_BYTES));
        check(&format!("[{escaped},\"\\\\\"]"), &[&escaped]);
    }
}
