//! Settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use haft_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Settings of a [`LocalRunner`](crate::LocalRunner).
///
/// ```
/// use haft_ext_runner_local::{LocalConfig, LocalRunner};
///
/// let mut config = LocalConfig::default();
/// config.pass_env.push("CARGO_HOME".to_owned());
/// LocalRunner::new(config)?;
/// # Ok::<(), haft_api::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LocalConfig {
    /// Variables of the host's environment that commands get, besides `PATH`,
    /// `HOME`, `LANG`, `LC_*`, `TERM`, `TMPDIR`, `USER`, `LOGNAME` and `SHELL`.
    /// A name may end in `*`; what such a pattern catches is left out if its
    /// name looks like a secret's (`…KEY`, `…TOKEN`, `…SECRET`, `…PASSWORD`,
    /// `…CREDENTIALS`). Written out in full, any name passes.
    pub pass_env: Vec<String>,
    /// Variables that commands get with these values, over those passed on.
    pub set_env: BTreeMap<String, String>,
    /// The program that looks after each command: `haft-supervisor`, or any
    /// that calls [`supervise_if_asked`](crate::supervise_if_asked) first thing
    /// in its `main`. Absolute. `None`: this very program, if it made that
    /// call, or the shared object that this code is in; otherwise commands run
    /// without, and what escapes their process group may outlive them.
    pub supervisor: Option<PathBuf>,
    /// Whether commands are confined. `require`: a session that can't confine
    /// them starts none. `prefer`: as far as this machine allows. `off`: not at
    /// all. On Linux `require` is the default; elsewhere nothing can confine a
    /// command yet, and the default is `prefer`.
    pub sandbox: Sandbox,
    /// Whether to confine by namespaces, too, where the machine grants them.
    /// Without, what may be read can be limited, but not hidden.
    pub namespaces: bool,
    /// Whether confined commands reach the network. Without it they have a
    /// loopback of their own where the machine allows, else no network at all.
    pub network: bool,
    /// What confined commands may read besides the system's folders, the tools
    /// on the `PATH` and the workspace: absolute paths, or `~/…`.
    pub read: Vec<String>,
    /// What confined commands never see, even beneath what they may read, besides
    /// the usual places of keys and passwords: absolute paths, or `~/…`.
    pub hide: Vec<String>,
    /// What a command may use up.
    pub limits: Limits,
    /// The workspace of threads that name none; absolute.
    pub workspace: Option<String>,
    /// Most output kept of one process for a reader that is slow, in bytes.
    pub output_buffer_bytes: usize,
    /// Most bytes of a file handed over in one read.
    pub max_read_bytes: u64,
    /// Most processes of one session at a time, counting those that have ended
    /// and weren't released.
    pub max_processes: usize,
    /// How long a process that is to end has between the polite signal and the
    /// final one, in milliseconds.
    pub kill_grace_ms: u64,
}

/// Whether commands are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// They are, or they don't run.
    Require,
    /// As far as this machine allows.
    Prefer,
    /// Not at all.
    Off,
}

impl Default for Sandbox {
    fn default() -> Self {
        match cfg!(target_os = "linux") {
            true => Self::Require,
            false => Self::Prefer,
        }
    }
}

/// What a command may use up. `None` sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Processor time of each process, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Memory of all of a session's commands, in bytes, where a control group
    /// can be had; else of the data of each process.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of all of a session's commands.
    pub processes: Option<u64>,
    /// The size of each file that is written, in bytes.
    pub file_bytes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
}

impl Limits {
    fn check(&self) -> Result<()> {
        let least = [
            ("limits.cpu_seconds", self.cpu_seconds, 1),
            ("limits.memory_bytes", self.memory_bytes, 1024 * 1024),
            ("limits.processes", self.processes, 4),
            ("limits.file_bytes", self.file_bytes, 1),
            ("limits.open_files", self.open_files, 16),
        ];
        for (key, value, least) in least {
            if value.is_some_and(|value| value < least) {
                let message = format!("must be {least} at least");
                return Err(Error::new(ErrorKind::InvalidInput, message)
                    .operation("configure")
                    .context("key", key));
            }
        }
        Ok(())
    }
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self {
            pass_env: Vec::new(),
            set_env: BTreeMap::new(),
            supervisor: None,
            sandbox: Sandbox::default(),
            namespaces: true,
            network: false,
            read: Vec::new(),
            hide: Vec::new(),
            limits: Limits::default(),
            workspace: None,
            output_buffer_bytes: 1024 * 1024,
            max_read_bytes: 256 * 1024 * 1024,
            max_processes: 256,
            kill_grace_ms: 200,
        }
    }
}

impl LocalConfig {
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |key: &str, message: &str| {
            Err(Error::new(ErrorKind::InvalidInput, message)
                .operation("configure")
                .context("key", key))
        };
        if !(64 * 1024..=256 * 1024 * 1024).contains(&self.output_buffer_bytes) {
            return refuse("output_buffer_bytes", "must be from 64 KiB to 256 MiB");
        }
        if self.max_read_bytes == 0 {
            return refuse("max_read_bytes", "must be more than zero");
        }
        if self.max_processes == 0 {
            return refuse("max_processes", "must be more than zero");
        }
        if self.kill_grace_ms > 60_000 {
            return refuse("kill_grace_ms", "must be a minute at most");
        }
        if self.supervisor.as_ref().is_some_and(|p| !p.is_absolute()) {
            return refuse("supervisor", "must be an absolute path");
        }
        let unrooted = |path: &String| !(path.starts_with('/') || path.starts_with("~/"));
        for (key, paths) in [("read", &self.read), ("hide", &self.hide)] {
            if paths.iter().any(unrooted) {
                return refuse(
                    key,
                    "must hold absolute paths, or such that begin with `~/`",
                );
            }
        }
        self.limits.check()?;
        let relative = |path: &String| !std::path::Path::new(path).is_absolute();
        if self.workspace.as_ref().is_some_and(relative) {
            return refuse("workspace", "must be an absolute path");
        }
        let bad_name = |name: &str| name.is_empty() || name.contains(['=', '\0']);
        if self.pass_env.iter().any(|name| bad_name(name)) {
            return refuse("pass_env", "holds something that is no variable's name");
        }
        let bad_pair = |(name, value): (&String, &String)| bad_name(name) || value.contains('\0');
        if self.set_env.iter().any(bad_pair) {
            return refuse("set_env", "holds something that is no variable");
        }
        Ok(())
    }
}
