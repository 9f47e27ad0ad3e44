//! Namespaces of a session: users, mounts, processes, messages, and the network
//! where it isn't granted.
//!
//! Three processes: the keeper stays outside and writes the new namespace's map
//! of users; its child makes the namespaces; that one's child is the first
//! process in them, builds the view and serves.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use super::{Profile, loopback, privileges, view};
use crate::supervisor::{Fork, fork};

/// Which side of the wall this process is on now.
pub(crate) enum Isolated {
    /// Outside; the session is served within.
    Outside,
    /// The first process within.
    Inside {
        /// Whether the network is its own.
        own_network: bool,
        /// What doesn't hold, though the rest does.
        missing: Vec<String>,
    },
}

const UNSHARED: u8 = b'u';
const READY: u8 = b'r';

/// Moves a child of this process into namespaces of its own.
///
/// # Errors
/// If this machine doesn't grant them, with the reason; nothing has changed then.
pub(crate) fn isolate(profile: &Profile) -> io::Result<Isolated> {
    let (mut told, mut tell) = io::pipe()?;
    let (mut go, mut let_go) = io::pipe()?;
    match fork()? {
        Fork::Parent(child) => {
            drop((tell, go));
            admit(child, &mut told, &mut let_go).map(|()| Isolated::Outside)
        }
        Fork::Child => {
            drop((told, let_go));
            match enter(profile, &mut tell, &mut go) {
                Ok(inside) => Ok(inside),
                Err(e) => {
                    // The parent passes it on; there is no other way to tell.
                    let _ = tell.write_all(e.to_string().as_bytes());
                    std::process::exit(1);
                }
            }
        }
    }
}

/// The parent's part: users are mapped as they are, all of them if this process
/// may, else its own alone.
fn admit(child: Pid, told: &mut PipeReader, let_go: &mut PipeWriter) -> io::Result<()> {
    let mut first = [0];
    if told.read(&mut first)? == 0 || first[0] != UNSHARED {
        return Err(reason(first[0], told));
    }
    map_users(child).map_err(|e| explain("users can't be mapped into a namespace", &e))?;
    let_go.write_all(b"g")?;
    let mut second = [0];
    if told.read(&mut second)? == 0 || second[0] != READY {
        return Err(reason(second[0], told));
    }
    Ok(())
}

fn reason(first: u8, told: &mut PipeReader) -> io::Error {
    let mut text = vec![first];
    // What came until the end is all there is to know.
    let _ = told.read_to_end(&mut text);
    match first {
        0 => io::Error::other("the process that made them died"),
        _ => io::Error::other(String::from_utf8_lossy(&text).into_owned()),
    }
}

fn map_users(child: Pid) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", child.as_raw_nonzero());
    let (users, groups) = if privileges::may_map_users() {
        (
            identity("/proc/self/uid_map")?,
            identity("/proc/self/gid_map")?,
        )
    } else {
        std::fs::write(file("setgroups"), "deny")?;
        let one = |id: u32| format!("{id} {id} 1");
        let user = rustix::process::geteuid().as_raw();
        (one(user), one(rustix::process::getegid().as_raw()))
    };
    std::fs::write(file("uid_map"), users)?;
    std::fs::write(file("gid_map"), groups)
}

/// Everybody who is known here, as who they are.
fn identity(own: &str) -> io::Result<String> {
    let mut map = String::new();
    for line in std::fs::read_to_string(own)?.lines() {
        let mut fields = line.split_whitespace();
        if let (Some(first), Some(_), Some(count)) = (fields.next(), fields.next(), fields.next()) {
            map.push_str(&format!("{first} {first} {count}\n"));
        }
    }
    Ok(map)
}

fn enter(profile: &Profile, tell: &mut PipeWriter, go: &mut PipeReader) -> io::Result<Isolated> {
    let all =
        UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    let mut missing = Vec::new();
    let own_network = !profile.network && unshare(all | UnshareFlags::NEWNET).is_ok();
    if !own_network {
        unshare(all).map_err(|e| explain("namespaces aren't allowed here", &e))?;
        if !profile.network {
            missing.push("a network of its own (sockets are refused instead)".to_owned());
        }
    }
    tell.write_all(&[UNSHARED])?;
    if go.read(&mut [0])? == 0 {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    match fork()? {
        // The one within becomes the outer process's own child.
        Fork::Parent(_) => std::process::exit(0),
        Fork::Child => {}
    }
    if own_network && let Err(e) = loopback::raise() {
        missing.push(format!("a loopback ({e})"));
    }
    missing.extend(view::enter(profile)?);
    tell.write_all(&[READY])?;
    Ok(Isolated::Inside {
        own_network,
        missing,
    })
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of descriptors isn't among the flags.
    #[allow(unsafe_code)]
    unsafe {
        rustix::thread::unshare_unsafe(flags)?;
    }
    Ok(())
}

fn explain(what: &str, error: &io::Error) -> io::Error {
    let hint =
        match std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
            Ok(value) if value.trim() == "1" => {
                "; kernel.apparmor_restrict_unprivileged_userns is 1"
            }
            _ => "",
        };
    io::Error::other(format!("{what} ({error}{hint})"))
}
