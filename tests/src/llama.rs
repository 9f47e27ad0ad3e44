//! llama.cpp's own server, a program that isn't ours, on a loopback port.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use haft_ext_engine_local::{LocalModels, SetupProblem};

/// Where weights and server stay between runs: `HAFT_TEST_MODELS`, else
/// `haft-models` in the target folder.
fn home() -> PathBuf {
    std::env::var_os("HAFT_TEST_MODELS").map_or_else(
        || {
            let haft = crate::haft();
            haft.ancestors()
                .nth(2)
                .unwrap_or(Path::new("."))
                .join("haft-models")
        },
        PathBuf::from,
    )
}

/// What the server needs, once it is there.
#[derive(Debug)]
pub struct LlamaServer {
    python: PathBuf,
    weights: PathBuf,
}

/// A server that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    child: Child,
    _lifeline: Option<ChildStdin>,
}

impl LlamaServer {
    /// Fetches what is missing. `Err` is why it can't be had here.
    ///
    /// # Panics
    /// If something is wrong that isn't this machine's fault.
    pub fn fetch() -> Result<Self, String> {
        let models = LocalModels::new(home()).without_native_server();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let tokio = tokio.expect("a tokio runtime");
        let name = models.default_model();
        if let Err(error) = tokio.block_on(models.get(name, &|_| {})) {
            let excused = matches!(
                SetupProblem::of(&error),
                Some(
                    SetupProblem::NoNetwork
                        | SetupProblem::NoPython { .. }
                        | SetupProblem::NoVenv { .. }
                        | SetupProblem::NoBuild
                        | SetupProblem::DiskFull { .. }
                )
            );
            assert!(excused, "{error}");
            return Err(error.message().to_owned());
        }
        let weights = models
            .find(name)
            .expect("it was fetched")
            .path
            .expect("it is there");
        let python = home().join("models/venv/bin/python3");
        Ok(Self { python, weights })
    }

    /// Starts it on this port; it serves when this returns.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn start(&self, port: u16) -> Serving {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut child = Command::new(&self.python)
            .arg("-I")
            .arg(source.join("llama_server.py"))
            .arg(&self.weights)
            .arg(port.to_string())
            .arg(source.join("tools.jinja"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server's Python starts");
        let lifeline = child.stdin.take();
        let stdout = child.stdout.take().expect("its output is piped");
        let listening = BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.starts_with("listening"));
        assert!(listening, "the server serves");
        Serving {
            child,
            _lifeline: lifeline,
        }
    }
}

impl Serving {
    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A loopback port that was free just now.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}
