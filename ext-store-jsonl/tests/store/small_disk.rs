//! A disk of 8 MiB that is full, and has space again.

use std::fs;
use std::path::{Path, PathBuf};

use haft_api::{Durability, ErrorKind, NewThread, ThreadStore};
use haft_ext_store_jsonl::{JsonlConfig, JsonlStore};

use crate::child::{Process, command_in, say};
use crate::mounted::{image, mounted, unavailable};
use crate::support::*;

const DISK_BYTES: u64 = 8 << 20;
/// What the user deletes to make space.
const BALLAST_BYTES: usize = 512 * 1024;

#[test]
fn a_full_disk_of_8_mib_costs_the_group_and_nothing_else() {
    if let Some(reason) = unavailable() {
        return say(&format!("skipped: {reason}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, disk) = (folder.path().join("image"), folder.path().join("disk"));
    fs::create_dir(&disk).unwrap();
    image(&path, DISK_BYTES).unwrap();
    let child = command_in(&disk, "small-disk");
    Process::start(mounted(&child, &path, &disk)).succeed();
    // The next process, after the disk was mounted anew.
    let child = command_in(&disk, "small-disk-again");
    Process::start(mounted(&child, &path, &disk)).succeed();
}

/// Fills the disk over and over, by groups of all sizes, and goes on each time
/// that there is space again.
pub(crate) async fn fill(disk: &str) {
    let disk = Path::new(disk);
    let ballast: Vec<PathBuf> = (0..6).map(|n| disk.join(format!("ballast-{n}"))).collect();
    for path in &ballast {
        fs::write(path, vec![b'x'; BALLAST_BYTES]).unwrap();
    }
    let store = JsonlStore::open(disk.join("home"), JsonlConfig::default()).unwrap();
    let mut writer = store.create(NewThread::new(id("t"))).await.unwrap();
    let mut expected = Vec::new();
    for (round, ballast) in ballast.iter().enumerate() {
        // Lines alone, and payloads beside them.
        let size = [700, 3_000, 40_000][round % 3];
        let error = loop {
            let text = format!("{} {}", expected.len(), "x".repeat(size + expected.len()));
            let durability = match expected.len() % 4 {
                0 => Durability::Barrier,
                _ => Durability::Buffered,
            };
            match writer.append(notes(&[&text, "second"]), durability).await {
                Ok(_) => expected.extend([text, "second".to_owned()]),
                Err(error) => break error,
            }
            assert!(expected.len() < 100_000, "8 MiB hold no more");
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_temporary(), "{error}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        // Tried again while it is full, and with others' requests in between.
        for _ in 0..3 {
            let large = "y".repeat(60_000);
            if writer
                .append(notes(&[&large]), Durability::Barrier)
                .await
                .is_ok()
            {
                expected.push(large);
            }
            listed(&store).await;
        }
        let (records, diagnostics) = read(&store, &id("t")).await;
        assert_eq!(diagnostics, []);
        assert!(note_texts(&records) == expected, "round {round}");
        // Another thread finds no room either, or finds it; no harm is done.
        let other = id(&format!("other-{round}"));
        drop(store.create(NewThread::new(other)).await);

        fs::remove_file(ballast).unwrap();
        append(&mut *writer, &["space again"]).await;
        expected.push("space again".to_owned());
    }
    writer.close().await.unwrap();
    fs::write(disk.join("expected"), expected.len().to_string()).unwrap();
}

/// Reads what the process before has left.
pub(crate) async fn again(disk: &str) {
    let disk = Path::new(disk);
    let expected: usize = fs::read_to_string(disk.join("expected"))
        .unwrap()
        .parse()
        .unwrap();
    let store = JsonlStore::open(disk.join("home"), JsonlConfig::default()).unwrap();
    let (records, diagnostics) = read(&store, &id("t")).await;
    assert_eq!(
        (note_texts(&records).len(), diagnostics),
        (expected, vec![])
    );
    assert!(records.iter().map(|r| r.seq).eq(0..records.len() as u64));
    for thread in listed(&store).await {
        assert_eq!(store.check(&id(&thread)).await.unwrap(), [], "{thread}");
    }
}
