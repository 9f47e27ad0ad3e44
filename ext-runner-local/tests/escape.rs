//! What a confined command tries in vain, each with an error that can be read.
//!
//! Where this machine can't confine commands in one of the ways, that way is
//! skipped, and the reason is told.
#![cfg(target_os = "linux")]

mod support;

use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use haft_api::{CommandOutcome, CommandRequest, Ending, RemoteRunnerSessionExt as _};
use haft_ext_runner_local::LocalConfig;
use support::{Kept, Mode, Place, available, config, id, reading_tests};

/// What errors say of something that isn't allowed, or isn't there to be had.
const REFUSALS: [&str; 11] = [
    "must be superuser",
    "cross-device",
    "can't cd",
    "denied",
    "not permitted",
    "Read-only",
    "read-only",
    "No such file",
    "No such process",
    "nonexistent",
    "refused",
];

const BOTH: &[Mode] = &[Mode::Confined, Mode::Filtered];
/// What only a view of its own prevents.
const VIEW: &[Mode] = &[Mode::Confined];

/// Lines for the shell; `OUTSIDE` is a folder beside the workspace that the user
/// may write to, `HOST` a process of the user's.
const LINES: &[(&str, &[Mode], &str)] = &[
    ("write outside", BOTH, "echo x > OUTSIDE/new"),
    ("overwrite outside", BOTH, "echo x > OUTSIDE/target"),
    ("append outside", BOTH, "echo x >> OUTSIDE/target"),
    ("write through ..", BOTH, "echo x > ../outside/new"),
    ("write in the system", BOTH, "echo x > /usr/haft-escape"),
    ("write in the home", BOTH, "echo x > \"$HOME/haft-escape\""),
    ("make a folder outside", BOTH, "mkdir OUTSIDE/new"),
    ("remove outside", BOTH, "rm OUTSIDE/target"),
    ("remove a folder outside", BOTH, "rmdir OUTSIDE/folder"),
    ("move out", BOTH, "echo x > inner && mv inner OUTSIDE/new"),
    ("move in", BOTH, "mv OUTSIDE/target stolen"),
    ("link in", BOTH, "ln OUTSIDE/secret stolen && cat stolen"),
    (
        "write by a symbolic link",
        BOTH,
        "ln -s OUTSIDE/target way && echo x > way",
    ),
    (
        "read by a symbolic link",
        BOTH,
        "ln -s OUTSIDE/secret way && cat way",
    ),
    ("read outside", BOTH, "cat OUTSIDE/secret"),
    (
        "read by the root of a process",
        BOTH,
        "cat /proc/1/root/OUTSIDE/secret",
    ),
    (
        "read by the root of the host",
        BOTH,
        "cat /proc/HOST/root/OUTSIDE/secret",
    ),
    ("list outside", BOTH, "ls OUTSIDE"),
    (
        "read the host's environment",
        BOTH,
        "cat /proc/HOST/environ",
    ),
    (
        "read the first process's environment",
        BOTH,
        "cat /proc/1/environ",
    ),
    ("read the host's memory", BOTH, "head -c1 /proc/HOST/mem"),
    ("kill the host's process", BOTH, "kill -9 HOST"),
    ("stop the host's process", BOTH, "kill -STOP HOST"),
    ("change a mode outside", VIEW, "chmod 777 OUTSIDE/target"),
    (
        "change a time outside",
        VIEW,
        "touch -d 2001-01-01 OUTSIDE/target",
    ),
    ("change the system's mode", VIEW, "chmod 777 /etc/passwd"),
    (
        "change the system's time",
        VIEW,
        "touch -c -d 2001-01-01 /etc/passwd",
    ),
    ("look outside", VIEW, "stat OUTSIDE/secret"),
    ("go outside", BOTH, "cd OUTSIDE && ls && cat secret"),
    (
        "read a disk",
        BOTH,
        "f=$(find /dev -type b 2>/dev/null | head -n1); head -c1 \"${f:-/dev/sda}\"",
    ),
    ("make a device", BOTH, "mknod disk b 8 0"),
    ("tune the kernel", BOTH, "echo 1 > /proc/sys/kernel/panic"),
    ("mount", BOTH, "mount -t tmpfs none ."),
    ("new namespaces", BOTH, "unshare -Ur true"),
];

/// System calls and connections, tried by this program itself.
const ACTS: &[&str] = &[
    "io_uring",
    "ptrace",
    "process memory",
    "mount",
    "new mount interface",
    "keys",
    "bpf",
    "userfaultfd",
    "perf",
    "user namespace",
    "another's namespace",
    "clone a namespace",
    "raw socket",
    "virtual machine socket",
    "host's port",
    "host's socket",
    "host's abstract socket",
    "an extended attribute outside",
];

struct Hostile {
    place: Place,
    host: std::process::Child,
    port: TcpListener,
    _socket: UnixListener,
    _abstract: UnixListener,
    name: String,
}

impl Hostile {
    async fn new(mode: Mode) -> Self {
        let place = Place::with(reading_tests(mode)).await;
        let outside = &place.outside;
        std::fs::write(outside.join("secret"), "the secret").unwrap();
        std::fs::write(outside.join("target"), "as it was").unwrap();
        std::fs::create_dir(outside.join("folder")).unwrap();
        let name = support::marker();
        let address = {
            use std::os::linux::net::SocketAddrExt as _;
            std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap()
        };
        Self {
            host: std::process::Command::new("sleep")
                .arg("600")
                .spawn()
                .unwrap(),
            port: TcpListener::bind("127.0.0.1:0").unwrap(),
            _socket: UnixListener::bind(outside.join("socket")).unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            name,
            place,
        }
    }

    async fn line(&self, line: &str) -> (CommandOutcome, Kept) {
        let line = line
            .replace("OUTSIDE", self.place.outside.to_str().unwrap())
            .replace("HOST", &self.host.id().to_string());
        self.place.shell(&line).await
    }

    async fn act(&self, act: &str) -> (CommandOutcome, Kept) {
        let program = std::env::current_exe().unwrap();
        let arguments = ["--exact", "an_act", "--nocapture"];
        let mut request =
            CommandRequest::new(std::iter::once(program.to_str().unwrap()).chain(arguments));
        let outside = self.place.outside.to_str().unwrap();
        let port = self.port.local_addr().unwrap().port().to_string();
        for (name, value) in [
            ("ACT", act),
            ("ACT_HOST", &self.host.id().to_string()),
            ("ACT_OUTSIDE", outside),
            ("ACT_PORT", &port),
            ("ACT_ABSTRACT", &self.name),
        ] {
            request.env.push((name.to_owned(), value.to_owned()));
        }
        self.place.run(request).await.unwrap()
    }

    /// Everything is as it was.
    fn check_unharmed(&mut self, what: &str) {
        let outside = &self.place.outside;
        let target = std::fs::read_to_string(outside.join("target")).unwrap();
        assert_eq!(target, "as it was", "{what}");
        let mut names: Vec<_> = std::fs::read_dir(outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["folder", "secret", "socket", "target"], "{what}");
        assert!(
            self.host.try_wait().unwrap().is_none(),
            "{what}: it was killed"
        );
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.host.id())).unwrap();
        assert!(!stat.contains(") T "), "{what}: it was stopped");
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.host.kill();
        let _ = self.host.wait();
    }
}

fn check_refused(mode: Mode, what: &str, (outcome, kept): (CommandOutcome, Kept)) {
    let text = format!("{}{}", kept.stdout(), kept.stderr());
    let failed = matches!(outcome.ending, Ending::Exited { code } if code != 0);
    assert!(failed, "{mode:?}: {what}: {outcome:?} {text}");
    assert!(!text.contains("the secret"), "{mode:?}: {what}: {text}");
    let readable = REFUSALS.iter().any(|word| text.contains(word));
    assert!(readable, "{mode:?}: {what}: {text:?}");
}

#[tokio::test]
async fn hostile_lines_are_refused() {
    for mode in available(BOTH).await {
        let mut hostile = Hostile::new(mode).await;
        for (what, modes, line) in LINES {
            if !modes.contains(&mode) {
                continue;
            }
            check_refused(mode, what, hostile.line(line).await);
            hostile.check_unharmed(what);
            // Whatever it left in the workspace is in nobody's way.
            hostile.line("rm -rf ./*").await;
        }
    }
}

#[tokio::test]
async fn hostile_system_calls_are_refused() {
    for mode in available(BOTH).await {
        let mut hostile = Hostile::new(mode).await;
        for act in ACTS {
            if mode == Mode::Filtered && act.contains("attribute") {
                continue;
            }
            check_refused(mode, act, hostile.act(act).await);
            hostile.check_unharmed(act);
        }
    }
}

/// The same acts do what they should where nobody minds: a refusal above is not
/// for a mistake in the act.
#[tokio::test]
async fn the_acts_succeed_unconfined() {
    let hostile = Hostile::new(Mode::Supervised).await;
    for act in [
        "ptrace",
        "host's port",
        "host's socket",
        "host's abstract socket",
    ] {
        let (outcome, kept) = hostile.act(act).await;
        assert!(outcome.ending.is_success(), "{act}: {}", kept.stderr());
    }
    let (outcome, kept) = hostile.line("cat OUTSIDE/secret").await;
    assert!(outcome.ending.is_success());
    assert_eq!(kept.stdout(), "the secret");
}

/// A link that is swapped all the time never lets a write out.
#[tokio::test]
async fn a_swapped_link_lets_nothing_out() {
    for mode in available(BOTH).await {
        let mut hostile = Hostile::new(mode).await;
        let line = "mkdir real; (while :; do ln -sfn OUTSIDE way; ln -sfn real way; done) & \
                    for i in $(seq 300); do echo x > way/target; done 2>/dev/null; kill $!; exit 0";
        let (outcome, _) = hostile.line(line).await;
        assert!(outcome.ending.is_success(), "{mode:?}: {outcome:?}");
        hostile.check_unharmed("a swapped link");
    }
}

/// A descriptor that the host has open, and doesn't hide from what it starts, is none
/// of a command's.
#[tokio::test]
async fn the_hosts_descriptors_are_not_inherited() {
    for mode in available(&[Mode::Confined, Mode::Filtered, Mode::Supervised]).await {
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let place = Place::with(config(mode)).await;
        let (_, kept) = place.shell("ls /proc/self/fd").await;
        // The last is the folder itself.
        assert_eq!(kept.stdout(), "0\n1\n2\n3\n", "{mode:?}");
    }
}

/// What is allowed works: the walls aren't so tight that nobody can work.
#[tokio::test]
async fn what_is_allowed_works() {
    for mode in available(BOTH).await {
        let place = Place::with(reading_tests(mode)).await;
        for line in [
            "echo x > a && mv a b && cp b c && ln c d && rm b c d",
            "mkdir -p x/y && cd x/y && echo x > z && chmod 600 z && touch z",
            "echo x > \"$TMPDIR/t\" && cat \"$TMPDIR/t\"",
            "f=$(mktemp) && echo x > \"$f\"",
            "echo x > /dev/null && head -c1 /dev/zero > /dev/null && head -c1 /dev/urandom > /dev/null",
            "echo x > /dev/stdout && echo x > /dev/stderr",
            "cat /etc/passwd > /dev/null && ls /usr/bin > /dev/null",
            "sleep 60 & kill $! && ! wait $!",
            "test \"$(cat /proc/self/comm)\" = cat",
            "sh -c 'echo nested | (cat; exit 0)' | grep -q nested",
        ] {
            let (outcome, kept) = place.shell(line).await;
            let text = kept.stderr();
            assert!(
                outcome.ending.is_success(),
                "{mode:?}: {line}: {outcome:?} {text}"
            );
        }
    }
}

/// The folder of temporary files is the session's own, and goes with it.
#[tokio::test]
async fn temporary_files_end_with_the_session() {
    for mode in available(&[Mode::Confined, Mode::Filtered, Mode::Supervised]).await {
        let place = Place::with(config(mode)).await;
        let mark = support::marker();
        let line = format!("echo {mark} > \"$TMPDIR/{mark}\"");
        assert!(place.shell(&line).await.0.ending.is_success());
        let found = || {
            let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
            folders
                .map(|folder| folder.path())
                .find(|folder| folder.join(&mark).exists())
        };
        let folder = found().expect("it lies somewhere beneath the temporary folder");
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = folder.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        let other = Place::with(config(mode)).await;
        let seen = other.shell(&format!("cat \"$TMPDIR/{mark}\"")).await.0;
        assert!(!seen.ending.is_success(), "another session sees it");
        place.session.close().await.unwrap();
        assert!(!folder.exists(), "{mode:?}");
    }
}

/// With the network granted the host's ports are in reach, and nothing else is.
#[tokio::test]
async fn a_granted_network_is_the_network_alone() {
    for mode in available(BOTH).await {
        let mut hostile = Hostile::new(mode).await;
        let mut config = reading_tests(mode);
        config.network = true;
        let runner = haft_ext_runner_local::LocalRunner::new(config).unwrap();
        let binding = hostile.place.binding.clone();
        use haft_api::RemoteRunnerProvider as _;
        assert!(!runner.capabilities().confines_network);
        hostile.place.session = runner.create(binding).await.unwrap();
        let (outcome, kept) = hostile.act("host's port").await;
        assert!(outcome.ending.is_success(), "{mode:?}: {}", kept.stderr());
        for act in [
            "io_uring",
            "ptrace",
            "mount",
            "raw socket",
            "host's abstract socket",
        ] {
            check_refused(mode, act, hostile.act(act).await);
        }
        check_refused(mode, "write", hostile.line("echo x > OUTSIDE/new").await);
        hostile.check_unharmed("the network");
    }
}

/// Where commands can't be confined, and have to be, they don't run.
#[tokio::test]
async fn without_a_sandbox_nothing_runs_that_requires_one() {
    use haft_api::{ErrorKind, RemoteRunnerProvider as _};
    let mut config = LocalConfig::default();
    config.sandbox = haft_ext_runner_local::Sandbox::Require;
    // This program doesn't answer as a supervisor, and none is named.
    let place = Place::with(config.clone()).await;
    let can = place.runner.capabilities();
    assert!(!can.processes && !can.confines_writes);
    let request = CommandRequest::shell("echo ran > ran");
    let sink = Kept::default();
    let error = place
        .session
        .run_command(id(), request, &sink)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    for word in ["supervise_if_asked", "sandbox = \"prefer\"", "[runner]"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(!place.root.join("ran").exists());
    config.sandbox = haft_ext_runner_local::Sandbox::Prefer;
    let place = Place::with(config).await;
    assert!(place.shell("echo ran > ran").await.0.ending.is_success());
}

/// Not a test of its own: what [`Hostile::act`] has a confined command do.
#[test]
fn an_act() {
    let Ok(act) = std::env::var("ACT") else {
        return;
    };
    if let Err(e) = acts::perform(&act) {
        writeln!(io::stderr(), "{act}: {e}").unwrap();
        std::process::exit(1);
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

#[allow(unsafe_code)]
mod acts {
    use super::{PathBuf, io, variable};
    use std::os::unix::net::{SocketAddr, UnixStream};

    pub(super) fn perform(act: &str) -> io::Result<()> {
        let host: i64 = variable("ACT_HOST").parse().unwrap();
        let outside = PathBuf::from(variable("ACT_OUTSIDE"));
        match act {
            "io_uring" => call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
            "ptrace" => call(
                libc::SYS_ptrace,
                [i64::from(libc::PTRACE_SEIZE), host, 0, 0, 0],
            ),
            "process memory" => call(libc::SYS_process_vm_readv, [host, 0, 0, 0, 0]),
            "mount" => call(libc::SYS_mount, [0, 0, 0, 0, 0]),
            "new mount interface" => call(libc::SYS_fsopen, [0, 0, 0, 0, 0]),
            "keys" => call(libc::SYS_keyctl, [0, -3, 0, 0, 0]),
            "bpf" => call(libc::SYS_bpf, [0, 0, 0, 0, 0]),
            "userfaultfd" => call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
            "perf" => call(libc::SYS_perf_event_open, [0, 0, -1, -1, 0]),
            "user namespace" => call(
                libc::SYS_unshare,
                [i64::from(libc::CLONE_NEWUSER), 0, 0, 0, 0],
            ),
            "another's namespace" => {
                // Even its own, of which it has a descriptor.
                let own = std::fs::File::open("/proc/self/ns/user")?;
                use std::os::fd::AsRawFd as _;
                call(libc::SYS_setns, [own.as_raw_fd().into(), 0, 0, 0, 0])
            }
            "clone a namespace" => call(
                libc::SYS_clone,
                [i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD), 0, 0, 0, 0],
            ),
            "raw socket" => socket(libc::AF_PACKET, libc::SOCK_RAW),
            "virtual machine socket" => socket(libc::AF_VSOCK, libc::SOCK_STREAM),
            "host's port" => {
                let port: u16 = variable("ACT_PORT").parse().unwrap();
                std::net::TcpStream::connect(("127.0.0.1", port)).map(drop)
            }
            "host's socket" => UnixStream::connect(outside.join("socket")).map(drop),
            "host's abstract socket" => {
                use std::os::linux::net::SocketAddrExt as _;
                let address = SocketAddr::from_abstract_name(variable("ACT_ABSTRACT"))?;
                UnixStream::connect_addr(&address).map(drop)
            }
            "an extended attribute outside" => rustix::fs::setxattr(
                outside.join("target"),
                "user.haft",
                b"x",
                rustix::fs::XattrFlags::empty(),
            )
            .map_err(Into::into),
            _ => panic!("no such act: {act}"),
        }
    }

    fn socket(family: i32, kind: i32) -> io::Result<()> {
        call(libc::SYS_socket, [family.into(), kind.into(), 0, 0, 0])
    }

    fn call(number: libc::c_long, [a, b, c, d, e]: [i64; 5]) -> io::Result<()> {
        // SAFETY: all pointers among the arguments are null, which the kernel
        // answers with an error where it looks at them at all.
        let answer = unsafe { libc::syscall(number, a, b, c, d, e) };
        match answer {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}
