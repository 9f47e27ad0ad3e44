//! What a skill may reach besides its own data.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A grant that is all, nothing, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Grant {
    /// All or nothing.
    Whole(bool),
    /// These alone.
    List(Vec<String>),
}

impl Default for Grant {
    fn default() -> Self {
        Self::Whole(false)
    }
}

impl Grant {
    fn allows(&self, matches: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Whole(whole) => *whole,
            Self::List(list) => list.iter().any(|entry| matches(entry)),
        }
    }
}

/// What a skill may reach. Its manifest asks for it under `grants`, and the
/// settings may say otherwise:
/// ```json
/// { "network": ["api.example.com"], "env": ["HOME"], "read": ["/usr/share/dict"] }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Grants {
    /// Hosts it may connect to. `*.example.com` is every host below that name.
    pub network: Grant,
    /// Environment variables it may read.
    pub env: Grant,
    /// Folders and files it may read.
    pub read: Grant,
    /// Folders and files it may change, and read.
    pub write: Grant,
    /// Skills whose tools it may call.
    pub skills: Grant,
    /// Whether its tools may ask the turn's model.
    pub model: bool,
}

impl Grants {
    /// Everything.
    pub fn all() -> Self {
        let all = || Grant::Whole(true);
        Self {
            network: all(),
            env: all(),
            read: all(),
            write: all(),
            skills: all(),
            model: true,
        }
    }

    pub(crate) fn check_network(&self, host: &str) -> Result<(), String> {
        let matches = |entry: &str| match entry.strip_prefix("*.") {
            Some(parent) => host
                .to_ascii_lowercase()
                .strip_suffix(&parent.to_ascii_lowercase())
                .is_some_and(|head| head.ends_with('.')),
            None => entry.eq_ignore_ascii_case(host),
        };
        allowed(self.network.allows(matches), "network", host)
    }

    pub(crate) fn check_env(&self, name: &str) -> Result<(), String> {
        allowed(self.env.allows(|entry| entry == name), "env", name)
    }

    pub(crate) fn check_skill(&self, id: &str) -> Result<(), String> {
        allowed(self.skills.allows(|entry| entry == id), "skills", id)
    }

    pub(crate) fn check_model(&self) -> Result<(), String> {
        allowed(self.model, "model", "the turn's model")
    }

    /// The place that a path leads to, if it may be reached.
    pub(crate) fn check_path(&self, path: &Path, write: bool) -> Result<PathBuf, String> {
        let place = resolve(path);
        let within = |root: &str| place.starts_with(resolve(Path::new(root)));
        let (fine, name) = match write {
            true => (self.write.allows(within), "write"),
            false => (
                self.write.allows(within) || self.read.allows(within),
                "read",
            ),
        };
        allowed(fine, name, &place.display().to_string())?;
        Ok(place)
    }
}

fn allowed(fine: bool, grant: &str, what: &str) -> Result<(), String> {
    match fine {
        true => Ok(()),
        false => Err(format!(
            "denied: the skill lacks the grant `{grant}` for {what} (ask for it under `grants` in \
             manifest.json, or grant it in the settings)"
        )),
    }
}

/// The path without links and dots; what isn't there yet keeps its own name.
fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(real) = absolute.canonicalize() {
        return real;
    }
    let mut plain = PathBuf::new();
    for part in absolute.components() {
        match part {
            std::path::Component::ParentDir => {
                plain = plain.canonicalize().unwrap_or(plain);
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    match (plain.parent(), plain.file_name()) {
        // A link that leads nowhere would be followed by a write.
        _ if plain.is_symlink() => std::fs::read_link(&plain)
            .map(|to| resolve(&plain.parent().unwrap_or(Path::new("/")).join(to)))
            .unwrap_or(plain),
        (Some(parent), Some(name)) => resolve(parent).join(name),
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
        let grants = Grants {
            network: list(&["API.example.com", "*.example.org"]),
            ..Grants::default()
        };
        for (host, fine) in [
            ("api.example.com", true),
            ("example.com", false),
            ("evil-api.example.com", false),
            ("a.example.org", true),
            ("a.b.example.org", true),
            ("example.org", false),
            ("evilexample.org", false),
        ] {
            assert_eq!(grants.check_network(host).is_ok(), fine, "{host}");
        }
        let words = Grants::default().check_network("x.test").unwrap_err();
        assert!(
            words.contains("`network`") && words.contains("x.test"),
            "{words}"
        );
    }

    #[test]
    fn a_path_counts_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("in/out")).unwrap();
        std::os::unix::fs::symlink("/etc/new-file", root.join("in/dangling")).unwrap();
        let grants = Grants {
            write: list(&[&root.join("in").display().to_string()]),
            ..Grants::default()
        };
        for (path, fine) in [
            ("in/new", true),
            ("in/a/../new", true),
            ("in/../new", false),
            ("in/out/passwd", false),
            ("in/dangling", false),
        ] {
            for write in [true, false] {
                let outcome = grants.check_path(&root.join(path), write);
                assert_eq!(outcome.is_ok(), fine, "{path}: {outcome:?}");
            }
        }
    }
}
