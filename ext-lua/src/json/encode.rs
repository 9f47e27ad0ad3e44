//! Lua values to JSON text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::c_void;
use std::ops::Range;

use mlua::Value;
use serde::Serialize;
use serde_json::value::RawValue;

use super::refusal::{Refusal, Step, Stop};
use super::stack::{Seen, Stack, read};
use super::{DEPTH, Limits, Marks};

const HOLES: &str = "is a list with holes; use haft.json.array(t, n) to fill them with null, or \
                     haft.json.object(t) for an object with numbers as keys";
const MIXED: &str =
    "has numbers and strings as keys; use haft.json.object(t) to write both as strings";

/// Writes a value as JSON. Keys of objects are sorted, so equal tables are
/// equal texts.
///
/// # Errors
/// Where in the value something stands that JSON can't say, and what.
pub(crate) fn encode(
    marks: &Marks,
    value: &Value,
    limits: &Limits,
) -> Result<Box<RawValue>, String> {
    let lua = marks.lua.try_upgrade().ok_or("the state has ended")?;
    let mut writer = Writer::new(marks, limits);
    match read(&lua, value, |stack| writer.value(stack)) {
        Ok(Ok(())) if writer.out.len() > limits.bytes => {
            Err(Stop::too_large(limits.bytes).to_text())
        }
        Ok(Ok(())) => {
            let text = String::from_utf8(writer.out).map_err(|e| e.to_string())?;
            haft_api::known_json(text).map_err(|e| e.to_string())
        }
        Ok(Err(stop)) => Err(stop.to_text()),
        Err(error) => Err(error.to_string()),
    }
}

/// Writes tables in one pass over each: what Lua gives out of order is put in
/// order once the table's last entry is written.
struct Writer {
    /// The marks' addresses.
    array: *const c_void,
    object: *const c_void,
    /// About how many bytes may still be written.
    left: usize,
    limit: usize,
    out: Vec<u8>,
    /// The tables that are being written, outermost first.
    open: Vec<*const c_void>,
    /// The keys of the objects that are being written, one after the other.
    keys: Vec<u8>,
    /// Entries of the tables that are being written, each with a comma at its end.
    pieces: Vec<Piece>,
    /// Where pieces are put in order.
    sorted: Vec<u8>,
}

/// An entry that stands in the text.
struct Piece {
    key: Key,
    text: Range<usize>,
}

enum Key {
    Index(i64),
    /// How it begins, and where it is among the writer's keys.
    Name([u8; 8], Range<usize>),
}

/// The first bytes of a key: most keys differ in these.
fn beginning(name: &[u8]) -> [u8; 8] {
    std::array::from_fn(|at| name.get(at).copied().unwrap_or(0))
}

impl Key {
    fn compare(&self, other: &Self, keys: &[u8]) -> Ordering {
        match (self, other) {
            (Self::Index(one), Self::Index(other)) => one.cmp(other),
            (Self::Name(begins, one), Self::Name(other_begins, other)) => begins
                .cmp(other_begins)
                .then_with(|| keys[one.clone()].cmp(&keys[other.clone()])),
            (Self::Index(_), Self::Name(..)) => Ordering::Less,
            (Self::Name(..), Self::Index(_)) => Ordering::Greater,
        }
    }

    fn to_step(&self, keys: &[u8]) -> Step {
        match self {
            Self::Index(at) => Step::Index(*at),
            Self::Name(_, name) => Step::Key(String::from_utf8_lossy(&keys[name.clone()]).into()),
        }
    }
}

/// What the entries of a table are.
#[derive(Default)]
struct Entries {
    all: i64,
    integers: i64,
    /// The first key that no JSON has.
    strange: Option<String>,
    /// What can't be written of the entry whose key comes first.
    refused: Option<(Key, Box<Refusal>)>,
}

impl Entries {
    /// Whether this entry is worth writing: nothing is wrong with the table so
    /// far, or this is to be told rather than what was found.
    fn matter(&self, key: &Key, keys: &[u8]) -> bool {
        self.strange.is_none()
            && self
                .refused
                .as_ref()
                .is_none_or(|(first, _)| key.compare(first, keys).is_lt())
    }

    fn refuse(&mut self, key: Key, stop: Stop) -> Result<(), Stop> {
        match stop {
            Stop::At(refusal) => {
                self.refused = Some((key, refusal));
                Ok(())
            }
            whole @ Stop::Whole(_) => Err(whole),
        }
    }

    fn written(self, keys: &[u8]) -> Result<(), Stop> {
        match self.refused {
            Some((key, refusal)) => Err(refusal.within(key.to_step(keys))),
            None => Ok(()),
        }
    }

    /// Why the table is no object without a mark, and no whole list.
    fn neither(self) -> Stop {
        Stop::at(match self.strange {
            Some(strange) => strange,
            None if self.integers == self.all => HOLES.to_owned(),
            None => MIXED.to_owned(),
        })
    }
}

impl Writer {
    fn new(marks: &Marks, limits: &Limits) -> Self {
        Self {
            array: marks.array.to_pointer(),
            object: marks.object.to_pointer(),
            left: limits.bytes,
            limit: limits.bytes,
            out: Vec::new(),
            open: Vec::new(),
            keys: Vec::new(),
            pieces: Vec::new(),
            sorted: Vec::new(),
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Stop> {
        match self.left.checked_sub(bytes) {
            Some(left) if self.out.len() <= self.limit => {
                self.left = left;
                Ok(())
            }
            _ => Err(Stop::too_large(self.limit)),
        }
    }

    /// Writes what is on top of the stack.
    fn value(&mut self, stack: &mut Stack) -> Result<(), Stop> {
        self.spend(1)?;
        match stack.top() {
            Seen::Nil | Seen::Null => self.scalar(&()),
            Seen::Boolean(value) => self.scalar(&value),
            Seen::Integer(number) => self.scalar(&number),
            Seen::Number(number) if number.is_finite() => self.scalar(&number),
            Seen::Number(number) => Err(Stop::at(format!("is {number}, which JSON can't say"))),
            Seen::Text(bytes) => {
                self.spend(bytes.len())?;
                if self.plain(bytes) {
                    return Ok(());
                }
                match std::str::from_utf8(bytes) {
                    Ok(text) => self.scalar(text),
                    Err(e) => Err(Stop::at(format!(
                        "is a string that isn't UTF-8 (at byte {}); use haft.base64.encode",
                        e.valid_up_to() + 1
                    ))),
                }
            }
            Seen::Table => self.table(stack),
            Seen::Other(name) => Err(Stop::at(format!("is a {name}"))),
        }
    }

    /// Writes a text in which nothing has to be escaped, as nearly all are; false
    /// for any other.
    fn plain(&mut self, bytes: &[u8]) -> bool {
        let escaped = |byte: &u8| !matches!(byte, 0x20..0x80) | (*byte == b'"') | (*byte == b'\\');
        // Not `any`, which looks at them one by one.
        if bytes
            .iter()
            .fold(false, |found, byte| found | escaped(byte))
        {
            return false;
        }
        self.out.reserve(bytes.len() + 2);
        self.out.push(b'"');
        self.out.extend_from_slice(bytes);
        self.out.push(b'"');
        true
    }

    fn scalar(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Stop> {
        // Writing to memory doesn't fail; if it did, the value as a whole would.
        serde_json::to_writer(&mut self.out, value).map_err(|e| Stop::Whole(e.to_string()))
    }

    fn table(&mut self, stack: &mut Stack) -> Result<(), Stop> {
        let address = stack.address();
        if self.open.contains(&address) {
            return Err(Stop::at("is a cycle: it contains itself"));
        }
        if self.open.len() >= DEPTH {
            return Err(Stop::too_deep());
        }
        self.open.push(address);
        let (keys, pieces) = (self.keys.len(), self.pieces.len());
        let mark = stack.metatable()?;
        // Without a mark an empty table is an object, and so is any other one
        // without a last index: there is nothing to tell apart.
        let written = if mark == self.object {
            self.object(stack, true)
        } else if mark == self.array || stack.has_length() {
            self.list(stack, mark == self.array)
        } else {
            self.object(stack, false)
        };
        self.keys.truncate(keys);
        self.pieces.truncate(pieces);
        self.open.pop();
        written
    }

    fn list(&mut self, stack: &mut Stack, marked: bool) -> Result<(), Stop> {
        let pieces = self.pieces.len();
        let mut entries = Entries::default();
        let (mut first, mut last) = (1, 0);
        self.out.push(b'[');
        stack.entries(|stack| {
            entries.all += 1;
            let at = match stack.key() {
                Seen::Integer(at) => at,
                key => {
                    entries.strange = entries.strange.take().or_else(|| strange(&key));
                    return Ok(());
                }
            };
            entries.integers += 1;
            (first, last) = (at.min(first), at.max(last));
            let key = Key::Index(at);
            if entries.integers != entries.all || !entries.matter(&key, &self.keys) {
                return Ok(());
            }
            // What comes in its turn stands where it belongs.
            let moves = at != entries.all || self.pieces.len() > pieces;
            let start = self.out.len();
            if let Err(stop) = self.value(stack) {
                return entries.refuse(key, stop);
            }
            self.out.push(b',');
            if moves {
                let text = start..self.out.len();
                self.pieces.push(Piece { key, text });
            }
            Ok(())
        })?;
        // So many different numbers from 1 on are all there are.
        let whole = entries.integers == entries.all && first == 1 && last == entries.all;
        match whole {
            true => entries.written(&self.keys)?,
            false if marked => return Err(Stop::at("is an array with holes or other keys")),
            false => return Err(entries.neither()),
        }
        self.put_in_order(pieces);
        self.end(b']');
        Ok(())
    }

    fn object(&mut self, stack: &mut Stack, marked: bool) -> Result<(), Stop> {
        let pieces = self.pieces.len();
        let mut entries = Entries::default();
        self.out.push(b'{');
        stack.entries(|stack| {
            entries.all += 1;
            let (start, from) = (self.out.len(), self.keys.len());
            let key = stack.key();
            let name = match &key {
                Seen::Text(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
                Seen::Integer(number) => {
                    entries.integers += 1;
                    Some(Cow::Owned(number.to_string()))
                }
                _ => None,
            };
            let Some(name) = name else {
                entries.strange = entries.strange.take().or_else(|| strange(&key));
                return Ok(());
            };
            self.spend(name.len())?;
            self.keys.extend_from_slice(name.as_bytes());
            let key = Key::Name(beginning(name.as_bytes()), from..self.keys.len());
            if !entries.matter(&key, &self.keys) {
                return Ok(());
            }
            if !self.plain(name.as_bytes()) {
                self.scalar(&*name)?;
            }
            self.out.push(b':');
            if let Err(stop) = self.value(stack) {
                return entries.refuse(key, stop);
            }
            self.out.push(b',');
            let text = start..self.out.len();
            self.pieces.push(Piece { key, text });
            Ok(())
        })?;
        if entries.strange.is_some() || (entries.integers > 0 && !marked) {
            return Err(entries.neither());
        }
        let integers = entries.integers > 0;
        entries.written(&self.keys)?;
        self.put_in_order(pieces);
        if integers {
            self.check_for_twins(pieces)?;
        }
        self.end(b'}');
        Ok(())
    }

    /// Puts the entries from there on in the order of their keys.
    fn put_in_order(&mut self, from: usize) {
        let (pieces, keys) = (&mut self.pieces[from..], &self.keys);
        let Some(start) = pieces.first().map(|piece| piece.text.start) else {
            return;
        };
        let compare = |a: &Piece, b: &Piece| a.key.compare(&b.key, keys);
        if pieces.is_sorted_by(|a, b| compare(a, b).is_le()) {
            return;
        }
        pieces.sort_unstable_by(compare);
        self.sorted.clear();
        for piece in pieces {
            self.sorted.extend_from_slice(&self.out[piece.text.clone()]);
        }
        self.out.truncate(start);
        self.out.extend_from_slice(&self.sorted);
    }

    /// Of a number and a string with its digits one would be lost.
    fn check_for_twins(&self, from: usize) -> Result<(), Stop> {
        let twins = |two: &&[Piece]| two[0].key.compare(&two[1].key, &self.keys).is_eq();
        match self.pieces[from..].windows(2).find(twins) {
            Some(two) => Err(Stop::at(match two[0].key.to_step(&self.keys) {
                Step::Key(key) => format!("has the key {key} as a number and as a string"),
                Step::Index(at) => format!("has the key {at} twice"),
            })),
            None => Ok(()),
        }
    }

    /// Ends a list or an object.
    fn end(&mut self, with: u8) {
        match self.out.last_mut() {
            Some(comma @ b',') => *comma = with,
            _ => self.out.push(with),
        }
    }
}

/// Why a key is none in JSON.
fn strange(key: &Seen<'_>) -> Option<String> {
    let name = match key {
        Seen::Integer(_) => return None,
        Seen::Text(name) => {
            return match std::str::from_utf8(name) {
                Ok(_) => None,
                Err(_) => Some("has a key that isn't UTF-8".to_owned()),
            };
        }
        Seen::Nil => "nil",
        Seen::Boolean(_) => "boolean",
        Seen::Number(_) => "number",
        Seen::Table => "table",
        Seen::Null => "lightuserdata",
        Seen::Other(name) => name,
    };
    Some(format!("has a key that is a {name}"))
}
