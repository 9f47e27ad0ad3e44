//! The files of a sandbox in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use haft_api::{
    DirEntry, Error, ErrorKind, FileData, FileKind, FileMetadata, ListOptions, Listing,
    ReadOptions, Result, WriteMode, WriteOptions, unix_ms_now,
};

use super::path::{Access, Roots, invalid};

/// Most entries of a page for which nobody named a number. Small, so that tests
/// meet more than one page.
const ENTRIES_PER_PAGE: usize = 100;

#[derive(Debug, Clone)]
enum Node {
    Dir,
    File(Vec<u8>),
    Link(String),
}

#[derive(Debug, Clone)]
struct Entry {
    node: Node,
    mode: u32,
    modified_ms: u64,
    version: u64,
}

/// Files by absolute path.
#[derive(Debug)]
pub(super) struct Tree {
    entries: BTreeMap<String, Entry>,
    versions: u64,
}

fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        place => Some(&path[..place]),
    }
}

fn not_found(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such file or folder").context("path", path)
}

fn exists(path: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, "there is a file already").context("path", path)
}

impl Tree {
    /// The folders that the roots need.
    pub(super) fn new(roots: &Roots) -> Self {
        let mut tree = Self {
            entries: BTreeMap::new(),
            versions: 0,
        };
        for root in roots.read.iter().chain([&roots.workspace]) {
            tree.insert_dirs(root);
        }
        tree
    }

    fn insert(&mut self, path: &str, node: Node, mode: u32) {
        self.versions += 1;
        let entry = Entry {
            node,
            mode,
            modified_ms: unix_ms_now(),
            version: self.versions,
        };
        self.entries.insert(path.to_owned(), entry);
    }

    /// Makes a folder and those above it, as far as they are missing.
    fn insert_dirs(&mut self, path: &str) {
        if let Some(above) = parent(path) {
            self.insert_dirs(above);
        }
        if !self.entries.contains_key(path) {
            self.insert(path, Node::Dir, 0o755);
        }
    }

    fn resolve(&self, roots: &Roots, path: &str, to: Access, follow: bool) -> Result<String> {
        roots.resolve(path, to, follow, |path| match self.entries.get(path) {
            Some(Entry {
                node: Node::Link(target),
                ..
            }) => Some(target.clone()),
            _ => None,
        })
    }

    fn describe(entry: &Entry) -> FileMetadata {
        let (kind, size) = match &entry.node {
            Node::Dir => (FileKind::Dir, 0),
            Node::File(bytes) => (FileKind::File, bytes.len()),
            Node::Link(target) => (FileKind::Symlink, target.len()),
        };
        let mut metadata = FileMetadata::new(kind, size as u64, entry.version.to_string());
        metadata.modified_ms = Some(entry.modified_ms);
        metadata.mode = Some(entry.mode);
        metadata
    }

    pub(super) fn content(&self, roots: &Roots, path: &str) -> Option<Vec<u8>> {
        let path = self.resolve(roots, path, Access::Read, true).ok()?;
        match &self.entries.get(&path)?.node {
            Node::File(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Puts a file there, whatever was there.
    pub(super) fn put(&mut self, roots: &Roots, path: &str, bytes: Vec<u8>) -> Result<()> {
        let options = WriteOptions::default().create_parents();
        self.write(roots, path, bytes, &options).map(drop)
    }

    pub(super) fn put_link(&mut self, roots: &Roots, path: &str, target: &str) -> Result<()> {
        let path = self.resolve(roots, path, Access::Write, false)?;
        if let Some(above) = parent(&path) {
            self.insert_dirs(above);
        }
        self.insert(&path, Node::Link(target.to_owned()), 0o777);
        Ok(())
    }

    pub(super) fn read(&self, roots: &Roots, path: &str, options: ReadOptions) -> Result<FileData> {
        let resolved = self.resolve(roots, path, Access::Read, true)?;
        let entry = self.entries.get(&resolved).ok_or_else(|| not_found(path))?;
        let Node::File(bytes) = &entry.node else {
            return Err(invalid(path, "this is a folder"));
        };
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let from = place(options.offset);
        let to = match options.limit {
            Some(limit) => place(options.offset.saturating_add(limit)),
            None => bytes.len(),
        };
        Ok(FileData {
            bytes: bytes[from..to].to_vec(),
            metadata: Self::describe(entry),
        })
    }

    pub(super) fn write(
        &mut self,
        roots: &Roots,
        path: &str,
        bytes: Vec<u8>,
        options: &WriteOptions,
    ) -> Result<FileMetadata> {
        let follow = options.mode != WriteMode::CreateNew;
        let resolved = self.resolve(roots, path, Access::Write, follow)?;
        let there = self.entries.get(&resolved);
        match (&options.mode, there) {
            (
                _,
                Some(Entry {
                    node: Node::Dir, ..
                }),
            ) => {
                return Err(invalid(path, "this is a folder"));
            }
            (WriteMode::CreateNew, Some(_)) => return Err(exists(path)),
            (WriteMode::IfVersion(_), None) => return Err(not_found(path)),
            (WriteMode::IfVersion(wanted), Some(entry)) if *wanted != entry.version.to_string() => {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "the file was changed since it was read: read it again",
                )
                .context("path", path)
                .context("expected version", wanted)
                .context("found version", entry.version));
            }
            _ => {}
        }
        let mode = there.map_or(options.permissions.unwrap_or(0o644), |entry| entry.mode);
        let above = parent(&resolved).ok_or_else(|| invalid(path, "this is a folder"))?;
        if options.create_parents {
            self.make_dirs(path, above)?;
        }
        match self.entries.get(above) {
            Some(Entry {
                node: Node::Dir, ..
            }) => {}
            Some(_) => return Err(invalid(path, "a folder above it is none")),
            None => return Err(not_found(path)),
        }
        self.insert(&resolved, Node::File(bytes), mode);
        Ok(Self::describe(&self.entries[&resolved]))
    }

    pub(super) fn metadata(&self, roots: &Roots, path: &str) -> Result<FileMetadata> {
        let resolved = self.resolve(roots, path, Access::Read, false)?;
        let entry = self.entries.get(&resolved);
        entry.map(Self::describe).ok_or_else(|| not_found(path))
    }

    pub(super) fn list(&self, roots: &Roots, path: &str, options: &ListOptions) -> Result<Listing> {
        let resolved = self.resolve(roots, path, Access::Read, true)?;
        match self.entries.get(&resolved) {
            Some(Entry {
                node: Node::Dir, ..
            }) => {}
            Some(_) => return Err(invalid(path, "this is no folder")),
            None => return Err(not_found(path)),
        }
        let prefix = if resolved == "/" {
            resolved
        } else {
            resolved + "/"
        };
        // Paths sort `a/b` after `a-`, so the order of names is made here.
        let names: BTreeMap<&str, &Entry> = self
            .entries
            .range::<str, _>((Bound::Excluded(&*prefix), Bound::Unbounded))
            .map_while(|(path, entry)| Some((path.strip_prefix(&*prefix)?, entry)))
            .filter(|(name, _)| !name.contains('/'))
            .collect();
        let from = match &options.after {
            Some(after) => Bound::Excluded(after.as_str()),
            None => Bound::Unbounded,
        };
        let limit = options.limit.unwrap_or(ENTRIES_PER_PAGE).max(1);
        let mut listing = Listing::default();
        for (name, entry) in names.range::<str, _>((from, Bound::Unbounded)) {
            if listing.entries.len() == limit {
                listing.next = listing
                    .entries
                    .last()
                    .map(|last: &DirEntry| last.name.clone());
                break;
            }
            let FileMetadata { kind, size, .. } = Self::describe(entry);
            let name = (*name).to_owned();
            listing.entries.push(DirEntry { name, kind, size });
        }
        Ok(listing)
    }

    pub(super) fn remove(&mut self, roots: &Roots, path: &str) -> Result<()> {
        let resolved = self.resolve(roots, path, Access::Write, false)?;
        if resolved == roots.workspace {
            return Err(
                Error::new(ErrorKind::Denied, "the workspace itself can't be removed")
                    .context("path", path),
            );
        }
        if !self.entries.contains_key(&resolved) {
            return Err(not_found(path));
        }
        let within = format!("{resolved}/");
        if self.entries.keys().any(|path| path.starts_with(&within)) {
            return Err(invalid(path, "the folder isn't empty"));
        }
        self.entries.remove(&resolved);
        Ok(())
    }

    pub(super) fn make_dir(&mut self, roots: &Roots, path: &str) -> Result<()> {
        let resolved = self.resolve(roots, path, Access::Write, true)?;
        self.make_dirs(path, &resolved)
    }

    /// As [`insert_dirs`](Self::insert_dirs), unless a file is in the way.
    fn make_dirs(&mut self, asked: &str, path: &str) -> Result<()> {
        let mut at = Some(path);
        while let Some(path) = at {
            match self.entries.get(path) {
                Some(Entry {
                    node: Node::Dir, ..
                }) => break,
                Some(_) => return Err(exists(path).context("asked for", asked)),
                None => at = parent(path),
            }
        }
        self.insert_dirs(path);
        Ok(())
    }

    /// Whether a process may start there.
    pub(super) fn dir(&self, roots: &Roots, path: &str) -> Result<String> {
        let resolved = self.resolve(roots, path, Access::Read, true)?;
        match self.entries.get(&resolved) {
            Some(Entry {
                node: Node::Dir, ..
            }) => Ok(resolved),
            _ => Err(not_found(path)),
        }
    }
}
