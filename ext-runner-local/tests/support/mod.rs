//! What the behaviour tests share: a session over a folder of its own.
#![allow(dead_code, unreachable_pub)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use haft_api::{
    Binding, CommandOutcome, CommandRequest, Destination, DestinationId, ExtensionId, Isolation,
    OutputChannel, OutputSink, ProcessId, RemoteRunnerProvider, RemoteRunnerSession,
    RemoteRunnerSessionExt as _, Result, raw_json,
};
use haft_ext_runner_local::{LocalConfig, LocalRunner, Sandbox};

/// How commands are looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By the supervisor, confined by namespaces and filters.
    Confined,
    /// By the supervisor, confined by filters alone.
    Filtered,
    /// By the supervisor, not confined.
    Supervised,
    /// By their process group.
    Grouped,
}

pub struct Place {
    pub session: Arc<dyn RemoteRunnerSession>,
    /// The workspace.
    pub root: PathBuf,
    /// Beside the workspace.
    pub outside: PathBuf,
    pub runner: LocalRunner,
    pub binding: Binding,
    _folder: tempfile::TempDir,
}

pub fn config(mode: Mode) -> LocalConfig {
    let mut config = LocalConfig::default();
    config.sandbox = match mode {
        Mode::Confined | Mode::Filtered => Sandbox::Require,
        Mode::Supervised | Mode::Grouped => Sandbox::Off,
    };
    config.namespaces = mode == Mode::Confined;
    if mode != Mode::Grouped {
        config.supervisor = Some(env!("CARGO_BIN_EXE_haft-supervisor").into());
    }
    config
}

/// This program is to be found by the commands it starts.
pub fn reading_tests(mode: Mode) -> LocalConfig {
    let mut config = config(mode);
    let folder = std::env::current_exe().unwrap();
    let folder = folder.parent().unwrap();
    config.read.push(folder.to_str().unwrap().to_owned());
    config
}

/// The modes that this machine has; says which it hasn't, and why.
pub async fn available(modes: &[Mode]) -> Vec<Mode> {
    let mut found = Vec::new();
    for &mode in modes {
        let runner = LocalRunner::new(config(mode)).unwrap();
        let least = match mode {
            Mode::Confined => Isolation::Namespaces,
            Mode::Filtered => Isolation::Filters,
            Mode::Supervised | Mode::Grouped => Isolation::None,
        };
        if runner.capabilities().isolation >= least {
            found.push(mode);
        } else {
            let reason = runner.explain().await.unwrap_or_default();
            let mut stderr = std::io::stderr();
            writeln!(stderr, "skipped: {mode:?}: {reason}").unwrap();
        }
    }
    found
}

pub fn binding(workspace: &Path, read_roots: &[&Path]) -> Binding {
    Binding {
        destination: Destination {
            id: DestinationId::new("thread-test").unwrap(),
            provider_id: ExtensionId::new("local").unwrap(),
            config: raw_json("{}").unwrap(),
            manifest: None,
        },
        workspace: workspace.to_str().unwrap().to_owned(),
        read_roots: read_roots
            .iter()
            .map(|root| root.to_str().unwrap().to_owned())
            .collect(),
    }
}

impl Place {
    /// With commands confined as far as this machine allows.
    pub async fn new() -> Self {
        let mut config = config(Mode::Confined);
        config.sandbox = Sandbox::Prefer;
        Self::with(config).await
    }

    pub async fn with(config: LocalConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("work"), base.join("outside"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let runner = LocalRunner::new(config).unwrap();
        let binding = binding(&root, &[]);
        let session = runner.create(binding.clone()).await.unwrap();
        Self {
            session,
            root,
            outside,
            runner,
            binding,
            _folder: folder,
        }
    }

    pub async fn run(&self, request: CommandRequest) -> Result<(CommandOutcome, Kept)> {
        let kept = Kept::default();
        let outcome = self.session.run_command(id(), request, &kept).await?;
        Ok((outcome, kept))
    }

    pub async fn shell(&self, line: &str) -> (CommandOutcome, Kept) {
        self.run(CommandRequest::shell(line)).await.unwrap()
    }
}

/// A process id nobody else has.
pub fn id() -> ProcessId {
    ProcessId::new(format!("p-{}", uuid::Uuid::now_v7())).unwrap()
}

/// Keeps output by channel.
#[derive(Default)]
pub struct Kept(Mutex<(Vec<u8>, Vec<u8>)>);

impl OutputSink for Kept {
    fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap();
        match channel {
            OutputChannel::Stdout => kept.0.extend_from_slice(bytes),
            OutputChannel::Stderr => kept.1.extend_from_slice(bytes),
        }
    }
}

impl Kept {
    /// What came on either channel.
    pub fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        self.0.lock().unwrap().clone()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().1.clone()).unwrap()
    }
}

/// A word by which processes can be found again.
pub fn marker() -> String {
    format!("haft-mark-{}", uuid::Uuid::now_v7().simple())
}

/// The live processes that carry a marker in their arguments or environment. Each
/// thread is looked at: a process whose first one has ended tells nothing itself.
pub fn alive(marker: &str) -> Vec<u32> {
    let me = std::process::id();
    let lives = |task: &Path| {
        let has = |file: &str| {
            let bytes = std::fs::read(task.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(marker)
        };
        let state = || {
            let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            let rest = stat.rsplit(')').next().unwrap_or_default().trim();
            rest.chars().next()
        };
        (has("environ") || has("cmdline")) && !matches!(state(), None | Some('Z' | 'X'))
    };
    let has_live_task = |&pid: &u32| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let mut tasks = tasks.into_iter().flatten().flatten();
        tasks.any(|task| lives(&task.path()))
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != me)
        .filter(has_live_task)
        .collect()
}

/// Waits until something is so; says how long it took.
pub async fn until(what: &str, limit: Duration, mut so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

/// No process with the marker is left, or none is soon.
pub async fn assert_dead(marker: &str, why: &str) {
    let start = Instant::now();
    loop {
        let left = alive(marker);
        if left.is_empty() {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "{why}: alive after 4 s: {left:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
