//! Tests that load C modules show Lua's symbols to them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let unix = std::env::var_os("CARGO_CFG_UNIX").is_some();
    if unix && std::env::var_os("CARGO_FEATURE_NATIVE_MODULES").is_some() {
        println!("cargo:rustc-link-arg-tests=-rdynamic");
    }
}
