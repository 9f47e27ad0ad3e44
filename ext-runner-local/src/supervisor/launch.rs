//! Starting the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::wire::Launch;
use crate::sandbox::Confinement;

/// Starts the command, confined, in a process group of its own; on a terminal,
/// as the leader of a session whose terminal that is.
pub(super) fn start(
    launch: &Launch,
    stdin: Option<OwnedFd>,
    (stdout, stderr): (OwnedFd, OwnedFd),
    confinement: &Arc<Confinement>,
) -> io::Result<u32> {
    let (program, arguments) = launch
        .argv
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(find(program, &launch.env));
    // Nothing of the keeper's own.
    command.env_clear();
    if !launch.env.iter().any(|(name, _)| name == "TMPDIR") {
        command.env("TMPDIR", confinement.temp());
    }
    command
        .arg0(program)
        .args(arguments)
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&launch.cwd)
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(stdout)
        .stderr(stderr);
    let terminal = launch.terminal;
    if !terminal {
        command.process_group(0);
    }
    let confinement = Arc::clone(confinement);
    let prepare = move || {
        if terminal {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(io::stdin())?;
        }
        confinement.enter()
    };
    // SAFETY: this process has a single thread (see `fork`), so the child that
    // runs this may do whatever its parent may.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(prepare);
    }
    let child = command.spawn()?;
    Ok(child.id())
}

/// Where a program without a path stands, by the command's own `PATH`. A folder
/// that can't be looked into holds none. What isn't found is left to the library,
/// and to the error it makes of that.
fn find(program: &OsStr, env: &[(OsString, OsString)]) -> PathBuf {
    let named = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return named.to_owned();
    }
    let path = env.iter().find(|(name, _)| name == "PATH");
    path.into_iter()
        .flat_map(|(_, folders)| std::env::split_paths(folders))
        .map(|folder| folder.join(named))
        .find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
        .unwrap_or_else(|| named.to_owned())
}
