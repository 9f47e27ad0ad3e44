//! Permissions, links, ids.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use haft_api::{DiagnosticCode, ErrorKind, NewThread, ThreadId, ThreadStore};

use crate::support::*;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Fails unless folders have mode 0700 and files 0600.
pub(crate) fn assert_tight(folder: &Path) {
    let mut files = 0;
    walk(folder, &mut |path| {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}", path.display());
        files += usize::from(path.is_file());
    });
    assert!(files > 0);
}

#[tokio::test]
async fn loose_permissions_are_tightened_by_writers_and_reported() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "t", &["one"]).await;
    list(&store).await;
    assert_tight(&home.path());
    let loosen = || {
        walk(&home.threads(), &mut |path| {
            set_mode(path, if path.is_dir() { 0o755 } else { 0o644 });
        });
    };
    loosen();
    // A reader says so and changes nothing.
    let (found, diagnostics) = read(&store, &thread).await;
    assert_eq!(note_texts(&found), ["one"]);
    assert_eq!(codes(&diagnostics), [DiagnosticCode::LoosePermissions; 2]);
    assert_eq!(mode(&home.log(&thread)), 0o644);
    // A writer tightens what it uses: the thread's folder, its log, its lock.
    let mut writer = store.open_writer(&thread).await.unwrap();
    let appended = append(&mut *writer, &["two"]).await;
    assert_eq!(
        codes(&appended.diagnostics),
        [DiagnosticCode::LoosePermissions; 3]
    );
    assert!(
        !appended
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.lost)
    );
    drop(writer);
    assert_tight(&home.folder(&thread));
    // Opening the store and listing see to the rest.
    let store = home.store();
    let (_, diagnostics) = list(&store).await;
    assert_eq!(
        codes(&diagnostics),
        [DiagnosticCode::LoosePermissions; 2],
        "{diagnostics:?}"
    );
    assert_eq!((mode(&home.threads()), mode(&home.index())), (0o700, 0o600));
    assert_eq!(codes(&list(&store).await.1), []);
    // A home that was there before keeps its mode.
    set_mode(&home.path(), 0o755);
    home.store();
    assert_eq!(mode(&home.path()), 0o755);
}

#[tokio::test]
async fn symbolic_links_are_not_followed() {
    let outside = Home::new();
    let victim = thread(&outside.store(), "t", &["secret"]).await;
    let outside_before = outside.snapshot();

    // In the place of: a thread's folder, its log, its lock.
    for part in ["", "log.jsonl", "lock"] {
        let home = Home::new();
        let store = home.store();
        let thread = thread(&store, "t", &["one"]).await;
        let path = home.folder(&thread).join(part);
        let path = if part.is_empty() {
            home.folder(&thread)
        } else {
            path
        };
        fs::rename(&path, home.path().join("aside")).unwrap();
        let target = outside.folder(&victim);
        let target = if part.is_empty() {
            target
        } else {
            target.join(part)
        };
        symlink(&target, &path).unwrap();

        let error = store.open_writer(&thread).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Denied, "{part}: {error}");
        assert!(error.to_string().contains("link"), "{part}: {error}");
        if part != "lock" {
            let error = store
                .read(&thread, haft_api::ReadRange::ALL)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{part}: {error}");
            let (threads, diagnostics) = list(&home.store()).await;
            assert!(threads.is_empty(), "{part}");
            assert_eq!(diagnostics.len(), 1, "{part}: {diagnostics:?}");
        }
        if part == "log.jsonl" {
            // Deleting removes the link, not what it leads to.
            store.delete(&thread).await.unwrap();
        }
        assert!(outside.snapshot() == outside_before, "{part}");
    }

    // In the place of all threads.
    let home = Home::new();
    fs::create_dir(home.path()).unwrap();
    symlink(outside.threads(), home.threads()).unwrap();
    let opened = haft_ext_store_jsonl::JsonlStore::open(home.path(), Default::default());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Denied);
    assert!(outside.snapshot() == outside_before);
}

#[tokio::test]
async fn something_else_in_a_files_place_is_an_error() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "t", &["one"]).await;
    for make in [
        (|path: &Path| fs::create_dir(path).unwrap()) as fn(&Path),
        // Opening a pipe would wait for its other end.
        |path| {
            let made = std::process::Command::new("mkfifo")
                .arg(path)
                .status()
                .unwrap();
            assert!(made.success());
        },
    ] {
        let log = home.log(&thread);
        fs::remove_file(&log).unwrap();
        make(&log);
        store
            .read(&thread, haft_api::ReadRange::ALL)
            .await
            .unwrap_err();
        store.open_writer(&thread).await.err().unwrap();
        assert_eq!(list(&store).await.1.len(), 1);
        if log.is_dir() {
            fs::remove_dir(&log).unwrap();
            fs::write(&log, "").unwrap();
        }
    }
}

#[tokio::test]
async fn hostile_ids_never_reach_the_disk() {
    let home = Home::new();
    let store = home.store();
    let before = home.snapshot();
    let long = "x".repeat(300);
    for hostile in [
        "../../../../outside/pwned",
        "/etc/x",
        "a/b",
        "..",
        ".",
        "CON",
        "nul",
        &long,
        "a\0b",
        "",
    ] {
        // The only two ways to an id: by hand, or out of JSON.
        assert_eq!(
            ThreadId::new(hostile).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let mut new = serde_json::to_value(NewThread::new(id("ok"))).unwrap();
        new["id"] = hostile.into();
        assert!(
            serde_json::from_value::<NewThread>(new).is_err(),
            "{hostile:?}"
        );
        // And a cursor is read as one.
        let request = haft_api::ListThreads::default().after(format!("5.{hostile}"));
        let error = store.list(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{hostile:?}");
    }
    assert!(home.snapshot() == before);
}

#[tokio::test]
async fn a_home_that_cannot_be_made_is_named() {
    let home = Home::new();
    fs::write(home.path(), "a file").unwrap();
    let inside = home.path().join("deep/er");
    let error = haft_ext_store_jsonl::JsonlStore::open(&inside, Default::default()).unwrap_err();
    assert_eq!(
        error.context_value("path"),
        Some(inside.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}
