//! Large payloads stand beside the log, once, and come back byte for byte.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use haft_api::{
    DiagnosticCode, Durability, ErrorKind, NewRecord, ReadRange, Record, ThreadId, ThreadStore,
    raw_json,
};

use crate::support::{Home, append, fork, id, thread};

/// A text of so many KiB.
fn big(letter: &str, kib: usize) -> String {
    letter.repeat(kib * 1024)
}

fn record(data: String) -> NewRecord {
    NewRecord::new("note", &raw_json(data).unwrap()).unwrap()
}

/// The payloads' files.
fn blobs(home: &Home, thread: &ThreadId) -> Vec<PathBuf> {
    let folder = home.folder(thread).join("blobs");
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

async fn notes(home: &Home, thread: &ThreadId) -> Vec<Record> {
    let mut page = home.store().read(thread, ReadRange::ALL).await.unwrap();
    assert_eq!(page.diagnostics, []);
    page.records.retain(|record| record.kind == "note");
    page.records
}

#[tokio::test]
async fn a_payload_is_kept_once_and_comes_back_byte_for_byte() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "a", &[]).await;
    let (a, b) = (big("a", 40), big("é\\n", 50));
    let datas = [
        format!(r#"{{"x": "{a}", "small":"b", "more":[1.50, "{b}" ,"{a}"]}}"#),
        format!(r#""{a}""#),
        r#"{"it":"blob:sha256-0000000000000000000000000000000000000000000000000000000000000000"}"#
            .to_owned(),
    ];
    let mut writer = store.open_writer(&thread).await.unwrap();
    for data in &datas {
        let group = vec![record(data.clone())];
        writer.append(group, Durability::Barrier).await.unwrap();
    }
    drop(writer);
    let found = notes(&home, &thread).await;
    let found: Vec<_> = found.iter().map(|record| record.data.get()).collect();
    assert_eq!(found, datas);
    let files = blobs(&home, &thread);
    assert_eq!(files.len(), 2, "{files:?}");
    for file in &files {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let folder = files[0].parent().unwrap();
    assert_eq!(
        fs::metadata(folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let log = fs::metadata(home.log(&thread)).unwrap().len();
    assert!(log < 4 * 1024, "{log}");
    assert_eq!(store.check(&thread).await.unwrap(), []);
}

#[tokio::test]
async fn what_is_short_stands_in_the_line() {
    let home = Home::new();
    let store = home.store();
    let check = async |name: &str, text: String, files: usize| {
        let thread = thread(&store, name, &[&text]).await;
        assert_eq!(blobs(&home, &thread).len(), files, "{name}");
        let found = notes(&home, &thread).await;
        assert_eq!(found[0].parse::<String>().unwrap(), text);
    };
    check("short", "x".repeat(32 * 1024 - 3), 0).await;
    check("long", "x".repeat(32 * 1024 - 2), 1).await;
}

#[tokio::test]
async fn a_fork_reads_its_parents_and_has_its_own() {
    let home = Home::new();
    let store = home.store();
    let parent = thread(&store, "parent", &[&big("p", 64)]).await;
    let mut writer = fork(&store, "child", &parent, 1).await.unwrap();
    let child = id("child");
    append(&mut *writer, &[&big("c", 64)]).await;
    drop(writer);
    let found = notes(&home, &child).await;
    let texts: Vec<String> = found.iter().map(|record| record.parse().unwrap()).collect();
    assert_eq!(texts, [big("p", 64), big("c", 64)]);
    assert_eq!(
        (blobs(&home, &parent).len(), blobs(&home, &child).len()),
        (1, 1)
    );
}

#[tokio::test]
async fn to_list_and_to_resume_takes_no_payload() {
    let home = Home::new();
    let store = home.store();
    let screenshot = |number: usize| big(&char::from(b'a' + number as u8).to_string(), 200);
    let a = thread(&store, "a", &[]).await;
    let mut writer = store.open_writer(&a).await.unwrap();
    for number in 0..20 {
        append(&mut *writer, &[&screenshot(number)]).await;
    }
    append(&mut *writer, &["the last one"]).await;
    writer.close().await.unwrap();
    assert_eq!(blobs(&home, &a).len(), 20);
    let log = fs::metadata(home.log(&a)).unwrap().len();
    assert!(log < 8 * 1024, "{log} bytes of log for 4 MiB of payloads");

    // Whoever needed one would say that it is missing.
    fs::remove_dir_all(home.folder(&a).join("blobs")).unwrap();
    let store = home.store();
    let (threads, diagnostics) = crate::support::list(&store).await;
    assert_eq!((threads.len(), diagnostics), (1, vec![]));
    let next = store.metadata(&a).await.unwrap().next_seq;
    let mut writer = store.open_writer(&a).await.unwrap();
    assert_eq!(writer.next_seq(), next);
    let appended = append(&mut *writer, &["and one more"]).await;
    assert_eq!(appended.diagnostics, []);
    let last = ReadRange::Backward {
        before: None,
        limit: 2,
    };
    let page = store.read(&a, last).await.unwrap();
    assert_eq!(page.diagnostics, []);
    let texts = crate::support::note_texts(&page.records);
    assert_eq!(texts, ["the last one", "and one more"]);
}

#[tokio::test]
async fn a_payload_that_is_gone_or_another_is_reported_and_costs_only_itself() {
    let check = async |damage: fn(&PathBuf), word: &str| {
        let home = Home::new();
        let store = home.store();
        let thread = thread(&store, "a", &[&big("a", 40), "still here"]).await;
        damage(&blobs(&home, &thread)[0]);
        let store = home.store();
        let page = store.read(&thread, ReadRange::ALL).await.unwrap();
        let found: Vec<_> = page.records.iter().filter(|r| r.kind == "note").collect();
        assert!(found[0].data.get().starts_with("\"blob:sha256-"), "{word}");
        assert_eq!(found[1].data.get(), "\"still here\"");
        for diagnostics in [page.diagnostics, store.check(&thread).await.unwrap()] {
            let [diagnostic] = &diagnostics[..] else {
                panic!("{word}: {diagnostics:?}");
            };
            assert_eq!(diagnostic.code, DiagnosticCode::DamagedRecord);
            assert!(
                diagnostic.lost && diagnostic.seq == Some(1),
                "{diagnostic:?}"
            );
            assert!(diagnostic.message.contains(word), "{}", diagnostic.message);
        }
        // Said again, it is whole again.
        let mut writer = store.open_writer(&thread).await.unwrap();
        append(&mut *writer, &[&big("a", 40)]).await;
        drop(writer);
        let again = store.check(&thread).await.unwrap();
        let mended = word != "isn't what was written" || again.is_empty();
        assert!(mended, "{word}: {again:?}");
    };
    check(|path| fs::remove_file(path).unwrap(), "is missing").await;
    check(
        |path| fs::write(path, "\"short\"").unwrap(),
        "isn't what was written",
    )
    .await;
    let same_length = |path: &PathBuf| {
        let mut bytes = fs::read(path).unwrap();
        bytes[9] = b'X';
        fs::write(path, bytes).unwrap();
    };
    let home = Home::new();
    let store = home.store();
    let damaged = thread(&store, "a", &[&big("a", 40)]).await;
    same_length(&blobs(&home, &damaged)[0]);
    let found = home.store().check(&damaged).await.unwrap();
    assert!(
        found[0].message.contains("isn't what was written"),
        "{found:?}"
    );
}

#[tokio::test]
async fn references_that_lie_are_reported_not_followed() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "a", &["x"]).await;
    let log = home.log(&thread);
    let hash = "0".repeat(64);
    for (seq, places, data) in [
        (2, "[[0,40000]]", r#""../../../../etc/passwd""#.to_owned()),
        (3, "[[999,40000]]", r#""x""#.to_owned()),
        (4, "[[0,99999999999]]", format!("\"blob:sha256-{hash}\"")),
        (5, "[[0,40000]]", format!("\"blob:sha256-{hash}\"")),
    ] {
        let mut bytes = fs::read(&log).unwrap();
        let line = format!("{{\"s\":{seq},\"t\":1,\"k\":\"note\",\"b\":{places},\"d\":{data}}}\n");
        bytes.extend_from_slice(line.as_bytes());
        fs::write(&log, bytes).unwrap();
    }
    let page = home.store().read(&thread, ReadRange::ALL).await.unwrap();
    assert_eq!(page.records.len(), 6);
    let lost = page.diagnostics.iter().filter(|diagnostic| diagnostic.lost);
    assert_eq!(lost.count(), 4, "{:?}", page.diagnostics);
    assert_eq!(id("a"), thread);
}

/// Puts a payload beside a log that no line names, as a crash does, and gives its
/// name.
fn orphan(home: &Home, thread: &ThreadId, digit: &str) -> String {
    let folder = home.folder(thread).join("blobs");
    let name = digit.repeat(64);
    fs::write(folder.join(&name), "\"never named\"").unwrap();
    name
}

fn names(home: &Home, thread: &ThreadId) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    blobs(home, thread).iter().map(name).collect()
}

#[tokio::test]
async fn what_no_line_names_is_removed_by_the_next_writers_first_append() {
    let home = Home::new();
    let store = home.store();
    let parent = thread(&store, "a", &[&big("a", 40), "then", &big("b", 40)]).await;
    let mut fork = fork(&store, "fork", &parent, 1).await.unwrap();
    append(&mut *fork, &[&big("c", 40)]).await;
    drop(fork);
    let kept = names(&home, &parent);
    assert_eq!(kept.len(), 2);
    orphan(&home, &parent, "0");
    let folder = home.folder(&parent).join("blobs");
    fs::write(folder.join(".new-1-2-3"), "\"never fin").unwrap();
    fs::write(folder.join("README"), "somebody else's").unwrap();
    let with_orphans = names(&home, &parent);

    // Readers and a writer that writes nothing change nothing.
    assert_eq!(store.check(&parent).await.unwrap(), []);
    let mut writer = home.store().open_writer(&parent).await.unwrap();
    assert_eq!(names(&home, &parent), with_orphans);
    append(&mut *writer, &["on"]).await;
    let mut expected = kept.clone();
    expected.push("README".to_owned());
    expected.sort();
    assert_eq!(names(&home, &parent), expected);
    append(&mut *writer, &[&big("d", 40)]).await;
    drop(writer);
    assert_eq!(names(&home, &parent).len(), expected.len() + 1);
    for thread in [parent, id("fork")] {
        assert_eq!(home.store().check(&thread).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_damaged_log_keeps_all_that_it_may_name() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "a", &[&big("a", 40), "then"]).await;
    let kept = names(&home, &thread);
    let log = home.log(&thread);
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("\"k\":\"note\"", "\"k\":\"nose\"", 1)).unwrap();
    let orphan = orphan(&home, &thread, "1");
    let mut writer = home.store().open_writer(&thread).await.unwrap();
    append(&mut *writer, &["on"]).await;
    drop(writer);
    let found = names(&home, &thread);
    assert!(
        found.contains(&kept[0]) && found.contains(&orphan),
        "{found:?}"
    );
    let mut text = fs::read_to_string(&log).unwrap();
    text = text.replacen("\"k\":\"nose\"", "\"k\":\"note\"", 1);
    fs::write(&log, text).unwrap();
    assert_eq!(home.store().check(&thread).await.unwrap(), []);
    // Mended, it names all that it needs.
    fs::write(home.folder(&thread).join("blobs/.new-1-2-3"), "").unwrap();
    let mut writer = home.store().open_writer(&thread).await.unwrap();
    append(&mut *writer, &["on"]).await;
    assert_eq!(names(&home, &thread), kept);
}

#[tokio::test]
async fn nothing_is_removed_while_another_process_may_append() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "a", &[&big("a", 40)]).await;
    let mut holder = home.store().open_writer(&thread).await.unwrap();
    append(&mut *holder, &["held"]).await;
    // As if it were just about to name it.
    orphan(&home, &thread, "2");
    let busy = store.open_writer(&thread).await.err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert_eq!(names(&home, &thread).len(), 2);
    append(&mut *holder, &[&big("b", 40)]).await;
    assert_eq!(names(&home, &thread).len(), 3);
    assert_eq!(store.check(&thread).await.unwrap(), []);
}

#[tokio::test]
async fn what_bytes_that_were_put_aside_may_name_is_kept() {
    let check = async |cut: fn(&mut Vec<u8>)| {
        let home = Home::new();
        let store = home.store();
        let thread = thread(&store, "a", &["first", &big("a", 40)]).await;
        let log = home.log(&thread);
        let mut bytes = fs::read(&log).unwrap();
        cut(&mut bytes);
        fs::write(&log, bytes).unwrap();
        orphan(&home, &thread, "3");
        let kept = names(&home, &thread);
        let mut writer = home.store().open_writer(&thread).await.unwrap();
        append(&mut *writer, &["on"]).await;
        assert_eq!(names(&home, &thread), kept);
    };
    check(|bytes| bytes.truncate(bytes.len() - 3)).await;
    check(Vec::clear).await;
}
