//! C modules: loaded where this crate was built for it, and by grant alone.

use mlua::{Lua, LuaOptions, StdLib, Table};

/// Whether this crate was built with the feature.
const BUILT: bool = cfg!(feature = "native-modules");
const NO_LIBRARIES: &str = "C modules aren't loaded: this program was built without them (feature \
                            `native-modules` of haft-ext-lua, `lua-native-modules` of haft)";

/// A new state.
#[cfg(feature = "native-modules")]
#[allow(
    unsafe_code,
    reason = "mlua calls a state that can load C modules unsafe"
)]
pub(crate) fn state(libraries: StdLib) -> mlua::Result<Lua> {
    // SAFETY: the state is as safe as any other until a C module is loaded.
    // `loadlib` is kept from scripts: the prelude alone has it, and calls it
    // where the user has granted the module by name; what such a module does is
    // the user's word, as with any shared object.
    Ok(unsafe { Lua::unsafe_new_with(libraries | StdLib::PACKAGE, LuaOptions::default()) })
}

/// A new state.
#[cfg(not(feature = "native-modules"))]
pub(crate) fn state(libraries: StdLib) -> mlua::Result<Lua> {
    Lua::new_with(libraries, LuaOptions::default())
}

/// Gives the prelude what it loads C modules with, and takes it from everybody
/// else.
pub(crate) fn offer(lua: &Lua, to: &Table) -> mlua::Result<()> {
    to.raw_set("no_libraries", NO_LIBRARIES)?;
    if BUILT {
        let globals = lua.globals();
        let package: Table = globals.raw_get("package")?;
        to.raw_set("loadlib", package.raw_get::<mlua::Function>("loadlib")?)?;
        globals.raw_set("package", mlua::Value::Nil)?;
        globals.raw_set("require", mlua::Value::Nil)?;
    }
    Ok(())
}
