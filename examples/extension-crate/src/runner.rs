//! A runner: sandboxes that are nothing but files in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_api::{
    Binding, DestinationId, DirEntry, Error, ErrorKind, ExtensionId, FileData, FileKind,
    FileMetadata, ListOptions, Listing, ReadOptions, RemoteRunnerProvider, RemoteRunnerSession,
    Result, Resumed, RunnerCapabilities, SessionId, SessionState, WriteMode, WriteOptions,
    async_trait,
};

/// Sandboxes that live as long as the process.
pub(crate) struct Scratch {
    id: ExtensionId,
    sandboxes: Mutex<BTreeMap<SessionId, Arc<Sandbox>>>,
    made: AtomicU64,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            id: ExtensionId::new("scratch")?,
            sandboxes: Mutex::default(),
            made: AtomicU64::new(0),
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What isn't locked for writing is confined: paths lead nowhere but here.
fn capabilities() -> RunnerCapabilities {
    let mut capabilities = RunnerCapabilities::default();
    capabilities.confines_writes = true;
    capabilities.confines_reads = true;
    capabilities
}

#[async_trait]
impl RemoteRunnerProvider for Scratch {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    fn capabilities(&self) -> RunnerCapabilities {
        capabilities()
    }

    async fn create(&self, binding: Binding) -> Result<Arc<dyn RemoteRunnerSession>> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let session_id = SessionId::new(format!("scratch-{number}"))?;
        let workspace = binding.workspace.trim_end_matches('/').to_owned();
        let sandbox = Arc::new(Sandbox {
            provider_id: self.id.clone(),
            session_id: session_id.clone(),
            destination_id: binding.destination.id,
            workspace,
            tree: Mutex::new(Some(Tree::default())),
        });
        lock(&self.sandboxes).insert(session_id, Arc::clone(&sandbox));
        Ok(sandbox)
    }

    async fn resume(&self, _: Binding, state: SessionState) -> Result<Resumed> {
        let found = lock(&self.sandboxes).get(&state.session_id).cloned();
        match found.filter(|sandbox| lock(&sandbox.tree).is_some()) {
            Some(sandbox) => Ok(Resumed::Session(sandbox)),
            None => Ok(Resumed::Gone {
                reason: "scratch sandboxes end with their process".to_owned(),
            }),
        }
    }
}

enum Node {
    Dir,
    File { bytes: Vec<u8>, mode: u32 },
}

struct Entry {
    node: Node,
    version: u64,
}

/// Files and folders by their path below the workspace; the workspace itself
/// is the empty path.
struct Tree {
    entries: BTreeMap<String, Entry>,
    versions: u64,
}

impl Default for Tree {
    fn default() -> Self {
        let mut tree = Self {
            entries: BTreeMap::new(),
            versions: 0,
        };
        tree.put("", Node::Dir);
        tree
    }
}

impl Tree {
    fn put(&mut self, path: &str, node: Node) {
        self.versions += 1;
        let version = self.versions;
        self.entries
            .insert(path.to_owned(), Entry { node, version });
    }

    fn make_dirs(&mut self, path: &str) -> Result<()> {
        match self.entries.get(path).map(|entry| &entry.node) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File { .. }) => {
                let error = Error::new(ErrorKind::AlreadyExists, "there is a file already");
                Err(error.context("path", path))
            }
            None => {
                self.make_dirs(above(path))?;
                self.put(path, Node::Dir);
                Ok(())
            }
        }
    }
}

/// The folder that a path is in.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

impl Entry {
    fn metadata(&self) -> FileMetadata {
        let version = self.version.to_string();
        match &self.node {
            Node::Dir => FileMetadata::new(FileKind::Dir, 0, version),
            Node::File { bytes, mode } => {
                let mut metadata = FileMetadata::new(FileKind::File, bytes.len() as u64, version);
                metadata.mode = Some(*mode);
                metadata
            }
        }
    }
}

fn not_found(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, "no such file or folder").context("path", path)
}

fn invalid(path: &str, what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, what).context("path", path)
}

/// One sandbox, and the session of it.
struct Sandbox {
    provider_id: ExtensionId,
    session_id: SessionId,
    destination_id: DestinationId,
    workspace: String,
    /// `None` once it was closed.
    tree: Mutex<Option<Tree>>,
}

impl Sandbox {
    /// A path below the workspace, whatever form it came in.
    fn resolve(&self, path: &str) -> Result<String> {
        let denied = || {
            let error = Error::new(ErrorKind::Denied, "the path leads out of the workspace");
            error.context("path", path)
        };
        if path.contains('\0') {
            return Err(invalid(path, "a path can't hold a NUL"));
        }
        let start = if path.starts_with('/') {
            ""
        } else {
            &*self.workspace
        };
        let mut steps: Vec<&str> = Vec::new();
        for step in start.split('/').chain(path.split('/')) {
            match step {
                "" | "." => {}
                ".." => drop(steps.pop()),
                step => steps.push(step),
            }
        }
        let absolute = format!("/{}", steps.join("/"));
        match absolute.strip_prefix(&self.workspace) {
            Some("") => Ok(String::new()),
            Some(below) => below
                .strip_prefix('/')
                .map(str::to_owned)
                .ok_or_else(denied),
            None => Err(denied()),
        }
    }

    /// Does something at a path of the living sandbox.
    fn at<T>(&self, path: &str, run: impl FnOnce(&mut Tree, &str) -> Result<T>) -> Result<T> {
        let resolved = self.resolve(path)?;
        let mut tree = lock(&self.tree);
        let tree = tree.as_mut().ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "the sandbox was closed")
                .permanent()
                .context("session", &self.session_id)
        })?;
        run(tree, &resolved)
    }
}

#[async_trait]
impl RemoteRunnerSession for Sandbox {
    fn state(&self) -> SessionState {
        SessionState {
            provider_id: self.provider_id.clone(),
            session_id: self.session_id.clone(),
            destination_id: self.destination_id.clone(),
            snapshot: None,
            metadata: None,
        }
    }

    fn capabilities(&self) -> RunnerCapabilities {
        capabilities()
    }

    fn workspace(&self) -> &str {
        &self.workspace
    }

    async fn read_file(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        self.at(path, |tree, at| {
            let entry = tree.entries.get(at).ok_or_else(|| not_found(path))?;
            let Node::File { bytes, .. } = &entry.node else {
                return Err(invalid(path, "this is a folder"));
            };
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let end = options
                .limit
                .map_or(u64::MAX, |l| options.offset.saturating_add(l));
            Ok(FileData {
                bytes: bytes[place(options.offset)..place(end)].to_vec(),
                metadata: entry.metadata(),
            })
        })
    }

    async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata> {
        self.at(path, |tree, at| {
            let there = tree.entries.get(at);
            let mode = match there.map(|entry| &entry.node) {
                Some(Node::Dir) => return Err(invalid(path, "this is a folder")),
                Some(Node::File { mode, .. }) => *mode,
                None => options.permissions.unwrap_or(0o644),
            };
            match (&options.mode, there) {
                (WriteMode::CreateNew, Some(_)) => {
                    let error = Error::new(ErrorKind::AlreadyExists, "there is a file already");
                    return Err(error.context("path", path));
                }
                (WriteMode::IfVersion(_), None) => return Err(not_found(path)),
                (WriteMode::IfVersion(version), Some(entry))
                    if *version != entry.version.to_string() =>
                {
                    let error = Error::new(ErrorKind::Busy, "the file has changed: read it again");
                    return Err(error.context("path", path));
                }
                _ => {}
            }
            if options.create_parents {
                tree.make_dirs(above(at))?;
            }
            match tree.entries.get(above(at)).map(|entry| &entry.node) {
                Some(Node::Dir) => {}
                Some(Node::File { .. }) => return Err(invalid(path, "a folder above it is none")),
                None => return Err(not_found(path)),
            }
            tree.put(at, Node::File { bytes, mode });
            Ok(tree.entries[at].metadata())
        })
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        self.at(path, |tree, at| {
            let entry = tree.entries.get(at);
            entry.map(Entry::metadata).ok_or_else(|| not_found(path))
        })
    }

    async fn list(&self, path: &str, options: ListOptions) -> Result<Listing> {
        self.at(path, |tree, at| {
            match tree.entries.get(at).map(|entry| &entry.node) {
                Some(Node::Dir) => {}
                Some(Node::File { .. }) => return Err(invalid(path, "this is no folder")),
                None => return Err(not_found(path)),
            }
            let inside = |(path, entry): (&String, &Entry)| {
                let name = match at {
                    "" => path.as_str(),
                    at => path.strip_prefix(at)?.strip_prefix('/')?,
                };
                let FileMetadata { kind, size, .. } = entry.metadata();
                let name = name.to_owned();
                let direct = !name.is_empty() && !name.contains('/');
                direct.then_some(DirEntry { name, kind, size })
            };
            let mut entries: Vec<_> = tree.entries.iter().filter_map(inside).collect();
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            if let Some(after) = &options.after {
                entries.retain(|entry| entry.name > *after);
            }
            let mut listing = Listing::default();
            let limit = options.limit.unwrap_or(usize::MAX).max(1);
            if entries.len() > limit {
                entries.truncate(limit);
                listing.next = entries.last().map(|last| last.name.clone());
            }
            listing.entries = entries;
            Ok(listing)
        })
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.at(path, |tree, at| {
            if at.is_empty() {
                let error = Error::new(ErrorKind::Denied, "the workspace can't be removed");
                return Err(error.context("path", path));
            }
            if !tree.entries.contains_key(at) {
                return Err(not_found(path));
            }
            if tree.entries.keys().any(|other| above(other) == at) {
                return Err(invalid(path, "the folder isn't empty"));
            }
            tree.entries.remove(at);
            Ok(())
        })
    }

    async fn make_dir(&self, path: &str) -> Result<()> {
        self.at(path, |tree, at| tree.make_dirs(at))
    }

    async fn close(&self) -> Result<()> {
        *lock(&self.tree) = None;
        Ok(())
    }
}
