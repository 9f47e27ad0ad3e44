//! Walks a folder tree through a session, as `.gitignore` files would have it.

use std::collections::VecDeque;
use std::sync::Arc;

use haft_api::{
    DirEntry, ErrorKind, FileKind, ListOptions, ReadOptions, RemoteRunnerSession, Result,
};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::paths::join;

/// Files whose rules hold for the folder they are in and all beneath it.
const RULE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// Largest such file.
const RULE_BYTES: u64 = 1024 * 1024;

/// What a walk does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkOptions {
    /// Whether names that begin with a dot are walked.
    pub(crate) hidden: bool,
    /// Whether what is ignored is told (it is never gone into).
    pub(crate) ignored: bool,
    /// How many folders deep; 1 is the folder itself.
    pub(crate) depth: usize,
    /// Most entries looked at.
    pub(crate) entries: usize,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            hidden: false,
            ignored: false,
            depth: 64,
            entries: 200_000,
        }
    }
}

/// Something on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its path, joined to the one the walk began with.
    pub(crate) path: String,
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) ignored: bool,
}

/// A walk in the order of names, folders before what is in them. Links aren't
/// followed, and `.git` isn't gone into.
pub(crate) struct Walk<'a> {
    session: &'a dyn RemoteRunnerSession,
    options: WalkOptions,
    /// The folders that are open, outermost first.
    open: Vec<Folder>,
    /// Entries looked at.
    pub(crate) seen: usize,
    /// It ended before its time because of the bound on entries or on depth.
    pub(crate) cut_short: bool,
    /// Folders that could not be looked into.
    pub(crate) unreadable: Vec<String>,
}

struct Folder {
    path: String,
    entries: VecDeque<DirEntry>,
    next: Option<String>,
    rules: Vec<Arc<Gitignore>>,
}

impl<'a> Walk<'a> {
    /// A walk through a folder.
    ///
    /// # Errors
    /// If that folder itself can't be listed.
    pub(crate) async fn new(
        session: &'a dyn RemoteRunnerSession,
        base: &str,
        options: WalkOptions,
    ) -> Result<Self> {
        let mut walk = Self {
            session,
            options,
            open: Vec::new(),
            seen: 0,
            cut_short: false,
            unreadable: Vec::new(),
        };
        let mut rules = Vec::new();
        for above in folders_above(base) {
            rules.extend(walk.rules_in(&above).await?);
        }
        walk.enter(base.to_owned(), rules).await?;
        Ok(walk)
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    /// If the session fails. A folder that can't be read is noted instead.
    pub(crate) async fn next(&mut self) -> Result<Option<Found>> {
        loop {
            let Some(folder) = self.open.last_mut() else {
                return Ok(None);
            };
            let Some(entry) = folder.entries.pop_front() else {
                match folder.next.take() {
                    Some(after) => self.continue_folder(after).await?,
                    None => drop(self.open.pop()),
                }
                continue;
            };
            if self.seen >= self.options.entries {
                self.cut_short = true;
                self.open.clear();
                return Ok(None);
            }
            self.seen += 1;
            if entry.name.starts_with('.') && !self.options.hidden {
                continue;
            }
            let path = join(&folder.path, &entry.name);
            let is_dir = entry.kind == FileKind::Dir;
            let ignored = is_ignored(&folder.rules, &path, is_dir);
            if ignored && !self.options.ignored {
                continue;
            }
            if is_dir && !ignored && entry.name != ".git" {
                let rules = folder.rules.clone();
                self.go_into(&path, rules).await?;
            }
            return Ok(Some(Found {
                path,
                kind: entry.kind,
                size: entry.size,
                ignored,
            }));
        }
    }

    async fn go_into(&mut self, path: &str, rules: Vec<Arc<Gitignore>>) -> Result<()> {
        if self.open.len() >= self.options.depth {
            self.cut_short = true;
            return Ok(());
        }
        match self.enter(path.to_owned(), rules).await {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Denied) => {
                self.unreadable.push(path.to_owned());
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn enter(&mut self, path: String, mut rules: Vec<Arc<Gitignore>>) -> Result<()> {
        let listing = self.session.list(&path, ListOptions::default()).await?;
        let last = listing.entries.last().map(|entry| entry.name.clone());
        let may_have = RULE_FILES.iter().any(|&name| {
            let beyond = listing.next.is_some() && last.as_deref() < Some(name);
            beyond || listing.entries.iter().any(|entry| entry.name == name)
        });
        if may_have {
            rules.extend(self.rules_in(&path).await?);
        }
        self.open.push(Folder {
            path,
            entries: listing.entries.into(),
            next: listing.next,
            rules,
        });
        Ok(())
    }

    async fn continue_folder(&mut self, after: String) -> Result<()> {
        let Some(folder) = self.open.last_mut() else {
            return Ok(());
        };
        let mut options = ListOptions::default();
        options.after = Some(after);
        match self.session.list(&folder.path, options).await {
            Ok(listing) => {
                folder.entries = listing.entries.into();
                folder.next = listing.next;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.unreadable.push(folder.path.clone());
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// The rules that stand in a folder.
    async fn rules_in(&self, folder: &str) -> Result<Option<Arc<Gitignore>>> {
        let mut builder = GitignoreBuilder::new(rooted(folder));
        let mut found = false;
        let at_the_top = (folder == ".").then_some(".git/info/exclude");
        for name in at_the_top.into_iter().chain(RULE_FILES) {
            let range = ReadOptions::range(0, RULE_BYTES);
            let file = match self.session.read_file(&join(folder, name), range).await {
                Ok(file) => file,
                Err(e) if is_absence(e.kind()) => continue,
                Err(e) => return Err(e),
            };
            found = true;
            for line in String::from_utf8_lossy(&file.bytes).lines() {
                // A line that is no rule is none for git either.
                let _ = builder.add_line(None, line);
            }
        }
        Ok(match found {
            true => builder.build().ok().map(Arc::new),
            false => None,
        })
    }
}

/// Nothing that would have rules in it.
fn is_absence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::Denied | ErrorKind::InvalidInput
    )
}

/// The innermost rule that speaks of a path decides.
fn is_ignored(rules: &[Arc<Gitignore>], path: &str, is_dir: bool) -> bool {
    let path = rooted(path);
    for rules in rules.iter().rev() {
        let matched = rules.matched(&path, is_dir);
        if !matched.is_none() {
            return matched.is_ignore();
        }
    }
    false
}

/// Paths as the matcher gets them: from a root of their own.
fn rooted(path: &str) -> String {
    match path {
        "." => "/".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    }
}

/// The folders between the workspace and a folder in it, the workspace first.
/// Beyond the workspace there are none whose rules would count.
fn folders_above(base: &str) -> Vec<String> {
    if base == "." || base.starts_with('/') || base.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let mut above = vec![".".to_owned()];
    let cuts = base.match_indices('/').map(|(at, _)| base[..at].to_owned());
    above.extend(cuts);
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_from_above_hold_beneath() {
        assert_eq!(folders_above("."), Vec::<String>::new());
        assert_eq!(folders_above("/etc/x"), Vec::<String>::new());
        assert_eq!(folders_above("../x"), Vec::<String>::new());
        assert_eq!(folders_above("a"), ["."]);
        assert_eq!(folders_above("a/b/c"), [".", "a", "a/b"]);
    }
}
