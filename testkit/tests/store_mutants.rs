//! The store suite fails on stores that break a promise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use haft_api::*;
use haft_testkit::{Case, MemoryStore, run_all, store_suite};

/// How a store is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    LosesARecordOfAGroup,
    ParsesAndPrintsData,
    DropsUnknownKinds,
    AcknowledgesAWrongNumber,
    KeepsNoLargeRecords,
    SkipsARecordBetweenPages,
    PagesBackwardNewestFirst,
    NeverEndsItsPages,
    MissingThreadsAreEmpty,
    CreatingTwiceTruncates,
    RefusesWritersAsUnavailable,
    HasManyWriters,
    NeverLetsGoOfAWriter,
    ForgetsTitles,
    PatchClearsOtherValues,
    ListsOnePageOnly,
    ListsById,
    ListsArchivedThreads,
    TakesAnyCursor,
    DeletesThreadsInUse,
    ForgetsForkPoints,
    ForksOfNothingAreEmpty,
    ForgetsAllAtARestart,
    WritesWhatItAcknowledgedLater,
}

#[derive(Clone)]
struct Broken {
    inner: MemoryStore,
    flaw: Flaw,
    writers: Arc<Mutex<BTreeMap<ThreadId, Weak<SharedWriter>>>>,
}

type SharedWriter = tokio::sync::Mutex<Box<dyn ThreadWriter>>;

impl Broken {
    fn wrap(&self, writer: Box<dyn ThreadWriter>) -> Box<dyn ThreadWriter> {
        let (thread, next_seq) = (writer.thread().clone(), writer.next_seq());
        let inner = Arc::new(tokio::sync::Mutex::new(writer));
        let mut writers = self.writers.lock().unwrap();
        writers.insert(thread.clone(), Arc::downgrade(&inner));
        if self.flaw == Flaw::NeverLetsGoOfAWriter {
            std::mem::forget(Arc::clone(&inner));
        }
        Box::new(BrokenWriter {
            inner,
            thread,
            next_seq,
            flaw: self.flaw,
            unwritten: Vec::new(),
        })
    }
}

#[async_trait]
impl ThreadStore for Broken {
    fn capabilities(&self) -> StoreCapabilities {
        self.inner.capabilities()
    }

    async fn create(&self, mut thread: NewThread) -> Result<Box<dyn ThreadWriter>> {
        let id = thread.id.clone();
        match self.flaw {
            Flaw::ForgetsForkPoints => thread.parent = None,
            Flaw::ForksOfNothingAreEmpty => {
                if let Some(parent) = &thread.parent
                    && self.inner.metadata(&parent.thread).await.is_err()
                {
                    thread.parent = None;
                }
            }
            Flaw::CreatingTwiceTruncates => {
                let _ = self.inner.delete(&id).await;
            }
            _ => {}
        }
        Ok(self.wrap(self.inner.create(thread).await?))
    }

    async fn open_writer(&self, thread: &ThreadId) -> Result<Box<dyn ThreadWriter>> {
        let living = self
            .writers
            .lock()
            .unwrap()
            .get(thread)
            .and_then(Weak::upgrade);
        if let (Flaw::HasManyWriters, Some(inner)) = (self.flaw, living) {
            let next_seq = inner.lock().await.next_seq();
            return Ok(Box::new(BrokenWriter {
                inner,
                thread: thread.clone(),
                next_seq,
                flaw: self.flaw,
                unwritten: Vec::new(),
            }));
        }
        match self.inner.open_writer(thread).await {
            Err(error) if self.flaw == Flaw::RefusesWritersAsUnavailable => {
                Err(Error::new(ErrorKind::Unavailable, error.to_string()))
            }
            outcome => Ok(self.wrap(outcome?)),
        }
    }

    async fn read(&self, thread: &ThreadId, range: ReadRange) -> Result<RecordPage> {
        let mut page = match self.inner.read(thread, range).await {
            Err(_) if self.flaw == Flaw::MissingThreadsAreEmpty => RecordPage::default(),
            outcome => outcome?,
        };
        let backward = matches!(range, ReadRange::Backward { .. });
        match self.flaw {
            Flaw::SkipsARecordBetweenPages if !backward => {
                page.next = page.next.map(|next| next + 1);
            }
            Flaw::PagesBackwardNewestFirst if backward => page.records.reverse(),
            Flaw::NeverEndsItsPages => {
                let last = page.records.last().map_or(0, |record| record.seq + 1);
                page.next.get_or_insert(last);
            }
            _ => {}
        }
        Ok(page)
    }

    async fn metadata(&self, thread: &ThreadId) -> Result<ThreadMetadata> {
        let mut metadata = self.inner.metadata(thread).await?;
        if self.flaw == Flaw::ForgetsTitles {
            metadata.title = None;
        }
        Ok(metadata)
    }

    async fn list(&self, mut request: ListThreads) -> Result<ThreadPage> {
        match self.flaw {
            Flaw::TakesAnyCursor => {
                request.cursor = request.cursor.filter(|c| c.parse::<u64>().is_ok());
            }
            Flaw::ListsArchivedThreads => request.archived = true,
            _ => {}
        }
        let mut page = self.inner.list(request).await?;
        match self.flaw {
            Flaw::ListsOnePageOnly => page.next = None,
            Flaw::ListsById => page.threads.sort_by_key(|thread| thread.id.clone()),
            _ => {}
        }
        Ok(page)
    }

    async fn delete(&self, thread: &ThreadId) -> Result<()> {
        match self.inner.delete(thread).await {
            Err(e) if e.kind() == ErrorKind::Busy && self.flaw == Flaw::DeletesThreadsInUse => {
                Ok(())
            }
            outcome => outcome,
        }
    }
}

struct BrokenWriter {
    inner: Arc<SharedWriter>,
    thread: ThreadId,
    next_seq: u64,
    flaw: Flaw,
    /// Acknowledged, and not written yet.
    unwritten: Vec<NewRecord>,
}

#[async_trait]
impl ThreadWriter for BrokenWriter {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }

    fn next_seq(&self) -> u64 {
        self.next_seq
    }

    async fn append(&mut self, mut group: Vec<NewRecord>, to: Durability) -> Result<Appended> {
        match self.flaw {
            Flaw::LosesARecordOfAGroup if group.len() > 50 => drop(group.remove(50)),
            Flaw::ParsesAndPrintsData => {
                for record in &mut group {
                    if let Ok(value) = serde_json::from_str::<serde_json::Value>(record.data.get())
                    {
                        record.data = raw_json(value.to_string())?;
                    }
                }
            }
            Flaw::DropsUnknownKinds => group.retain(|r| !r.kind.starts_with("from_2099")),
            Flaw::KeepsNoLargeRecords => group.retain(|r| r.data.get().len() < 1024 * 1024),
            _ => {}
        }
        let mut inner = self.inner.lock().await;
        if self.flaw == Flaw::WritesWhatItAcknowledgedLater {
            let count = group.len() as u64;
            let before = std::mem::replace(&mut self.unwritten, group);
            inner.append(before, to).await?;
            let first_seq = inner.next_seq();
            self.next_seq = first_seq + count;
            return Ok(Appended::new(first_seq, 0));
        }
        let mut appended = inner.append(group, to).await?;
        if self.flaw == Flaw::AcknowledgesAWrongNumber {
            appended.first_seq += 1;
        }
        self.next_seq = inner.next_seq();
        Ok(appended)
    }

    async fn patch_metadata(&mut self, mut patch: MetadataPatch) -> Result<ThreadMetadata> {
        let mut inner = self.inner.lock().await;
        if self.flaw == Flaw::PatchClearsOtherValues {
            for name in inner
                .patch_metadata(MetadataPatch::default())
                .await?
                .extra
                .into_keys()
            {
                patch.extra.entry(name).or_insert(None);
            }
        }
        inner.patch_metadata(patch).await
    }

    async fn close(self: Box<Self>) -> Result<()> {
        let mut inner = self.inner.lock().await;
        inner.append(self.unwritten, Durability::Barrier).await?;
        Ok(())
    }
}

/// The suite on a store with this flaw.
fn cases(flaw: Flaw) -> Vec<Case> {
    store_suite(move || {
        let store = MemoryStore::new();
        move || {
            let inner = match flaw {
                Flaw::ForgetsAllAtARestart => MemoryStore::new(),
                _ => store.reopen(),
            };
            let store: Arc<dyn ThreadStore> = Arc::new(Broken {
                inner,
                flaw,
                writers: Arc::default(),
            });
            std::future::ready(Ok(store))
        }
    })
}

#[tokio::test]
async fn an_honest_wrapper_passes() {
    run_all(cases(Flaw::None)).await.assert_kept();
}

/// Runs some cases on a store with this flaw; each must be broken.
async fn check(flaw: Flaw, names: &[&str]) {
    let mut cases = cases(flaw);
    cases.retain(|case| names.contains(&case.name()));
    assert_eq!(cases.len(), names.len(), "{names:?}");
    let report = run_all(cases).await;
    assert_eq!(report.broken().len(), names.len(), "{flaw:?}\n{report}");
}

#[tokio::test]
async fn broken_records_are_found() {
    check(
        Flaw::LosesARecordOfAGroup,
        &["a_group_has_one_row_of_numbers"],
    )
    .await;
    check(Flaw::ParsesAndPrintsData, &["data_are_kept_byte_for_byte"]).await;
    check(Flaw::DropsUnknownKinds, &["unknown_kinds_are_kept"]).await;
    check(Flaw::KeepsNoLargeRecords, &["a_large_record_is_kept"]).await;
    check(
        Flaw::AcknowledgesAWrongNumber,
        &["records_come_back_as_written"],
    )
    .await;
    check(
        Flaw::SkipsARecordBetweenPages,
        &["pages_forward_are_complete"],
    )
    .await;
    check(
        Flaw::PagesBackwardNewestFirst,
        &["pages_backward_are_complete"],
    )
    .await;
    check(Flaw::NeverEndsItsPages, &["pages_forward_are_complete"]).await;
}

#[tokio::test]
async fn broken_threads_are_found() {
    check(
        Flaw::MissingThreadsAreEmpty,
        &["a_missing_thread_is_not_found"],
    )
    .await;
    check(Flaw::CreatingTwiceTruncates, &["creating_twice_is_refused"]).await;
    check(
        Flaw::ForgetsTitles,
        &["a_patch_changes_what_it_names", "metadata_begin_as_given"],
    )
    .await;
    check(
        Flaw::PatchClearsOtherValues,
        &["a_patch_changes_what_it_names"],
    )
    .await;
    check(
        Flaw::DeletesThreadsInUse,
        &["a_thread_in_use_is_not_deleted"],
    )
    .await;
    check(
        Flaw::ForgetsForkPoints,
        &["a_fork_begins_with_its_parents_records"],
    )
    .await;
    check(
        Flaw::ForksOfNothingAreEmpty,
        &["a_fork_of_nothing_is_refused"],
    )
    .await;
    check(
        Flaw::ForgetsAllAtARestart,
        &["a_restart_keeps_threads", "a_restart_keeps_200_threads"],
    )
    .await;
    check(
        Flaw::WritesWhatItAcknowledgedLater,
        &["a_crash_in_any_operation_costs_nothing_acknowledged"],
    )
    .await;
}

#[tokio::test]
async fn broken_writers_and_lists_are_found() {
    check(
        Flaw::RefusesWritersAsUnavailable,
        &["a_thread_has_one_writer"],
    )
    .await;
    check(
        Flaw::HasManyWriters,
        &["a_thread_has_one_writer", "one_of_many_gets_the_writer"],
    )
    .await;
    check(Flaw::NeverLetsGoOfAWriter, &["a_writer_lets_go"]).await;
    check(
        Flaw::ListsOnePageOnly,
        &[
            "the_list_pages_are_complete",
            "created_at_once_all_are_listed",
        ],
    )
    .await;
    check(Flaw::ListsById, &["the_list_begins_with_the_latest"]).await;
    check(
        Flaw::ListsArchivedThreads,
        &["archived_threads_are_listed_on_demand"],
    )
    .await;
    check(Flaw::TakesAnyCursor, &["a_foreign_cursor_is_refused"]).await;
}
