//! What a session's commands give up: system calls once, by the keeper that all of
//! them come from, and the rest each for itself, just before it becomes what it is.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ::landlock::{RulesetCreated, RulesetStatus};

use super::seccomp::Sockets;
use super::{Achieved, Cgroups, Isolated, Profile, landlock, limits, privileges, seccomp};
use crate::config::Limits;

/// Ready to be entered by any number of commands.
pub(crate) struct Confinement {
    /// What may be opened. For each command, and not for the keeper: it works on
    /// files outside, and commands may not look into it, which a domain that isn't
    /// the keeper's prevents.
    files: Option<RulesetCreated>,
    limits: Limits,
    limit_memory: bool,
    limit_processes: bool,
    temp: PathBuf,
}

impl Confinement {
    /// Makes ready what this machine has, on the side of the wall where the
    /// session is served. From here on this process, and so all it forks, is
    /// without the system calls that commands may not make.
    ///
    /// # Errors
    /// If what is there refuses.
    pub(crate) fn prepare(
        profile: &Profile,
        isolated: Option<&Isolated>,
        cgroups: &Cgroups,
    ) -> io::Result<(Self, Achieved)> {
        let mut achieved = Achieved {
            cgroup: cgroups.controllers(),
            ..Achieved::default()
        };
        if let Some(Isolated::Inside {
            own_network,
            missing,
        }) = isolated
        {
            achieved.namespaces = true;
            achieved.own_network = *own_network;
            achieved.missing.extend(missing.iter().cloned());
        }
        let files = match profile.confine {
            true => walls(profile, &mut achieved)?,
            false => None,
        };
        let own_tmp = achieved.namespaces && profile.workspace != Path::new("/tmp");
        let confinement = Self {
            files,
            limits: profile.limits,
            limit_memory: !cgroups.limits_memory(),
            // Elsewhere the system would count all of the user's processes.
            limit_processes: achieved.namespaces && !cgroups.limits_processes(),
            temp: match own_tmp {
                true => PathBuf::from("/tmp"),
                false => profile.temp.clone(),
            },
        };
        confinement.tell_unlimited(&mut achieved);
        Ok((confinement, achieved))
    }

    /// Where commands have their temporary folder.
    pub(crate) fn temp(&self) -> &Path {
        &self.temp
    }

    fn tell_unlimited(&self, achieved: &mut Achieved) {
        let root = rustix::process::geteuid().is_root();
        let counted = self.limit_processes && !root;
        let by_group = achieved.cgroup.iter().any(|name| name == "pids");
        if self.limits.processes.is_some() && !counted && !by_group {
            let text = "a limit of processes (no control group of pids may be made here)";
            achieved.missing.push(text.to_owned());
        }
        if self.limits.memory_bytes.is_some() && self.limit_memory {
            let text = "a limit of all memory (each process's data is limited instead)";
            achieved.missing.push(text.to_owned());
        }
    }

    /// Gives everything up, for this process and all it will start.
    ///
    /// # Errors
    /// If a wall doesn't stand; the command may not run then. Its standard error
    /// is told why.
    pub(crate) fn enter(&self) -> io::Result<()> {
        self.build().inspect_err(|e| {
            let _ = writeln!(io::stderr(), "haft: the command can't be confined: {e}");
        })
    }

    fn build(&self) -> io::Result<()> {
        limits::apply(&self.limits, self.limit_memory, self.limit_processes)?;
        let Some(files) = &self.files else {
            return Ok(());
        };
        privileges::drop_privileges()?;
        let status = files
            .try_clone()?
            .restrict_self()
            .map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(io::Error::other("Landlock doesn't hold"));
        }
        Ok(())
    }
}

/// Gives up system calls, and makes ready what each command gives up of files.
fn walls(profile: &Profile, achieved: &mut Achieved) -> io::Result<Option<RulesetCreated>> {
    let version = match landlock::version() {
        Ok(version) => version,
        Err(reason) => {
            achieved.missing.push(reason);
            return Ok(None);
        }
    };
    let scopes = landlock::scopes(version);
    if !scopes && !achieved.namespaces {
        let text = "a bar on signals to other processes (Landlock 6 or namespaces are needed)";
        achieved.missing.push(text.to_owned());
    }
    let sockets = match profile.network || achieved.own_network {
        true => Sockets::Usual,
        false => Sockets::Pairs,
    };
    let calls = match seccomp::available().and_then(|()| seccomp::prepare(sockets)) {
        Ok(calls) => calls,
        Err(reason) => {
            achieved.missing.push(reason);
            return Ok(None);
        }
    };
    let (read, write) = match achieved.namespaces {
        // The view shows what may be read, and nothing else.
        true => (
            vec!["/".into()],
            vec![profile.workspace.clone(), "/tmp".into()],
        ),
        false => {
            let mut read = profile.read.clone();
            read.push("/proc".into());
            (read, vec![profile.workspace.clone(), profile.temp.clone()])
        }
    };
    let files = landlock::prepare(&landlock::Rules {
        read,
        write,
        scope_signals: scopes && !achieved.namespaces,
        scope_sockets: scopes && !achieved.own_network,
    })?;
    // The kernel translates a filter, and asks it about every system call there is,
    // when it is installed: more work than all else that a command's start takes.
    seccomp::enter(&calls)?;
    achieved.landlock = Some(version);
    achieved.seccomp = true;
    Ok(Some(files))
}
