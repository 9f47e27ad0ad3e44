//! C modules: loaded by grant, where the crate is built for it.

mod support;

use support::{Outcome, World, call, tool};

/// A module with one function, against Lua's C interface.
#[cfg(feature = "native-modules")]
const MODULE: &str = r#"
typedef struct lua_State lua_State;
extern long long luaL_checkinteger(lua_State *, int);
extern void lua_pushinteger(lua_State *, long long);
extern void lua_createtable(lua_State *, int, int);
extern void lua_pushcclosure(lua_State *, int (*)(lua_State *), int);
extern void lua_setfield(lua_State *, int, const char *);
static int twice(lua_State *L) {
  lua_pushinteger(L, 2 * luaL_checkinteger(L, 1));
  return 1;
}
int luaopen_twice(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_pushcclosure(L, twice, 0);
  lua_setfield(L, -2, "of");
  return 1;
}
"#;

async fn with(head: &str, prepare: impl FnOnce(&World)) -> Outcome {
    let body = "return require('twice').of(21)";
    let world = World::new().file("c/init.lua", &(head.to_owned() + &tool("t", body)));
    prepare(&world);
    call(&world.start(), "t", "{}").await
}

#[cfg(not(feature = "native-modules"))]
#[tokio::test]
async fn without_the_feature_it_is_said_how_to_have_them() {
    let outcome = with("--@grants native\n", |_| {}).await;
    assert!(outcome.is_error, "{outcome:?}");
    for words in ["module 'twice' not found", "`native-modules`"] {
        assert!(outcome.text.contains(words), "{outcome:?}");
    }
}

#[cfg(feature = "native-modules")]
#[tokio::test]
async fn a_c_module_is_loaded_by_its_grant_and_not_without() {
    let compile = |world: &World| {
        let source = world.write("c/twice.c", MODULE);
        let library = source.with_extension("so");
        let compiled = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .expect("a C compiler");
        assert!(compiled.success());
    };
    let outcome = with("--@grants native=twice\n", compile).await;
    assert_eq!((outcome.text.as_str(), outcome.is_error), ("42", false));
    let outcome = with("--@grants native=other\n", compile).await;
    assert!(
        outcome.is_error && outcome.text.contains("lacks the grant `native` for twice"),
        "{outcome:?}"
    );
    let outcome = with("--@grants native\n", |_| {}).await;
    assert!(outcome.text.contains("no file"), "{outcome:?}");
}

#[tokio::test]
async fn scripts_cannot_reach_the_loader_itself() {
    let world = World::new().file(
        "t.lua",
        &tool(
            "t",
            "return tostring(package.loadlib) .. tostring(_G.package == package)",
        ),
    );
    assert_eq!(call(&world.start(), "t", "{}").await.text, "niltrue");
}
