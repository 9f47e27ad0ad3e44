//! What the tests share.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haft_api::{
    Appended, Diagnostic, DiagnosticCode, Durability, ForkPoint, ListThreads, NewRecord, NewThread,
    ReadRange, Record, Result, ThreadId, ThreadMetadata, ThreadStore, ThreadWriter,
};
use haft_ext_store_jsonl::{JsonlConfig, JsonlStore};

/// A home folder that is removed at the end.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The store as a process that just started sees it.
    pub(crate) fn store(&self) -> JsonlStore {
        JsonlStore::open(self.path(), JsonlConfig::default()).unwrap()
    }

    pub(crate) fn threads(&self) -> PathBuf {
        self.path().join("threads")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.threads().join("index.jsonl")
    }

    /// A thread's folder.
    pub(crate) fn folder(&self, id: &ThreadId) -> PathBuf {
        let buckets = fs::read_dir(self.threads()).unwrap();
        let mut folders = buckets.map(|bucket| bucket.unwrap().path().join(id.as_str()));
        folders
            .find(|folder| folder.symlink_metadata().is_ok())
            .unwrap()
    }

    pub(crate) fn log(&self, id: &ThreadId) -> PathBuf {
        self.folder(id).join("log.jsonl")
    }

    /// Puts a log in a thread's place that nobody wrote to lately.
    pub(crate) fn put_log(&self, id: &ThreadId, bytes: &[u8]) {
        let path = self.log(id);
        fs::write(&path, bytes).unwrap();
        let log = fs::File::options().write(true).open(path).unwrap();
        log.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
    }

    /// Every file below the home and its bytes.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        walk(&self.path(), &mut |path| {
            if path.is_file() {
                files.insert(path.to_owned(), fs::read(path).unwrap());
            }
        });
        files
    }
}

/// Shows every file and folder below a folder, and itself.
pub(crate) fn walk(path: &Path, show: &mut dyn FnMut(&Path)) {
    show(path);
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), show);
        }
    }
}

pub(crate) fn id(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

pub(crate) fn note(text: &str) -> NewRecord {
    NewRecord::new("note", &text).unwrap()
}

pub(crate) fn notes(texts: &[&str]) -> Vec<NewRecord> {
    texts.iter().map(|text| note(text)).collect()
}

pub(crate) async fn append(writer: &mut dyn ThreadWriter, texts: &[&str]) -> Appended {
    writer
        .append(notes(texts), Durability::Barrier)
        .await
        .unwrap()
}

/// Makes a thread with these notes, one append each.
pub(crate) async fn thread(store: &JsonlStore, name: &str, texts: &[&str]) -> ThreadId {
    let mut writer = store.create(NewThread::new(id(name))).await.unwrap();
    for text in texts {
        append(&mut *writer, &[text]).await;
    }
    writer.close().await.unwrap();
    id(name)
}

pub(crate) async fn fork(
    store: &JsonlStore,
    name: &str,
    parent: &ThreadId,
    seq: u64,
) -> Result<Box<dyn ThreadWriter>> {
    let mut new = NewThread::new(id(name));
    new.parent = Some(ForkPoint {
        thread: parent.clone(),
        seq,
    });
    store.create(new).await
}

/// All of a thread, by pages of this size.
pub(crate) async fn read_by(
    store: &JsonlStore,
    id: &ThreadId,
    limit: Option<usize>,
) -> (Vec<Record>, Vec<Diagnostic>) {
    let (mut records, mut diagnostics) = (Vec::new(), Vec::new());
    let mut seq = 0;
    loop {
        let page = store
            .read(id, ReadRange::Forward { seq, limit })
            .await
            .unwrap();
        records.extend(page.records);
        diagnostics.extend(page.diagnostics);
        match page.next {
            Some(next) => seq = next,
            None => return (records, diagnostics),
        }
    }
}

pub(crate) async fn read(store: &JsonlStore, id: &ThreadId) -> (Vec<Record>, Vec<Diagnostic>) {
    read_by(store, id, None).await
}

/// All of a thread from its end, by pages of this size.
pub(crate) async fn read_back(store: &JsonlStore, id: &ThreadId, limit: usize) -> Vec<Record> {
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = store
            .read(id, ReadRange::Backward { before, limit })
            .await
            .unwrap();
        assert!(page.records.len() <= limit);
        pages.push(page.records);
        match page.next {
            Some(next) => before = Some(next),
            None => return pages.into_iter().rev().flatten().collect(),
        }
    }
}

/// Whether two records are the same one.
pub(crate) fn same(a: &Record, b: &Record) -> bool {
    (a.seq, a.time_ms, &a.kind, a.data.get()) == (b.seq, b.time_ms, &b.kind, b.data.get())
}

#[track_caller]
pub(crate) fn assert_same(found: &[Record], expected: &[Record]) {
    let equal = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| same(found, expected));
    assert!(equal, "found {found:#?}\nexpected {expected:#?}");
}

/// Number and short content of records.
pub(crate) fn show(records: &[Record]) -> Vec<(u64, String)> {
    let text = |record: &Record| match record.kind.as_str() {
        "note" => record.parse::<String>().unwrap(),
        kind => format!("<{kind}>"),
    };
    records
        .iter()
        .map(|record| (record.seq, text(record)))
        .collect()
}

/// The texts of the notes alone.
pub(crate) fn note_texts(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .filter(|record| record.kind == "note")
        .map(|record| record.parse().unwrap())
        .collect()
}

pub(crate) fn codes(diagnostics: &[Diagnostic]) -> Vec<DiagnosticCode> {
    diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect()
}

/// All threads and what is said of the rest.
pub(crate) async fn list(store: &JsonlStore) -> (Vec<ThreadMetadata>, Vec<Diagnostic>) {
    let (mut threads, mut diagnostics) = (Vec::new(), Vec::new());
    let mut request = ListThreads::default();
    loop {
        let page = store.list(request.clone()).await.unwrap();
        threads.extend(page.threads);
        diagnostics.extend(page.diagnostics);
        match page.next {
            Some(next) => request = request.after(next),
            None => return (threads, diagnostics),
        }
    }
}

pub(crate) async fn listed(store: &JsonlStore) -> Vec<String> {
    list(store)
        .await
        .0
        .iter()
        .map(|thread| thread.id.to_string())
        .collect()
}

/// The lines of a log.
pub(crate) fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|byte| *byte == b'\n').collect()
}

/// A record's line, made anew.
pub(crate) fn line(seq: u64, kind: &str, data: &str) -> String {
    let body = format!("{{\"s\":{seq},\"t\":1,\"k\":\"{kind}\",\"d\":{data}");
    format!("{body},\"c\":\"{:08x}\"}}\n", crc32c(body.as_bytes()))
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}
