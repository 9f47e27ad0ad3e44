//! Lua values to JSON text.

use std::cell::{Cell, RefCell};
use std::fmt::{Display, Write as _};
use std::ops::Range;

use mlua::{Table, Value};
use serde::ser::{Error as _, Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::value::RawValue;

use super::{DEPTH, Limits, Marks};

/// Lists up to this length are read in one go.
const SHORT: usize = 16;
const HOLES: &str = "is a list with holes; use haft.json.array(t, n) to fill them with null, or \
                     haft.json.object(t) for an object with numbers as keys";

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
    let writing = Writing {
        marks,
        left: Cell::new(limits.bytes),
        limit: limits.bytes,
        open: RefCell::default(),
        keys: RefCell::default(),
        refusal: RefCell::default(),
    };
    let node = Node {
        value,
        writing: &writing,
    };
    match serde_json::value::to_raw_value(&node) {
        Ok(json) if json.get().len() > limits.bytes => Err(too_large(limits.bytes)),
        Ok(json) => Ok(json),
        Err(error) => Err(match writing.refusal.take() {
            Some(refusal) => refusal.to_text(),
            None => error.to_string(),
        }),
    }
}

fn too_large(limit: usize) -> String {
    format!("larger than {limit} bytes as JSON")
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

/// What all nodes of a value share.
struct Writing<'m> {
    marks: &'m Marks,
    /// About how many bytes may still be written.
    left: Cell<usize>,
    limit: usize,
    /// The tables that are being written, outermost first.
    open: RefCell<Vec<usize>>,
    /// The keys of the objects that are being written, one after the other.
    keys: RefCell<Vec<u8>>,
    refusal: RefCell<Option<Refusal>>,
}

impl Writing<'_> {
    fn refuse<E: serde::ser::Error>(&self, what: impl Display) -> E {
        self.keep(what.to_string(), true)
    }

    /// A refusal that has no place.
    fn refuse_all<E: serde::ser::Error>(&self, what: impl Display) -> E {
        self.keep(what.to_string(), false)
    }

    fn keep<E: serde::ser::Error>(&self, what: String, placed: bool) -> E {
        *self.refusal.borrow_mut() = Some(Refusal {
            what,
            placed,
            path: Vec::new(),
        });
        E::custom("refused")
    }

    fn within<E>(&self, step: impl FnOnce() -> Step, error: E) -> E {
        if let Some(refusal) = self.refusal.borrow_mut().as_mut() {
            refusal.path.push(step());
        }
        error
    }

    fn spend<E: serde::ser::Error>(&self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(self.refuse_all(too_large(self.limit))),
        }
    }
}

#[derive(Clone, Copy)]
struct Node<'v, 'w> {
    value: &'v Value,
    writing: &'w Writing<'w>,
}

/// What a table is to JSON.
enum Shape {
    /// A list whose elements are at hand.
    Read(Vec<Value>),
    /// A list of this length.
    List(usize),
    /// An object: where each key is among the writer's, and its value.
    Object(Vec<(Range<usize>, Value)>),
}

impl Serialize for Node<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let writing = self.writing;
        writing.spend(1)?;
        match self.value {
            Value::Nil => to.serialize_unit(),
            Value::Boolean(value) => to.serialize_bool(*value),
            Value::Integer(number) => to.serialize_i64(*number),
            Value::Number(number) if number.is_finite() => to.serialize_f64(*number),
            Value::Number(number) => {
                Err(writing.refuse(format_args!("is {number}, which JSON can't say")))
            }
            Value::String(text) => {
                let bytes = text.as_bytes();
                writing.spend(bytes.len())?;
                match std::str::from_utf8(&bytes) {
                    Ok(text) => to.serialize_str(text),
                    Err(e) => Err(writing.refuse(format_args!(
                        "is a string that isn't UTF-8 (at byte {}); use haft.base64.encode",
                        e.valid_up_to() + 1
                    ))),
                }
            }
            Value::LightUserData(light) if light.0.is_null() => to.serialize_unit(),
            Value::Table(table) => self.table(table, to),
            other => Err(writing.refuse(format_args!("is a {}", other.type_name()))),
        }
    }
}

impl Node<'_, '_> {
    fn table<S: Serializer>(&self, table: &Table, to: S) -> Result<S::Ok, S::Error> {
        let writing = self.writing;
        let pointer = table.to_pointer() as usize;
        if writing.open.borrow().contains(&pointer) {
            return Err(writing.refuse("is a cycle: it contains itself"));
        }
        if writing.open.borrow().len() >= DEPTH {
            return Err(writing.refuse_all(format_args!("not JSON: nested deeper than {DEPTH}")));
        }
        writing.open.borrow_mut().push(pointer);
        let keys = writing.keys.borrow().len();
        let written = match self.shape(table)? {
            Shape::Read(values) => {
                let mut list = to.serialize_seq(Some(values.len()))?;
                for (index, value) in values.iter().enumerate() {
                    self.element(&mut list, index + 1, value)?;
                }
                list.end()
            }
            Shape::List(length) => {
                let mut list = to.serialize_seq(Some(length))?;
                for at in 1..=length {
                    let value: Value = table.raw_get(at).map_err(S::Error::custom)?;
                    if value.is_nil() {
                        return Err(writing.refuse(HOLES));
                    }
                    self.element(&mut list, at, &value)?;
                }
                list.end()
            }
            Shape::Object(entries) => {
                let mut object = to.serialize_map(Some(entries.len()))?;
                for (key, value) in &entries {
                    writing.spend(key.len())?;
                    {
                        let keys = writing.keys.borrow();
                        // Checked when the entries were gathered.
                        let key = std::str::from_utf8(&keys[key.clone()]).unwrap_or_default();
                        object.serialize_key(key)?;
                    }
                    let node = Node { value, ..*self };
                    object.serialize_value(&node).map_err(|e| {
                        let keys = writing.keys.borrow();
                        let key = String::from_utf8_lossy(&keys[key.clone()]).into_owned();
                        writing.within(|| Step::Key(key), e)
                    })?;
                }
                object.end()
            }
        };
        writing.keys.borrow_mut().truncate(keys);
        writing.open.borrow_mut().pop();
        written
    }

    fn element<L: serde::ser::SerializeSeq>(
        &self,
        list: &mut L,
        at: usize,
        value: &Value,
    ) -> Result<(), L::Error> {
        list.serialize_element(&Node { value, ..*self })
            .map_err(|e| self.writing.within(|| Step::Index(at), e))
    }

    fn shape<E: serde::ser::Error>(&self, table: &Table) -> Result<Shape, E> {
        let marks = self.writing.marks;
        let mark = table.metatable().map(|mark| mark.to_pointer());
        if mark == Some(marks.object.to_pointer()) {
            return self.object(table, true);
        }
        let length = table.raw_len();
        let is_array = mark == Some(marks.array.to_pointer());
        let list = match length {
            // Without a mark an empty table is an object, and so is any other one
            // without a first element: there is nothing to tell apart.
            0 if !is_array => None,
            0 => table.is_empty().then(|| Shape::Read(Vec::new())),
            1..=SHORT => short(table, length).map_err(E::custom)?,
            _ => self
                .is_sequence(table, length)?
                .then_some(Shape::List(length)),
        };
        match list {
            Some(list) => Ok(list),
            None if is_array => Err(self.writing.refuse("is an array with holes or other keys")),
            _ => self.object(table, false),
        }
    }

    /// Whether nothing comes after the last index: then there is nothing else.
    fn is_sequence<E: serde::ser::Error>(&self, table: &Table, length: usize) -> Result<bool, E> {
        let next = &self.writing.marks.next;
        let after: Value = next.call((table, length)).map_err(E::custom)?;
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
            .map_err(E::custom)?;
        Ok(whole && entries == length)
    }

    /// The entries, sorted by their keys, which lie at the end of the writer's.
    fn object<E: serde::ser::Error>(&self, table: &Table, marked: bool) -> Result<Shape, E> {
        let writing = self.writing;
        let mut entries: Vec<(Range<usize>, Value)> = Vec::with_capacity(8);
        let mut strange: Option<String> = None;
        let mut integers = 0_usize;
        let mut keys = writing.keys.borrow_mut();
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
            .map_err(E::custom)?;
        if let Some(strange) = strange {
            return Err(writing.refuse(strange));
        }
        if integers > 0 && !marked {
            return Err(writing.refuse(if integers == entries.len() {
                HOLES
            } else {
                "has numbers and strings as keys; use haft.json.object(t) to write both as strings"
            }));
        }
        entries.sort_unstable_by(|a, b| keys[a.0.clone()].cmp(&keys[b.0.clone()]));
        if integers > 0 {
            let twice =
                |two: &&[(Range<usize>, Value)]| keys[two[0].0.clone()] == keys[two[1].0.clone()];
            if let Some(twice) = entries.windows(2).find(twice) {
                let key = String::from_utf8_lossy(&keys[twice[0].0.clone()]);
                return Err(writing.refuse(format_args!(
                    "has the key {key} as a number and as a string"
                )));
            }
        }
        Ok(Shape::Object(entries))
    }
}

/// The elements of a short list, if the table is one.
fn short(table: &Table, length: usize) -> mlua::Result<Option<Shape>> {
    let mut values = vec![Value::Nil; length];
    let (mut entries, mut whole) = (0, true);
    table.for_each::<Value, Value>(|key, value| {
        entries += 1;
        let place = match key {
            Value::Integer(at) => usize::try_from(at).ok().and_then(|at| at.checked_sub(1)),
            _ => None,
        };
        match place.and_then(|at| values.get_mut(at)) {
            Some(place) => *place = value,
            None => whole = false,
        }
        Ok(())
    })?;
    Ok((whole && entries == length).then_some(Shape::Read(values)))
}
