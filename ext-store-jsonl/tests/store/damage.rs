//! Logs that aren't as their writer left them.

use std::fs;

use haft_api::{
    Diagnostic, DiagnosticCode, Durability, ErrorKind, MetadataPatch, NewThread, ReadRange, Record,
    ThreadId, ThreadStore, raw_json,
};
use haft_ext_store_jsonl::JsonlStore;

use crate::support::*;

/// A thread whose records are of many forms, and its log.
async fn sample(home: &Home) -> (ThreadId, Vec<u8>, Vec<Record>) {
    let store = home.store();
    let thread = id("sample");
    let mut new = NewThread::new(thread.clone());
    new.metadata = MetadataPatch::default().title("a \"title\"");
    let mut writer = store.create(new).await.unwrap();
    append(&mut *writer, &["one", "zwei 中 😀"]).await;
    let data = r#"{"n":100000000000000000000, "e":"\"}\\","a":[1.0,{"s":1,"c":"00000000"}]}"#;
    let mut group = notes(&["three"]);
    group.push(haft_api::NewRecord {
        kind: "my.kind_2".to_owned(),
        data: raw_json(data).unwrap(),
    });
    writer.append(group, Durability::Barrier).await.unwrap();
    let patch = MetadataPatch::default().set("workspace", raw_json(r#"{"a":1}"#).unwrap());
    writer.patch_metadata(patch).await.unwrap();
    append(&mut *writer, &["four"]).await;
    append(&mut *writer, &["five"]).await;
    writer.close().await.unwrap();
    let (records, diagnostics) = read(&store, &thread).await;
    assert_eq!(diagnostics, []);
    (
        thread.clone(),
        fs::read(home.log(&thread)).unwrap(),
        records,
    )
}

fn lost(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.lost)
}

/// Opens a log that ends with `torn` after `records`, and goes on with it.
async fn check_torn(home: &Home, thread: &ThreadId, log: &[u8], records: &[Record], torn: &[u8]) {
    let case = format!("{} bytes of which {} are torn", log.len(), torn.len());
    home.put_log(thread, log);
    let _ = fs::remove_dir_all(home.folder(thread).join("torn"));

    // Readers get all that is whole, are told of the rest and change nothing.
    let before = home.snapshot();
    let store = home.store();
    let (found, diagnostics) = read(&store, thread).await;
    assert_same(&found, records);
    assert_same(&read_back(&store, thread, 2).await, records);
    assert_eq!(
        store.metadata(thread).await.is_ok(),
        !records.is_empty(),
        "{case}"
    );
    let ends_whole = log.is_empty() || log.ends_with(b"\n");
    if torn.is_empty() && ends_whole {
        assert_eq!(diagnostics, [], "{case}");
    } else {
        assert_eq!(codes(&diagnostics), [DiagnosticCode::TornTail], "{case}");
        assert_eq!(lost(&diagnostics), !torn.is_empty(), "{case}");
    }
    assert_eq!(store.check(thread).await.unwrap(), diagnostics, "{case}");
    assert!(
        home.snapshot() == before,
        "{case}: reading changed something"
    );

    // A writer changes nothing either until its first append.
    let mut writer = store.open_writer(thread).await.unwrap();
    assert!(fs::read(home.log(thread)).unwrap() == log, "{case}");
    let appended = append(&mut *writer, &["after"]).await;
    assert_eq!(codes(&appended.diagnostics), codes(&diagnostics), "{case}");
    append(&mut *writer, &["and again"]).await;
    writer.close().await.unwrap();
    let store = home.store();
    let (found, now) = read(&store, thread).await;
    assert_eq!(now, [], "{case}");
    assert_same(&found[..records.len()], records);
    let numbers: Vec<_> = found.iter().map(|record| record.seq).collect();
    assert_eq!(
        numbers,
        (0..found.len() as u64).collect::<Vec<_>>(),
        "{case}"
    );
    let mut expected = Vec::new();
    if records.is_empty() {
        expected.push("<header>");
    }
    if !diagnostics.is_empty() {
        expected.push("<repair>");
    }
    expected.extend(["after", "and again"]);
    let added: Vec<_> = show(&found[records.len()..])
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(added, expected, "{case}");

    // Nothing of the fragment is thrown away but zeros.
    let end = torn
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    let kept: Vec<_> = fs::read_dir(home.folder(thread).join("torn"))
        .map(|entries| {
            entries
                .map(|entry| fs::read(entry.unwrap().path()).unwrap())
                .collect()
        })
        .unwrap_or_default();
    if end == 0 {
        assert!(kept.is_empty(), "{case}");
    } else {
        assert_eq!(kept, [torn[..end].to_vec()], "{case}");
    }
}

/// The number of records that are whole in the first bytes of a log, and where
/// the last one ends.
fn whole(log: &[u8], len: usize) -> (usize, usize) {
    let (mut count, mut end) = (0, 0);
    for line in lines(log) {
        // The line break may be missing.
        if end + line.len() - 1 > len {
            break;
        }
        end = (end + line.len()).min(len);
        count += 1;
    }
    (count, end)
}

#[tokio::test]
async fn a_log_cut_anywhere_in_its_last_two_records_goes_on() {
    let home = Home::new();
    let (thread, log, records) = sample(&home).await;
    let all = lines(&log);
    let from = log.len() - all[all.len() - 1].len() - all[all.len() - 2].len();
    for len in from..=log.len() {
        let (count, end) = whole(&log, len);
        check_torn(
            &home,
            &thread,
            &log[..len],
            &records[..count],
            &log[end..len],
        )
        .await;
    }
}

#[tokio::test]
async fn a_log_whose_header_is_torn_goes_on() {
    let home = Home::new();
    let (thread, log, records) = sample(&home).await;
    let header = lines(&log)[0].len();
    for len in (0..=header).step_by(7).chain([header - 1, header]) {
        let (count, end) = whole(&log, len);
        check_torn(
            &home,
            &thread,
            &log[..len],
            &records[..count],
            &log[end..len],
        )
        .await;
    }
}

#[tokio::test]
async fn zeros_at_the_end_are_torn() {
    let home = Home::new();
    let (thread, log, records) = sample(&home).await;
    let last = log.len() - lines(&log).last().unwrap().len();
    for (len, zeros) in [
        (log.len(), 1),
        (log.len(), 100_000),
        (last + 20, 4096),
        (last, 50),
    ] {
        let mut padded = log[..len].to_vec();
        padded.resize(len + zeros, 0);
        let (count, end) = whole(&log, len);
        check_torn(&home, &thread, &padded, &records[..count], &padded[end..]).await;
    }
    // Right behind a record whose line break is missing.
    let mut padded = log[..log.len() - 1].to_vec();
    padded.resize(log.len() + 99, 0);
    check_torn(&home, &thread, &padded, &records, &padded[log.len() - 1..]).await;
}

#[tokio::test]
async fn no_flipped_bit_yields_a_wrong_record() {
    let home = Home::new();
    let (thread, log, records) = sample(&home).await;
    let store = home.store();
    for at in 0..log.len() {
        for bit in [0, 1, 2, 5, 6, 7] {
            let case = format!("byte {at} bit {bit}");
            let mut bad = log.clone();
            bad[at] ^= 1 << bit;
            home.put_log(&thread, &bad);
            let (found, diagnostics) = read(&store, &thread).await;
            for record in &found {
                assert!(
                    same(record, &records[record.seq as usize]),
                    "{case}: {record:?}"
                );
            }
            let missing = records.len() - found.len();
            assert!(missing <= 1, "{case}: {missing} are missing");
            assert!(!diagnostics.is_empty(), "{case}");
            assert!(
                missing == 0 || lost(&diagnostics),
                "{case}: {diagnostics:?}"
            );
            assert_same(&read_back(&store, &thread, 3).await, &found);
            if (at + bit) % 11 == 0 {
                go_on(&home, &store, &thread, &found, &case).await;
            }
        }
    }
}

/// Appends to a damaged log: nothing that was read before is lost by it.
async fn go_on(home: &Home, store: &JsonlStore, thread: &ThreadId, found: &[Record], case: &str) {
    let mut writer = store.open_writer(thread).await.unwrap();
    append(&mut *writer, &["after"]).await;
    drop(writer);
    let (now, _) = read(store, thread).await;
    assert!(now.len() > found.len(), "{case}");
    assert_same(&now[..found.len()], found);
    assert_eq!(note_texts(&now).last().unwrap(), "after", "{case}");
    assert!(now.is_sorted_by_key(|record| record.seq), "{case}");
    let _ = fs::remove_dir_all(home.folder(thread).join("torn"));
}

#[tokio::test]
async fn a_fused_line_costs_the_fragment_alone() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "fused", &["one", "two", "three"]).await;
    let log = fs::read(home.log(&thread)).unwrap();
    let all = lines(&log);
    let fragments: [&[u8]; 4] = [
        br#"{"type":"pr-link","sessionId":"x","prNu"#,
        &all[2][..all[2].len() / 2],
        &[0; 5000],
        b"\xff\xfe{\"s\":",
    ];
    for fragment in fragments {
        let fused = [all[0], all[1], fragment, all[2], all[3]].concat();
        home.put_log(&thread, &fused);
        let (found, diagnostics) = read(&store, &thread).await;
        assert_eq!(note_texts(&found), ["one", "two", "three"]);
        assert_eq!(codes(&diagnostics), [DiagnosticCode::DamagedRecord]);
        // All numbers are there: nothing that was acknowledged is missing.
        assert!(!lost(&diagnostics));
        let offset = all[0].len() + all[1].len();
        assert!(
            diagnostics[0]
                .place
                .as_ref()
                .unwrap()
                .ends_with(&format!("byte {offset}"))
        );

        let mut writer = store.open_writer(&thread).await.unwrap();
        append(&mut *writer, &["four"]).await;
        drop(writer);
        let now = fs::read(home.log(&thread)).unwrap();
        assert!(
            now.starts_with(&fused),
            "damage in the middle is left where it is"
        );
        assert_eq!(lines(&now).len(), 5, "a new record has a line of its own");
        let (found, _) = read(&store, &thread).await;
        assert_eq!(note_texts(&found), ["one", "two", "three", "four"]);
    }
}

/// Reads a log made of these lines: the records that stand, and what is said.
async fn check_lines(parts: &[&str], expected: &[(u64, &str)], said: &[(DiagnosticCode, bool)]) {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "made", &[]).await;
    let header = fs::read(home.log(&thread)).unwrap();
    home.put_log(&thread, &[&header[..], parts.concat().as_bytes()].concat());
    let (found, diagnostics) = read(&store, &thread).await;
    let expected: Vec<_> = expected
        .iter()
        .map(|(seq, text)| (*seq, (*text).to_owned()))
        .collect();
    assert_eq!(show(&found[1..]), expected, "{parts:?}");
    let found_said: Vec<_> = diagnostics.iter().map(|d| (d.code, d.lost)).collect();
    assert_eq!(found_said, said, "{parts:?}: {diagnostics:?}");
    assert_eq!(store.check(&thread).await.unwrap(), diagnostics);
    // By small pages, forwards and backwards, the same records.
    assert_same(&read_by(&store, &thread, Some(1)).await.0, &found);
    assert_same(&read_back(&store, &thread, 1).await, &found);
    let next = found.last().unwrap().seq + 1;
    assert_eq!(
        store.metadata(&thread).await.unwrap().next_seq,
        next,
        "{parts:?}"
    );
}

#[tokio::test]
async fn what_stands_is_said_by_number_and_checksum() {
    use DiagnosticCode::*;
    let a = line(1, "note", "\"a\"");
    let b = line(2, "note", "\"b\"");
    let c = line(3, "note", "\"c\"");
    let other_b = line(2, "note", "\"B\"");
    let bare = "{\"s\":2,\"t\":1,\"k\":\"note\",\"d\":\"bare\"}\n";
    let all: &[_] = &[(1, "a"), (2, "b"), (3, "c")];
    check_lines(&[&a, &b, &c], all, &[]).await;
    check_lines(&[&a, "\n", &b, "  \n", &c, "\n"], all, &[]).await;
    // Equal repetitions are dropped; of different ones the first is kept.
    check_lines(&[&a, &b, &b, &c], all, &[]).await;
    check_lines(&[&a, &b, &c, &a, &b, &c], all, &[]).await;
    check_lines(&[&a, &b, &other_b, &c], all, &[(Duplicate, true)]).await;
    check_lines(&[&a, &b, &c, &other_b], all, &[(Duplicate, true)]).await;
    check_lines(&[&a, &c], &[(1, "a"), (3, "c")], &[(Gap, true)]).await;
    check_lines(
        &[&a, &c, &b],
        &[(1, "a"), (3, "c")],
        &[(Gap, true), (Foreign, true)],
    )
    .await;
    check_lines(
        &[&a, "rubbish\n", "more\n", &c],
        &[(1, "a"), (3, "c")],
        &[(DamagedRecord, true), (DamagedRecord, true)],
    )
    .await;
    // Without a checksum a record is taken, but only as the next one.
    check_lines(
        &[&a, bare, &c],
        &[(1, "a"), (2, "bare"), (3, "c")],
        &[(Unverified, false)],
    )
    .await;
    let far = bare.replace("\"s\":2", "\"s\":900000000000");
    check_lines(
        &[&a, &far, &b],
        &[(1, "a"), (2, "b")],
        &[(DamagedRecord, false)],
    )
    .await;
    // An edited line is not taken for what its checksum doesn't vouch for.
    let edited = b.replace("\"b\"", "\"x\"");
    check_lines(
        &[&a, &edited, &c],
        &[(1, "a"), (3, "c")],
        &[(ChecksumMismatch, true)],
    )
    .await;
}

#[tokio::test]
async fn lines_too_long_or_deep_are_errors_for_writers_and_damage_for_readers() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "limits", &["one"]).await;
    let mut writer = store.open_writer(&thread).await.unwrap();
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let long = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
    const LINE: usize = 16 * 1024 * 1024;
    for (data, refused) in [
        (deep(100), false),
        (deep(101), true),
        (deep(100_000), true),
        (long(LINE - 256), false),
        (long(LINE), true),
    ] {
        let record = haft_api::NewRecord {
            kind: "x".to_owned(),
            data: raw_json(data).unwrap(),
        };
        let outcome = writer
            .append(vec![note("with it"), record], Durability::Barrier)
            .await;
        match outcome {
            Ok(_) => assert!(!refused),
            Err(error) => {
                assert!(refused, "{error}");
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().len() < 1000);
            }
        }
    }
    drop(writer);
    let (found, diagnostics) = read(&store, &thread).await;
    assert_eq!(diagnostics, []);
    // A refused group isn't written in part.
    assert_eq!(note_texts(&found), ["one", "with it", "with it"]);

    let log = fs::read(home.log(&thread)).unwrap();
    let all = lines(&log);
    let too_long = line(2, "x", &long(LINE));
    let too_deep = line(2, "x", &deep(50_000));
    for bad in [too_long, too_deep] {
        let next = line(3, "note", "\"next\"");
        let bad_log = [all[0], all[1], bad.as_bytes(), next.as_bytes()].concat();
        home.put_log(&thread, &bad_log);
        let (found, diagnostics) = read(&store, &thread).await;
        assert_eq!(note_texts(&found), ["one", "next"]);
        assert_eq!(codes(&diagnostics), [DiagnosticCode::DamagedRecord]);
        assert!(diagnostics[0].lost);
        assert_same(&read_back(&store, &thread, 1).await, &found);
        assert_eq!(store.metadata(&thread).await.unwrap().next_seq, 4);
    }

    // A writer's data are JSON. What a checksum vouches for is taken at its word;
    // whoever parses it sees that it is none.
    let no_json = line(2, "x", "{\"a\":");
    home.put_log(&thread, &[all[0], all[1], no_json.as_bytes()].concat());
    let (found, diagnostics) = read(&store, &thread).await;
    assert_eq!(diagnostics, []);
    let error = found[2].parse::<serde_json::Value>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_newer_format_is_read_and_not_written() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "newer", &[]).await;
    let header = |major: u64| {
        let data = format!(
            r#"{{"format":"haft-thread","major":{major},"minor":7,"id":"newer","created_ms":5,"wings":2}}"#
        );
        line(0, "header", &data)
    };
    let rest = line(1, "note", "\"one\"");
    home.put_log(&thread, [header(1), rest.clone()].concat().as_bytes());
    let mut writer = store.open_writer(&thread).await.unwrap();
    append(&mut *writer, &["a newer minor version is written"]).await;
    drop(writer);

    let newer = [header(2), rest].concat();
    home.put_log(&thread, newer.as_bytes());
    let (found, diagnostics) = read(&store, &thread).await;
    assert_eq!(
        show(&found),
        [(0, "<header>".to_owned()), (1, "one".to_owned())]
    );
    assert_eq!(codes(&diagnostics), [DiagnosticCode::NewerFormat]);
    assert!(!lost(&diagnostics));
    let mut writer = store.open_writer(&thread).await.unwrap();
    for _ in 0..2 {
        let error = writer
            .append(notes(&["no"]), Durability::Barrier)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let error = writer
            .patch_metadata(MetadataPatch::default().title("no"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }
    writer.close().await.unwrap();
    assert_eq!(fs::read(home.log(&thread)).unwrap(), newer.as_bytes());
}

#[tokio::test]
async fn a_log_of_lines_that_are_no_records_is_not_touched() {
    let home = Home::new();
    let store = home.store();
    let thread = thread(&store, "foreign", &[]).await;
    let foreign = b"{\"v\":9,\"x\":1}\n{\"v\":9,\"x\":2}\n";
    home.put_log(&thread, foreign);
    let (found, diagnostics) = read(&store, &thread).await;
    assert!(found.is_empty() && lost(&diagnostics));
    assert_eq!(
        store.metadata(&thread).await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    let mut writer = store.open_writer(&thread).await.unwrap();
    let error = writer
        .append(notes(&["no"]), Durability::Barrier)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    drop(writer);
    assert_eq!(fs::read(home.log(&thread)).unwrap(), foreign);
}

#[tokio::test]
async fn long_logs_are_paged_and_summed_up_around_damage() {
    let home = Home::new();
    let store = home.store();
    let thread = id("long");
    let mut new = NewThread::new(thread.clone());
    new.metadata = MetadataPatch::default().title("first");
    let mut writer = store.create(new).await.unwrap();
    let text = "x".repeat(700);
    for number in 0..350 {
        let group: Vec<_> = (0..10)
            .map(|at| note(&format!("{number}.{at} {text}")))
            .collect();
        writer.append(group, Durability::Buffered).await.unwrap();
        if number == 5 {
            let value = raw_json("[1,\n 2]").unwrap();
            writer
                .patch_metadata(MetadataPatch::default().set("early", value))
                .await
                .unwrap();
        }
        if number == 340 {
            writer
                .patch_metadata(MetadataPatch::default().title("late"))
                .await
                .unwrap();
        }
    }
    writer.close().await.unwrap();
    let (records, diagnostics) = read(&store, &thread).await;
    assert_eq!(diagnostics, []);
    let checkpoints = records
        .iter()
        .filter(|record| record.kind == "checkpoint")
        .count();
    assert!((2..=5).contains(&checkpoints), "{checkpoints}");
    let metadata = store.metadata(&thread).await.unwrap();
    assert_eq!(metadata.title.as_deref(), Some("late"));
    assert_eq!(metadata.extra["early"].get(), "[1,  2]");
    assert_eq!(metadata.next_seq, records.len() as u64);
    assert_eq!(metadata.updated_ms, records.last().unwrap().time_ms);

    // A few damaged places in the middle cost their own records and no others,
    // from wherever one reads.
    let mut log = fs::read(home.log(&thread)).unwrap();
    for part in 1..10 {
        let at = log.len() * part / 10;
        log[at..at + 10].fill(b'#');
    }
    home.put_log(&thread, &log);
    let (found, diagnostics) = read(&store, &thread).await;
    assert!(records.len() - found.len() <= 18 && lost(&diagnostics));
    for record in &found {
        assert!(same(record, &records[record.seq as usize]));
    }
    assert_same(&read_back(&store, &thread, 100).await, &found);
    assert_eq!(
        store.metadata(&thread).await.unwrap().title.as_deref(),
        Some("late")
    );
    for seq in (0..records.len() as u64).step_by(97) {
        let expected: Vec<_> = found
            .iter()
            .filter(|record| record.seq >= seq)
            .take(3)
            .cloned()
            .collect();
        let range = ReadRange::Forward {
            seq,
            limit: Some(3),
        };
        assert_same(
            &store.read(&thread, range).await.unwrap().records,
            &expected,
        );
        let expected: Vec<_> = found
            .iter()
            .filter(|record| record.seq < seq)
            .cloned()
            .collect();
        let expected = &expected[expected.len().saturating_sub(3)..];
        let range = ReadRange::Backward {
            before: Some(seq),
            limit: 3,
        };
        assert_same(&store.read(&thread, range).await.unwrap().records, expected);
    }
    // Pages name each diagnostic once.
    let (_, by_pages) = read_by(&store, &thread, Some(50)).await;
    assert_eq!(by_pages, diagnostics);
}
