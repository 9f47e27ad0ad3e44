//! The host's settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::credentials::CredentialPlace;
use crate::grants::Grants;

/// Settings of the extension `quickjs`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Settings {
    /// Skills: folders with a `manifest.json`. They start with the host.
    pub paths: Vec<PathBuf>,
    /// Folders of skills. Those whose manifest says `auto_start`, or that were
    /// started by hand, start with the host. A folder that isn't there is an
    /// empty one.
    pub folders: Vec<PathBuf>,
    /// Where each skill's state, database, files and secrets are kept, in a
    /// folder of its own. Without it state and database live as long as the
    /// skill runs, and there are no files.
    pub data_dir: Option<PathBuf>,
    /// What skills may do, by id, in place of what their manifests ask for.
    pub grants: BTreeMap<String, Grants>,
    /// Where credentials are kept. Default: in the system's keyring if the program
    /// was built with it (feature `keyring`) and it answers, else in a file that
    /// only the user can read.
    pub credentials: Option<CredentialPlace>,
    /// Tools that are left out, by the name a model sees (`skill__tool`).
    pub deny_tools: Vec<String>,
    /// Whether a running skill whose files change is started again. Default:
    /// yes.
    pub reload: Option<bool>,
    /// What skills may use.
    pub limits: Limits,
}

/// What each skill may use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Most memory that a manifest may ask for, in MiB. Default: 512.
    pub memory_mib: usize,
    /// The stack of a skill's code, in KiB. Default: 1,024.
    pub stack_kib: usize,
    /// How long a script may take to load, in milliseconds. Default: 10,000.
    pub load_ms: u64,
    /// How long `init`, `start` and every other hook may take, in milliseconds.
    /// Default: 30,000.
    pub hook_ms: u64,
    /// How long `stop` may take, in milliseconds. Default: 5,000.
    pub stop_ms: u64,
    /// How long a call may take that has no deadline of its own, in
    /// milliseconds. Default: 120,000.
    pub call_ms: u64,
    /// How long a timer's callback may run, in milliseconds. Default: 5,000.
    pub callback_ms: u64,
    /// Most bytes of a result. Default: 16 MiB.
    pub result_bytes: usize,
    /// Most timers and operations that are pending at once. Default: 100,000.
    pub pending: usize,
    /// Most connections for requests, and most for WebSockets, that are open at
    /// once; more of them wait. Default: 128.
    pub connections: usize,
    /// How long after its deadline code may go on before its runtime is given
    /// up, in milliseconds. Default: 250.
    pub wedge_ms: u64,
    /// Most runtimes that are given up and still run. Default: 8.
    pub given_up: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_mib: 512,
            stack_kib: 1024,
            load_ms: 10_000,
            hook_ms: 30_000,
            stop_ms: 5_000,
            call_ms: 120_000,
            callback_ms: 5_000,
            result_bytes: 16 * 1024 * 1024,
            pending: 100_000,
            connections: 128,
            wedge_ms: 250,
            given_up: 8,
        }
    }
}

impl Limits {
    pub(crate) fn load(&self) -> Duration {
        Duration::from_millis(self.load_ms)
    }

    pub(crate) fn hook(&self) -> Duration {
        Duration::from_millis(self.hook_ms)
    }

    pub(crate) fn stop(&self) -> Duration {
        Duration::from_millis(self.stop_ms)
    }

    pub(crate) fn call(&self) -> Duration {
        Duration::from_millis(self.call_ms)
    }

    pub(crate) fn callback(&self) -> Duration {
        Duration::from_millis(self.callback_ms)
    }

    pub(crate) fn wedge(&self) -> Duration {
        Duration::from_millis(self.wedge_ms)
    }
}
