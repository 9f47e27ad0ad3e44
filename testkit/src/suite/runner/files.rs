//! Files: read, named, removed.

use haft_api::{ErrorKind, FileKind, ListOptions, ReadOptions, WriteMode};

use super::subject::Subject;
use crate::suite::Checked;
use crate::suite::expect::{ensure, fails, ok, same};

pub(in crate::suite) async fn a_written_file_is_read_back(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let every: Vec<u8> = (0..=255).collect();
    let large = every.repeat(8 * 1024 * 4);
    for (name, bytes) in [("empty", vec![]), ("every", every), ("large", large)] {
        let written = session
            .write_file(name, bytes.clone(), Default::default())
            .await;
        let written = ok("writing a file", written)?;
        same(
            "the size that was written",
            &(bytes.len() as u64),
            &written.size,
        )?;
        let read = session.read_file(name, ReadOptions::default()).await;
        let read = ok("reading a file", read)?;
        ensure!(
            read.bytes == bytes,
            "expected the {} bytes of {name}, got {} others",
            bytes.len(),
            read.bytes.len()
        );
        let metadata = ok("its metadata", session.0.metadata(name).await)?;
        for (of, metadata) in [
            ("write", written),
            ("read", read.metadata),
            ("file", metadata),
        ] {
            same(&format!("kind by {of}"), &FileKind::File, &metadata.kind)?;
            same(
                &format!("size by {of}"),
                &(bytes.len() as u64),
                &metadata.size,
            )?;
        }
    }
    Ok(())
}

pub(in crate::suite) async fn ranges_are_read(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("file", "0123456789").await?;
    for (offset, limit, expected) in [
        (0, 0, ""),
        (0, 3, "012"),
        (4, 3, "456"),
        (8, 100, "89"),
        (10, 5, ""),
        (1000, 5, ""),
        (0, u64::MAX, "0123456789"),
        (5, u64::MAX, "56789"),
        (u64::MAX, u64::MAX, ""),
    ] {
        let what = format!("{limit} bytes from {offset}");
        let read = session
            .read_file("file", ReadOptions::range(offset, limit))
            .await;
        let read = ok(&what, read)?;
        same(&what, expected.as_bytes(), &*read.bytes)?;
        same("the size of the whole file", &10, &read.metadata.size)?;
    }
    let mut rest = ReadOptions::default();
    rest.offset = 7;
    let read = ok("the rest", session.read_file("file", rest).await)?;
    same("the rest from 7", &b"789"[..], &*read.bytes)
}

pub(in crate::suite) async fn what_is_missing_is_not_found(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("file", "x").await?;
    let missing = ErrorKind::NotFound;
    for path in ["missing", "missing/file", "./missing"] {
        let read = session.read_file(path, ReadOptions::default()).await;
        fails(&format!("reading {path:?}"), missing, read)?;
        let metadata = session.0.metadata(path).await;
        fails(&format!("the metadata of {path:?}"), missing, metadata)?;
        let listing = session.list(path, ListOptions::default()).await;
        fails(&format!("listing {path:?}"), missing, listing)?;
        fails(
            &format!("removing {path:?}"),
            missing,
            session.remove(path).await,
        )?;
    }
    same(
        "the workspace",
        &vec!["file".to_owned()],
        &session.names(".").await?,
    )
}

pub(in crate::suite) async fn a_folder_is_no_file(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("folder/file", "x").await?;
    for path in ["folder", "."] {
        let read = session.read_file(path, ReadOptions::default()).await;
        fails(&format!("reading {path:?}"), ErrorKind::InvalidInput, read)?;
        let written = session.put_if(path, "y", WriteMode::Any).await;
        ensure!(
            written.is_err(),
            "expected writing the folder {path:?} to fail, got success"
        );
        let metadata = ok("a folder's metadata", session.0.metadata(path).await)?;
        same("a folder's kind", &FileKind::Dir, &metadata.kind)?;
    }
    // A file is no folder either.
    let below = session.put_if("folder/file/x", "y", WriteMode::Any).await;
    ensure!(
        below.is_err(),
        "expected a write below a file to fail, got success"
    );
    same(
        "the file in the folder",
        "x",
        &session.text("folder/file").await?,
    )
}

pub(in crate::suite) async fn any_name_is_a_name(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let names = [
        "with space",
        "-rf",
        "--help",
        ".hidden",
        "..dots",
        "...",
        "quote's \"",
        "$HOME",
        "a;b&c|d",
        "back\\slash",
        "*?[x]",
        "ä",
        "中文",
        "😀",
        "a.b.c",
        "~",
        "%20",
        "#",
    ];
    for name in names {
        session.put(name, name).await?;
    }
    for name in names {
        same(
            &format!("the file {name:?}"),
            name,
            &session.text(name).await?,
        )?;
    }
    let mut expected: Vec<_> = names.map(str::to_owned).into();
    expected.sort();
    same(
        "the names in the folder",
        &expected,
        &session.names(".").await?,
    )
}

pub(in crate::suite) async fn paths_start_from_the_workspace(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let workspace = session.workspace().trim_end_matches('/').to_owned();
    session.put("folder/file", "1").await?;
    for path in [
        "folder/file",
        "./folder/file",
        "folder/./file",
        "folder//file",
        "folder/../folder/file",
        &format!("{workspace}/folder/file"),
        &format!("{workspace}/./folder/../folder/file"),
    ] {
        same(
            &format!("the file at {path:?}"),
            "1",
            &session.text(path).await?,
        )?;
    }
    session.put(&format!("{workspace}/absolute"), "2").await?;
    same("the file", "2", &session.text("absolute").await?)?;
    let expected: Vec<_> = ["absolute", "folder"].map(str::to_owned).into();
    same(
        "the workspace by its path",
        &expected,
        &session.names(&workspace).await?,
    )
}

pub(in crate::suite) async fn removing_removes_one_thing(subject: Subject) -> Checked {
    let session = subject.session().await?;
    session.put("folder/a", "1").await?;
    session.put("folder/b", "2").await?;
    let full = session.remove("folder").await;
    ensure!(
        full.is_err(),
        "expected removing a folder that isn't empty to fail, got success"
    );
    let both: Vec<_> = ["a", "b"].map(str::to_owned).into();
    same("the folder", &both, &session.names("folder").await?)?;
    for path in ["folder/a", "folder/b", "folder"] {
        ok(&format!("removing {path}"), session.remove(path).await)?;
        ensure!(
            !session.exists(path).await,
            "expected {path} to be gone, but it is there"
        );
    }
    same("the workspace", &vec![], &session.names(".").await?)
}

pub(in crate::suite) async fn folders_are_made_with_those_above(subject: Subject) -> Checked {
    let session = subject.session().await?;
    ok("making a folder", session.make_dir("a/b/c").await)?;
    session.put("a/b/c/file", "x").await?;
    for path in ["a/b/c", "a", "."] {
        ok(
            "making a folder that is there",
            session.make_dir(path).await,
        )?;
    }
    same("the file in it", "x", &session.text("a/b/c/file").await?)?;
    let over = session.make_dir("a/b/c/file").await;
    fails(
        "making a folder over a file",
        ErrorKind::AlreadyExists,
        over,
    )?;
    let below = session.make_dir("a/b/c/file/d").await;
    ensure!(
        below.is_err(),
        "expected making a folder below a file to fail, got success"
    );
    same("the file in it", "x", &session.text("a/b/c/file").await?)
}
