//! The suite for [`RemoteRunnerProvider`]s and their sessions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use haft_api::{Binding, RemoteRunnerProvider};

use super::Case;
use super::declare::collect_cases;

mod confinement;
mod endings;
mod files;
mod leases;
mod lifecycle;
mod listing;
mod probe;
mod processes;
mod subject;
mod trees;
mod writes;

pub use probe::{Probe, posix_command};

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __runner_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            a_written_file_is_read_back: "a file of any bytes is read back as it was written, large and empty ones too",
            ranges_are_read: "a range of a file is read, and its metadata are those of the whole file",
            what_is_missing_is_not_found: "a missing file or folder is not found, whatever is asked of it",
            a_folder_is_no_file: "a folder can neither be read nor written as a file",
            any_name_is_a_name: "names with spaces, quotes, dashes and any script are kept as they are",
            paths_start_from_the_workspace: "relative paths start from the workspace, and absolute ones into it mean the same",
            removing_removes_one_thing: "a file or an empty folder is removed; a folder that isn't empty stays whole",
            folders_are_made_with_those_above: "a folder is made with those above it, again without harm, but never over a file",
            a_write_replaces_the_whole_file: "a write replaces the whole file, a shorter one too",
            missing_folders_are_made_on_demand: "folders above a written file are made only when asked for",
            create_new_makes_files_only: "a write that must make the file is refused if there is one",
            if_version_writes_over_that_version_only: "a write over a version is refused if there is another one, or none",
            versions_change_with_the_content: "a version stays while the content does, and changes with every change of it",
            one_of_many_makes_the_file: "of 10 writes at once that must make the file, exactly one succeeds",
            one_of_many_writes_over_the_version: "of 10 writes at once over one version, exactly one succeeds",
            writes_are_atomic: "a reader beside a writer sees the old file or the new one, and nothing is left over",
            an_existing_file_keeps_its_mode: "a write gives a new file the mode it asks for, and leaves an existing one's",
            files_are_written_side_by_side: "20 files written at the same time all have their content",
            a_folder_is_listed_by_name: "a folder's entries are listed by name, with kinds and sizes, and no others",
            listing_pages_are_complete: "listing by pages gives every entry once, and then ends",
            dots_lead_nowhere: "a path that leaves the workspace by `..` is denied, and nothing is touched",
            absolute_paths_lead_nowhere: "an absolute path out of the workspace is denied, and nothing is touched",
            links_lead_nowhere: "a link that leaves the workspace is denied, and nothing is touched",
            a_link_is_seen_as_a_link: "metadata, the list and a removal are of a link, not of what it leads to",
            output_comes_by_channel: "a process's standard output and error come apart, and each whole",
            chunks_have_contiguous_numbers: "a process's output is numbered from 0, and can be read again until it is left behind",
            output_is_read_in_pieces: "a process's output is whole, read in pieces of any size",
            a_read_waits_no_longer_than_asked: "a read of a silent process ends when its wait is over, and of a talking one at once",
            processes_start_in_the_workspace: "a process starts in the workspace, or in the folder it was given",
            variables_are_handed_over: "a process has the variables it was given",
            input_is_handed_over: "what is written to a process's standard input arrives, and its end does too",
            input_is_at_its_end_without_any: "a process without input is at its end at once",
            a_process_that_ended_takes_no_input: "writing to a process that has ended fails",
            an_id_names_one_process: "an id that is taken is refused, and free again after a release",
            an_unknown_process_is_not_found: "whatever is asked of an unknown process, it is not found; a release is ignored",
            what_is_not_there_is_not_started: "a missing program, or a missing folder to start in, is not found",
            processes_run_side_by_side: "processes run at the same time, and don't get each other's output",
            a_slow_reader_stops_no_process: "a process that nobody reads from ends, and every byte of it is kept or counted",
            exit_codes_are_told: "a process that ends by itself ends with its exit code",
            a_signal_of_its_own_is_told: "a process that dies of a signal ends as signalled, not as exited",
            the_time_limit_is_told: "a process over its time limit is killed in time, and keeps its output",
            every_signal_ends_a_process: "a process that is told to end has ended soon after, as cancelled",
            a_release_kills: "a released process is dead and forgotten",
            a_dropped_command_is_dead: "a command whose future was dropped is dead and forgotten",
            leftovers_die_with_their_process: "what a process leaves behind is killed and listed",
            detached_leftovers_live_on: "what a process leaves behind lives on and is listed, where that was asked for",
            the_time_limit_kills_the_tree: "a process over its time limit takes all it started with it",
            constants_are_constant: "ids, capabilities and the workspace are the same at every call, and the workspace is absolute",
            the_state_is_a_durable_handle: "a session's state names its provider and destination, and survives as JSON",
            a_stored_state_is_resumed: "a session is found again by its stored state, with its files",
            resuming_never_makes_a_fresh_one: "resuming an unknown session is an error or gone, never a fresh sandbox",
            what_is_not_claimed_is_unsupported: "a call that the capabilities don't claim is refused as unsupported",
            a_paused_session_is_woken: "a paused session is resumed by the state that pausing returned, with its files",
            a_detached_session_is_rejoined: "a detached session is resumed by the state that detaching returned, with its files",
            a_snapshot_has_a_name: "a snapshot has a name, and the state has it from then on",
            a_port_has_an_address: "a port has an address",
            closing_ends_everything: "a closed session's processes are dead, and whatever is asked of it fails",
            a_lease_fences: "a second lease waits as long as it was asked to, and is refused as busy",
            a_released_lease_is_free: "whoever waits for a lease gets it when it is given back",
            a_dropped_lease_stands_until_it_lapses: "a lease that was dropped stands until it lapses",
            a_held_lease_is_not_lost: "a lease isn't lost while it is held",
        }
    };
}

/// A provider to be tested, and a place for its sessions.
pub struct RunnerFixture {
    provider: Arc<dyn RemoteRunnerProvider>,
    binding: Binding,
    command: Arc<ProbeCommand>,
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

type ProbeCommand = dyn Fn(&Probe) -> Option<Vec<String>> + Send + Sync;

impl RunnerFixture {
    /// A provider, and a binding to an empty workspace of its own. Processes
    /// are taken to have a POSIX shell.
    pub fn new(provider: Arc<dyn RemoteRunnerProvider>, binding: Binding) -> Self {
        Self {
            provider,
            binding,
            command: Arc::new(posix_command),
            _keep: None,
        }
    }

    /// Says how its sandboxes do what the cases need done, where they have no
    /// POSIX shell. Cases with a probe that there is no command for are skipped.
    #[must_use]
    pub fn commands(
        mut self,
        command: impl Fn(&Probe) -> Option<Vec<String>> + Send + Sync + 'static,
    ) -> Self {
        self.command = Arc::new(command);
        self
    }

    /// Keeps something until the case is over, such as the guard of a temporary
    /// folder.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self._keep = Some(Box::new(guard));
        self
    }
}

impl fmt::Debug for RunnerFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerFixture")
            .field("provider", self.provider.id())
            .field("binding", &self.binding)
            .finish_non_exhaustive()
    }
}

/// All cases for a runner provider and its sessions. `make` makes a fixture
/// with an empty workspace. Cases choose themselves by the capabilities that
/// the provider claims.
///
/// For one test per case use [`runner_conformance!`](crate::runner_conformance).
pub fn runner_suite(make: impl Fn() -> RunnerFixture + Send + Sync + 'static) -> Vec<Case> {
    let make = move || subject::Subject::new(make());
    crate::__runner_cases! { collect_cases [make] }
}

/// Declares one test for each promise of a [`RemoteRunnerProvider`] and its
/// sessions. The argument makes a [`RunnerFixture`], a fresh one for each test.
///
/// ```
/// use haft_testkit::{MemoryRunner, RunnerFixture};
///
/// haft_testkit::runner_conformance!(|| {
///     let runner = MemoryRunner::new();
///     let binding = runner.binding("conformance");
///     RunnerFixture::new(runner.shared(), binding).commands(MemoryRunner::probe_command)
/// });
/// # fn main() {}
/// ```
///
/// A provider on the local disk lets the fixture keep its folder:
/// `.keeping(folder)`.
#[macro_export]
macro_rules! runner_conformance {
    ($make:expr) => {
        $crate::__runner_cases! {
            $crate::__declare_tests [runner_conformance, $crate::runner_suite, $make]
        }
    };
}

/// The functions behind the names of the list.
mod cases {
    pub(super) use super::confinement::*;
    pub(super) use super::endings::*;
    pub(super) use super::files::*;
    pub(super) use super::leases::*;
    pub(super) use super::lifecycle::*;
    pub(super) use super::listing::*;
    pub(super) use super::processes::*;
    pub(super) use super::trees::*;
    pub(super) use super::writes::*;
}
