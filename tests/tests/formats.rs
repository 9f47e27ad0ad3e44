//! Threads of every format version that was ever written: they open, are listed,
//! go on, and can be taken elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use haft_api::Item;
use haft_tests::{Running, World, text};

/// Homes with the threads `format-X-Y` and `format-X-Y-fork`, by version.
fn formats() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ext-store-jsonl/tests/formats");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut formats: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect();
    formats.sort();
    assert!(formats.len() >= 2, "{formats:?}");
    formats
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn threads_of_every_version_go_on() {
    for (version, home) in formats() {
        let world = World::new();
        copy(&home, &world.home());
        let name = format!("format-{}", version.replace('.', "-"));
        let fork = format!("{name}-fork");

        let listed = world.run(["threads", "list"]).expect(0).stdout;
        for title in [
            format!("Written as {version}"),
            format!("A fork of {version}"),
        ] {
            assert!(listed.contains(&title), "{title} is missing in:\n{listed}");
        }
        world.run(["threads", "check"]).expect(0);

        let said = |thread: &str| -> Vec<String> {
            let items = world.items(thread).into_iter();
            items
                .filter_map(|item| match item {
                    Item::AssistantMessage { text, .. } => Some(text),
                    _ => None,
                })
                .collect()
        };
        let first = [
            "I'll read it.",
            "It says \"one\", and there is no second file: 中😀.",
        ];
        assert_eq!(said(&name)[..2], first, "{version}");
        assert_eq!(said(&fork)[..2], first, "{version}");
        assert_eq!(said(&fork)[2..], ["Still one."], "{version}");

        for thread in [&name, &fork] {
            let before = said(thread);
            let turn = world.turn(&[text("and on")], &["--thread", thread]);
            Running::start(world.haft(turn)).finish().expect(0);
            let now = said(thread);
            assert_eq!(now[..before.len()], before, "{version}: {thread}");
            assert_eq!(now[before.len()..], ["and on"], "{version}: {thread}");

            let export = |form: &str| {
                let args = ["threads", "export", thread, "--format", form];
                world.run(args).expect(0)
            };
            let items = world.items(thread).len();
            assert_eq!(export("jsonl").json_lines().len(), items, "{version}");
            for form in ["markdown", "replay"] {
                let exported = export(form).stdout;
                for text in ["I'll read it.", "and on"] {
                    assert!(exported.contains(text), "{version}: {form}:\n{exported}");
                }
            }
        }
        world.run(["threads", "check"]).expect(0);
    }
}
