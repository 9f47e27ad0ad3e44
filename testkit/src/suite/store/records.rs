//! Records: written, read, paged.

use std::sync::Arc;

use futures::FutureExt;
use haft_api::{Durability, NewRecord, ReadRange, ThreadWriter};

use super::subject::{Subject, append, note, notes, record};
use crate::fixture::fresh_thread;
use crate::suite::Checked;
use crate::suite::expect::{ensure, ok, same};

pub(in crate::suite) async fn the_header_is_record_zero(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let writer = store.create(&id).await?;
    same("the writer's thread", &id, writer.thread())?;
    same("the next record of a new thread", &1, &writer.next_seq())?;
    let records = store.all(&id).await?;
    same("the number of records of a new thread", &1, &records.len())
}

pub(in crate::suite) async fn records_come_back_as_written(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let mut expected = Vec::new();
    for number in 0..20 {
        let data = format!(r#"{{"number":{number},"text":"ä\n\"中\""}}"#);
        let kind = if number % 2 == 0 { "even" } else { "odd" };
        let before = writer.next_seq();
        let durability = if number % 5 == 0 {
            Durability::Barrier
        } else {
            Durability::Buffered
        };
        let appended = writer.append(vec![record(kind, &data)], durability).await;
        let appended = ok("appending", appended)?;
        same("the acknowledged number", &before, &appended.first_seq)?;
        expected.push((appended.first_seq, kind.to_owned(), data));
    }
    let got: Vec<_> = store.all(&id).await?[1..]
        .iter()
        .map(|r| (r.seq, r.kind.clone(), r.data.get().to_owned()))
        .collect();
    same("the records", &expected, &got)
}

/// JSON that survives only if nobody parses and prints it.
const TEXTS: [&str; 16] = [
    "null",
    "0",
    "-0.0",
    "1.50",
    "1E5",
    "1e400",
    "12345678901234567890123456789.000000000000000000001",
    r#""""#,
    r#""\u00e4 \u4e2d \ud83d\ude00 \/ \u0000""#,
    "\"ä 中 😀 \u{2028} \u{2029} \u{7f}\"",
    r#"{"b":1,"a":2}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"":{}}"#,
    r#"{ "spaced" : [ 1 , 2 ] }"#,
    r#"{"c":"12345678","s":0,"k":"x","d":{},"t":1}"#,
    r#"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"#,
];

pub(in crate::suite) async fn data_are_kept_byte_for_byte(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let group = TEXTS.iter().map(|text| record("conformance.raw", text));
    ok(
        "appending",
        writer.append(group.collect(), Durability::Barrier).await,
    )?;
    let records = store.all(&id).await?;
    let got: Vec<_> = records[1..]
        .iter()
        .map(|record| record.data.get())
        .collect();
    same("the data", &TEXTS[..], &got[..])
}

pub(in crate::suite) async fn unknown_kinds_are_kept(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let kinds = ["x", "from_2099", "my_extension.note", "a.b.c", "0"];
    for kind in kinds {
        let group = vec![record(kind, r#"{"whatever":[1.0]}"#)];
        ok(
            "appending",
            writer.append(group, Durability::Buffered).await,
        )?;
    }
    let records = store.all(&id).await?;
    let got: Vec<_> = records[1..].iter().map(|record| &*record.kind).collect();
    same("the kinds", &kinds[..], &got[..])
}

pub(in crate::suite) async fn a_large_record_is_kept(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let large = "0123456789abcdef".repeat(4 * 1024 * 1024 / 16);
    append(&mut *writer, &["before", &large, "after"]).await?;
    let got = store.notes(&id).await?;
    let lengths: Vec<_> = got.iter().map(String::len).collect();
    same(
        "the lengths of the records",
        &vec![6, large.len(), 5],
        &lengths,
    )?;
    ensure!(
        got[1] == large,
        "expected the large record as it was, got another of its length"
    );
    Ok(())
}

pub(in crate::suite) async fn a_group_has_one_row_of_numbers(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let mut expected = Vec::new();
    for (size, name) in [(1, "a"), (100, "b"), (2, "c")] {
        let texts: Vec<_> = (0..size).map(|i| format!("{name}{i}")).collect();
        let group: Vec<NewRecord> = texts.iter().map(|text| note(text)).collect();
        let appended = writer.append(group, Durability::Buffered).await;
        let first = ok("appending a group", appended)?.first_seq;
        expected.extend((first..).zip(texts));
        same("the next number", &(first + size), &writer.next_seq())?;
    }
    let records = store.all(&id).await?;
    let got: Vec<_> = (1..).zip(notes(&records)).collect();
    same("the numbered notes", &expected, &got)
}

pub(in crate::suite) async fn an_append_is_readable_at_once(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    for (count, durability) in (1..).zip([Durability::Buffered, Durability::Barrier]) {
        ok(
            "appending",
            writer.append(vec![note("x")], durability).await,
        )?;
        let got = store.notes(&id).await?.len();
        ensure!(
            got == count,
            "expected {count} notes after {durability:?}, got {got}"
        );
    }
    Ok(())
}

const LAST: u64 = 25;

/// A thread of a header and 25 notes, `1` to `25`.
async fn numbered(
    store: &super::subject::Store,
    id: &haft_api::ThreadId,
) -> Result<(), crate::suite::Unmet> {
    let texts: Vec<_> = (1..=LAST).map(|number| number.to_string()).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    store.filled(id, &texts).await
}

pub(in crate::suite) async fn pages_forward_are_complete(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    numbered(&store, &id).await?;
    for limit in [1, 7, 26, 100] {
        let mut got = Vec::new();
        let mut next = Some(0);
        while let Some(seq) = next {
            let range = ReadRange::Forward {
                seq,
                limit: Some(limit),
            };
            let page = store.page(&id, range).await?;
            let count = page.records.len();
            ensure!(
                count <= limit,
                "expected at most {limit} records, got {count}"
            );
            got.extend(page.records.iter().map(|record| record.seq));
            next = page.next;
            ensure!(
                got.len() as u64 <= LAST + 1 && (next.is_none() || count > 0),
                "expected {} records by pages of {limit}, got {got:?} and more to come",
                LAST + 1
            );
        }
        same(
            "the numbers of all pages",
            &(0..=LAST).collect::<Vec<_>>(),
            &got,
        )?;
    }
    let middle = ReadRange::Forward {
        seq: 20,
        limit: Some(2),
    };
    let page = store.page(&id, middle).await?;
    let numbers: Vec<_> = page.records.iter().map(|record| record.seq).collect();
    same("a page from 20", &vec![20, 21], &numbers)?;
    let beyond = ReadRange::Forward {
        seq: LAST + 1,
        limit: Some(5),
    };
    let page = store.page(&id, beyond).await?;
    same("records beyond the end", &0, &page.records.len())?;
    same("a page after the end", &None, &page.next)
}

pub(in crate::suite) async fn pages_backward_are_complete(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    numbered(&store, &id).await?;
    for limit in [1, 7, 26, 100] {
        let mut pages = Vec::new();
        let mut before = None;
        loop {
            let page = store
                .page(&id, ReadRange::Backward { before, limit })
                .await?;
            let count = page.records.len();
            ensure!(
                count <= limit,
                "expected at most {limit} records, got {count}"
            );
            pages.push(
                page.records
                    .iter()
                    .map(|record| record.seq)
                    .collect::<Vec<_>>(),
            );
            if page.next.is_none() {
                break;
            }
            before = page.next;
            ensure!(
                count > 0 && pages.len() as u64 <= LAST + 1,
                "expected pages of {limit} back to 0, got {pages:?} and more to come"
            );
        }
        let got: Vec<_> = pages.into_iter().rev().flatten().collect();
        same(
            "the numbers of all pages",
            &(0..=LAST).collect::<Vec<_>>(),
            &got,
        )?;
    }
    for (before, expected) in [(Some(3), vec![1, 2]), (Some(1000), vec![LAST - 1, LAST])] {
        let page = store
            .page(&id, ReadRange::Backward { before, limit: 2 })
            .await?;
        let numbers: Vec<_> = page.records.iter().map(|record| record.seq).collect();
        same("a page backward", &expected, &numbers)?;
    }
    Ok(())
}

pub(in crate::suite) async fn readers_see_whole_prefixes(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    let done = Arc::new(tokio::sync::Notify::new());
    let reading = tokio::spawn({
        let (store, id, done) = (store.clone(), id.clone(), Arc::clone(&done));
        async move {
            let mut reads = 0;
            loop {
                // `all` checks that the numbers are contiguous.
                let seen = store.notes(&id).await?.len();
                ensure!(
                    seen % 3 == 0,
                    "expected whole groups of 3, got {seen} records"
                );
                reads += 1;
                if reads > 3 && done.notified().now_or_never().is_some() {
                    return Ok(());
                }
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..100 {
        append(&mut *writer, &["a", "b", "c"]).await?;
        tokio::task::yield_now().await;
    }
    done.notify_one();
    match reading.await {
        Ok(outcome) => outcome,
        Err(error) => Err(format!("expected the reader to end, got: {error}").into()),
    }
}

pub(in crate::suite) async fn a_dropped_append_is_whole_or_not_at_all(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    let mut writer = store.create(&id).await?;
    for polls in 0..10 {
        let group = vec![note("dropped"), note("dropped"), note("dropped")];
        drop_after(&mut *writer, group, polls).await;
        append(&mut *writer, &["kept"]).await?;
    }
    ok("closing the writer", writer.close().await)?;
    let notes = store.notes(&id).await?;
    let kept = notes.iter().filter(|text| *text == "kept").count();
    same("appends after dropped ones", &10, &kept)?;
    for run in notes.split(|text| text == "kept") {
        ensure!(
            matches!(run.len(), 0 | 3),
            "expected a dropped group of 3 to be whole or absent, got {} of it",
            run.len()
        );
    }
    Ok(())
}

/// Polls an append so often, and drops it.
async fn drop_after(writer: &mut dyn ThreadWriter, group: Vec<NewRecord>, polls: usize) {
    let mut append = writer.append(group, Durability::Barrier);
    for _ in 0..polls {
        if (&mut append).now_or_never().is_some() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub(in crate::suite) async fn a_healthy_thread_has_no_diagnostics(subject: Subject) -> Checked {
    let store = subject.open().await?;
    let id = fresh_thread();
    numbered(&store, &id).await?;
    // First, because a check of pages that never end wouldn't end either.
    same(
        "the number of records",
        &(LAST + 1),
        &(store.all(&id).await?.len() as u64),
    )?;
    let found = ok("checking the thread", store.0.check(&id).await)?;
    same("the diagnostics", &vec![], &found)?;
    let page = store.page(&id, ReadRange::ALL).await?;
    same("the page's diagnostics", &vec![], &page.diagnostics)
}
