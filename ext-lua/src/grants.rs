//! What an extension may reach besides its calls' workspace.

use std::path::{Path, PathBuf};

use haft_script_host::{Grant, real_place};
use serde::Deserialize;

use crate::head::declarations;

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
    /// Hosts it may connect to. `*.example.com` is every host below that name.
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
            grant.extend(value.map(|values| values.split('|').map(str::to_owned)));
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
        let place = real_place(path);
        let (grant, name) = match write {
            true => (&self.write, "write"),
            false => (&self.read, "read"),
        };
        let readable =
            !write && (place.starts_with(real_place(own)) || self.write.allows_place(&place));
        if readable || grant.allows_place(&place) {
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
        match self.network.allows_host(host) {
            true => Ok(()),
            false => Err(lacks(extension, "network", host)),
        }
    }

    pub(crate) fn check_env(&self, extension: &str, name: &str) -> Result<(), String> {
        match self.env.allows_name(name) {
            true => Ok(()),
            false => Err(lacks(extension, "env", name)),
        }
    }

    pub(crate) fn check_native(&self, extension: &str, module: &str) -> Result<(), String> {
        match self.native.allows_name(module) {
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
    fn its_own_folder_and_what_it_may_change_may_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        let grants = Grants {
            write: Grant::List(vec![root.join("in").display().to_string()]),
            ..Grants::default()
        };
        let own = root.join("own");
        for (path, write, fine) in [
            ("in/new", true, true),
            ("in/../new", true, false),
            ("own/a", true, false),
            ("own/a", false, true),
            ("in/a", false, true),
            ("else", false, false),
        ] {
            let outcome = grants.check_path("x", &root.join(path), write, &own);
            assert_eq!(outcome.is_ok(), fine, "{path}, write: {write}: {outcome:?}");
        }
    }
}
