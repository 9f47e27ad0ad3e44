//! JSON text to Lua values.

use std::fmt;

use mlua::{Lua, Value};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use super::Marks;

/// How many elements a table is made with at once.
const AT_ONCE: usize = 128;

/// Reads a JSON text.
///
/// # Errors
/// The position and what is wrong there; what Lua's memory limit says.
pub(crate) fn decode(lua: &Lua, marks: &Marks, text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Seed { lua, marks }.deserialize(&mut reader).map_err(|e| {
        let text = e.to_string();
        match text.strip_prefix("recursion limit exceeded") {
            Some(at) => format!("nested deeper than {}{at}", super::DEPTH),
            None => text,
        }
    })?;
    reader.end().map_err(|e| e.to_string())?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    lua: &'a Lua,
    marks: &'a Marks,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Integer).map_err(|_| {
            E::custom(format_args!(
                "the integer {value} doesn't fit in 64 bits with a sign; write it as a string"
            ))
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.lua
            .create_string(value)
            .map(Value::String)
            .map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let fails = A::Error::custom;
        let mut values = Vec::new();
        while values.len() < AT_ONCE
            && let Some(value) = from.next_element_seed(self)?
        {
            values.push(value);
        }
        let mut length = values.len();
        let table = self.lua.create_sequence_from(values).map_err(fails)?;
        // A value that waits for its table is a burden on the collector.
        while length >= AT_ONCE
            && let Some(value) = from.next_element_seed(self)?
        {
            length += 1;
            table.raw_set(length, value).map_err(fails)?;
        }
        table
            .set_metatable(Some(self.marks.array.clone()))
            .map_err(fails)?;
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let fails = A::Error::custom;
        let mut entries = Vec::new();
        while entries.len() < AT_ONCE
            && let Some(key) = from.next_key_seed(self)?
        {
            entries.push((key, from.next_value_seed(self)?));
        }
        let whole = entries.len() < AT_ONCE;
        let table = self.lua.create_table_from(entries).map_err(fails)?;
        while !whole && let Some(key) = from.next_key_seed(self)? {
            let value = from.next_value_seed(self)?;
            table.raw_set(key, value).map_err(fails)?;
        }
        Ok(Value::Table(table))
    }
}
