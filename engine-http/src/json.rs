//! JSON, written straight into bytes.

use serde::Serialize;

/// Appends a value: strings, numbers, JSON values, and lists and structures of
/// them.
///
/// # Panics
/// For a map with keys that are no strings: JSON has no such thing.
pub fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Fails only for maps with keys that are no strings, and for writers that fail.
    serde_json::to_writer(out, value).expect("strings, numbers and JSON values always serialise");
}

/// An object that is being written.
///
/// ```
/// use haft_engine_http::json::{Object, list, write};
///
/// let mut out = Vec::new();
/// let mut object = Object::begin(&mut out);
/// object.field("role", "user");
/// list(object.key("parts"), ["a", "b"], |out, part| write(out, part));
/// object.end();
/// assert_eq!(out, br#"{"role":"user","parts":["a","b"]}"#);
/// ```
#[derive(Debug)]
pub struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    /// Begins an object at the end of `out`.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Begins a field, whose value is to be written to what this returns.
    pub fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        write(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// Writes a field.
    pub fn field(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        write(self.key(key), value);
    }

    /// Ends the object.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes a list, each element by `each`.
pub fn list<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        each(out, element);
    }
    out.push(b']');
}
