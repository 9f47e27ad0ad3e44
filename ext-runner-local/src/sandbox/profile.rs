//! What a session's commands may do, and how much of it was made to hold.

use std::fmt;
use std::path::PathBuf;

use haft_api::Isolation;
use serde::{Deserialize, Serialize};

use crate::config::Limits;

/// What the host asks of a session's keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Whether to confine at all.
    pub(crate) confine: bool,
    /// Whether namespaces are worth trying.
    pub(crate) namespaces: bool,
    /// Where commands may write; absolute, without links.
    pub(crate) workspace: PathBuf,
    /// The workspace as it was named, if that differs.
    pub(crate) named: Option<PathBuf>,
    /// The session's own temporary folder. The keeper removes it at its end.
    pub(crate) temp: PathBuf,
    /// The user's home, which is shown, if empty.
    pub(crate) home: Option<PathBuf>,
    /// What commands may read.
    pub(crate) read: Vec<PathBuf>,
    /// What they never see.
    pub(crate) hide: Vec<PathBuf>,
    pub(crate) network: bool,
    pub(crate) limits: Limits,
}

impl Profile {
    /// The same with a temporary folder of its own, beside this one's.
    pub(crate) fn fresh(&self) -> Self {
        let name = format!("haft-{}", uuid::Uuid::now_v7().simple());
        Self {
            temp: self.temp.with_file_name(name),
            ..self.clone()
        }
    }
}

/// What came of a [`Profile`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Achieved {
    /// Own namespaces of users, mounts, processes and messages.
    pub(crate) namespaces: bool,
    /// A network of its own, with nothing but a loopback.
    pub(crate) own_network: bool,
    /// The version of Landlock, if it is there.
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
    /// The control groups' controllers that hold a limit.
    pub(crate) cgroup: Vec<String>,
    /// What could not be had, and why.
    pub(crate) missing: Vec<String>,
}

impl Achieved {
    /// Whether writes, reads and the network are confined: what `require` asks.
    pub(crate) fn confines(&self) -> bool {
        self.landlock.is_some() && self.seccomp
    }

    /// Whether this is no less than what was promised.
    pub(crate) fn holds(&self, promised: &Self) -> bool {
        self.confines() >= promised.confines()
            && self.namespaces >= promised.namespaces
            && self.own_network >= promised.own_network
    }

    /// The rung of the ladder.
    pub(crate) fn isolation(&self) -> Isolation {
        match (self.confines(), self.cgroup.is_empty(), self.namespaces) {
            (false, ..) => Isolation::None,
            (_, false, _) => Isolation::ControlGroups,
            (_, _, true) => Isolation::Namespaces,
            _ => Isolation::Filters,
        }
    }

    /// The rung of the ladder, in words.
    pub(crate) fn rung(&self) -> String {
        if !self.confines() {
            return "not confined".to_owned();
        }
        let mut parts = Vec::new();
        if !self.cgroup.is_empty() {
            parts.push(format!("control group ({})", self.cgroup.join(", ")));
        }
        if self.namespaces {
            parts.push("namespaces".to_owned());
        }
        if let Some(version) = self.landlock {
            parts.push(format!("Landlock {version}"));
        }
        parts.push("seccomp".to_owned());
        parts.join(" + ")
    }
}

impl fmt::Display for Achieved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rung())?;
        if !self.missing.is_empty() {
            write!(f, "; not to be had: {}", self.missing.join("; "))?;
        }
        Ok(())
    }
}
