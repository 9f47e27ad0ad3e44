//! A story is told over and over; each time the machine dies at another of its
//! operations, and what was acknowledged must be there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use haft_api::{
    DiagnosticCode, Durability, ForkPoint, ListThreads, MetadataPatch, Result, ThreadStore,
    ThreadWriter,
};

use super::disk::{Cut, Plan, TestDisk};
use super::{id, new, notes, open, read, texts};
use crate::config::{DurabilityPolicy, JsonlConfig};
use crate::store::JsonlStore;

/// What was acknowledged when the machine died.
#[derive(Default)]
struct Promised {
    threads: BTreeMap<&'static str, Thread>,
}

#[derive(Default)]
struct Thread {
    /// Deleting it was acknowledged, or was under way.
    deleted: Option<bool>,
    /// Texts in the order they were to be written.
    written: Vec<String>,
    /// How many of them were acknowledged at all, and over a barrier.
    acknowledged: usize,
    durable: usize,
    title: Option<&'static str>,
}

struct Teller<'p> {
    promised: &'p mut Promised,
}

impl Teller<'_> {
    fn thread(&mut self, name: &'static str) -> &mut Thread {
        self.promised.threads.entry(name).or_default()
    }

    async fn append(
        &mut self,
        name: &'static str,
        writer: &mut dyn ThreadWriter,
        group: &[&str],
        durability: Durability,
    ) -> Result<()> {
        let texts = group.iter().map(|text| (*text).to_owned());
        self.thread(name).written.extend(texts);
        writer.append(notes(group), durability).await?;
        let thread = self.thread(name);
        thread.acknowledged = thread.written.len();
        if durability == Durability::Barrier {
            thread.durable = thread.written.len();
        }
        Ok(())
    }
}

/// Everything that the store does to the disk.
async fn story(store: &JsonlStore, home: &Path, promised: &mut Promised) -> Result<()> {
    use Durability::{Barrier, Buffered};
    let mut teller = Teller { promised };

    let mut writer = store.create(new("a")).await?;
    teller.thread("a");
    teller.append("a", &mut *writer, &["a1"], Barrier).await?;
    teller
        .append("a", &mut *writer, &["a2", "a3", "a4"], Buffered)
        .await?;
    teller.append("a", &mut *writer, &["a5"], Buffered).await?;
    teller.append("a", &mut *writer, &["a6"], Barrier).await?;
    writer
        .patch_metadata(MetadataPatch::default().title("first"))
        .await?;
    teller.thread("a").title = Some("first");
    teller.append("a", &mut *writer, &["a7"], Buffered).await?;
    // One that stands beside the log, twice.
    let large = "L".repeat(40_000);
    teller
        .append("a", &mut *writer, &[&large, "after", &large], Barrier)
        .await?;
    writer.close().await?;
    let thread = teller.thread("a");
    thread.durable = thread.acknowledged;

    // Somebody else's crash, in the middle of the story.
    let path = find_log(home, "a");
    let log = fs::read(&path).unwrap();
    let mut torn = log.clone();
    torn.extend_from_slice(b"{\"s\":99,\"t\":");
    fs::write(&path, torn).unwrap();
    let mut writer = store.open_writer(&id("a")).await?;
    teller.append("a", &mut *writer, &["a8"], Barrier).await?;
    drop(writer);

    let mut fork = new("fork");
    fork.parent = Some(ForkPoint {
        thread: id("a"),
        seq: 2,
    });
    let mut writer = store.create(fork).await?;
    teller.thread("fork");
    teller
        .append("fork", &mut *writer, &["f1", "f2"], Barrier)
        .await?;
    drop(writer);
    store.list(ListThreads::default()).await?;

    store.create(new("gone")).await?.close().await?;
    teller.thread("gone").deleted = Some(false);
    store.delete(&id("gone")).await?;
    teller.thread("gone").deleted = Some(true);

    store.create(new("b")).await?;
    teller.thread("b");
    Ok(())
}

fn find_log(home: &Path, name: &str) -> std::path::PathBuf {
    let buckets = fs::read_dir(home.join("threads")).unwrap();
    let logs = buckets.map(|bucket| bucket.unwrap().path().join(name).join("log.jsonl"));
    logs.into_iter().find(|log| log.exists()).unwrap()
}

/// Looks at what is left, as the next process does.
async fn check(home: &Path, promised: &Promised, cut: Cut, case: &str) -> Result<()> {
    // It needn't wait for the disk.
    let config = JsonlConfig::default().durability(DurabilityPolicy::Os);
    let store = JsonlStore::open(home, config)?;
    let page = store.list(ListThreads::default()).await?;
    assert_eq!(page.diagnostics, [], "{case}");
    let listed: Vec<_> = page
        .threads
        .iter()
        .map(|thread| thread.id.to_string())
        .collect();
    for (name, thread) in &promised.threads {
        let is_listed = listed.iter().any(|listed| listed == name);
        match thread.deleted {
            Some(true) => assert!(!is_listed, "{case}: {name} is back"),
            Some(false) => {}
            None => assert!(is_listed, "{case}: {name} isn't in {listed:?}"),
        }
        if !is_listed {
            continue;
        }
        let (records, codes) = read(&store, &id(name)).await?;
        // The fork's own, after its parent's.
        let found: Vec<_> = texts(&records)
            .into_iter()
            .filter(|text| *name != "fork" || text.starts_with('f'))
            .collect();
        let sure = if cut == Cut::Kept {
            thread.acknowledged
        } else {
            thread.durable
        };
        assert!(
            found.len() >= sure,
            "{case}: {name} has {found:?} of {sure}"
        );
        assert!(
            thread.written.starts_with(&found),
            "{case}: {name} has {found:?}"
        );
        let numbers: Vec<_> = records.iter().map(|record| record.seq).collect();
        assert!(
            numbers.iter().copied().eq(0..numbers.len() as u64),
            "{case}: {name} {numbers:?}"
        );
        assert!(
            codes.iter().all(|code| *code == DiagnosticCode::TornTail),
            "{case}: {codes:?}"
        );
        let metadata = store.metadata(&id(name)).await?;
        if thread.title.is_some() {
            assert_eq!(metadata.title.as_deref(), thread.title, "{case}");
        }

        // The thread goes on.
        let mut writer = store.open_writer(&id(name)).await?;
        writer
            .append(notes(&["later"]), Durability::Barrier)
            .await?;
        writer.close().await?;
        let (records, codes) = read(&store, &id(name)).await?;
        assert_eq!(codes, [], "{case}: {name}");
        let now = texts(&records);
        assert_eq!(now.last().map(String::as_str), Some("later"), "{case}");
        assert!(now.len() > found.len(), "{case}");
    }
    for name in listed {
        // Made, if not acknowledged.
        assert!(
            ["a", "b", "fork", "gone"].contains(&&*name),
            "{case}: {name}"
        );
    }
    // What is left of the dead is no hindrance.
    let mut names: Vec<_> = page
        .threads
        .iter()
        .map(|thread| thread.id.clone())
        .collect();
    names.sort_by_key(|name| *name != "fork");
    for name in names {
        store.delete(&name).await?;
    }
    store.create(new("a")).await?.close().await
}

fn tell(policy: DurabilityPolicy, plan: Plan, cut: Cut) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let disk = Arc::new(TestDisk::new(plan));
    let mut promised = Promised::default();
    let told = futures::executor::block_on(async {
        let store = open(&home, policy, &disk)?;
        story(&store, &home, &mut promised).await
    });
    let operations = disk.operations();
    let case = match plan.die_at {
        Some(at) => format!(
            "died at {at} ({}), {}% done, unsynced {cut:?}, {policy:?}",
            operations[at], plan.written_percent
        ),
        None => format!("unsynced {cut:?}, {policy:?}"),
    };
    assert!(plan.die_at.is_some() || told.is_ok(), "{case}: {told:?}");
    disk.cut(&home, cut);
    if let Err(error) = futures::executor::block_on(check(&home, &promised, cut, &case)) {
        panic!("{case}: {error}");
    }
    operations
}

#[test]
fn what_was_acknowledged_survives_a_death_at_any_operation() {
    let all = [Cut::Kept, Cut::Lost, Cut::Half, Cut::Zeros];
    for (policy, cuts) in [
        (DurabilityPolicy::Barriers, &all[..]),
        (DurabilityPolicy::EveryItem, &[Cut::Lost]),
    ] {
        let operations = tell(policy, Plan::default(), Cut::Kept);
        assert!(operations.len() > 60, "{operations:#?}");
        for cut in cuts {
            tell(policy, Plan::default(), *cut);
            for (at, operation) in operations.iter().enumerate() {
                let percents = if operation.starts_with("write") {
                    &[0, 60][..]
                } else {
                    &[0]
                };
                for percent in percents {
                    let plan = Plan {
                        die_at: Some(at),
                        written_percent: *percent,
                        ..Plan::default()
                    };
                    tell(policy, plan, *cut);
                }
            }
        }
    }
}

#[test]
fn without_barriers_a_power_cut_costs_records_but_no_thread() {
    // That this fails for the policy above is what the test above is worth.
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    futures::executor::block_on(async {
        let store = open(folder.path(), DurabilityPolicy::Turn, &disk).unwrap();
        let mut writer = store.create(new("a")).await.unwrap();
        writer
            .append(notes(&["one"]), Durability::Barrier)
            .await
            .unwrap();
        std::mem::forget(writer);
        disk.cut(folder.path(), Cut::Lost);
        let store = JsonlStore::open(folder.path(), Default::default()).unwrap();
        let (records, codes) = read(&store, &id("a")).await.unwrap();
        assert_eq!((texts(&records), codes), (vec![], vec![]));
        assert_eq!(records.len(), 1);
    });
}

#[test]
fn a_process_that_dies_at_any_operation_loses_nothing_under_any_policy() {
    for policy in [DurabilityPolicy::Turn, DurabilityPolicy::Os] {
        let operations = tell(policy, Plan::default(), Cut::Kept);
        for at in 0..operations.len() {
            let plan = Plan {
                die_at: Some(at),
                written_percent: 50,
                ..Plan::default()
            };
            tell(policy, plan, Cut::Kept);
        }
    }
}
