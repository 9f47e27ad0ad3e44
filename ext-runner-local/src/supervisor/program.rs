//! What a keeper is started from.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::ARGUMENT;
use super::loaded::{PRELOAD, SharedObject, VARIABLE};

/// A program that becomes a keeper when it is asked to.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// One that calls [`supervise_if_asked`](crate::supervise_if_asked) first.
    Answering(PathBuf),
    /// This code, which is in a shared object.
    Loaded(Arc<SharedObject>),
}

impl Program {
    /// The one that was named, else this very program, if it answers, else the
    /// shared object that this code is in.
    ///
    /// # Errors
    /// If there is none, with what to do.
    pub(crate) fn find(named: Option<&PathBuf>) -> Result<Self, String> {
        if let Some(path) = named {
            return Ok(Self::Answering(path.clone()));
        }
        if super::answers() {
            return Ok(Self::Answering("/proc/self/exe".into()));
        }
        match SharedObject::own() {
            Ok(Some(object)) => Ok(Self::Loaded(Arc::new(object))),
            Ok(None) => Err("no program that could confine commands is known: this one doesn't call supervise_if_asked, and the setting `supervisor` names none".to_owned()),
            Err(e) => Err(format!(
                "no program that could confine commands is known ({e}); the setting `supervisor` may name one, such as haft-supervisor"
            )),
        }
    }

    /// Ready to be started, with one end of the socket to the host.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn command(&self, socket: UnixStream) -> io::Result<Command> {
        let mut command = match self {
            Self::Answering(path) => {
                let mut command = Command::new(path);
                command.stdout(Stdio::null()).env_clear();
                command
            }
            Self::Loaded(object) => {
                let mut command = Command::new(&object.program);
                command
                    .stdout(File::try_clone(&object.file)?)
                    .env_clear()
                    .env(VARIABLE, "1")
                    .env(PRELOAD.0, PRELOAD.1);
                command
            }
        };
        command
            .arg0("haft-keeper")
            .arg(ARGUMENT)
            .envs(std::env::vars_os().filter(|(name, _)| name == "LD_LIBRARY_PATH"))
            .current_dir("/")
            .stdin(OwnedFd::from(socket))
            .stderr(Stdio::null());
        Ok(command)
    }

    /// What to say of one that doesn't become a keeper.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Answering(_) => "is it a program that calls supervise_if_asked first?",
            Self::Loaded(_) => {
                "the setting `supervisor` may name a program that can, such as haft-supervisor"
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answering(path) => path.display().fmt(f),
            Self::Loaded(object) => write!(
                f,
                "{} in {}",
                object.path.display(),
                object.program.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::processes::keeper::probe;
    use crate::sandbox::Profile;
    use crate::supervisor::loaded::idle_program;

    #[test]
    fn a_file_that_cannot_be_loaded_begins_nothing_and_is_told() {
        let object = SharedObject {
            path: "/opt/runner.so".into(),
            file: tempfile::tempfile().unwrap(),
            program: idle_program().unwrap(),
        };
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile {
            confine: false,
            namespaces: false,
            workspace: folder.path().to_owned(),
            named: None,
            temp: folder.path().join("temp"),
            home: None,
            read: Vec::new(),
            hide: Vec::new(),
            network: false,
            limits: Limits::default(),
        };
        let error = probe(&Program::Loaded(Arc::new(object)), &profile).unwrap_err();
        for word in ["/opt/runner.so", "the setting `supervisor`"] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
