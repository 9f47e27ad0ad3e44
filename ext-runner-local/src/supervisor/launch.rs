//! Starting the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use super::wire::Launch;

/// Starts the command in a process group of its own. Standard output and error
/// are this process's own; they are let go of afterwards, so that the host sees
/// their end when the command's last heir closes them.
pub(super) fn start(launch: &Launch, stdin: Option<OwnedFd>) -> io::Result<u32> {
    let (program, arguments) = launch
        .argv
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(find(program, &launch.env));
    command
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    let child = command.spawn()?;
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    // The command's folder may be removed while its leftovers are watched.
    std::env::set_current_dir("/")?;
    Ok(child.id())
}

/// Where a program without a path stands, by the command's own `PATH`. Given a
/// path the library starts it in the cheaper of its two ways. What isn't found
/// is left to it, and to the error it makes of that.
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
