//! JSON to Lua values and back, losing nothing: what has no counterpart is an
//! error that says where.
//!
//! | JSON | Lua |
//! |---|---|
//! | `null` | `haft.json.null` |
//! | integer within 64 bits | integer, exactly |
//! | another number | float |
//! | string | string (UTF-8 both ways) |
//! | array | table with the array mark, so that an empty one stays one |
//! | object | table |

mod decode;
mod encode;
mod refusal;
mod stack;

pub(crate) use decode::decode;
pub(crate) use encode::encode;

use std::rc::Rc;

use mlua::{Lua, Table, WeakLua};

/// Deepest nesting, both ways.
pub(crate) const DEPTH: usize = 128;

/// What an encoded value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most bytes of its text.
    pub(crate) bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
        }
    }
}

/// The metatables that mark a table as an array or an object.
pub(crate) struct Marks {
    pub(crate) array: Table,
    pub(crate) object: Table,
    lua: WeakLua,
}

impl Marks {
    /// Makes the marks and keeps them with the state.
    pub(crate) fn install(lua: &Lua) -> mlua::Result<Rc<Self>> {
        let mark = |name: &str| -> mlua::Result<Table> {
            let table = lua.create_table()?;
            table.raw_set("__name", name)?;
            table.raw_set("__metatable", name)?;
            Ok(table)
        };
        let marks = Rc::new(Self {
            array: mark("json array")?,
            object: mark("json object")?,
            lua: lua.weak(),
        });
        lua.set_app_data(Rc::clone(&marks));
        Ok(marks)
    }

    pub(crate) fn of(lua: &Lua) -> Result<Rc<Self>, String> {
        lua.app_data_ref::<Rc<Self>>()
            .map(|marks| Rc::clone(&marks))
            .ok_or_else(|| "this state has no JSON".to_owned())
    }
}

#[cfg(test)]
mod tests;
