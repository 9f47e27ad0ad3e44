//! The one question to Lua's C interface that `mlua` has no safe word for.
#![allow(
    unsafe_code,
    reason = "lua_isyieldable has no safe wrapper, and yielding where it says no raises an error"
)]

use mlua::Thread;

/// Whether the coroutine that runs may yield where it stands.
pub(crate) fn is_yieldable(running: &Thread) -> bool {
    // SAFETY: the pointer is valid while `running` is alive, which outlives the
    // call; the function reads one counter of that state and changes nothing.
    unsafe { mlua::ffi::lua_isyieldable(running.state()) != 0 }
}
