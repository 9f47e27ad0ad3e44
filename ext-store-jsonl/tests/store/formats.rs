//! Logs of every format version that was ever written, kept as files.

use std::fs;
use std::path::{Path, PathBuf};

use haft_api::{MetadataPatch, NewThread, ThreadStore};
use serde_json::Value;

use crate::support::*;

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
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

#[tokio::test]
async fn logs_of_every_version_are_read_and_written() {
    for (version, records, texts) in [("1.0", 16, 0), ("1.1", 20, 1)] {
        let home = Home::new();
        copy(&formats().join(version), &home.path());
        let name = format!("format-{}", version.replace('.', "-"));
        let (thread, fork) = (id(&name), id(&format!("{name}-fork")));

        let store = home.store();
        let (found, diagnostics) = read(&store, &thread).await;
        assert_eq!(found.len(), records, "{version}");
        let amiss: Vec<_> = diagnostics.iter().filter(|d| d.lost).collect();
        assert!(amiss.is_empty(), "{version}: {amiss:?}");
        // What nobody knows is kept as it is.
        assert_eq!(found[14].data.get(), r#"{"whatever":[1.0, "kept"]}"#);
        let long = found.iter().filter(|r| r.data.get().len() > 32 * 1024);
        assert_eq!(long.count(), texts, "{version}");
        let metadata = store.metadata(&thread).await.unwrap();
        let title = format!("Written as {version}");
        assert_eq!(metadata.title.as_deref(), Some(&*title));
        assert_eq!(metadata.extra["x.kept"].get(), "[1.50]");
        let parent = store.metadata(&fork).await.unwrap().parent.unwrap();
        assert_eq!((parent.thread, parent.seq), (thread.clone(), 11));
        let mut names = listed(&store).await;
        names.sort();
        assert_eq!(names, [thread.as_str(), fork.as_str()]);

        for thread in [&thread, &fork] {
            let (before, _) = read(&store, thread).await;
            let mut writer = store.open_writer(thread).await.unwrap();
            append(&mut *writer, &["now", &"large ".repeat(10_000)]).await;
            let patch = MetadataPatch::default().title("Goes on");
            writer.patch_metadata(patch).await.unwrap();
            writer.close().await.unwrap();
            let (now, diagnostics) = read(&home.store(), thread).await;
            assert_same(&now[..before.len()], &before);
            assert_eq!(note_texts(&now).len(), 2, "{version}");
            assert_eq!(diagnostics, [], "{version}");
        }
    }
}

#[tokio::test]
async fn the_version_that_is_written_now_is_among_them() {
    let home = Home::new();
    let writer = home.store().create(NewThread::new(id("t"))).await.unwrap();
    drop(writer);
    let (records, _) = read(&home.store(), &id("t")).await;
    let header: Value = records[0].parse().unwrap();
    let version = format!("{}.{}", header["major"], header["minor"]);
    // Who changes the format keeps a thread of the one before, and one of the new.
    assert!(
        formats().join(&version).is_dir(),
        "no thread of the format {version}"
    );
}
