//! Bad input gets one clear line and the documented exit status.

use haft_tests::{World, text};

#[test]
fn each_mistake_is_named() {
    let world = World::new();
    let script = world.script(&[text("ok")]);
    let script = script.to_str().unwrap();
    std::fs::write(
        world.dir().join("broken.jsonl"),
        "{\"events\":[{\"type\":\"txt\"}]}\n",
    )
    .unwrap();
    let broken = world.dir().join("broken.jsonl");
    let broken = broken.to_str().unwrap();
    let check = |args: &[&str], code: i32, words: &[&str]| {
        world.run(args).expect_error(code, words);
    };
    check(&["run", "--engine", "nope", "hi"], 2, &["nope", "replay"]);
    check(
        &[
            "run",
            "--engine",
            "replay",
            "--model",
            script,
            "--workspace",
            "/no/such/folder",
            "hi",
        ],
        2,
        &["/no/such/folder"],
    );
    check(
        &["run", "--engine", "replay", "--model", "/no/script", "hi"],
        1,
        &["/no/script"],
    );
    check(
        &["run", "--engine", "replay", "--model", broken, "hi"],
        1,
        &["broken.jsonl", "1", "txt"],
    );
    check(
        &["threads", "show", "no-such-thread"],
        2,
        &["no-such-thread"],
    );
    check(
        &["threads", "show", "../../etc/passwd"],
        2,
        &["../../etc/passwd"],
    );
    check(
        &[
            "run", "--thread", "CON", "--engine", "replay", "--model", script, "hi",
        ],
        2,
        &["CON"],
    );
    check(&["tools", "call", "read_file", "{\"path\":"], 2, &["JSON"]);
    check(
        &["tools", "call", "--batch", "/no/batch"],
        2,
        &["/no/batch"],
    );
}

#[test]
fn a_wrong_key_names_the_nearest_known_one() {
    let world = World::new();
    let check = |content: &str, words: &[&str]| {
        world.file("haft.toml", content);
        world.run(["tools", "list"]).expect_error(2, words);
    };
    check("engin = \"replay\"\n", &["engin", "engine", "haft.toml"]);
    check("engine = [\n", &["haft.toml"]);
    check("approve = \"all\"\n", &["approve", "haft.toml"]);
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let world = World::new();
    let file = world.file("a-file", "");
    let script = world.script(&[text("ok")]);
    let args = [
        "run",
        "--home",
        file.to_str().unwrap(),
        "--engine",
        "replay",
        "--model",
        script.to_str().unwrap(),
        "hi",
    ];
    let run = world.run(args);
    assert!(
        matches!(run.code, Some(1 | 2)),
        "{:?} {}",
        run.code,
        run.stderr
    );
    assert!(run.stderr.contains("a-file"), "{}", run.stderr);
}
