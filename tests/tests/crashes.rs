//! `kill -9`, full disks, damaged logs: what was acknowledged stays, and the
//! thread goes on.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use haft_tests::{Running, World, call, text};
use serde_json::{Value, json};

/// The log of the world's one thread.
fn log(world: &World) -> PathBuf {
    fn find(folder: &std::path::Path) -> Option<PathBuf> {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                if let Some(found) = find(&path) {
                    return Some(found);
                }
            } else if path.ends_with("log.jsonl") {
                return Some(path);
            }
        }
        None
    }
    find(&world.home()).expect("a log")
}

fn goes_on(world: &World) {
    world.printed("last");
    let next = world
        .run(world.turn(&[text("and on")], &["--thread", "last"]))
        .expect(0);
    assert_eq!(next.stdout, "and on\n");
    let printed = world.printed("last");
    assert_eq!(printed.last().unwrap()["text"], "and on");
}

#[test]
fn a_kill_at_any_moment_leaves_a_thread_that_goes_on() {
    let rounds: Vec<_> = (0..40)
        .map(|n| {
            let write = json!({"path": format!("{n}.txt"), "content": "x"});
            vec![
                json!({"type": "text", "text": format!("round {n}")}),
                call(&format!("c{n}"), "write_file", write),
            ]
        })
        .collect();
    for kill in 0..12u64 {
        let world = World::new();
        let mut run = Running::start(world.haft(world.turn(&rounds, &["--json"])));
        run.wait_for("turn.started");
        std::thread::sleep(Duration::from_millis(kill * 7));
        run.signal("KILL");
        let run = run.finish();
        let acknowledged: Vec<Value> = run
            .stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["type"] == "item.appended")
            .map(|event| event["item"].clone())
            .collect();
        let mut printed = world.printed("last");
        for item in &mut printed {
            let fields = item.as_object_mut().unwrap();
            fields.remove("seq");
            fields.remove("turn");
            fields.remove("at");
        }
        for item in &acknowledged {
            assert!(
                printed.contains(item),
                "{item} was acknowledged; kill {kill}"
            );
        }
        goes_on(&world);
    }
}

#[test]
fn a_log_cut_anywhere_near_its_end_opens_and_reports_the_loss() {
    let world = World::new();
    world.file("a.txt", "A");
    world
        .play(&[
            vec![call("a", "read_file", json!({"path": "a.txt"}))],
            text("one"),
        ])
        .expect(0);
    let log = log(&world);
    let whole = fs::read(&log).unwrap();
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let last = lines[lines.len() - 1].len();
    let starts = [whole.len() - last, whole.len() - last / 2, whole.len() - 1];
    let mut damaged: Vec<Vec<u8>> = starts.iter().map(|end| whole[..*end].to_vec()).collect();
    damaged.push([&whole[..], &[0; 512]].concat());
    damaged.push([&whole[..], b"{\"s\":99,\"t\":1,\"k\":\"it"].concat());
    for (index, bytes) in damaged.iter().enumerate() {
        fs::write(&log, bytes).unwrap();
        world.printed("last");
        assert_eq!(
            &fs::read(&log).unwrap(),
            bytes,
            "reading changes no byte ({index})"
        );
        world.run(["threads", "check", "last", "--json"]);
        goes_on(&world);
        let after = world.run(["threads", "check", "last"]);
        assert!(after.code.is_some(), "{}", after.stderr);
    }
}

#[test]
fn a_check_tells_lost_records_from_a_sound_log() {
    let world = World::new();
    world.play(&[text("one")]).expect(0);
    world.run(["threads", "check", "last"]).expect(0);
    let log = log(&world);
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    fs::write(&log, &bytes).unwrap();
    let check = world.run(["threads", "check", "last", "--json"]).expect(1);
    assert!(
        check
            .json_lines()
            .iter()
            .any(|finding| finding["lost"] == true),
        "{}",
        check.stdout
    );
    world.printed("last");
}

#[test]
fn a_store_that_cannot_write_fails_the_turn_and_the_next_one_works() {
    let world = World::new();
    world.play(&[text("one")]).expect(0);
    let size = fs::metadata(log(&world)).unwrap().len();
    // The shell's limit on file sizes stands in for the full disk: `ulimit -f`
    // counts blocks of 512 or 1,024 bytes, so leave room for one group.
    let long = "x".repeat(200_000);
    let args = world.turn(&[text(&long)], &["--thread", "last"]);
    let quoted: Vec<_> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let line = format!(
        "trap '' XFSZ; ulimit -f {}; exec '{}' {}",
        size / 512 + 16,
        haft_tests::haft().display(),
        quoted.join(" ")
    );
    let mut shell = std::process::Command::new("sh");
    let environment: Vec<_> = world
        .haft([""])
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    shell
        .args(["-c", &line])
        .envs(environment)
        .current_dir(world.workspace());
    let run = Running::start(shell).finish();
    assert_eq!(run.code, Some(1), "{}\n{}", run.stderr, run.stdout.len());
    assert!(
        run.stderr.contains("shown"),
        "what was shown but not stored is said: {}",
        run.stderr
    );
    goes_on(&world);
}

#[test]
fn files_are_private_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let home = world.dir().join("fresh-home");
    let args = world.turn(
        &[vec![call(
            "a",
            "shell",
            json!({"command": "yes | head -c 99999"}),
        )]],
        &[],
    );
    let quoted: Vec<_> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let mut shell = std::process::Command::new("sh");
    let line = format!(
        "umask 022; exec '{}' {}",
        haft_tests::haft().display(),
        quoted.join(" ")
    );
    shell
        .args(["-c", &line])
        .current_dir(world.workspace())
        .env("HAFT_HOME", &home);
    Running::start(shell).finish().expect(0);
    let mut folders = vec![home];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            if entry.path().is_dir() {
                assert_eq!(mode, 0o700, "{}", entry.path().display());
                folders.push(entry.path());
            } else {
                assert_eq!(mode, 0o600, "{}", entry.path().display());
                files += 1;
            }
        }
    }
    assert!(files >= 2, "a log and a spill file at least");
}
