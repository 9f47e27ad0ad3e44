//! What a script may reach.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

/// A grant that is all, nothing, or a list. In settings, a truth value or a
/// list of texts.
///
/// ```
/// use haft_script_host::Grant;
///
/// let hosts = Grant::List(vec!["api.example.com".into(), "*.example.org".into()]);
/// assert!(hosts.allows_host("API.example.com") && hosts.allows_host("a.example.org"));
/// assert!(!hosts.allows_host("example.org"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Grant {
    /// All or nothing.
    Whole(bool),
    /// These alone.
    List(Vec<String>),
}

impl Default for Grant {
    /// Nothing.
    fn default() -> Self {
        Self::Whole(false)
    }
}

impl Grant {
    /// Whether all is granted, or an entry of the list that is as wanted.
    pub fn allows(&self, wanted: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Whole(whole) => *whole,
            Self::List(list) => list.iter().any(|entry| wanted(entry)),
        }
    }

    /// Whether a name is granted, to the letter.
    pub fn allows_name(&self, name: &str) -> bool {
        self.allows(|entry| entry == name)
    }

    /// Whether a host of the network is granted: by its name, or by the one it
    /// stands below (`*.example.com`), in any case of letters.
    pub fn allows_host(&self, host: &str) -> bool {
        self.allows(|entry| match entry.strip_prefix("*.") {
            Some(parent) => host
                .to_ascii_lowercase()
                .strip_suffix(&parent.to_ascii_lowercase())
                .is_some_and(|head| head.ends_with('.')),
            None => entry.eq_ignore_ascii_case(host),
        })
    }

    /// Whether a file or folder is granted, by itself or by a folder it is in.
    /// It is a [`real_place`] already: what counts is where a path leads.
    pub fn allows_place(&self, place: &Path) -> bool {
        self.allows(|root| place.starts_with(real_place(Path::new(root))))
    }

    /// Grants more: these entries, or all.
    pub fn extend(&mut self, entries: Option<impl Iterator<Item = String>>) {
        match (entries, &mut *self) {
            (None, _) => *self = Self::Whole(true),
            (Some(_), Self::Whole(true)) => {}
            (Some(entries), Self::Whole(false)) => *self = Self::List(entries.collect()),
            (Some(entries), Self::List(list)) => list.extend(entries),
        }
    }
}

/// The path without links and dots. What isn't there yet keeps its own name; a
/// link that leads nowhere counts as what it names, which a write would make.
pub fn real_place(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(real) = absolute.canonicalize() {
        return real;
    }
    let mut plain = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                plain = plain.canonicalize().unwrap_or(plain);
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    match (plain.parent(), plain.file_name()) {
        _ if plain.is_symlink() => std::fs::read_link(&plain)
            .map(|to| real_place(&plain.parent().unwrap_or(Path::new("/")).join(to)))
            .unwrap_or(plain),
        (Some(parent), Some(name)) => real_place(parent).join(name),
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Grant {
        Grant::List(entries.iter().map(|e| (*e).to_owned()).collect())
    }

    #[test]
    fn hosts_are_named_whole_or_by_their_parent() {
        let grant = list(&["API.example.com", "*.example.org"]);
        for (host, fine) in [
            ("api.example.com", true),
            ("example.com", false),
            ("evil-api.example.com", false),
            ("a.example.org", true),
            ("a.b.example.org", true),
            ("example.org", false),
            ("evilexample.org", false),
        ] {
            assert_eq!(grant.allows_host(host), fine, "{host}");
        }
        assert!(!Grant::default().allows_host("api.example.com"));
        assert!(Grant::Whole(true).allows_host("api.example.com"));
    }

    #[test]
    fn a_grant_only_grows() {
        let some = |entries: &[&str]| {
            let entries: Vec<_> = entries.iter().map(|e| (*e).to_owned()).collect();
            Some(entries.into_iter())
        };
        for (before, more, after) in [
            (Grant::default(), some(&["a"]), list(&["a"])),
            (list(&["a"]), some(&["b"]), list(&["a", "b"])),
            (list(&["a"]), None, Grant::Whole(true)),
            (Grant::Whole(true), some(&["a"]), Grant::Whole(true)),
        ] {
            let mut grant = before.clone();
            grant.extend(more);
            assert_eq!(grant, after, "{before:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_counts_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("in/out")).unwrap();
        std::os::unix::fs::symlink("/etc/new-file", root.join("in/dangling")).unwrap();
        let grant = list(&[&root.join("in").display().to_string()]);
        for (path, fine) in [
            ("in", true),
            ("in/new", true),
            ("in/new/newer", true),
            ("in/a/../new", true),
            ("in/../new", false),
            ("in-side", false),
            ("in/out/passwd", false),
            ("in/dangling", false),
        ] {
            let place = real_place(&root.join(path));
            assert_eq!(grant.allows_place(&place), fine, "{path}: {place:?}");
        }
    }
}
