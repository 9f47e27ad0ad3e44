//! Folders, listed.

use haft_api::{DirEntry, FileKind, ListOptions};

use super::subject::{Session, Subject};
use crate::suite::expect::{ensure, ok, same};
use crate::suite::{Checked, Unmet};

/// Every entry of a folder, by pages of this size.
pub(super) async fn entries(
    session: &Session,
    path: &str,
    limit: Option<usize>,
) -> Result<Vec<DirEntry>, Unmet> {
    let mut entries: Vec<DirEntry> = Vec::new();
    let mut options = ListOptions::default();
    options.limit = limit;
    loop {
        let what = format!("listing {path:?}");
        let page = ok(&what, session.list(path, options.clone()).await)?;
        if let Some(limit) = limit {
            let count = page.entries.len();
            ensure!(
                count <= limit,
                "expected at most {limit} entries in a page, got {count}"
            );
        }
        let empty = page.entries.is_empty();
        entries.extend(page.entries);
        if page.next.is_none() {
            return Ok(entries);
        }
        ensure!(
            !empty && page.next != options.after,
            "expected each page to go on, got an empty page or the same place {:?}",
            page.next
        );
        options.after = page.next;
    }
}

pub(in crate::suite) async fn a_folder_is_listed_by_name(subject: Subject) -> Checked {
    let session = subject.session().await?;
    same(
        "an empty workspace",
        &vec![],
        &entries(&session, ".", None).await?,
    )?;
    for (path, text) in [
        ("b.txt", "22"),
        ("a.txt", "1"),
        ("B.txt", "333"),
        ("folder/inner.txt", "4444"),
        ("folder-2", "55555"),
        ("ä", ""),
    ] {
        session.put(path, text).await?;
    }
    ok("making a folder", session.make_dir("empty").await)?;
    let all = entries(&session, ".", None).await?;
    let got: Vec<_> = all.iter().map(|entry| (&*entry.name, entry.kind)).collect();
    let (file, dir) = (FileKind::File, FileKind::Dir);
    let expected = vec![
        ("B.txt", file),
        ("a.txt", file),
        ("b.txt", file),
        ("empty", dir),
        ("folder", dir),
        ("folder-2", file),
        ("ä", file),
    ];
    same("the workspace", &expected, &got)?;
    for entry in all.iter().filter(|entry| entry.kind == FileKind::File) {
        let size = session.bytes(&entry.name).await?.len() as u64;
        same(&format!("the size of {}", entry.name), &size, &entry.size)?;
    }
    let inner = vec!["inner.txt".to_owned()];
    same("the folder", &inner, &session.names("folder").await?)?;
    same("the empty folder", &vec![], &session.names("empty").await?)
}

pub(in crate::suite) async fn listing_pages_are_complete(subject: Subject) -> Checked {
    let session = subject.session().await?;
    let mut expected = Vec::new();
    for number in 0..23 {
        let name = format!("file-{number:02}");
        session.put(&format!("folder/{name}"), "x").await?;
        expected.push(name);
    }
    for limit in [1, 7, 23, 1000] {
        let entries = entries(&session, "folder", Some(limit)).await?;
        let names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        same(&format!("the names by pages of {limit}"), &expected, &names)?;
    }
    let mut options = ListOptions::default();
    options.after = Some("file-20".to_owned());
    let page = ok(
        "listing after a name",
        session.list("folder", options).await,
    )?;
    let names: Vec<_> = page.entries.into_iter().map(|entry| entry.name).collect();
    same("the names after file-20", &expected[21..], &names[..])
}
