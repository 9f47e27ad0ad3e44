//! The host's settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::grants::Grants;
use crate::own_limits::OwnLimits;

/// Settings of the extension `lua`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Settings {
    /// Extensions: each a `.lua` file or a folder with an `init.lua`.
    pub paths: Vec<PathBuf>,
    /// Folders whose `.lua` files and folders with an `init.lua` are extensions.
    /// One that isn't there is an empty one.
    pub folders: Vec<PathBuf>,
    /// Where `haft.state` keeps each extension's file. Without it the state
    /// lives as long as the host.
    pub state_dir: Option<PathBuf>,
    /// What extensions may do by name, in place of what they declare.
    pub grants: BTreeMap<String, Grants>,
    /// Tools that are left out, by name.
    pub deny_tools: Vec<String>,
    /// Whether changed files are loaded again. Default: yes.
    pub reload: Option<bool>,
    /// What scripts may use.
    pub limits: Limits,
    /// What extensions may use by name, where it differs from what they declare
    /// and from `limits`.
    pub extension_limits: BTreeMap<String, OwnLimits>,
}

/// What scripts may use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Most memory of the state, in MiB. Default: 128.
    pub memory_mib: usize,
    /// Most memory of one extension, in MiB, about. It holds once half of the
    /// state's is used. Default: 96.
    pub extension_memory_mib: usize,
    /// How long a script may take to load, in milliseconds. Default: 5,000.
    pub load_ms: u64,
    /// How long a call may take that has no deadline of its own, in
    /// milliseconds. Default: 120,000.
    pub call_ms: u64,
    /// How long a callback of a timer, an event or a stream may take, in
    /// milliseconds. Default: 5,000.
    pub callback_ms: u64,
    /// Most bytes of a result. Default: 16 MiB.
    pub result_bytes: usize,
    /// How long after its end a stuck call may go on before the state is given
    /// up, in milliseconds. Default: 500.
    pub wedge_ms: u64,
    /// Most states that are given up and still run. Default: 4.
    pub given_up: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_mib: 128,
            extension_memory_mib: 96,
            load_ms: 5_000,
            call_ms: 120_000,
            callback_ms: 5_000,
            result_bytes: 16 * 1024 * 1024,
            wedge_ms: 500,
            given_up: 4,
        }
    }
}

impl Limits {
    pub(crate) fn load(&self) -> Duration {
        Duration::from_millis(self.load_ms)
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
