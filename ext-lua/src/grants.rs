//! What an extension may reach besides its calls' workspace.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::head::declarations;

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

    fn add(&mut self, value: Option<&str>) {
        match value {
            None => *self = Self::Whole(true),
            Some(values) => {
                let values = values.split('|').map(str::to_owned);
                match self {
                    Self::Whole(true) => {}
                    Self::Whole(false) => *self = Self::List(values.collect()),
                    Self::List(list) => list.extend(values),
                }
            }
        }
    }
}

/// What an extension may reach on this machine itself. A call's workspace needs
/// no grant: the tool's declared effects and the policy decide on it.
///
/// An extension declares what it wants in comment lines at the head of its main
/// file, and the settings may say otherwise:
/// ```text
/// --@grants read=/usr/share/dict|/etc/hosts write=/var/cache/words process=git network env=HOME
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Grants {
    /// Folders and files it may read.
    pub read: Grant,
    /// Folders and files it may change.
    pub write: Grant,
    /// Programs it may run outside a workspace, by name or path.
    pub process: Grant,
    /// Hosts it may connect to.
    pub network: Grant,
    /// Environment variables it may read.
    pub env: Grant,
    /// C modules it may load, by the names they are required by. They run
    /// outside of all limits, and reach whatever the process does.
    pub native: Grant,
}

impl Grants {
    /// Everything but C modules.
    pub fn all() -> Self {
        let all = || Grant::Whole(true);
        Self {
            read: all(),
            write: all(),
            process: all(),
            network: all(),
            env: all(),
            native: Grant::default(),
        }
    }

    /// What the head of a script declares.
    ///
    /// # Errors
    /// A grant that isn't one, with its line.
    pub fn declared(source: &str) -> Result<Self, String> {
        let mut grants = Self::default();
        for (line, name, value) in declarations(source, "@grants") {
            let grant = match name {
                "read" => &mut grants.read,
                "write" => &mut grants.write,
                "process" => &mut grants.process,
                "network" => &mut grants.network,
                "env" => &mut grants.env,
                "native" => &mut grants.native,
                _ => {
                    return Err(format!(
                        "line {line}: there is no grant `{name}`; there are read, write, process, \
                             network, env and native"
                    ));
                }
            };
            grant.add(value);
        }
        Ok(grants)
    }

    pub(crate) fn check_path(
        &self,
        extension: &str,
        path: &Path,
        write: bool,
        own: &Path,
    ) -> Result<PathBuf, String> {
        let place = resolve(path);
        let (grant, name) = match write {
            true => (&self.write, "write"),
            false => (&self.read, "read"),
        };
        let within = |root: &str| place.starts_with(resolve(Path::new(root)));
        let readable = !write && (place.starts_with(resolve(own)) || self.write.allows(within));
        if readable || grant.allows(within) {
            Ok(place)
        } else {
            Err(lacks(extension, name, &place.display().to_string()))
        }
    }

    pub(crate) fn check_process(&self, extension: &str, program: &str) -> Result<(), String> {
        let name = Path::new(program)
            .file_name()
            .and_then(|name| name.to_str());
        let plain = !program.contains('/');
        match self
            .process
            .allows(|entry| entry == program || (plain && Some(entry) == name))
        {
            true => Ok(()),
            false => Err(lacks(extension, "process", program)),
        }
    }

    pub(crate) fn check_network(&self, extension: &str, host: &str) -> Result<(), String> {
        match self
            .network
            .allows(|entry| entry.eq_ignore_ascii_case(host))
        {
            true => Ok(()),
            false => Err(lacks(extension, "network", host)),
        }
    }

    pub(crate) fn check_env(&self, extension: &str, name: &str) -> Result<(), String> {
        match self.env.allows(|entry| entry == name) {
            true => Ok(()),
            false => Err(lacks(extension, "env", name)),
        }
    }
}

impl Grants {
    pub(crate) fn check_native(&self, extension: &str, module: &str) -> Result<(), String> {
        match self.native.allows(|entry| entry == module) {
            true => Ok(()),
            false => Err(lacks(extension, "native", module)),
        }
    }
}

fn lacks(extension: &str, grant: &str, what: &str) -> String {
    format!(
        "denied: the extension `{extension}` lacks the grant `{grant}` for {what} (declare it in a \
         line `--@grants {grant}` at the head of its main file, or grant it in the settings)"
    )
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

    #[test]
    fn the_head_of_a_script_declares_grants() {
        let source = "-- a tool\n\n---@grants network, process=git|make env=HOME\n--@grants read\n\
                      local x = 1\n--@grants write\n";
        let grants = Grants::declared(source).unwrap();
        assert_eq!(grants.network, Grant::Whole(true));
        assert_eq!(
            grants.process,
            Grant::List(vec!["git".to_owned(), "make".to_owned()])
        );
        assert_eq!(grants.read, Grant::Whole(true));
        assert_eq!(grants.write, Grant::Whole(false));
        assert!(grants.check_process("x", "git").is_ok());
        assert!(grants.check_process("x", "/tmp/git").is_err());
        assert!(grants.check_env("x", "PATH").unwrap_err().contains("`env`"));
        let wrong = Grants::declared("--@grants all\n").unwrap_err();
        assert!(
            wrong.contains("line 1") && wrong.contains("`all`"),
            "{wrong}"
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
            write: Grant::List(vec![root.join("in").display().to_string()]),
            ..Grants::default()
        };
        let own = root.join("own");
        let check = |path: &str, fine: bool| {
            let outcome = grants.check_path("x", &root.join(path), true, &own);
            assert_eq!(outcome.is_ok(), fine, "{path}: {outcome:?}");
        };
        check("in/new", true);
        check("in/a/../new", true);
        check("in/../new", false);
        check("in/out/passwd", false);
        check("in/dangling", false);
        assert!(
            grants
                .check_path("x", &root.join("own/a"), false, &own)
                .is_ok()
        );
        assert!(
            grants
                .check_path("x", &root.join("in/a"), false, &own)
                .is_ok()
        );
        assert!(
            grants
                .check_path("x", &root.join("else"), false, &own)
                .is_err()
        );
    }
}
