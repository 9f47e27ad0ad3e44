//! A real PostgreSQL server for tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use crate::lock::lock;

/// Starts the server, says so, does what it is told, and puts everything away
/// when its standard input ends: so the server outlives no test, however that
/// ends. `$1` is where the programs are, `$2` the folder, the rest goes to the
/// server.
const KEEPER: &str = r#"
trap '' INT TERM HUP
bin=$1; dir=$2; shift 2
start() {
    "$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= "$@" >>"$dir/log" 2>&1 </dev/null &
    pid=$!
    until "$bin/pg_isready" -q -h "$dir"; do
        kill -0 $pid 2>/dev/null || { echo failed; exit 1; }
        sleep 0.05
    done
    echo ready
}
start "$@"
while read -r command; do
    case $command in
        crash) kill -QUIT $pid; wait $pid; start "$@" ;;
        stop) kill -QUIT $pid; wait $pid; echo ready ;;
        start) start "$@" ;;
    esac
done
kill -QUIT $pid 2>/dev/null; wait $pid
rm -rf "$dir"
"#;

/// The port by which a server's socket is called.
const PORT: u16 = 5432;

/// A PostgreSQL server of the test's own, on a socket in a temporary folder.
///
/// It needs `initdb` and `postgres`, in the `PATH` or where distributions put
/// them. The server doesn't run as root: under root it runs as the system's user
/// `postgres` or `nobody`.
///
/// It ends with the process that started it, even if that is killed. One per
/// test program is enough; tests keep apart by schemas.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    port: u16,
    keeper: Mutex<Keeper>,
}

#[derive(Debug)]
struct Keeper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl PostgresServer {
    /// Starts a server with these settings, as in `postgresql.conf`, besides its
    /// defaults.
    ///
    /// # Errors
    /// Why there can be no server here, in words for a skipped test.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self, String> {
        Self::start_on(PORT, settings, &[])
    }

    /// Starts a server that also listens at a free port of 127.0.0.1, where it
    /// offers TLS with this certificate and key, in PEM.
    ///
    /// # Errors
    /// Why there can be no server here, in words for a skipped test.
    pub fn start_tls(certificate: &str, key: &str) -> Result<Self, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|e| format!("no free port: {e}"))?.port();
        let settings = [
            ("listen_addresses", "127.0.0.1"),
            ("ssl", "on"),
            ("ssl_cert_file", "../server.crt"),
            ("ssl_key_file", "../server.key"),
        ];
        let files = [("server.crt", certificate), ("server.key", key)];
        Self::start_on(port, &settings, &files)
    }

    fn start_on(
        port: u16,
        settings: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<Self, String> {
        let programs = programs()?;
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        // The keeper removes it.
        let folder = folder.keep();
        let started = Self::start_in(&programs, &folder, port, settings, files);
        if started.is_err() {
            std::fs::remove_dir_all(&folder).ok();
        }
        started
    }

    fn start_in(
        programs: &Path,
        folder: &Path,
        port: u16,
        settings: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<Self, String> {
        let user = unprivileged(folder)?;
        for (name, text) in files {
            own_file(&folder.join(name), text, user)
                .map_err(|e| format!("the server's file {name} can't be made: {e}"))?;
        }
        if let Some((uid, gid)) = user {
            chown(folder, Some(uid), Some(gid))
                .map_err(|e| format!("the server's folder can't be given away: {e}"))?;
        }
        let command = |program: &Path| {
            let mut command = Command::new(program);
            command.current_dir(folder).env("LC_ALL", "C");
            command.env("PGPORT", port.to_string());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let made = command(&programs.join("initdb"))
            .arg("-D")
            .arg(folder.join("data"))
            .args(["-A", "trust", "-U", "haft", "-E", "UTF8", "--no-sync"])
            .args(["--locale", "C"])
            .output()
            .map_err(|e| format!("initdb can't be run: {e}"))?;
        if !made.status.success() {
            let text = String::from_utf8_lossy(&made.stderr);
            return Err(format!("initdb failed: {}", text.trim()));
        }
        let mut keeper = command(Path::new("sh"));
        keeper.args(["-c", KEEPER, "sh"]).arg(programs).arg(folder);
        for (name, value) in [("max_connections", "300")].iter().chain(settings) {
            keeper.arg("-c").arg(format!("{name}={value}"));
        }
        let mut child = keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| format!("a shell can't be run: {e}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or("a shell without output")?;
        let server = Self {
            folder: folder.to_owned(),
            port,
            keeper: Mutex::new(Keeper {
                child,
                input,
                output: BufReader::new(output),
            }),
        };
        lock(&server.keeper).ready().map_err(|e| {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            format!("{e}: {}", log.trim())
        })?;
        Ok(server)
    }

    /// The connection string, for the user that may do everything.
    pub fn url(&self) -> String {
        format!(
            "host={} port={} user=haft dbname=postgres",
            self.folder.display(),
            self.port
        )
    }

    /// The port, of 127.0.0.1 too if the server was started with TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Ends the server as a crash does, without writing back anything, and starts
    /// it again. Returns when it takes connections.
    ///
    /// # Panics
    /// If it doesn't come back.
    pub fn crash(&self) {
        self.tell("crash");
    }

    /// Ends the server as a crash does.
    ///
    /// # Panics
    /// If the server can't be told.
    pub fn stop(&self) {
        self.tell("stop");
    }

    /// Starts the server again after [`stop`](Self::stop).
    ///
    /// # Panics
    /// If it doesn't come back.
    pub fn restart(&self) {
        self.tell("start");
    }

    fn tell(&self, command: &str) {
        let mut keeper = lock(&self.keeper);
        let told = match &mut keeper.input {
            Some(input) => writeln!(input, "{command}").and_then(|()| input.flush()),
            None => Ok(()),
        };
        let done = told
            .map_err(|e| e.to_string())
            .and_then(|()| keeper.ready());
        if let Err(error) = done {
            panic!("the database server didn't {command}: {error}");
        }
    }
}

impl Keeper {
    fn ready(&mut self) -> Result<(), String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(_) if line.trim() == "ready" => Ok(()),
            Ok(_) => Err("the database server didn't start".to_owned()),
            Err(e) => Err(format!("the database server's keeper is gone: {e}")),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().ok();
    }
}

/// A file that the server alone may read.
fn own_file(path: &Path, text: &str, user: Option<(u32, u32)>) -> std::io::Result<()> {
    let mut file = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    match user {
        Some((uid, gid)) => chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// The folder of the server's programs.
fn programs() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    // The newest one first.
    versions.sort_by_key(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        std::cmp::Reverse(name.and_then(|name| name.parse::<u32>().ok()))
    });
    folders.extend(versions.into_iter().map(|version| version.join("bin")));
    let needed = ["initdb", "postgres", "pg_isready"];
    folders
        .into_iter()
        .find(|folder| needed.iter().all(|name| folder.join(name).is_file()))
        .ok_or_else(|| {
            "PostgreSQL isn't installed: neither in the PATH nor in /usr/lib/postgresql".to_owned()
        })
}

/// The user and group that the server runs as, unless it is our own.
fn unprivileged(folder: &Path) -> Result<Option<(u32, u32)>, String> {
    use std::os::unix::fs::MetadataExt as _;
    // What this process makes belongs to it.
    let own = std::fs::metadata(folder).map_err(|e| e.to_string())?.uid();
    if own != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |wanted: &str| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            (name == wanted && uid != 0).then_some((uid, gid))
        })
    };
    match find("postgres").or_else(|| find("nobody")) {
        Some(user) => Ok(Some(user)),
        None => Err("this is root, and there is no user `postgres` or `nobody`".to_owned()),
    }
}
