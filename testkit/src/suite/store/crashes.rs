//! A story that is told over and over; each time its process ends in another of
//! its operations.

use std::time::{Duration, Instant};

use haft_api::{
    Durability, ErrorKind, ForkPoint, ListThreads, MetadataPatch, NewThread, Result, ThreadId,
    ThreadStore, ThreadWriter,
};

use super::subject::{Store, Subject, append, note};
use crate::crash::CrashMoment;
use crate::fixture::fresh_thread;
use crate::store::FaultStore;
use crate::suite::expect::{claimed, ensure, ok, same};
use crate::suite::{Checked, Unmet};

/// How long the system may take to let go of what a dead process held.
const LET_GO: Duration = Duration::from_secs(20);

/// A thread, as far as its writer was told.
struct Told {
    id: ThreadId,
    created: bool,
    /// Its notes, in the order in which they were to be written.
    notes: Vec<String>,
    /// How many of them were acknowledged.
    acknowledged: usize,
    title: Option<&'static str>,
    /// Whether it was to be deleted, and whether that was acknowledged.
    deleted: Option<bool>,
}

impl Told {
    fn new() -> Self {
        Self {
            id: fresh_thread(),
            created: false,
            notes: Vec::new(),
            acknowledged: 0,
            title: None,
            deleted: None,
        }
    }

    async fn append(
        &mut self,
        writer: &mut dyn ThreadWriter,
        texts: &[&str],
        durability: Durability,
    ) -> Result<()> {
        self.notes
            .extend(texts.iter().map(|text| (*text).to_owned()));
        let group = texts.iter().map(|text| note(text)).collect();
        writer.append(group, durability).await?;
        self.acknowledged = self.notes.len();
        Ok(())
    }

    async fn patch(&mut self, writer: &mut dyn ThreadWriter, title: &'static str) -> Result<()> {
        let patch = MetadataPatch::default().title(title);
        writer.patch_metadata(patch).await?;
        self.title = Some(title);
        Ok(())
    }
}

/// A bit of everything that a store writes.
async fn story(store: &FaultStore, thread: &mut Told, fork: &mut Told) -> Result<()> {
    use Durability::{Barrier, Buffered};
    let large = "large ".repeat(16 * 1024);

    let mut writer = store.create(NewThread::new(thread.id.clone())).await?;
    thread.created = true;
    thread.append(&mut *writer, &["1"], Barrier).await?;
    thread
        .append(&mut *writer, &["2", "3", "4"], Buffered)
        .await?;
    thread.patch(&mut *writer, "first").await?;
    thread.append(&mut *writer, &[&large, "6"], Barrier).await?;
    writer.close().await?;

    let mut new = NewThread::new(fork.id.clone());
    new.parent = Some(ForkPoint {
        thread: thread.id.clone(),
        seq: 2,
    });
    let mut writer = store.create(new).await?;
    fork.created = true;
    fork.append(&mut *writer, &["f1", "f2"], Buffered).await?;
    writer.close().await?;

    let mut writer = store.open_writer(&thread.id).await?;
    thread.append(&mut *writer, &["7", "8"], Buffered).await?;
    thread.patch(&mut *writer, "second").await?;
    writer.close().await?;

    fork.deleted = Some(false);
    store.delete(&fork.id).await?;
    fork.deleted = Some(true);
    Ok(())
}

pub(in crate::suite) async fn a_crash_in_any_operation_costs_nothing_acknowledged(
    subject: Subject,
) -> Checked {
    let store = subject.open().await?;
    let claim = store.0.capabilities().survives_restart;
    claimed(claim, "the store doesn't claim `survives_restart`")?;
    drop(store);
    // Before an operation is after the one before it.
    for moment in [CrashMoment::Within, CrashMoment::Torn, CrashMoment::After] {
        for number in 0.. {
            let store = FaultStore::new(subject.open().await?.0);
            store.faults().crash_at(number, moment);
            let (mut thread, mut fork) = (Told::new(), Told::new());
            let told = story(&store, &mut thread, &mut fork).await;
            let crashed = store.faults().is_crashed();
            drop(store);

            let case = |unmet| match unmet {
                Unmet::Broken(message) => Unmet::Broken(format!(
                    "after a crash in operation {number} ({moment:?}): {message}"
                )),
                other => other,
            };
            let store = subject.open().await?;
            check(&store, &fork, 2).await.map_err(case)?;
            check(&store, &thread, 0).await.map_err(case)?;
            if !crashed {
                ok("telling the story", told)?;
                break;
            }
        }
    }
    Ok(())
}

/// Checks a thread and goes on with it; it begins with so many notes of its
/// parent's.
async fn check(store: &Store, told: &Told, of_parent: usize) -> Checked {
    let gone =
        |kind: ErrorKind| kind == ErrorKind::NotFound && (!told.created || told.deleted.is_some());
    if told.deleted == Some(true) {
        let metadata = store.0.metadata(&told.id).await;
        let found = metadata.map_err(|error| error.kind()).err();
        return same("a deleted thread", &Some(ErrorKind::NotFound), &found);
    }
    let mut writer = match take(store, &told.id).await {
        Err(error) if gone(error.kind()) => return Ok(()),
        outcome => ok("taking the writer", outcome)?,
    };
    let found = store.notes(&told.id).await?.split_off(of_parent);
    ensure!(
        found.len() >= told.acknowledged && told.notes.starts_with(&found),
        "expected at least the first {} of the notes {:?}, got {:?}",
        told.acknowledged,
        starts(&told.notes),
        starts(&found)
    );
    let metadata = store.metadata(&told.id).await?;
    if told.title.is_some() {
        let title = metadata.title.as_deref();
        // The next one may be there without a word of it.
        let known = title == told.title || title == Some("second");
        ensure!(known, "expected the title {:?}, got {title:?}", told.title);
    }
    let next = append(&mut *writer, &["later"]).await?;
    ok("closing the writer", writer.close().await)?;
    let mut expected = found;
    expected.push("later".to_owned());
    let records = store.all(&told.id).await?;
    same(
        "the next record's number",
        &(records.len() as u64 - 1),
        &next,
    )?;
    let now = store.notes(&told.id).await?.split_off(of_parent);
    same("the notes", &starts(&expected), &starts(&now))?;
    let listed = store.list(ListThreads::default()).await?;
    ensure!(
        listed.iter().any(|thread| thread.id == told.id),
        "expected the thread in the list"
    );
    Ok(())
}

/// The beginnings of texts, for a message.
fn starts(notes: &[String]) -> Vec<&str> {
    notes
        .iter()
        .map(|text| text.get(..8).unwrap_or(text))
        .collect()
}

/// Takes a writer as soon as it is free: what a dead process had begun may still
/// be at its end.
async fn take(store: &Store, id: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
    let started = Instant::now();
    loop {
        match store.0.open_writer(id).await {
            Err(error) if error.kind() == ErrorKind::Busy && started.elapsed() < LET_GO => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            outcome => return outcome,
        }
    }
}
