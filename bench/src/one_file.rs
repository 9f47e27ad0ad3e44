//! A session that is one file in memory.

use haft_api::{
    DestinationId, Error, ErrorKind, ExtensionId, FileData, FileKind, FileMetadata, ListOptions,
    Listing, ReadOptions, RemoteRunnerSession, Result, RunnerCapabilities, SessionId, SessionState,
    WriteOptions, async_trait,
};

/// The session.
pub(crate) struct OneFile(Vec<u8>);

impl OneFile {
    /// With a file of this many bytes, whatever it is called.
    pub(crate) fn of(bytes: usize) -> Self {
        Self(vec![7; bytes])
    }
}

#[async_trait]
impl RemoteRunnerSession for OneFile {
    fn state(&self) -> SessionState {
        SessionState {
            provider_id: ExtensionId::new("one").expect("a valid id"),
            session_id: SessionId::new("file").expect("a valid id"),
            destination_id: DestinationId::new("here").expect("a valid id"),
            snapshot: None,
            metadata: None,
        }
    }

    fn capabilities(&self) -> RunnerCapabilities {
        RunnerCapabilities::default()
    }

    fn workspace(&self) -> &str {
        "/"
    }

    async fn read_file(&self, _: &str, _: ReadOptions) -> Result<FileData> {
        Ok(FileData {
            bytes: self.0.clone(),
            metadata: FileMetadata::new(FileKind::File, self.0.len() as u64, "1"),
        })
    }

    async fn write_file(&self, _: &str, _: Vec<u8>, _: WriteOptions) -> Result<FileMetadata> {
        Err(Error::new(ErrorKind::Denied, "read-only"))
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        Ok(self.read_file(path, ReadOptions::default()).await?.metadata)
    }

    async fn list(&self, _: &str, _: ListOptions) -> Result<Listing> {
        Ok(Listing::default())
    }

    async fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }

    async fn make_dir(&self, _: &str) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
