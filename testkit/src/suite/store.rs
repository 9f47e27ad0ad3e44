//! The suite for [`ThreadStore`]s.

use std::sync::Arc;

use haft_api::{Result, ThreadStore, async_trait};

use super::Case;
use super::declare::collect_cases;

mod crashes;
mod forks;
mod listing;
mod records;
mod restart;
mod subject;
mod threads;
mod writers;

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            the_header_is_record_zero: "a new thread has a header as its record 0, and the next record is 1",
            records_come_back_as_written: "what was appended is read back: numbers, kinds and data, in order",
            data_are_kept_byte_for_byte: "data of any JSON text are kept byte for byte",
            unknown_kinds_are_kept: "records of kinds that nobody knows are kept",
            a_large_record_is_kept: "a record of 4 MiB is kept",
            a_group_has_one_row_of_numbers: "a group's records have contiguous numbers from the one that was acknowledged",
            an_append_is_readable_at_once: "what was acknowledged is readable at once, buffered or not",
            pages_forward_are_complete: "reading forward by pages gives every record once, and then ends",
            pages_backward_are_complete: "reading backward by pages gives every record once, oldest first in a page, and then ends",
            readers_see_whole_prefixes: "a reader beside a writer sees contiguous records, and whole groups",
            a_dropped_append_is_whole_or_not_at_all: "an append whose future was dropped is there whole or not at all, and the next one works",
            a_healthy_thread_has_no_diagnostics: "nothing is amiss with a thread that was only written to",
            creating_twice_is_refused: "a thread that exists can't be created again, and isn't harmed by the attempt",
            a_missing_thread_is_not_found: "everything that is asked of a missing thread fails as not found",
            metadata_begin_as_given: "a new thread's metadata are what it was created with",
            metadata_follow_appends: "metadata know the next record's number and when something was last appended",
            a_patch_changes_what_it_names: "a metadata patch changes what it names and leaves the rest",
            metadata_values_are_kept_byte_for_byte: "further metadata values are kept byte for byte",
            deleting_removes_one_thread: "a deleted thread is gone everywhere, and no other is touched",
            a_thread_in_use_is_not_deleted: "a thread that somebody writes to isn't deleted",
            the_list_begins_with_the_latest: "threads are listed by their last change, latest first",
            the_list_pages_are_complete: "listing by pages gives every thread once, and then ends",
            archived_threads_are_listed_on_demand: "threads that were put away are listed only when asked for",
            a_foreign_cursor_is_refused: "a cursor that isn't the store's own is refused",
            created_at_once_all_are_listed: "200 threads created at the same time are all listed",
            a_thread_has_one_writer: "a thread's second writer is refused as busy while the first lives",
            a_writer_lets_go: "a writer that was closed or dropped has let go of its thread",
            one_of_many_gets_the_writer: "of 20 who want a thread's writer at once, exactly one gets it",
            a_writer_blocks_no_reader: "reading, listing and metadata work while somebody writes",
            threads_are_written_side_by_side: "20 threads written at the same time all have all of their records",
            numbers_go_on_with_the_next_writer: "a thread's next writer goes on with the next number",
            handles_contend_for_writers: "a thread's writer is refused as busy across processes",
            a_fork_begins_with_its_parents_records: "a fork's records begin with its parent's, up to the fork point",
            a_fork_goes_its_own_way: "what is appended to a fork or to its parent doesn't show in the other",
            a_fork_can_be_forked: "a fork of a fork has both ancestors' records",
            a_fork_of_nothing_is_refused: "a fork of a missing thread or record is refused, and leaves nothing behind",
            a_fork_outlives_its_parent: "deleting a fork's parent is refused, or leaves the fork whole",
            a_restart_keeps_threads: "records, metadata, forks and the list are the same after a restart",
            a_restart_keeps_200_threads: "200 threads created at the same time are all listed after a restart",
            numbers_go_on_after_a_restart: "a thread's writer after a restart goes on with the next number",
            a_restart_keeps_threads_deleted: "a deleted thread stays deleted after a restart",
            a_crash_in_any_operation_costs_nothing_acknowledged: "a process that ends in any of its operations leaves what was acknowledged, and threads that go on",
        }
    };
}

/// A place where a store keeps its threads, and the way to open it.
///
/// A case gets a fixture of its own, with no thread in it. It opens it more
/// than once: for a second handle beside the first where the store claims
/// [`cross_process_lease`](haft_api::StoreCapabilities::cross_process_lease),
/// and again after every handle was dropped where it claims
/// [`survives_restart`](haft_api::StoreCapabilities::survives_restart).
///
/// Any `Fn` that returns such a future is a fixture.
#[async_trait]
pub trait StoreFixture: Send + Sync + 'static {
    /// Opens the store at this fixture's place.
    ///
    /// # Errors
    /// If it can't be opened.
    async fn open(&self) -> Result<Arc<dyn ThreadStore>>;

    /// Why the store can't be had here at all (there is no server for it, say).
    /// Each case is then skipped with this reason.
    fn unavailable(&self) -> Option<String> {
        None
    }
}

#[async_trait]
impl<F, R> StoreFixture for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<Arc<dyn ThreadStore>>> + Send,
{
    async fn open(&self) -> Result<Arc<dyn ThreadStore>> {
        self().await
    }
}

/// All cases for a store. `make` makes a fixture with no threads in it.
///
/// For one test per case use [`store_conformance!`](crate::store_conformance).
pub fn store_suite<F: StoreFixture>(make: impl Fn() -> F + Send + Sync + 'static) -> Vec<Case> {
    let make = move || subject::Subject::new(Box::new(make()));
    crate::__store_cases! { collect_cases [make] }
}

/// Declares one test for each promise of a [`ThreadStore`]. The argument makes
/// a [`StoreFixture`], an empty one for each test.
///
/// ```
/// use haft_testkit::MemoryStore;
///
/// haft_testkit::store_conformance!(|| {
///     let store = MemoryStore::new();
///     move || std::future::ready(Ok(store.reopen().shared()))
/// });
/// # #[tokio::main]
/// # async fn main() {
/// # haft_testkit::run_all(store_conformance::cases()).await.assert_kept();
/// # }
/// ```
///
/// For a store on disk, the fixture owns the folder. (A factory of a store in
/// memory stands here for your own.)
///
/// ```
/// use std::sync::Arc;
/// use haft_api::{StoreOptions, ThreadStoreFactory};
/// use haft_testkit::{MemoryStore, MemoryStoreFactory};
///
/// haft_testkit::store_conformance!(|| {
///     let folder = tempfile::tempdir().unwrap();
///     let factory = Arc::new(MemoryStoreFactory::new(MemoryStore::new().shared()));
///     move || {
///         let options = StoreOptions::new(folder.path().display().to_string());
///         let factory = Arc::clone(&factory);
///         async move { factory.open(options).await }
///     }
/// });
/// # #[tokio::main]
/// # async fn main() {
/// # haft_testkit::run_all(store_conformance::cases()).await.assert_kept();
/// # }
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::__store_cases! { $crate::__declare_tests [store_conformance, $crate::store_suite, $make] }
    };
}

/// The functions behind the names of the list.
mod cases {
    pub(super) use super::crashes::*;
    pub(super) use super::forks::*;
    pub(super) use super::listing::*;
    pub(super) use super::records::*;
    pub(super) use super::restart::*;
    pub(super) use super::threads::*;
    pub(super) use super::writers::*;
}
