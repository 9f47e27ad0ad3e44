//! Lua values to JSON text.

use std::fmt::Write as _;

use mlua::{Lua, Table, Value};

use super::{DEPTH, Limits, Marks};

/// Writes a value as JSON. Keys of objects are sorted, so equal tables are
/// equal texts.
///
/// # Errors
/// Where in the value something stands that JSON can't say, and what.
pub(crate) fn encode(lua: &Lua, value: &Value, limits: &Limits) -> Result<String, String> {
    let mut writer = Writer {
        marks: Marks::of(lua)?,
        out: String::new(),
        limit: limits.bytes,
        open: Vec::new(),
        path: Vec::new(),
    };
    writer.value(value)?;
    Ok(writer.out)
}

enum Step {
    Key(String),
    Index(i64),
}

struct Writer {
    marks: Marks,
    out: String,
    limit: usize,
    /// The tables that are being written, outermost first.
    open: Vec<usize>,
    path: Vec<Step>,
}

impl Writer {
    fn refuse<T>(&self, what: impl std::fmt::Display) -> Result<T, String> {
        let mut text = String::from("not JSON: ");
        if self.path.is_empty() {
            text.push_str("the value");
        } else {
            text.push('`');
            for (index, step) in self.path.iter().take(12).enumerate() {
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
        write!(text, " {what}").unwrap_or_default();
        Err(text)
    }

    fn value(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Nil => self.out.push_str("null"),
            Value::Boolean(true) => self.out.push_str("true"),
            Value::Boolean(false) => self.out.push_str("false"),
            Value::Integer(number) => write!(self.out, "{number}").unwrap_or_default(),
            Value::Number(number) if number.is_finite() => {
                let text = serde_json::to_string(number).unwrap_or_default();
                self.out.push_str(&text);
            }
            Value::Number(number) => {
                return self.refuse(format_args!("is {number}, which JSON can't say"));
            }
            Value::String(text) => {
                let bytes = text.as_bytes();
                match std::str::from_utf8(&bytes) {
                    Ok(text) => self.string(text),
                    Err(e) => {
                        return self.refuse(format_args!(
                            "is a string that isn't UTF-8 (at byte {}); use haft.base64.encode",
                            e.valid_up_to() + 1
                        ));
                    }
                }
            }
            Value::LightUserData(light) if light.0.is_null() => self.out.push_str("null"),
            Value::Table(table) => self.table(table)?,
            other => return self.refuse(format_args!("is a {}", other.type_name())),
        }
        if self.out.len() > self.limit {
            return Err(format!("larger than {} bytes as JSON", self.limit));
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        // Printing to memory can't fail, and a string always has a JSON form.
        let quoted = serde_json::to_string(text).unwrap_or_default();
        self.out.push_str(&quoted);
    }

    fn table(&mut self, table: &Table) -> Result<(), String> {
        let pointer = table.to_pointer() as usize;
        if self.open.contains(&pointer) {
            return self.refuse("is a cycle: it contains itself");
        }
        if self.open.len() >= DEPTH {
            return Err(format!("not JSON: nested deeper than {DEPTH}"));
        }
        self.open.push(pointer);
        let mark = table.metatable().map(|mark| mark.to_pointer());
        let length = table.raw_len();
        let outcome = if mark == Some(self.marks.object.to_pointer()) {
            self.object(table, true)
        } else if mark == Some(self.marks.array.to_pointer())
            || (length > 0 && self.is_sequence(table, length)?)
        {
            self.array(table, length, mark.is_some())
        } else {
            self.object(table, false)
        };
        self.open.pop();
        outcome
    }

    /// Whether nothing comes after the last index: then there is nothing else.
    fn is_sequence(&self, table: &Table, length: usize) -> Result<bool, String> {
        if length == 0 {
            return Ok(table.is_empty());
        }
        let after: Value = self
            .marks
            .next
            .call((table, length))
            .map_err(|e| e.to_string())?;
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
            .map_err(|e| e.to_string())?;
        Ok(whole && entries == length)
    }

    fn array(&mut self, table: &Table, length: usize, marked: bool) -> Result<(), String> {
        const HOLES: &str = "is a list with holes; use haft.json.array(t, n) to fill them with \
                             null, or haft.json.object(t) for an object with numbers as keys";
        if marked && !self.is_sequence(table, length)? {
            return self.refuse("is an array with holes or other keys");
        }
        self.out.push('[');
        for at in 1..=length {
            if at > 1 {
                self.out.push(',');
            }
            let value: Value = table.raw_get(at).map_err(|e| e.to_string())?;
            match value {
                Value::Integer(number) => write!(self.out, "{number}").unwrap_or_default(),
                Value::Nil => return self.refuse(HOLES),
                value => {
                    self.path
                        .push(Step::Index(i64::try_from(at).unwrap_or(i64::MAX)));
                    self.value(&value)?;
                    self.path.pop();
                }
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self, table: &Table, marked: bool) -> Result<(), String> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        let mut strange: Option<String> = None;
        let mut integers = 0_usize;
        table
            .for_each::<Value, Value>(|key, value| {
                match &key {
                    Value::String(text) => match text.to_str() {
                        Ok(text) => entries.push(((*text).to_owned(), value)),
                        Err(_) => {
                            strange.get_or_insert_with(|| "has a key that isn't UTF-8".to_owned());
                        }
                    },
                    Value::Integer(number) => {
                        integers += 1;
                        entries.push((number.to_string(), value));
                    }
                    other => {
                        let name = other.type_name();
                        strange.get_or_insert_with(|| format!("has a key that is a {name}"));
                    }
                }
                Ok(())
            })
            .map_err(|e| e.to_string())?;
        if let Some(strange) = strange {
            return self.refuse(strange);
        }
        if integers > 0 && !marked {
            return self.refuse(if integers == entries.len() {
                "is a list with holes; use haft.json.array(t, n) to fill them with null, or \
                 haft.json.object(t) for an object with numbers as keys"
            } else {
                "has numbers and strings as keys; use haft.json.object(t) to write both as strings"
            });
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(twice) = entries.windows(2).find(|two| two[0].0 == two[1].0) {
            let key = twice[0].0.clone();
            return self.refuse(format_args!(
                "has the key {key} as a number and as a string"
            ));
        }
        self.out.push('{');
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.string(&key);
            self.out.push(':');
            self.path.push(Step::Key(key));
            self.value(&value)?;
            self.path.pop();
        }
        self.out.push('}');
        Ok(())
    }
}
