//! Credentials in the system's keyring: GNOME's, over a bus of the test's own.
//! It is found on the machine or fetched from Debian's packages.
#![cfg(all(feature = "keyring", target_os = "linux"))]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use haft_ext_quickjs::{CredentialPlace, RpcAnswer};
use serde_json::json;
use support::{World, call, tools};

/// Says to a process of this test that the bus in its environment is the test's.
const INSIDE: &str = "HAFT_TEST_KEYRING";
const PACKAGES: &[&str] = &[
    "gnome-keyring",
    "libgcr-base-3-1",
    "libgck-1-0",
    "libp11-kit0",
];

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The keyring's program, and where its libraries are.
fn program(folder: &Path) -> Result<(PathBuf, PathBuf), String> {
    let installed = Path::new("/usr/bin/gnome-keyring-daemon");
    if installed.exists() {
        return Ok((installed.to_owned(), folder.to_owned()));
    }
    let run = |command: &mut Command| {
        let output = command.current_dir(folder).output();
        let output = output.map_err(|e| format!("{command:?}: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{command:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    };
    run(Command::new("apt-get").arg("download").args(PACKAGES))?;
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        if file.path().extension().is_some_and(|e| e == "deb") {
            run(Command::new("dpkg").arg("-x").arg(file.path()).arg("x"))?;
        }
    }
    let libraries = std::fs::read_dir(folder.join("x/usr/lib")).map_err(|e| e.to_string())?;
    let libraries = libraries.flatten().map(|entry| entry.path());
    let libraries = libraries
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with("-gnu"));
    let libraries = libraries.ok_or("the packages have no libraries")?;
    Ok((folder.join("x/usr/bin/gnome-keyring-daemon"), libraries))
}

/// A bus, and a keyring on it that is unlocked.
fn keyring(folder: &Path) -> Result<(Ended, Ended, String), String> {
    let (program, libraries) = program(folder)?;
    let mut bus = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--print-address"])
        .arg(format!(
            "--address=unix:path={}",
            folder.join("bus").display()
        ))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("no bus: {e}"))?;
    let mut address = String::new();
    let said = bus.stdout.take().unwrap();
    let bus = Ended(bus);
    BufReader::new(said)
        .read_line(&mut address)
        .map_err(|e| e.to_string())?;
    let address = address.trim().to_owned();
    let mut daemon = Command::new(program)
        .args(["--foreground", "--unlock", "--components=secrets"])
        .env("LD_LIBRARY_PATH", libraries)
        .env("DBUS_SESSION_BUS_ADDRESS", &address)
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("XDG_RUNTIME_DIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("no keyring: {e}"))?;
    let mut stdin = daemon.stdin.take().unwrap();
    stdin.write_all(b"a password").map_err(|e| e.to_string())?;
    drop(stdin);
    let daemon = Ended(daemon);
    let began = Instant::now();
    while !is_there(&address)? {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "the keyring doesn't answer"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((bus, daemon, address))
}

/// Whether somebody on the bus keeps secrets.
fn is_there(address: &str) -> Result<bool, String> {
    let asked = Command::new("dbus-send")
        .arg(format!("--bus={address}"))
        .args(["--dest=org.freedesktop.DBus", "--print-reply=literal", "/"])
        .args([
            "org.freedesktop.DBus.NameHasOwner",
            "string:org.freedesktop.secrets",
        ])
        .output()
        .map_err(|e| format!("no `dbus-send`: {e}"))?;
    Ok(String::from_utf8_lossy(&asked.stdout).contains("true"))
}

/// Runs the test of this file in a process whose bus is that one.
fn inside(test: &str, address: &str) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env("DBUS_SESSION_BUS_ADDRESS", address)
        .env(INSIDE, test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
}

const TEST: &str = "a_credential_is_kept_in_the_keyring_where_there_is_one";

#[tokio::test]
async fn a_credential_is_kept_in_the_keyring_where_there_is_one() {
    match std::env::var(INSIDE).as_deref() {
        Ok("with") => return with_a_keyring().await,
        Ok(_) => return without_a_keyring().await,
        Err(_) => {}
    }
    let folder = tempfile::tempdir().unwrap();
    match keyring(folder.path()) {
        Err(why) => {
            writeln!(std::io::stderr(), "skipped: {why}").unwrap();
        }
        Ok((_bus, _daemon, address)) => {
            inside("with", &address);
            inside("without", "unix:path=/nowhere");
        }
    }
}

const TELL: &str = "return oauth.getCredential();";
const SECRET: &str = "s3cr3t-token";

fn world() -> World {
    World::new().skill(
        "t",
        &tools(&[
            ("tell", TELL),
            (
                "say",
                "console.log('it is ' + oauth.getCredential().access_token);",
            ),
            ("revoke", "oauth.revoke();"),
        ]),
    )
}

/// The files of the skill's folder that have the secret.
fn files_with_it(world: &World) -> Vec<String> {
    let files = std::fs::read_dir(world.path().join("data/t"))
        .unwrap()
        .flatten();
    let with = files.filter(|file| {
        std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains(SECRET))
    });
    with.map(|file| file.file_name().to_string_lossy().into_owned())
        .collect()
}

async fn complete(host: &haft_ext_quickjs::QuickJsHost) -> haft_api::Result<RpcAnswer> {
    host.rpc("t", "oauth/complete", &json!({ "access_token": SECRET }))
        .await
}

async fn with_a_keyring() {
    let mut world = world();
    // One that a file had moves over.
    world.settings.credentials = Some(CredentialPlace::File);
    let host = world.start();
    host.skills().await;
    complete(&host).await.unwrap();
    assert_eq!(files_with_it(&world), ["credential.json"]);
    drop(host);
    world.settings.credentials = None;
    let host = world.start();
    assert!(call(&host, "t__tell", "{}").await.text.contains(SECRET));
    complete(&host).await.unwrap();
    assert_eq!(files_with_it(&world), [""; 0]);
    for place in [
        None,
        Some(CredentialPlace::File),
        Some(CredentialPlace::Keyring),
    ] {
        // Whoever starts later finds it where it is.
        world.settings.credentials = place;
        let host = world.start();
        assert!(call(&host, "t__tell", "{}").await.text.contains(SECRET));
        call(&host, "t__say", "{}").await;
        let log = world.log.text();
        assert!(
            log.contains("it is [secret]") && !log.contains(SECRET),
            "{log}"
        );
    }
    // And back into a file, and away.
    world.settings.credentials = Some(CredentialPlace::File);
    let host = world.start();
    host.skills().await;
    complete(&host).await.unwrap();
    assert_eq!(files_with_it(&world), ["credential.json"]);
    world.settings.credentials = Some(CredentialPlace::Keyring);
    let host = world.start();
    host.skills().await;
    complete(&host).await.unwrap();
    assert_eq!(files_with_it(&world), [""; 0]);
    assert!(!call(&host, "t__revoke", "{}").await.is_error);
    assert_eq!(call(&host, "t__tell", "{}").await.text, "null");
    assert_eq!(
        std::fs::read_dir(world.path().join("data/t"))
            .unwrap()
            .count(),
        0
    );
}

async fn without_a_keyring() {
    let mut world = world();
    let host = world.start();
    host.skills().await;
    complete(&host).await.unwrap();
    assert_eq!(files_with_it(&world), ["credential.json"]);
    world.settings.credentials = Some(CredentialPlace::Keyring);
    let host = world.start();
    host.skills().await;
    let refused = complete(&host).await.unwrap_err().to_string();
    assert!(refused.contains("the system's keyring"), "{refused}");
    assert!(call(&host, "t__tell", "{}").await.text.contains(SECRET));
}
