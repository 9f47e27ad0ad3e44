//! A command that loads C modules for Lua shows Lua's symbols to them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let unix = std::env::var_os("CARGO_CFG_UNIX").is_some();
    if unix && std::env::var_os("CARGO_FEATURE_LUA_NATIVE_MODULES").is_some() {
        println!("cargo:rustc-link-arg-bins=-rdynamic");
    }
}
