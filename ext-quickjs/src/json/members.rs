//! An object's own members, and their names as JSON writes them.
//!
//! The engine's interface has a wrapper, with counted references, for each name
//! of each object; that was half of what writing an object cost. Here a name is
//! its number, and its text is made once.
#![allow(
    unsafe_code,
    reason = "the engine's interface can't read members in any other way"
)]

use rquickjs::{Ctx, Error, Object, Value, qjs};

use crate::thrown::text_from;

/// The number of a name.
pub(super) type Name = qjs::JSAtom;

/// The own enumerable members of an object, in JavaScript's order.
pub(super) struct Members<'o, 'js> {
    object: &'o Object<'js>,
    table: *mut qjs::JSPropertyEnum,
    count: u32,
    at: u32,
}

impl<'o, 'js> Members<'o, 'js> {
    /// # Errors
    /// What a proxy throws; that there is no memory.
    pub(super) fn of(object: &'o Object<'js>) -> rquickjs::Result<Self> {
        let (mut table, mut count) = (std::ptr::null_mut(), 0);
        let flags = qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY;
        // SAFETY: context and object belong together and are alive, as their
        // wrappers are; both places are ours, and are read only if it succeeds.
        let outcome = unsafe {
            qjs::JS_GetOwnPropertyNames(
                object.ctx().as_raw().as_ptr(),
                &mut table,
                &mut count,
                object.as_raw(),
                flags.cast_signed(),
            )
        };
        if outcome < 0 {
            return Err(Error::Exception);
        }
        Ok(Self {
            object,
            table,
            count,
            at: 0,
        })
    }
}

impl<'js> Iterator for Members<'_, 'js> {
    type Item = rquickjs::Result<(Name, Value<'js>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.count {
            return None;
        }
        let ctx = self.object.ctx();
        // SAFETY: the table has `count` entries, is never changed, and lives
        // until this is dropped; so do the names in it.
        let name = unsafe { (*self.table.add(self.at as usize)).atom };
        self.at += 1;
        // SAFETY: context, object and name are alive. The value that comes back
        // is owned, and an exception needs no release.
        let value = unsafe {
            let value = qjs::JS_GetProperty(ctx.as_raw().as_ptr(), self.object.as_raw(), name);
            if qjs::JS_IsException(value) {
                return Some(Err(Error::Exception));
            }
            Value::from_raw(ctx.clone(), value)
        };
        Some(Ok((name, value)))
    }
}

impl Drop for Members<'_, '_> {
    fn drop(&mut self) {
        let ctx = self.object.ctx().as_raw().as_ptr();
        // SAFETY: the table and its names came from this context, with this
        // count, and are released once.
        unsafe { qjs::JS_FreePropertyEnum(ctx, self.table, self.count) };
    }
}

/// How many names are kept. Objects of more kinds than that are rare.
const KEPT: usize = 64;

/// Names as JSON writes them, with the colon behind: `"name":`.
pub(super) struct Names<'js> {
    ctx: Ctx<'js>,
    kept: Vec<(Name, String)>,
    /// Where the next one is likely to be: equal objects follow each other.
    next: usize,
}

impl<'js> Names<'js> {
    pub(super) fn new(ctx: Ctx<'js>) -> Self {
        Self {
            ctx,
            kept: Vec::new(),
            next: 0,
        }
    }

    /// Appends a name, which must be one that [`Members`] gave and still has.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn write(&mut self, name: Name, out: &mut Vec<u8>) -> rquickjs::Result<()> {
        let is = |(kept, _): &(Name, String)| *kept == name;
        let at = match self.kept.get(self.next).is_some_and(is) {
            true => Some(self.next),
            false => self.kept.iter().position(is),
        };
        if let Some(at) = at {
            out.extend_from_slice(self.kept[at].1.as_bytes());
            self.next = (at + 1) % self.kept.len();
            return Ok(());
        }
        let text = format!("{}:", serde_json::Value::from(self.text(name)?));
        out.extend_from_slice(text.as_bytes());
        if self.kept.len() < KEPT {
            // SAFETY: the name is alive. While it is kept it has a reference
            // of its own, so that no other name can get its number.
            unsafe { qjs::JS_DupAtom(self.ctx.as_raw().as_ptr(), name) };
            self.kept.push((name, text));
        }
        Ok(())
    }

    /// A name's text.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn text(&self, name: Name) -> rquickjs::Result<String> {
        // SAFETY: context and name are alive; the value that comes back is
        // owned, and an exception needs no release.
        let value = unsafe {
            let value = qjs::JS_AtomToString(self.ctx.as_raw().as_ptr(), name);
            if qjs::JS_IsException(value) {
                return Err(Error::Exception);
            }
            Value::from_raw(self.ctx.clone(), value)
        };
        match value.as_string() {
            Some(text) => text_from(&self.ctx, text),
            None => Err(Error::Unknown),
        }
    }
}

impl Drop for Names<'_> {
    fn drop(&mut self) {
        for (name, _) in &self.kept {
            // SAFETY: each has the reference that it was kept with.
            unsafe { qjs::JS_FreeAtom(self.ctx.as_raw().as_ptr(), *name) };
        }
    }
}
