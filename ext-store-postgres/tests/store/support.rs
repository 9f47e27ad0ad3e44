//! One real server per test program, and a schema per test.
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haft_api::{
    Durability, ErrorKind, NewRecord, ReadRange, ThreadId, ThreadStore as _, ThreadWriter,
};
use haft_ext_store_postgres::{PostgresConfig, PostgresStore};
use haft_testkit::PostgresServer;

/// A server, and a file with its connection string.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) postgres: PostgresServer,
    folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Result<Self, String> {
        let postgres = PostgresServer::start(settings)?;
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        std::fs::write(folder.path().join("url"), postgres.url()).map_err(|e| e.to_string())?;
        Ok(Self { postgres, folder })
    }

    pub(crate) fn url(&self) -> String {
        self.postgres.url()
    }

    pub(crate) fn url_file(&self) -> PathBuf {
        self.folder.path().join("url")
    }
}

/// The program's server, or why there is none.
pub(crate) fn server() -> Result<&'static Server, String> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    match SERVER.get_or_init(Server::start) {
        Ok(server) => Ok(server),
        Err(reason) => Err(reason.clone()),
    }
}

/// A schema that no other test uses.
pub(crate) fn fresh_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Settings for a schema of a server's.
pub(crate) fn config(url: impl Into<String>, schema: &str) -> PostgresConfig {
    PostgresConfig::default()
        .url(url)
        .schema(schema)
        .connections(3)
}

pub(crate) async fn open(config: PostgresConfig) -> PostgresStore {
    PostgresStore::open(config).await.unwrap()
}

pub(crate) fn id(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

pub(crate) fn note(text: &str) -> Vec<NewRecord> {
    vec![NewRecord::new("note", &text).unwrap()]
}

pub(crate) async fn append(writer: &mut dyn ThreadWriter, text: &str) -> u64 {
    let appended = writer.append(note(text), Durability::Barrier).await;
    appended.unwrap().first_seq
}

/// The texts of a thread's notes, whose numbers must be contiguous.
pub(crate) async fn notes(store: &PostgresStore, thread: &ThreadId) -> Vec<String> {
    let (mut notes, mut seq) = (Vec::new(), 0);
    loop {
        let range = ReadRange::Forward { seq, limit: None };
        let page = store.read(thread, range).await.unwrap();
        assert_eq!(page.diagnostics, vec![]);
        for record in &page.records {
            assert_eq!(record.seq, seq, "a hole");
            seq += 1;
            if record.kind == "note" {
                notes.push(record.parse().unwrap());
            }
        }
        match page.next {
            Some(next) => assert_eq!(next, seq),
            None => return notes,
        }
    }
}

/// Takes a thread's writer as soon as it is free.
pub(crate) async fn take(store: &PostgresStore, thread: &ThreadId) -> Box<dyn ThreadWriter> {
    let taking = async {
        loop {
            match store.open_writer(thread).await {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                outcome => return outcome.unwrap(),
            }
        }
    };
    let taken = tokio::time::timeout(Duration::from_secs(60), taking).await;
    taken.expect("the thread becomes free")
}

/// A connection beside the store.
pub(crate) async fn sql(server: &Server) -> tokio_postgres::Client {
    let url = server.url();
    let connecting = tokio_postgres::connect(&url, tokio_postgres::NoTls);
    let (client, connection) = connecting.await.unwrap();
    tokio::spawn(async move { connection.await.ok() });
    client
}

/// The server, or a note that the test is skipped.
macro_rules! server_or_skip {
    () => {
        match $crate::support::server() {
            Ok(server) => server,
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
        }
    };
}
pub(crate) use server_or_skip;
