#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::*;
use crate::provision::ServerProgram;

const FAKE: &str = include_str!("fake_server.py");
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("server");
        std::fs::write(&program, FAKE).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn settings(&self, kind: fn(PathBuf) -> ServerProgram, model: &str) -> ServerSettings {
        ServerSettings {
            program: kind(self.folder.path().join("server")),
            model: self.folder.path().join(model),
            threads: 1,
            context_tokens: 512,
        }
    }

    /// The process ids of all servers that got as far as serving this model.
    fn starts(&self, model: &str) -> Vec<u32> {
        let path = self.folder.path().join(format!("{model}.starts"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

const BOTH: [fn(PathBuf) -> ServerProgram; 2] = [ServerProgram::Native, ServerProgram::Python];

fn is_alive(pid: u32) -> bool {
    // A zombie that init hasn't collected yet is dead.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

async fn dies(pid: u32) {
    for _ in 0..600 {
        if !is_alive(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("process {pid} lives on");
}

async fn get(server: &ServerUse, path: &str) -> Option<u16> {
    launch::status(server.0.port, path, Some(server.key())).await
}

#[tokio::test]
async fn equal_settings_share_a_server_and_it_dies_with_its_owner() {
    for kind in BOTH {
        let fixture = Fixture::new();
        let settings = fixture.settings(kind, "m");
        let servers = Servers::new(PATIENCE, None);
        let (one, two) = tokio::join!(servers.get(&settings), servers.get(&settings));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.base_url(), two.base_url());
        assert_eq!(get(&one, "/v1/models").await, Some(200));
        let other = servers.get(&fixture.settings(kind, "n")).await.unwrap();
        assert_ne!(one.base_url(), other.base_url());
        let pids = [fixture.starts("m"), fixture.starts("n")].concat();
        assert_eq!(pids.len(), 2);
        drop((one, two, other, servers));
        for pid in pids {
            dies(pid).await;
        }
    }
}

#[tokio::test]
async fn a_crashed_server_is_explained_and_started_again() {
    for kind in BOTH {
        let fixture = Fixture::new();
        let settings = fixture.settings(kind, "m");
        let servers = Servers::new(PATIENCE, None);
        let server = servers.get(&settings).await.unwrap();
        assert_eq!(get(&server, "/crash").await, None);
        let broken = Error::new(ErrorKind::Unavailable, "connection reset");
        let error = server.explain(broken).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.is_temporary());
        assert!(error.message().contains("134"), "{error}");
        let output = error.context_value("output").unwrap();
        assert!(output.contains("ggml: out of memory"), "{output}");

        let again = servers.get(&settings).await.unwrap();
        assert_eq!(get(&again, "/v1/models").await, Some(200));
        assert_eq!(fixture.starts("m").len(), 2);
        // A failure of anything else stays what it was.
        let own = again
            .explain(Error::new(ErrorKind::ContextOverflow, "too long"))
            .await;
        assert_eq!(own.kind(), ErrorKind::ContextOverflow);
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    for kind in BOTH {
        let fixture = Fixture::new();
        let servers = Servers::new(PATIENCE, None);
        let error = servers
            .get(&fixture.settings(kind, "broken"))
            .await
            .err()
            .unwrap();
        assert!(!error.is_temporary());
        assert!(error.message().contains('7'), "{error}");
        assert_eq!(error.context_value("output"), Some("error: broken weights"));
        assert!(error.context_value("model").unwrap().ends_with("broken"));
    }
}

#[tokio::test]
async fn a_server_that_loads_for_ever_is_given_up_and_killed() {
    let fixture = Fixture::new();
    let servers = Servers::new(Duration::from_secs(2), None);
    let error = servers
        .get(&fixture.settings(ServerProgram::Native, "slow"))
        .await
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    for pid in fixture.starts("slow") {
        dies(pid).await;
    }
}

#[tokio::test]
async fn a_port_that_was_taken_in_between_is_given_up_for_another() {
    let fixture = Fixture::new();
    let servers = Servers::new(PATIENCE, None);
    let settings = fixture.settings(ServerProgram::Native, "taken-once");
    let server = servers.get(&settings).await.unwrap();
    assert_eq!(get(&server, "/v1/models").await, Some(200));
}

#[tokio::test]
async fn an_unused_server_goes_down_and_comes_back() {
    let fixture = Fixture::new();
    let settings = fixture.settings(ServerProgram::Python, "m");
    let servers = Servers::new(PATIENCE, Some(Duration::from_millis(300)));
    let server = servers.get(&settings).await.unwrap();
    let pid = fixture.starts("m")[0];
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(is_alive(pid), "it is in use");
    drop(server);
    dies(pid).await;
    let again = servers.get(&settings).await.unwrap();
    assert_eq!(get(&again, "/v1/models").await, Some(200));
}

#[tokio::test]
async fn the_key_is_not_in_the_process_list() {
    for kind in BOTH {
        let fixture = Fixture::new();
        let servers = Servers::new(PATIENCE, None);
        let server = servers.get(&fixture.settings(kind, "m")).await.unwrap();
        let arguments = std::fs::read(format!("/proc/{}/cmdline", fixture.starts("m")[0])).unwrap();
        assert!(!String::from_utf8_lossy(&arguments).contains(server.key()));
        assert_eq!(
            launch::status(server.0.port, "/props", None).await,
            Some(401)
        );
    }
}

const HOLDER: &str = "HAFT_TEST_HOLD_SERVER";

/// What the process that is to be killed does: the test below, in its other role.
async fn hold_a_server(folder: &Path) {
    let kind = if folder.join("native").exists() {
        BOTH[0]
    } else {
        BOTH[1]
    };
    let settings = ServerSettings {
        program: kind(folder.join("server")),
        model: folder.join("m"),
        threads: 1,
        context_tokens: 512,
    };
    let servers = Servers::new(PATIENCE, None);
    let _server = servers.get(&settings).await.unwrap();
    std::fs::write(folder.join("ready"), b"").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_server_dies_with_a_process_that_is_killed() {
    if let Some(folder) = std::env::var_os(HOLDER) {
        hold_a_server(Path::new(&folder)).await;
    }
    for native in [true, false] {
        let fixture = Fixture::new();
        let folder = fixture.folder.path();
        if native {
            std::fs::write(folder.join("native"), b"").unwrap();
        }
        let mut holder = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "server::tests::a_server_dies_with_a_process_that_is_killed",
            ])
            .env(HOLDER, folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        for _ in 0..600 {
            if folder.join("ready").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let pid = fixture.starts("m")[0];
        assert!(is_alive(pid));
        // SIGKILL: nothing of the process gets to run any more.
        holder.kill().await.unwrap();
        dies(pid).await;
    }
}
