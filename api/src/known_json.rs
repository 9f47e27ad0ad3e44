//! JSON text that nobody has to look at again.

use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::item::raw_json;

/// A JSON value's text that its giver knows to be JSON, since it was written as
/// such: the same as [`raw_json`], at the price of moving it. Text that isn't JSON
/// makes whatever is written with it no JSON either; nothing worse comes of it.
///
/// ```
/// let written = serde_json::to_string(&[1, 2])?;
/// assert_eq!(haft_api::known_json(written)?.get(), "[1,2]");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// None for JSON. For what isn't, perhaps as [`raw_json`].
pub fn known_json(text: impl Into<String>) -> Result<Box<RawValue>> {
    let mut text = Some(text.into());
    match Box::<RawValue>::deserialize(Verbatim(&mut text)) {
        Ok(value) => Ok(value),
        Err(error) => match text {
            Some(text) => raw_json(text),
            None => Err(Error::new(ErrorKind::InvalidInput, error.to_string())),
        },
    }
}

/// Has a raw value of this text, by the name that it is asked for with: a raw
/// value is read without a look at its text from whatever says that it holds one,
/// which is how serde_json hands them from one format to another. A version of it
/// that does otherwise leaves the text where it is.
struct Verbatim<'t>(&'t mut Option<String>);

impl<'de> Deserializer<'de> for Verbatim<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> std::result::Result<V::Value, Self::Error> {
        let named = self.0.take().map(|text| (name, text));
        visitor.visit_map(MapDeserializer::new(named.into_iter()))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> std::result::Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom(
            "a raw value isn't asked for by its name",
        ))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_taken_as_it_stands() {
        for text in ["{\"a\": [1, \"x\"]}", " 1.50 ", "null"] {
            assert_eq!(known_json(text).unwrap().get(), text);
        }
        // If this fails, serde_json knows raw values by another name: all works
        // as before, at the price of a look at every text.
        assert_eq!(known_json("not json").unwrap().get(), "not json");
    }
}
