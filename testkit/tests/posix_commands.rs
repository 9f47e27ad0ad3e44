//! The commands for probes do what the probes say, in a real shell.
#![cfg(unix)]

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use haft_testkit::{Probe, posix_command};

fn run(folder: &Path, probe: &Probe) -> Output {
    let argv = posix_command(probe).unwrap();
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .current_dir(folder)
        .env("NAMED", "a 'value' $HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What doesn't read its input breaks the pipe.
    child.stdin.take().unwrap().write_all(b"typed").ok();
    child.wait_with_output().unwrap()
}

#[test]
fn printing_and_exiting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("-it's"), "content").unwrap();
    let check = |probe: Probe, stdout: &str, stderr: &str, code: Option<i32>| {
        let output = run(folder.path(), &probe);
        assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{probe:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), stderr, "{probe:?}");
        assert_eq!(output.status.code(), code, "{probe:?}");
    };
    let print = |stdout: &str, stderr: &str| Probe::Print {
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    };
    check(
        print("it's %s\n$HOME", "ä \\n"),
        "it's %s\n$HOME",
        "ä \\n",
        Some(0),
    );
    check(Probe::PrintFile("-it's".to_owned()), "content", "", Some(0));
    check(
        Probe::PrintVariable("NAMED".to_owned()),
        "a 'value' $HOME",
        "",
        Some(0),
    );
    check(Probe::Copy, "typed", "", Some(0));
    check(Probe::Flood(10), "xxxxxxxxxx", "", Some(0));
    check(Probe::Exit(3), "", "", Some(3));
    check(
        Probe::Sleep(Duration::from_millis(10)),
        "begun",
        "",
        Some(0),
    );
    let killed = run(folder.path(), &Probe::KillItself);
    assert_eq!(killed.status.signal(), Some(9));
}

#[test]
fn linking() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = ("it's -a link".to_owned(), "-no where".to_owned());
    assert!(
        run(
            folder.path(),
            &Probe::Link {
                path: path.clone(),
                target
            }
        )
        .status
        .success()
    );
    let target = std::fs::read_link(folder.path().join(path)).unwrap();
    assert_eq!(target, Path::new("-no where"));
}

/// Waits until a file is there; false if it doesn't come.
fn appears(path: &Path) -> bool {
    let began = Instant::now();
    while !path.exists() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    path.exists()
}

#[cfg(target_os = "linux")]
#[test]
fn leaving_behind() {
    let folder = tempfile::tempdir().unwrap();
    for own_session in [false, true] {
        let file = format!("left-{own_session}");
        let probe = Probe::LeaveBehind {
            file: file.clone(),
            after: Duration::from_millis(1500),
            own_session,
        };
        // Its output isn't held open, so this doesn't wait for the left one.
        let output = run(folder.path(), &probe);
        assert_eq!(output.status.code(), Some(0));
        assert!(appears(&folder.path().join(file)), "{probe:?}");
    }
}

#[test]
fn writing_later() {
    let folder = tempfile::tempdir().unwrap();
    let argv = posix_command(&Probe::WriteLater {
        file: "later".to_owned(),
        after: Duration::from_millis(50),
    });
    let argv = argv.unwrap();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).current_dir(folder.path());
    let mut child = command
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    assert!(appears(&folder.path().join("later")));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    let group = format!("-{}", child.id());
    let killed = Command::new("kill").args(["-9", "--", &group]).status();
    assert!(killed.unwrap().success());
    child.wait().unwrap();
}
