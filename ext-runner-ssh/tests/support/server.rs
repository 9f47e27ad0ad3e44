//! A real server on the loopback address, started as an ordinary process.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A server, its keys, and a folder for the far side. Dropping it ends it.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) folder: tempfile::TempDir,
}

/// Starts a server, or says why there is none.
pub(crate) fn server() -> Option<Server> {
    match Server::start() {
        Ok(server) => Some(server),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

impl Server {
    fn start() -> Result<Self, String> {
        let program = daemon()?;
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let at = |name: &str| folder.path().join(name);
        key(&at("host"))?;
        key(&at("user"))?;
        fs::create_dir(at("far")).map_err(|e| e.to_string())?;
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|e| e.to_string())?
            .port();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             UsePAM no\nStrictModes no\nPasswordAuthentication no\n",
            at("host").display(),
            at("user.pub").display()
        );
        fs::write(at("config"), config).map_err(|e| e.to_string())?;
        let public = fs::read_to_string(at("host.pub")).map_err(|e| e.to_string())?;
        let known = format!("[127.0.0.1]:{port} {public}");
        fs::write(at("known"), known).map_err(|e| e.to_string())?;
        let users = fs::read_to_string("/etc/passwd").map_err(|e| e.to_string())?;
        let users = format!("{users}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n");
        fs::write(at("passwd"), users).map_err(|e| e.to_string())?;

        // A server that runs as root wants a user and a folder that an installed
        // one would have. It gets them in a view of the file system of its own.
        // It ends with its standard input, so with this process.
        let script = r#"
            exec 2>>"$1/log"
            if [ "$(id -u)" = 0 ] && ! { id sshd && [ -d /run/sshd ]; } >/dev/null 2>&1; then
              exec unshare -m /bin/sh -c '
                mount --bind "$1/passwd" /etc/passwd && mount -t tmpfs none /run &&
                mkdir -m 755 /run/sshd && . "$1/run"' run "$@"
            fi
            . "$1/run""#;
        let run = "\"$2\" -D -e -f \"$1/config\" 2>>\"$1/log\" <&- & read -r line; kill $!\n";
        fs::write(at("run"), run).map_err(|e| e.to_string())?;
        let child = Command::new("/bin/sh")
            .args(["-c", script, "run"])
            .args([folder.path(), &program])
            .env("LD_LIBRARY_PATH", libraries())
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let server = Self {
            child,
            port,
            folder,
        };
        server.wait()?;
        Ok(server)
    }

    fn wait(&self) -> Result<(), String> {
        let began = Instant::now();
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        while began.elapsed() < Duration::from_secs(20) {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let mut word = [0; 4];
                if stream.read_exact(&mut word).is_ok() && &word == b"SSH-" {
                    return self.can_log_in();
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("sshd doesn't start here: {}", log()))
    }

    /// A locked account, for one, is refused by the server, not by the runner.
    fn can_log_in(&self) -> Result<(), String> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let outcome = Command::new("ssh")
            .args([
                "-F",
                "/dev/null",
                "-i",
                &at("user"),
                "-p",
                &self.port.to_string(),
            ])
            .args([
                "-o",
                "BatchMode=yes",
                "-o",
                &format!("UserKnownHostsFile={}", at("known")),
            ])
            .args(["127.0.0.1", "true"])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("there is no ssh: {e}"))?;
        match outcome.status.success() {
            true => Ok(()),
            false => Err(format!(
                "nobody can log in here: {}",
                String::from_utf8_lossy(&outcome.stderr)
            )),
        }
    }

    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join("far").join(name);
        fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }

    /// Kills the server's side of every connection, as a lost machine would.
    pub(crate) fn cut(&self) {
        let mark = format!("{}", self.folder.path().join("config").display());
        let text = |path: String| fs::read(path).map(|t| String::from_utf8_lossy(&t).into_owned());
        let listener = pids().into_iter().find(|pid| {
            let line = text(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("[listener]") && line.contains(&mark)
        });
        let listener = listener.expect("the server listens");
        for pid in pids() {
            let status = text(format!("/proc/{pid}/status")).unwrap_or_default();
            if status.contains(&format!("PPid:\t{listener}\n")) {
                kill(pid);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.child.stdin.take() {
            let _ = stdin.write_all(b"\n");
        }
        let _ = self.child.wait();
    }
}

pub(crate) fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

pub(crate) fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

fn key(path: &Path) -> Result<(), String> {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .status()
        .map_err(|e| format!("there is no ssh-keygen: {e}"))?;
    match made.success() {
        true => Ok(()),
        false => Err("ssh-keygen fails".to_owned()),
    }
}

fn unpacked() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("openssh-server")
}

fn libraries() -> PathBuf {
    unpacked().join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

/// The server's program: the installed one, or the distribution's package,
/// unpacked beside the build.
fn daemon() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        let places = [
            PathBuf::from("/usr/sbin/sshd"),
            unpacked().join("usr/sbin/sshd"),
        ];
        if let Some(there) = places.iter().find(|path| path.exists()) {
            return Ok(there.clone());
        }
        let folder =
            tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|e| e.to_string())?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).ok();
        let script = "apt-get download openssh-server libwrap0 && \
            for package in *.deb; do dpkg-deb -x \"$package\" out || exit; done";
        let fetched = Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if !fetched.status.success() {
            let words = String::from_utf8_lossy(&fetched.stderr).into_owned();
            return Err(format!(
                "there is no sshd, and its package can't be had: {words}"
            ));
        }
        // Another test may have been quicker.
        let _ = fs::rename(folder.path().join("out"), unpacked());
        Ok(places[1].clone())
    };
    FOUND.get_or_init(find).clone()
}
