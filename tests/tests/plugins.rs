//! Shared objects in the stock binary: by the user's word alone, and judged
//! before a line of them runs.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use haft_tests::World;

/// The example plug-in in C, compiled into the world.
fn c_plugin(world: &World) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let object = world.dir().join("rot13.so");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-shared", "-fPIC", "-O1", "-I"])
        .arg(root.join("api/include"))
        .arg("-o")
        .arg(&object)
        .args(["rot13.c", "json.c"].map(|file| root.join("examples/c-plugin").join(file)))
        .status()
        .expect("a C compiler");
    assert!(compiled.success());
    object
}

#[test]
fn a_plug_in_in_c_serves_a_tool() {
    let world = World::new();
    let object = c_plugin(&world);
    let object = object.to_str().unwrap();
    let checked = world.run(["ext", "check", object]).expect(0);
    assert!(checked.stdout.contains("would load"), "{}", checked.stdout);
    let arguments = r#"{"text":"Haft"}"#;
    let called = world
        .run(["tools", "call", "rot13", arguments, "--ext", object])
        .expect(0);
    assert!(called.stdout.contains("Unsg"), "{}", called.stdout);
}

#[test]
fn what_is_no_plug_in_is_refused_with_the_reason() {
    let world = World::new();
    let garbage = world.file(
        "garbage.so",
        "not an ELF file, but long enough to hold a header".repeat(9),
    );
    let whole = std::fs::read(c_plugin(&world)).unwrap();
    let torn = world.file("torn.so", &whole[..whole.len() / 2]);
    let check = |path: &str, words: &[&str]| {
        world
            .run(["tools", "list", "--ext", path])
            .expect_error(2, words);
    };
    check("relative.so", &["relative.so", "absolute"]);
    check("/no/such/file.so", &["/no/such/file.so"]);
    check(garbage.to_str().unwrap(), &["garbage.so", "ELF"]);
    check(torn.to_str().unwrap(), &["torn.so"]);
}

#[test]
fn a_workspace_can_never_name_a_shared_object() {
    let world = World::new();
    let object = c_plugin(&world);
    for content in [
        format!("ext = [{object:?}]\n"),
        format!("plugins = [{object:?}]\n"),
        format!("[[plugin]]\npath = {object:?}\n"),
        format!("[ext.lua]\npaths = [{object:?}]\n"),
    ] {
        world.file("haft.toml", &content);
        let listed = world.run(["tools", "list"]);
        assert!(!listed.stdout.contains("rot13"), "{content}");
        listed.expect_error(2, &["haft.toml"]);
    }
}
