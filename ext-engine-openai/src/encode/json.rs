//! JSON, written straight into bytes.

use serde::Serialize;

/// Appends a value.
pub(super) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Fails only for maps with keys that are no strings, and for writers that fail.
    serde_json::to_writer(out, value).expect("strings, numbers and JSON values always serialise");
}

/// An object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    pub(super) fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Begins a field, whose value is to be written to what this returns.
    pub(super) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        write(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub(super) fn field(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        write(self.key(key), value);
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes a list, each element by `each`.
pub(super) fn list<T>(
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
