//! Lua values to JSON text.

use std::fmt::{Display, Write as _};

use mlua::{Table, Value};

use super::{DEPTH, Limits, Marks};

/// Writes a value as JSON. Keys of objects are sorted, so equal tables are
/// equal texts.
///
/// # Errors
/// Where in the value something stands that JSON can't say, and what.
pub(crate) fn encode(marks: &Marks, value: &Value, limits: &Limits) -> Result<String, String> {
    let mut writer = Writer {
        marks,
        out: Vec::new(),
        limit: limits.bytes,
        open: Vec::new(),
        keys: Vec::new(),
    };
    writer.value(value).map_err(|refusal| refusal.to_text())?;
    String::from_utf8(writer.out).map_err(|e| e.to_string())
}

/// What JSON can't say. The path to it is put together on the way out.
struct Refusal {
    what: String,
    /// Whether the place matters.
    placed: bool,
    /// Innermost first.
    path: Vec<Step>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Refusal {
    fn to_text(&self) -> String {
        if !self.placed {
            return self.what.clone();
        }
        let mut text = String::from("not JSON: ");
        if self.path.is_empty() {
            text.push_str("the value");
        } else {
            text.push('`');
            for (index, step) in self.path.iter().rev().take(12).enumerate() {
                match step {
                    Step::Key(key) if index == 0 => text.push_str(key),
                    Step::Key(key) => write!(text, ".{key}").unwrap_or_default(),
                    Step::Index(at) => write!(text, "[{at}]").unwrap_or_default(),
                }
            }
            if self.path.len() > 12 {
                text.push('…');
            }
            text.push('`');
        }
        write!(text, " {}", self.what).unwrap_or_default();
        text
    }
}

type Written = Result<(), Box<Refusal>>;

fn refuse(what: impl Display) -> Written {
    Err(refusal(what))
}

fn refusal(what: impl Display) -> Box<Refusal> {
    Box::new(Refusal {
        what: what.to_string(),
        placed: true,
        path: Vec::new(),
    })
}

/// A refusal that has no place.
fn whole(what: impl Display) -> Box<Refusal> {
    let mut refusal = refusal(what);
    refusal.placed = false;
    refusal
}

fn within(step: impl FnOnce() -> Step) -> impl FnOnce(Box<Refusal>) -> Box<Refusal> {
    |mut refusal| {
        refusal.path.push(step());
        refusal
    }
}

struct Writer<'a> {
    marks: &'a Marks,
    out: Vec<u8>,
    limit: usize,
    /// The tables that are being written, outermost first.
    open: Vec<usize>,
    /// The keys of the objects that are being written, one after the other.
    keys: Vec<u8>,
}

/// An entry of an object: where its key is among the writer's, and its value.
type Entry = (std::ops::Range<usize>, Value);

impl Writer<'_> {
    /// Numbers and texts always have a JSON form, and printing to memory can't
    /// fail.
    fn plain(&mut self, value: &(impl serde::Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.out, value).unwrap_or_default();
    }

    fn value(&mut self, value: &Value) -> Written {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Boolean(value) => self.plain(value),
            Value::Integer(number) => self.plain(number),
            Value::Number(number) if number.is_finite() => self.plain(number),
            Value::Number(number) => {
                return refuse(format_args!("is {number}, which JSON can't say"));
            }
            Value::String(text) => {
                let bytes = text.as_bytes();
                match std::str::from_utf8(&bytes) {
                    Ok(text) => self.plain(text),
                    Err(e) => {
                        return refuse(format_args!(
                            "is a string that isn't UTF-8 (at byte {}); use haft.base64.encode",
                            e.valid_up_to() + 1
                        ));
                    }
                }
            }
            Value::LightUserData(light) if light.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Table(table) => self.table(table)?,
            other => return refuse(format_args!("is a {}", other.type_name())),
        }
        if self.out.len() > self.limit {
            return Err(whole(format_args!(
                "larger than {} bytes as JSON",
                self.limit
            )));
        }
        Ok(())
    }

    fn table(&mut self, table: &Table) -> Written {
        let pointer = table.to_pointer() as usize;
        if self.open.contains(&pointer) {
            return refuse("is a cycle: it contains itself");
        }
        if self.open.len() >= DEPTH {
            return Err(whole(format_args!("not JSON: nested deeper than {DEPTH}")));
        }
        self.open.push(pointer);
        let mark = table.metatable().map(|mark| mark.to_pointer());
        let outcome = if mark == Some(self.marks.object.to_pointer()) {
            self.object(table, true)
        } else if mark == Some(self.marks.array.to_pointer()) {
            match self.is_sequence(table, table.raw_len())? {
                true => self.array(table),
                false => refuse("is an array with holes or other keys"),
            }
        } else {
            let length = table.raw_len();
            match length > 0 && self.is_sequence(table, length)? {
                true => self.array(table),
                false => self.object(table, false),
            }
        };
        self.open.pop();
        outcome
    }

    /// Whether nothing comes after the last index: then there is nothing else.
    fn is_sequence(&self, table: &Table, length: usize) -> Result<bool, Box<Refusal>> {
        if length == 0 {
            return Ok(table.is_empty());
        }
        let after: Value = self.marks.next.call((table, length)).map_err(refusal)?;
        if after.is_nil() {
            return Ok(true);
        }
        // The last index may stand before others in the hash part.
        let mut entries = 0;
        let mut whole = true;
        table
            .for_each::<Value, Value>(|key, _| {
                entries += 1;
                whole &= matches!(key, Value::Integer(at) if at >= 1);
                Ok(())
            })
            .map_err(refusal)?;
        Ok(whole && entries == length)
    }

    fn array(&mut self, table: &Table) -> Written {
        const HOLES: &str = "is a list with holes; use haft.json.array(t, n) to fill them with \
                             null, or haft.json.object(t) for an object with numbers as keys";
        self.out.push(b'[');
        for at in 1..=table.raw_len() {
            if at > 1 {
                self.out.push(b',');
            }
            match table.raw_get(at).map_err(refusal)? {
                Value::Nil => return refuse(HOLES),
                value => self.value(&value).map_err(within(|| Step::Index(at)))?,
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// The entries, sorted by their keys, which lie at the end of the writer's.
    fn entries(&mut self, table: &Table, marked: bool) -> Result<Vec<Entry>, Box<Refusal>> {
        let mut entries: Vec<Entry> = Vec::with_capacity(8);
        let mut strange: Option<String> = None;
        let mut integers = 0_usize;
        let keys = &mut self.keys;
        table
            .for_each::<Value, Value>(|key, value| {
                let start = keys.len();
                match &key {
                    Value::String(text) => {
                        let bytes = text.as_bytes();
                        if std::str::from_utf8(&bytes).is_err() {
                            strange.get_or_insert_with(|| "has a key that isn't UTF-8".to_owned());
                        }
                        keys.extend_from_slice(&bytes);
                    }
                    Value::Integer(number) => {
                        integers += 1;
                        keys.extend_from_slice(number.to_string().as_bytes());
                    }
                    other => {
                        let name = other.type_name();
                        strange.get_or_insert_with(|| format!("has a key that is a {name}"));
                    }
                }
                entries.push((start..keys.len(), value));
                Ok(())
            })
            .map_err(refusal)?;
        if let Some(strange) = strange {
            return Err(refusal(strange));
        }
        if integers > 0 && !marked {
            return Err(refusal(if integers == entries.len() {
                "is a list with holes; use haft.json.array(t, n) to fill them with null, or \
                 haft.json.object(t) for an object with numbers as keys"
            } else {
                "has numbers and strings as keys; use haft.json.object(t) to write both as strings"
            }));
        }
        let keys = &self.keys;
        entries.sort_unstable_by(|a, b| keys[a.0.clone()].cmp(&keys[b.0.clone()]));
        let twice = |two: &&[Entry]| keys[two[0].0.clone()] == keys[two[1].0.clone()];
        if let Some(twice) = entries.windows(2).find(twice) {
            let key = String::from_utf8_lossy(&keys[twice[0].0.clone()]);
            return Err(refusal(format_args!(
                "has the key {key} as a number and as a string"
            )));
        }
        Ok(entries)
    }

    fn object(&mut self, table: &Table, marked: bool) -> Written {
        let begin = self.keys.len();
        let entries = self.entries(table, marked)?;
        self.out.push(b'{');
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            // Checked when the entries were gathered.
            let text = std::str::from_utf8(&self.keys[key.clone()]).unwrap_or_default();
            serde_json::to_writer(&mut self.out, text).unwrap_or_default();
            self.out.push(b':');
            if let Err(refusal) = self.value(&value) {
                let key = String::from_utf8_lossy(&self.keys[key]).into_owned();
                return Err(within(|| Step::Key(key))(refusal));
            }
        }
        self.out.push(b'}');
        self.keys.truncate(begin);
        Ok(())
    }
}
