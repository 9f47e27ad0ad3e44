//! placeholder
use std::rc::Rc;
use mlua::{Lua, Table};
use crate::{script::Script, state::Host};
pub(crate) fn add(_: &Lua, _: &Rc<Host>, _: &Rc<Script>, _: &Table) -> mlua::Result<()> { Ok(()) }
