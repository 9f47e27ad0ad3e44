use std::fs;
use std::path::Path;

use haft_api::{ListThreads, MetadataPatch, NewThread, ThreadStore as _};

use super::*;
use crate::disk::SystemFiles;
use crate::{DurabilityPolicy, JsonlConfig, JsonlStore};

/// So many that the first chunk of entries isn't all of them.
const THREADS: usize = 500;
const PAGE: usize = 20;

fn store(home: &Path) -> JsonlStore {
    let config = JsonlConfig::default().durability(DurabilityPolicy::Os);
    JsonlStore::open(home, config).unwrap()
}

async fn create(store: &JsonlStore, name: &str) -> ThreadId {
    let id = ThreadId::new(name).unwrap();
    let mut new = NewThread::new(id.clone());
    new.metadata = MetadataPatch::default().title(format!("the thread {name}"));
    store.create(new).await.unwrap().close().await.unwrap();
    id
}

fn index(home: &Path) -> Index {
    let (layout, diagnostics) = Layout::open(home, Arc::new(SystemFiles)).unwrap();
    Index::new(Arc::new(layout), diagnostics)
}

fn page(index: &Index) -> ThreadPage {
    index.list(&ListThreads::default().limit(PAGE)).unwrap()
}

/// All threads as JSON, page by page.
fn all(index: &Index) -> Vec<String> {
    let (mut shown, mut request) = (Vec::new(), ListThreads::default().limit(PAGE));
    loop {
        let page = index.list(&request).unwrap();
        assert_eq!(page.diagnostics, []);
        let json = |thread: &ThreadMetadata| serde_json::to_string(thread).unwrap();
        shown.extend(page.threads.iter().map(json));
        match page.next {
            Some(next) => request = request.after(next),
            None => return shown,
        }
    }
}

/// Compares lists; if they differ, says only where.
#[track_caller]
fn same(listed: &[String], truth: &[String], case: &str) {
    let differs = listed.iter().zip(truth).find(|(one, other)| one != other);
    assert_eq!(differs, None, "{case}");
    assert_eq!(listed.len(), truth.len(), "{case}");
}

/// A home with many threads, whose folders have been let alone for so long that
/// the index may speak of them.
async fn settled_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    for number in 0..THREADS {
        create(&store, &format!("t{number:03}")).await;
    }
    page(&index(home.path()));
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    // A line that isn't one makes the next listing write the index anew, now
    // that the folders are settled.
    let file = home.path().join("threads/index.jsonl");
    let mut text = fs::read(&file).unwrap();
    text.extend_from_slice(b"rubbish\n");
    fs::write(&file, text).unwrap();
    page(&index(home.path()));
    home
}

/// What a listing had to read: whether it left entries unread, and in how many
/// folders it looked.
fn effort(index: &Index) -> (bool, usize) {
    let listing = index.listing.lock().unwrap();
    let read: std::collections::HashSet<_> = listing.folders.threads().map(bucket).collect();
    (listing.file.has_rest(), read.len())
}

#[tokio::test]
async fn the_first_page_needs_the_beginning_of_the_index_and_no_folder() {
    let home = settled_home().await;
    let cold = index(home.path());
    let first = page(&cold);
    assert_eq!(effort(&cold), (true, 0));
    assert_eq!(first.threads.len(), PAGE);

    // A new thread makes a look at its folder necessary, and no other, once.
    let store = store(home.path());
    let new = create(&store, "new").await;
    for (folders, wait) in [(1, 2_200), (1, 0), (0, 0)] {
        let cold = index(home.path());
        assert_eq!(page(&cold).threads[0].id, new);
        assert_eq!(effort(&cold), (true, folders));
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }

    let listed = all(&index(home.path()));
    fs::remove_file(home.path().join("threads/index.jsonl")).unwrap();
    let truth = all(&index(home.path()));
    assert_eq!(truth.len(), THREADS + 1);
    same(&listed, &truth, "with and without the index");
}

#[tokio::test]
async fn the_list_is_whole_whatever_became_of_an_index_with_a_beginning() {
    let home = settled_home().await;
    let file = home.path().join("threads/index.jsonl");
    let good = fs::read(&file).unwrap();
    let (head, head_len) = snapshot::Head::decode(&good).unwrap();
    let folders_end = (head_len + head.folders) as usize;
    let end = folders_end + head.entries as usize;
    assert!(head.folders > 0, "{head:?}");
    assert!(head.entries > 64 * 1024 && end <= good.len(), "{head:?}");
    let truth = all(&index(home.path()));
    let check = |case: &str, spoilt: &[u8]| {
        // Both the first listing and those after it, whatever the first one did.
        fs::write(&file, spoilt).unwrap();
        for store in [index(home.path()), index(home.path())] {
            for _ in 0..2 {
                same(&all(&store), &truth, case);
            }
        }
    };
    let places = [
        5,
        head_len as usize + 40,
        folders_end - 300,
        folders_end + 60,
    ];
    let places = places.into_iter().chain([end - 5_000, end - 60]);
    let line = |from: usize| {
        let begin = from + memchr::memchr(b'\n', &good[from..]).unwrap() + 1;
        begin..begin + 2 + memchr::memchr(b'\n', &good[begin + 1..]).unwrap()
    };
    for from in [0, folders_end + 5_000, end - 5_000] {
        let mut without = good.clone();
        without.drain(line(from));
        check(&format!("without a line after {from}"), &without);
    }
    for at in places {
        let mut flipped = good.clone();
        flipped[at] ^= 4;
        check(&format!("flipped at {at}"), &flipped);
        check(&format!("cut at {at}"), &good[..at]);
        let mut gap = good.clone();
        gap.drain(at..(at + 500).min(good.len()));
        check(&format!("a gap at {at}"), &gap);
    }
}

#[tokio::test]
async fn an_old_index_with_a_beginning_hides_nothing_that_happened_since() {
    let home = settled_home().await;
    let file = home.path().join("threads/index.jsonl");
    let old = fs::read(&file).unwrap();
    let store = store(home.path());
    // The oldest ones, whose entries are the last to be read.
    let gone = ThreadId::new("t001").unwrap();
    store.delete(&gone).await.unwrap();
    let changed = ThreadId::new("t002").unwrap();
    let mut writer = store.open_writer(&changed).await.unwrap();
    let title = MetadataPatch::default().title("changed");
    writer.patch_metadata(title).await.unwrap();
    writer.close().await.unwrap();
    let new = create(&store, "new").await;
    fs::remove_file(&file).unwrap();
    let truth = all(&index(home.path()));
    assert_eq!(truth.len(), THREADS);
    assert!(truth.iter().any(|thread| thread.contains(new.as_str())));
    for _ in 0..2 {
        fs::write(&file, &old).unwrap();
        // Nobody told this index of the change: a thread that is shown is right,
        // but it may be shown later than it should.
        let request = ListThreads::default().limit(2 * THREADS);
        let listed = index(home.path()).list(&request).unwrap().threads;
        let json = |thread: &ThreadMetadata| serde_json::to_string(thread).unwrap();
        let mut listed: Vec<_> = listed.iter().map(json).collect();
        let mut truth = truth.clone();
        listed.sort();
        truth.sort();
        same(&listed, &truth, "an old index");
    }
}
