//! What a skill may reach besides its own data.

use std::path::{Path, PathBuf};

use haft_script_host::{Grant, real_place};
use serde::Deserialize;

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

    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "for requests"))]
    pub(crate) fn check_network(&self, host: &str) -> Result<(), String> {
        allowed(self.network.allows_host(host), "network", host)
    }

    pub(crate) fn check_env(&self, name: &str) -> Result<(), String> {
        allowed(self.env.allows_name(name), "env", name)
    }

    pub(crate) fn check_skill(&self, id: &str) -> Result<(), String> {
        allowed(self.skills.allows_name(id), "skills", id)
    }

    pub(crate) fn check_model(&self) -> Result<(), String> {
        allowed(self.model, "model", "the turn's model")
    }

    /// The place that a path leads to, if it may be reached.
    pub(crate) fn check_path(&self, path: &Path, write: bool) -> Result<PathBuf, String> {
        let place = real_place(path);
        let (fine, name) = match write {
            true => (self.write.allows_place(&place), "write"),
            false => (
                self.write.allows_place(&place) || self.read.allows_place(&place),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_says_which_grant_is_lacking() {
        let grants = Grants::default();
        for (outcome, grant, what) in [
            (grants.check_network("x.test"), "network", "x.test"),
            (grants.check_env("HOME"), "env", "HOME"),
            (grants.check_skill("other"), "skills", "other"),
            (grants.check_model(), "model", "model"),
        ] {
            let words = outcome.unwrap_err();
            assert!(
                words.contains(&format!("`{grant}`")) && words.contains(what),
                "{words}"
            );
        }
    }

    #[test]
    fn what_may_be_changed_may_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let list = |name: &str| Grant::List(vec![folder.path().join(name).display().to_string()]);
        let grants = Grants {
            write: list("w"),
            read: list("r"),
            ..Grants::default()
        };
        for (path, write, fine) in [
            ("w/new", true, true),
            ("w/new", false, true),
            ("r/new", true, false),
            ("r/new", false, true),
            ("w/../new", true, false),
        ] {
            let outcome = grants.check_path(&folder.path().join(path), write);
            assert_eq!(outcome.is_ok(), fine, "{path}, write: {write}: {outcome:?}");
        }
    }
}
