//! The runner suite fails on runners that break a promise.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use haft_api::*;
use haft_testkit::{MemoryRunner, RunnerFixture, Verdict, run_all, runner_suite};

/// How a runner is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    ReadsTheWholeFile,
    MissingFilesAreEmpty,
    ReadsFoldersAsEmptyFiles,
    IgnoresCreateNew,
    IgnoresVersions,
    VersionsBySize,
    WritesInPlace,
    MakesFoldersAlways,
    RemovesWholeFolders,
    StripsDots,
    FollowsLinksOfMetadata,
    ListsBackward,
    ListsTheFirstPageAgain,
    MixesChannels,
    SkipsChunkNumbers,
    ForgetsWhatWasRead,
    ReturnsAtOnce,
    IgnoresTheFolder,
    IgnoresVariables,
    LeavesInputOpen,
    TakesAnIdTwice,
    MissingProcessesAreSilent,
    EndsWithZero,
    IgnoresTimeLimits,
    IgnoresSignals,
    NeverReleases,
    LosesOutputSilently,
    ChangesItsWorkspace,
    NamesAnotherProvider,
    ResumesNothing,
    ResumesFreshOnes,
    PausesNothing,
    HasNoSnapshotInItsState,
    SucceedsAtWhatItCant,
    StaysOpen,
    GivesEveryLease,
    GivesNoLease,
    ReleasesDroppedLeases,
    NeverReleasesLeases,
    LosesHeldLeases,
}

struct Provider {
    inner: MemoryRunner,
    flaw: Flaw,
}

impl Provider {
    fn wrap(&self, inner: Arc<dyn RemoteRunnerSession>) -> Arc<dyn RemoteRunnerSession> {
        let flaw = self.flaw;
        Arc::new(Session { inner, flaw })
    }
}

#[async_trait]
impl RemoteRunnerProvider for Provider {
    fn id(&self) -> &ExtensionId {
        self.inner.id()
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.inner.capabilities()
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        Ok(self.wrap(self.inner.create(binding).await?))
    }

    async fn resume(&self, binding: Binding, state: SessionState) -> Result<Resumed> {
        let reason = "whatever".to_owned();
        match self.flaw {
            Flaw::ResumesNothing => return Ok(Resumed::Gone { reason }),
            Flaw::ResumesFreshOnes => return Ok(Resumed::Session(self.create(binding).await?)),
            _ => {}
        }
        Ok(match self.inner.resume(binding, state).await? {
            Resumed::Session(session) => Resumed::Session(self.wrap(session)),
            gone => gone,
        })
    }

    async fn acquire_lease(
        &self,
        state: SessionState,
        mut request: LeaseRequest,
    ) -> Result<Option<Arc<dyn Lease>>> {
        match self.flaw {
            Flaw::GivesNoLease => return Ok(None),
            Flaw::LosesHeldLeases => request.lease_timeout_ms = Some(100),
            _ => {}
        }
        let lease = match self.inner.acquire_lease(state, request).await {
            Err(error) if self.flaw != Flaw::GivesEveryLease => return Err(error),
            outcome => outcome.unwrap_or_default(),
        };
        let flaw = self.flaw;
        Ok(Some(Arc::new(BrokenLease { inner: lease, flaw })))
    }
}

struct BrokenLease {
    inner: Option<Arc<dyn Lease>>,
    flaw: Flaw,
}

#[async_trait]
impl Lease for BrokenLease {
    async fn lost(&self) -> String {
        match &self.inner {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
    }

    async fn release(&self) -> Result<()> {
        match &self.inner {
            Some(lease) if self.flaw != Flaw::NeverReleasesLeases => lease.release().await,
            _ => Ok(()),
        }
    }
}

impl Drop for BrokenLease {
    fn drop(&mut self) {
        if let (Flaw::ReleasesDroppedLeases, Some(lease)) = (self.flaw, self.inner.take()) {
            tokio::spawn(async move { lease.release().await });
        }
    }
}

struct Session {
    inner: Arc<dyn RemoteRunnerSession>,
    flaw: Flaw,
}

impl Session {
    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn path(&self, path: &str) -> String {
        match self.flaw {
            Flaw::StripsDots => path.replace("../", ""),
            _ => path.to_owned(),
        }
    }

    fn version(&self, mut metadata: FileMetadata) -> FileMetadata {
        if self.is(Flaw::VersionsBySize) {
            metadata.version = metadata.size.to_string();
        }
        metadata
    }
}

#[async_trait]
impl RemoteRunnerSession for Session {
    fn state(&self) -> SessionState {
        let mut state = self.inner.state();
        match self.flaw {
            Flaw::NamesAnotherProvider => state.provider_id = ExtensionId::new("other").unwrap(),
            Flaw::HasNoSnapshotInItsState => state.snapshot = None,
            _ => {}
        }
        state
    }

    fn capabilities(&self) -> RunnerCapabilities {
        self.inner.capabilities()
    }

    fn workspace(&self) -> &str {
        match self.flaw {
            Flaw::ChangesItsWorkspace => "work",
            _ => self.inner.workspace(),
        }
    }

    async fn read_file(&self, path: &str, mut options: ReadOptions) -> Result<FileData> {
        if self.is(Flaw::ReadsTheWholeFile) {
            options = ReadOptions::default();
        }
        let nothing = |bytes| FileData {
            bytes,
            metadata: FileMetadata::new(FileKind::File, 0, "0"),
        };
        match self.inner.read_file(&self.path(path), options).await {
            Err(e) if e.kind() == ErrorKind::NotFound && self.is(Flaw::MissingFilesAreEmpty) => {
                Ok(nothing(vec![]))
            }
            Err(e)
                if e.kind() == ErrorKind::InvalidInput
                    && self.is(Flaw::ReadsFoldersAsEmptyFiles) =>
            {
                Ok(nothing(vec![]))
            }
            outcome => outcome.map(|mut file| {
                file.metadata = self.version(file.metadata);
                file
            }),
        }
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        mut options: WriteOptions,
    ) -> Result<FileMetadata> {
        let path = &self.path(path);
        match (self.flaw, &options.mode) {
            (Flaw::MakesFoldersAlways, _) => options.create_parents = true,
            (Flaw::IgnoresCreateNew, WriteMode::CreateNew)
            | (Flaw::IgnoresVersions, WriteMode::IfVersion(_)) => options.mode = WriteMode::Any,
            (Flaw::VersionsBySize, WriteMode::IfVersion(_)) => options.mode = WriteMode::Any,
            (Flaw::WritesInPlace, _) => {
                let half = bytes[..bytes.len() / 2].to_vec();
                self.inner.write_file(path, half, options.clone()).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
                options.mode = WriteMode::Any;
            }
            _ => {}
        }
        let written = self.inner.write_file(path, bytes, options).await?;
        Ok(self.version(written))
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let mut metadata = self.inner.metadata(&self.path(path)).await?;
        if self.is(Flaw::FollowsLinksOfMetadata) && metadata.kind == FileKind::Symlink {
            metadata.kind = FileKind::File;
        }
        Ok(self.version(metadata))
    }

    async fn list(&self, path: &str, mut options: ListOptions) -> Result<Listing> {
        if self.is(Flaw::ListsTheFirstPageAgain) {
            options.after = None;
        }
        let mut listing = self.inner.list(&self.path(path), options).await?;
        if self.is(Flaw::ListsBackward) {
            listing.entries.reverse();
        }
        Ok(listing)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        if self.is(Flaw::RemovesWholeFolders) {
            let listing = self.inner.list(path, ListOptions::default()).await;
            for entry in listing.map(|l| l.entries).unwrap_or_default() {
                self.inner.remove(&format!("{path}/{}", entry.name)).await?;
            }
        }
        self.inner.remove(&self.path(path)).await
    }

    async fn make_dir(&self, path: &str) -> Result<()> {
        self.inner.make_dir(&self.path(path)).await
    }

    async fn start_process(&self, mut spec: ProcessSpec) -> Result<()> {
        match self.flaw {
            Flaw::IgnoresTheFolder => spec.cwd = None,
            Flaw::IgnoresVariables => spec.env.clear(),
            Flaw::LeavesInputOpen => spec.stdin = true,
            Flaw::IgnoresTimeLimits => spec.timeout_ms = None,
            Flaw::TakesAnIdTwice => self.inner.release_process(&spec.id),
            Flaw::SucceedsAtWhatItCant => spec.pty = false,
            _ => {}
        }
        self.inner.start_process(spec).await
    }

    async fn read_process(
        &self,
        process: &ProcessId,
        mut after: Option<u64>,
        max_bytes: usize,
        mut wait_ms: u64,
    ) -> Result<ProcessRead> {
        match self.flaw {
            Flaw::ReturnsAtOnce => wait_ms = 0,
            Flaw::SkipsChunkNumbers => after = after.map(|after| after / 2),
            _ => {}
        }
        let read = self
            .inner
            .read_process(process, after, max_bytes, wait_ms)
            .await;
        let mut read = match read {
            Err(_) if self.is(Flaw::MissingProcessesAreSilent) => {
                let mut read = ProcessRead::default();
                read.closed = true;
                read
            }
            outcome => outcome?,
        };
        match self.flaw {
            Flaw::MixesChannels => {
                for chunk in &mut read.chunks {
                    chunk.channel = OutputChannel::Stdout;
                }
            }
            Flaw::SkipsChunkNumbers => {
                for chunk in &mut read.chunks {
                    chunk.seq *= 2;
                }
            }
            Flaw::ForgetsWhatWasRead => {
                if let (true, Some(last)) = (read.closed, read.chunks.last()) {
                    let after = Some(last.seq);
                    self.inner.read_process(process, after, 1, 0).await?;
                }
            }
            Flaw::LosesOutputSilently => read.skipped_bytes = 0,
            Flaw::EndsWithZero => {
                read.ending = read.ending.map(|_| Ending::Exited { code: 0 });
            }
            _ => {}
        }
        Ok(read)
    }

    async fn write_stdin(&self, process: &ProcessId, bytes: Option<Vec<u8>>) -> Result<()> {
        self.inner.write_stdin(process, bytes).await
    }

    async fn signal(&self, process: &ProcessId, signal: Signal) -> Result<()> {
        match self.flaw {
            Flaw::IgnoresSignals => Ok(()),
            _ => self.inner.signal(process, signal).await,
        }
    }

    fn release_process(&self, process: &ProcessId) {
        if !self.is(Flaw::NeverReleases) {
            self.inner.release_process(process);
        }
    }

    async fn pause(&self) -> Result<SessionState> {
        match self.flaw {
            Flaw::PausesNothing => Err(Error::new(ErrorKind::Unsupported, "not really")),
            _ => self.inner.pause().await,
        }
    }

    async fn detach(&self) -> Result<SessionState> {
        self.inner.detach().await
    }

    async fn snapshot(&self) -> Result<String> {
        self.inner.snapshot().await
    }

    async fn port(&self, port: u16) -> Result<String> {
        self.inner.port(port).await
    }

    async fn close(&self) -> Result<()> {
        match self.flaw {
            Flaw::StaysOpen => Ok(()),
            _ => self.inner.close().await,
        }
    }
}

fn fixture(flaw: Flaw) -> RunnerFixture {
    let kept = match flaw {
        Flaw::LosesOutputSilently => 1024,
        _ => 1024 * 1024,
    };
    let inner = MemoryRunner::new().output_kept(kept);
    let binding = inner.binding("conformance");
    RunnerFixture::new(Arc::new(Provider { inner, flaw }), binding)
        .commands(MemoryRunner::probe_command)
}

#[tokio::test]
async fn an_honest_wrapper_passes() {
    let report = run_all(runner_suite(|| fixture(Flaw::None))).await;
    report.assert_kept();
}

/// Each flaw, and a case that it must break.
const FOUND: &[(Flaw, &str)] = &[
    (Flaw::ReadsTheWholeFile, "ranges_are_read"),
    (Flaw::MissingFilesAreEmpty, "what_is_missing_is_not_found"),
    (Flaw::ReadsFoldersAsEmptyFiles, "a_folder_is_no_file"),
    (Flaw::IgnoresCreateNew, "create_new_makes_files_only"),
    (Flaw::IgnoresCreateNew, "one_of_many_makes_the_file"),
    (
        Flaw::IgnoresVersions,
        "if_version_writes_over_that_version_only",
    ),
    (Flaw::IgnoresVersions, "one_of_many_writes_over_the_version"),
    (Flaw::VersionsBySize, "versions_change_with_the_content"),
    (Flaw::WritesInPlace, "writes_are_atomic"),
    (
        Flaw::MakesFoldersAlways,
        "missing_folders_are_made_on_demand",
    ),
    (Flaw::RemovesWholeFolders, "removing_removes_one_thing"),
    (Flaw::StripsDots, "dots_lead_nowhere"),
    (Flaw::FollowsLinksOfMetadata, "a_link_is_seen_as_a_link"),
    (Flaw::ListsBackward, "a_folder_is_listed_by_name"),
    (Flaw::ListsTheFirstPageAgain, "listing_pages_are_complete"),
    (Flaw::MixesChannels, "output_comes_by_channel"),
    (Flaw::SkipsChunkNumbers, "chunks_have_contiguous_numbers"),
    (Flaw::SkipsChunkNumbers, "output_is_read_in_pieces"),
    (Flaw::ForgetsWhatWasRead, "chunks_have_contiguous_numbers"),
    (Flaw::ReturnsAtOnce, "a_read_waits_no_longer_than_asked"),
    (Flaw::IgnoresTheFolder, "processes_start_in_the_workspace"),
    (Flaw::IgnoresVariables, "variables_are_handed_over"),
    (Flaw::LeavesInputOpen, "input_is_at_its_end_without_any"),
    (Flaw::TakesAnIdTwice, "an_id_names_one_process"),
    (
        Flaw::MissingProcessesAreSilent,
        "an_unknown_process_is_not_found",
    ),
    (Flaw::EndsWithZero, "exit_codes_are_told"),
    (Flaw::IgnoresTimeLimits, "the_time_limit_is_told"),
    (Flaw::IgnoresSignals, "every_signal_ends_a_process"),
    (Flaw::NeverReleases, "a_release_kills"),
    (Flaw::NeverReleases, "a_dropped_command_is_dead"),
    (Flaw::LosesOutputSilently, "a_slow_reader_stops_no_process"),
    (Flaw::ChangesItsWorkspace, "constants_are_constant"),
    (Flaw::NamesAnotherProvider, "the_state_is_a_durable_handle"),
    (Flaw::ResumesNothing, "a_stored_state_is_resumed"),
    (Flaw::ResumesFreshOnes, "resuming_never_makes_a_fresh_one"),
    (Flaw::ResumesFreshOnes, "a_detached_session_is_rejoined"),
    (Flaw::PausesNothing, "a_paused_session_is_woken"),
    (Flaw::HasNoSnapshotInItsState, "a_snapshot_has_a_name"),
    (
        Flaw::SucceedsAtWhatItCant,
        "what_is_not_claimed_is_unsupported",
    ),
    (Flaw::StaysOpen, "closing_ends_everything"),
    (Flaw::GivesEveryLease, "a_lease_fences"),
    (Flaw::GivesNoLease, "a_lease_fences"),
    (
        Flaw::ReleasesDroppedLeases,
        "a_dropped_lease_stands_until_it_lapses",
    ),
    (Flaw::NeverReleasesLeases, "a_released_lease_is_free"),
    (Flaw::LosesHeldLeases, "a_held_lease_is_not_lost"),
];

#[tokio::test]
async fn broken_runners_are_found() {
    let checks = FOUND.iter().map(|&(flaw, name)| async move {
        let cases = runner_suite(move || fixture(flaw));
        let case = cases.iter().find(|case| case.name() == name);
        let verdict = case.unwrap_or_else(|| panic!("no case {name}")).run().await;
        match verdict {
            Verdict::Broken { message } => {
                assert!(message.contains("expected"), "{flaw:?}: {name}: {message}");
                None
            }
            other => Some(format!("{flaw:?}: {name}: {other:?}")),
        }
    });
    let missed: Vec<_> = join_all(checks).await.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
