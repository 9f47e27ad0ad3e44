//! Shared objects in the stock binary: by the user's word alone, and judged
//! before a line of them runs.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use haft_tests::World;

/// The folder of the example plug-in in C.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/c-plugin")
}

/// The example plug-in in C, compiled into the world.
fn c_plugin(world: &World) -> PathBuf {
    compile(world, "rot13.so", &[&example().join("rot13.c")])
}

/// The same with a constructor that leaves a mark, and the mark's path.
fn marked(world: &World) -> (PathBuf, PathBuf) {
    let (source, mark) = (world.dir().join("mark.c"), world.dir().join("mark"));
    let constructor = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void mark(void) \
         {{ fclose(fopen({mark:?}, \"w\")); }}\n"
    );
    std::fs::write(&source, constructor).unwrap();
    let sources = [&*source, &example().join("rot13.c")];
    (compile(world, "marked.so", &sources), mark)
}

fn compile(world: &World, name: &str, sources: &[&Path]) -> PathBuf {
    let object = world.dir().join(name);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-shared", "-fPIC", "-O1", "-I"])
        .arg(example().join("../../api/include"))
        .arg("-I")
        .arg(example())
        .arg("-o")
        .arg(&object)
        .arg(example().join("json.c"))
        .args(sources)
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

/// Writes the user's own configuration.
fn configure(world: &World, text: &str) {
    let folder = world.dir().join("config/haft");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

#[test]
fn the_users_configuration_names_shared_objects() {
    let world = World::new();
    let (object, mark) = marked(&world);
    let digest = Command::new("sha256sum").arg(&object).output().unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let (digest, _) = digest.split_once(' ').unwrap();

    // The wrong file is refused before it is loaded.
    let wrong = "0".repeat(64);
    let entry = |sha256: &str| format!("[[plugin]]\npath = {object:?}\nsha256 = {sha256:?}\n");
    configure(&world, &entry(&wrong));
    world
        .run(["tools", "list"])
        .expect_error(2, &["[[plugin]]", "marked.so", "SHA-256", &wrong, digest]);
    assert!(!mark.exists(), "its code ran");

    for text in [entry(digest), format!("[[plugin]]\npath = {object:?}\n")] {
        configure(&world, &text);
        let called = world.run(["tools", "call", "rot13", r#"{"text":"Haft"}"#]);
        assert!(called.expect(0).stdout.contains("Unsg"));
        let listed = world.run(["ext", "list"]).expect(0).stdout;
        assert!(listed.contains("\nrot13 "), "{listed}");
    }
    assert!(mark.exists());

    configure(&world, "[[plugin]]\npath = 'marked.so'\n");
    world
        .run(["tools", "list"])
        .expect_error(2, &["[[plugin]]", "marked.so", "absolute"]);
}

#[test]
fn an_extension_that_is_here_already_is_not_loaded_over() {
    let world = World::new();
    let source = std::fs::read_to_string(example().join("rot13.c")).unwrap();
    let (id, other) = (r#"\"id\":\"rot13\""#, r#"\"id\":\"tools-coding\""#);
    assert!(source.contains(id));
    let renamed = world.dir().join("renamed.c");
    std::fs::write(&renamed, source.replace(id, other)).unwrap();
    let object = compile(&world, "renamed.so", &[&renamed]);
    world
        .run(["tools", "list", "--ext", object.to_str().unwrap()])
        .expect_error(2, &["`tools-coding`", "has already"]);
}

#[test]
fn a_workspace_can_never_load_a_shared_object() {
    let world = World::new();
    let (object, mark) = marked(&world);
    let renamed = object.with_extension("plugin");
    std::fs::copy(&object, &renamed).unwrap();
    for content in [
        format!("ext = [{object:?}]\n"),
        format!("plugins = [{object:?}]\n"),
        format!("[[plugin]]\npath = {object:?}\n"),
        format!("[[plugin]]\npath = {renamed:?}\n"),
        format!("plugin = {{ path = {renamed:?} }}\n"),
        format!("[ext.lua]\npaths = [{object:?}]\n"),
    ] {
        world.file("haft.toml", &content);
        for command in [["tools", "list"], ["run", "hello"]] {
            world.run(command).expect_error(2, &["haft.toml"]);
        }
        assert!(!mark.exists(), "{content}");
    }
}
