//! A session in memory that only works within the host's own runtime.
#![allow(unreachable_pub, reason = "each test file is a crate")]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haft_api::{
    DestinationId, Error, ErrorKind, ExtensionId, FileData, FileKind, FileMetadata, ListOptions,
    Listing, ReadOptions, RemoteRunnerSession, Result, RunnerCapabilities, SessionId, SessionState,
    WriteOptions, async_trait,
};

#[derive(Default)]
pub struct MemorySession {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemorySession {
    pub fn with(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let session = Self::default();
        session.files().insert(path.to_owned(), bytes.into());
        session
    }

    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.files().get(path).cloned()
    }
}

fn file_metadata(bytes: &[u8]) -> FileMetadata {
    FileMetadata::new(FileKind::File, bytes.len() as u64, "1")
}

#[async_trait]
impl RemoteRunnerSession for MemorySession {
    fn state(&self) -> SessionState {
        SessionState {
            provider_id: ExtensionId::new("memory").unwrap(),
            session_id: SessionId::new("the session").unwrap(),
            destination_id: DestinationId::new("here").unwrap(),
            snapshot: None,
            metadata: None,
        }
    }

    fn capabilities(&self) -> RunnerCapabilities {
        RunnerCapabilities::default()
    }

    fn workspace(&self) -> &str {
        "/work space"
    }

    async fn read_file(&self, path: &str, _: ReadOptions) -> Result<FileData> {
        // Panics outside of the host's runtime.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let bytes = self
            .file(path)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file").context("path", path))?;
        let metadata = file_metadata(&bytes);
        Ok(FileData { bytes, metadata })
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        _: WriteOptions,
    ) -> Result<FileMetadata> {
        tokio::task::yield_now().await;
        let metadata = file_metadata(&bytes);
        self.files().insert(path.to_owned(), bytes);
        Ok(metadata)
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let file = self.read_file(path, ReadOptions::default()).await?;
        Ok(file.metadata)
    }

    async fn list(&self, _: &str, _: ListOptions) -> Result<Listing> {
        Ok(Listing::default())
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.files().remove(path);
        Ok(())
    }

    async fn make_dir(&self, _: &str) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
