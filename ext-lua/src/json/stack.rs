//! Reads Lua values where they lie, on Lua's stack, without a handle for each.
#![allow(
    unsafe_code,
    reason = "a handle for every value of a table costs many times what reading it does, and mlua \
              reads tables through handles alone"
)]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mlua::{Lua, Value, ffi};

/// Places of the stack that visiting a table takes: its key, its value, and its
/// metatable while that is looked at.
const PLACES: i32 = 3;

/// For how many tables within each other room is made at a time.
const TABLES: usize = 16;

/// What lies there.
pub(super) enum Seen<'s> {
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(&'s [u8]),
    /// JSON's null.
    Null,
    Table,
    /// Anything else, by its type's name.
    Other(&'static str),
}

/// The stack can't grow.
pub(super) struct NoRoom;

/// Lua's stack with a value on top.
///
/// Nothing it does runs a script's code, raises an error or changes a value; and
/// while one is borrowed nothing else does, since a state has one thread.
pub(super) struct Stack {
    state: *mut ffi::lua_State,
    /// How many tables are being visited: each has its key below what is on top.
    visited: usize,
    /// For how many there is room: so many times `PLACES` were free when fewer
    /// were visited, and those since then take two each.
    room: usize,
}

/// Reads a value, which lies on top of the stack meanwhile.
///
/// # Errors
/// If there is no memory to begin with.
pub(super) fn read<T>(
    lua: &Lua,
    value: &Value,
    read: impl FnOnce(&mut Stack) -> T,
) -> mlua::Result<T> {
    let mut outcome = None;
    let into = &mut outcome;
    // SAFETY: the closure has its argument on top of the stack. Nothing in it
    // raises (see `Stack`), so no frame of it is jumped over, and no panic leaves
    // it. It leaves the argument, which is taken from the stack as its result.
    unsafe {
        lua.exec_raw::<()>(value, |state| {
            let read = AssertUnwindSafe(|| {
                read(&mut Stack {
                    state,
                    visited: 0,
                    room: 0,
                })
            });
            *into = Some(catch_unwind(read));
            ffi::lua_settop(state, 0);
        })?;
    }
    match outcome {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(mlua::Error::runtime("nothing was read")),
    }
}

impl Stack {
    /// What is on top.
    pub(super) fn top(&self) -> Seen<'_> {
        self.at(-1)
    }

    /// The key whose value is on top, in [`entries`](Self::entries).
    pub(super) fn key(&self) -> Seen<'_> {
        match self.visited {
            0 => Seen::Nil,
            _ => self.at(-2),
        }
    }

    fn at(&self, index: i32) -> Seen<'_> {
        let state = self.state;
        // SAFETY: there is a value at the index: on top always, and below it while
        // a table is visited. None of these raises: a string
        // is asked for as one only where there is one, so nothing is converted.
        // Its bytes stay where they are while the value is on the stack, and
        // whatever takes it from there needs this borrow to be over.
        unsafe {
            match ffi::lua_type(state, index) {
                ffi::LUA_TNIL => Seen::Nil,
                ffi::LUA_TBOOLEAN => Seen::Boolean(ffi::lua_toboolean(state, index) != 0),
                ffi::LUA_TNUMBER if ffi::lua_isinteger(state, index) != 0 => {
                    Seen::Integer(ffi::lua_tointegerx(state, index, std::ptr::null_mut()))
                }
                ffi::LUA_TNUMBER => {
                    Seen::Number(ffi::lua_tonumberx(state, index, std::ptr::null_mut()))
                }
                ffi::LUA_TSTRING => {
                    let mut length = 0;
                    let bytes = ffi::lua_tolstring(state, index, &raw mut length);
                    Seen::Text(std::slice::from_raw_parts(bytes.cast::<u8>(), length))
                }
                ffi::LUA_TTABLE => Seen::Table,
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(state, index).is_null() => {
                    Seen::Null
                }
                ffi::LUA_TLIGHTUSERDATA => Seen::Other("lightuserdata"),
                ffi::LUA_TFUNCTION => Seen::Other("function"),
                ffi::LUA_TTHREAD => Seen::Other("thread"),
                _ => Seen::Other("userdata"),
            }
        }
    }

    /// Tells the table on top from any other.
    pub(super) fn address(&self) -> *const c_void {
        // SAFETY: reads a pointer, and follows none.
        unsafe { ffi::lua_topointer(self.state, -1) }
    }

    /// The address of the metatable of what is on top; null if it has none.
    pub(super) fn metatable(&mut self) -> Result<*const c_void, NoRoom> {
        self.reserve()?;
        // SAFETY: there is room for the metatable, which is taken from the stack
        // again. No metamethod is called.
        unsafe {
            if ffi::lua_getmetatable(self.state, -1) == 0 {
                return Ok(std::ptr::null());
            }
            let address = ffi::lua_topointer(self.state, -1);
            ffi::lua_settop(self.state, -2);
            Ok(address)
        }
    }

    /// Whether the table on top has a last index: some `n` with a value, and none
    /// after it.
    pub(super) fn has_length(&self) -> bool {
        // SAFETY: reads the table's length, and calls no metamethod.
        unsafe { ffi::lua_rawlen(self.state, -1) > 0 }
    }

    /// Visits each entry of the table on top, in Lua's own order: its value is on
    /// top meanwhile. Where there is no table, there are no entries.
    ///
    /// # Errors
    /// The visitor's first, after which nothing more is visited.
    pub(super) fn entries<E: From<NoRoom>>(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.reserve()?;
        let state = self.state;
        // SAFETY: there is room for a key and a value. `lua_next` raises only for
        // a key that isn't in the table: it gets nil first and then the key it
        // gave, unconverted, since the visitor leaves the stack as it was (as all
        // of `Stack` does) and can change no table.
        unsafe {
            if ffi::lua_type(state, -1) != ffi::LUA_TTABLE {
                return Ok(());
            }
            let table = ffi::lua_gettop(state);
            ffi::lua_pushnil(state);
            self.visited += 1;
            while ffi::lua_next(state, table) != 0 {
                let visited = visit(self);
                if visited.is_err() {
                    ffi::lua_settop(state, table);
                    self.visited -= 1;
                    return visited;
                }
                ffi::lua_settop(state, table + 1);
            }
        }
        self.visited -= 1;
        Ok(())
    }

    fn reserve(&mut self) -> Result<(), NoRoom> {
        if self.visited < self.room {
            return Ok(());
        }
        // SAFETY: gives zero where the stack can't grow, and raises nothing. It
        // may collect garbage, but no finalizer runs then, and nothing is garbage
        // that is on the stack; a weak table may lose entries, which `lua_next`
        // copes with, but no strings.
        match unsafe { ffi::lua_checkstack(self.state, PLACES * TABLES as i32) } {
            0 => Err(NoRoom),
            _ => {
                self.room = self.visited + TABLES;
                Ok(())
            }
        }
    }
}
