//! Settings.

use std::path::{Path, PathBuf};

use haft_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// What to do about a host whose key isn't known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKeys {
    /// Refuse it.
    #[default]
    Strict,
    /// Trust it, and refuse another key from then on.
    AcceptNew,
}

/// Settings of an [`SshRunner`](crate::SshRunner). Whatever isn't set here is as
/// the user's own SSH configuration has it. No secrets: keys are files, and
/// passwords aren't asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SshConfig {
    /// The machine: a name, an address, or an alias of the SSH configuration.
    /// Without one the runner is there and not ready.
    pub host: Option<String>,
    /// Whom to log in as.
    pub user: Option<String>,
    /// The server's port.
    pub port: Option<u16>,
    /// The private key to log in with, and no other; absolute.
    pub identity_file: Option<PathBuf>,
    /// Where known hosts' keys are; absolute.
    pub known_hosts_file: Option<PathBuf>,
    /// What to do about a host whose key isn't known.
    pub host_keys: HostKeys,
    /// An SSH configuration to be read instead of the user's own; absolute.
    pub config_file: Option<PathBuf>,
    /// Further options for the client, each as `Name=value`.
    pub options: Vec<String>,
    /// The client's program.
    pub program: PathBuf,
    /// The workspace of threads that name none, on the far side; absolute.
    pub root: Option<String>,
    /// Where sessions are kept on the far side; absolute.
    /// `None`: `haft/runner` in the user's state folder there.
    pub state_folder: Option<String>,
    /// Longest wait for a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long a cut connection is tried again before whoever waits is told, in
    /// milliseconds.
    pub reconnect_ms: u64,
    /// Most bytes of a file handed over in one read.
    pub max_read_bytes: u64,
    /// Most bytes of a process's standard output, and as many of its error
    /// output; it is ended when it has written more.
    pub max_output_bytes: u64,
    /// How long a process that is to end has between the polite signal and the
    /// final one, in milliseconds.
    pub kill_grace_ms: u64,
    /// How long a process may run on while no program that knows its session is
    /// connected, in milliseconds; 0 is for ever. It ends as cancelled, at the
    /// latest after twice this time.
    pub abandoned_after_ms: u64,
}

impl Default for SshConfig {
    fn default() -> Self {
        Self {
            host: None,
            user: None,
            port: None,
            identity_file: None,
            known_hosts_file: None,
            host_keys: HostKeys::Strict,
            config_file: None,
            options: Vec::new(),
            program: PathBuf::from("ssh"),
            root: None,
            state_folder: None,
            connect_timeout_ms: 15_000,
            reconnect_ms: 30_000,
            max_read_bytes: 256 * 1024 * 1024,
            max_output_bytes: 1024 * 1024 * 1024,
            kill_grace_ms: 200,
            abandoned_after_ms: 60 * 60 * 1000,
        }
    }
}

impl SshConfig {
    pub(crate) fn check(&self) -> Result<()> {
        // A word that began with a dash would be an option of the client.
        let word = |text: &String| {
            text.is_empty()
                || text.starts_with('-')
                || text.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        if self.host.as_ref().is_some_and(word) {
            return refuse("host", "must be a name or an address");
        }
        if self
            .user
            .as_ref()
            .is_some_and(|u| word(u) || u.contains('@'))
        {
            return refuse("user", "must be a user's name");
        }
        if self.port == Some(0) {
            return refuse("port", "must be more than zero");
        }
        let near = [
            ("identity_file", &self.identity_file),
            ("known_hosts_file", &self.known_hosts_file),
            ("config_file", &self.config_file),
        ];
        for (key, path) in near {
            // The client cuts such settings at spaces and fills in `%`.
            let odd = |path: &Path| {
                !path.is_absolute() || path.to_str().is_none_or(|p| p.contains(['"', '%', '\n']))
            };
            if path.as_deref().is_some_and(odd) {
                return refuse(key, "must be an absolute path without `\"` and `%`");
            }
        }
        for (key, path) in [("root", &self.root), ("state_folder", &self.state_folder)] {
            let odd = |path: &String| !path.starts_with('/') || path.contains(['\0', '\n']);
            if path.as_ref().is_some_and(odd) {
                return refuse(key, "must be an absolute path");
            }
        }
        if self
            .options
            .iter()
            .any(|o| !o.contains('=') || o.contains('\n'))
        {
            return refuse("options", "must be of the form `Name=value`");
        }
        if self.connect_timeout_ms == 0 {
            return refuse("connect_timeout_ms", "must be more than zero");
        }
        if self.max_read_bytes == 0 {
            return refuse("max_read_bytes", "must be more than zero");
        }
        if self.max_output_bytes == 0 {
            return refuse("max_output_bytes", "must be more than zero");
        }
        if self.kill_grace_ms > 60_000 {
            return refuse("kill_grace_ms", "must be a minute at most");
        }
        Ok(())
    }

    /// The far side in words.
    pub(crate) fn place(&self) -> String {
        let host = self.host.as_deref().unwrap_or("no host");
        let user = self.user.as_ref().map(|user| format!("{user}@"));
        let port = self.port.map(|port| format!(":{port}"));
        let (user, port) = (user.unwrap_or_default(), port.unwrap_or_default());
        format!("{user}{host}{port}")
    }

    /// The grace in the far side's steps of 20 ms.
    pub(crate) fn grace_steps(&self) -> u64 {
        self.kill_grace_ms.div_ceil(20)
    }
}

fn refuse(key: &str, message: &str) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidInput, message)
        .operation("configure")
        .context("key", key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_an_option_or_is_relative_is_refused() {
        let check = |json: &str, key: &str| {
            let config: SshConfig = serde_json::from_str(json).unwrap();
            let error = config.check().unwrap_err();
            assert_eq!(error.context_value("key"), Some(key), "{json}");
        };
        check(r#"{"host":"-oProxyCommand=x"}"#, "host");
        check(r#"{"host":"a b"}"#, "host");
        check(r#"{"host":"h","user":"-l"}"#, "user");
        check(r#"{"host":"h","port":0}"#, "port");
        check(r#"{"identity_file":"key"}"#, "identity_file");
        check(r#"{"known_hosts_file":"/a\"b"}"#, "known_hosts_file");
        check(r#"{"root":"work"}"#, "root");
        check(r#"{"options":["-v"]}"#, "options");
        check(r#"{"kill_grace_ms":60001}"#, "kill_grace_ms");
        assert!(SshConfig::default().check().is_ok());
    }
}
