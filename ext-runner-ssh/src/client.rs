//! The system's `ssh`: its command line, and what it says when it fails.

use std::path::Path;

use haft_api::{Error, ErrorKind};
use tokio::process::Command;

use crate::config::{HostKeys, SshConfig};

/// The client's command line, up to the host. `master` makes it the one whose
/// connection the others share.
pub(crate) fn command(config: &SshConfig, host: &str, socket: &Path, master: bool) -> Command {
    let mut command = Command::new(&config.program);
    // Its messages are read below.
    command.env("LC_ALL", "C");
    if let Some(file) = &config.config_file {
        command.arg("-F").arg(file);
    }
    let mut option = |text: String| {
        command.arg("-o").arg(text);
    };
    // The first value of an option counts.
    option(format!("ControlPath=\"{}\"", socket.display()));
    let control = if master { "yes" } else { "no" };
    option(format!("ControlMaster={control}"));
    for fixed in [
        "ControlPersist=no",
        "BatchMode=yes",
        "RequestTTY=no",
        "ForwardX11=no",
        "ForwardAgent=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "LogLevel=ERROR",
        "EscapeChar=none",
    ] {
        option(fixed.to_owned());
    }
    option(match config.host_keys {
        HostKeys::Strict => "StrictHostKeyChecking=yes".to_owned(),
        HostKeys::AcceptNew => "StrictHostKeyChecking=accept-new".to_owned(),
    });
    if let Some(file) = &config.known_hosts_file {
        option(format!("UserKnownHostsFile=\"{}\"", file.display()));
    }
    if let Some(file) = &config.identity_file {
        option(format!("IdentityFile=\"{}\"", file.display()));
        option("IdentitiesOnly=yes".to_owned());
    }
    for text in &config.options {
        option(text.clone());
    }
    // After the user's own, which may want others.
    let seconds = config.connect_timeout_ms.div_ceil(1000);
    option(format!("ConnectTimeout={seconds}"));
    option("ServerAliveInterval=15".to_owned());
    option("ServerAliveCountMax=3".to_owned());
    if let Some(user) = &config.user {
        command.arg("-l").arg(user);
    }
    if let Some(port) = config.port {
        command.arg("-p").arg(port.to_string());
    }
    command.arg("--").arg(host);
    command
}

/// The command line that has the client which holds a connection pass on what comes
/// to a port here to one over there. Of the settings only the socket counts: what
/// the user's own configuration forwards isn't asked for.
pub(crate) fn forward(config: &SshConfig, host: &str, socket: &Path, ports: (u16, u16)) -> Command {
    let (here, there) = ports;
    let mut command = Command::new(&config.program);
    command
        .env("LC_ALL", "C")
        .args(["-F", "none", "-O", "forward", "-o"])
        .arg(format!("ControlPath=\"{}\"", socket.display()))
        .arg("-L")
        .arg(format!("127.0.0.1:{here}:127.0.0.1:{there}"))
        .arg("--")
        .arg(host);
    command
}

/// What the client's last words mean for a connection that didn't come about.
pub(crate) fn explain(config: &SshConfig, words: &str) -> Error {
    let has = |patterns: &[&str]| patterns.iter().any(|pattern| words.contains(pattern));
    let place = config.place();
    let error = if has(&["REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        Error::new(
            ErrorKind::Denied,
            format!(
                "the host key of {place} isn't the one that is known: somebody may be in between. \
                 If the host was set up anew, remove its old key (`ssh-keygen -R`) and connect to \
                 it once with `ssh`"
            ),
        )
    } else if has(&["Host key verification failed", "host key is known for"]) {
        Error::new(
            ErrorKind::Denied,
            format!(
                "the host key of {place} isn't known: connect to it once with `ssh`, or set \
                 `host_keys = \"accept-new\"`"
            ),
        )
    } else if has(&["Permission denied", "Too many authentication failures"]) {
        Error::new(
            ErrorKind::Denied,
            format!(
                "{place} refused to log in: check `user` and `identity_file`, or load the key \
                 into the agent; passwords aren't asked for"
            ),
        )
    } else if has(&[
        "Bad configuration option",
        "unsupported option",
        "command-line line",
    ]) {
        Error::new(
            ErrorKind::InvalidInput,
            "the SSH client doesn't take its settings: check `options`",
        )
    } else {
        Error::new(
            ErrorKind::Unavailable,
            format!("{place} can't be reached over SSH"),
        )
    };
    let last = words.lines().rfind(|line| !line.trim().is_empty());
    error
        .context("host", place)
        .context("ssh", last.unwrap_or("it said nothing").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_words_tell_the_kinds_of_failure() {
        let check = |words: &str, kind: ErrorKind, hint: &str| {
            let error = explain(&SshConfig::default(), words);
            assert_eq!(error.kind(), kind, "{words}");
            assert!(error.to_string().contains(hint), "{error}");
            assert_eq!(error.is_temporary(), kind == ErrorKind::Unavailable);
        };
        check(
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            ErrorKind::Denied,
            "ssh-keygen -R",
        );
        check(
            "No ED25519 host key is known for h.\nHost key verification failed.",
            ErrorKind::Denied,
            "accept-new",
        );
        check(
            "u@h: Permission denied (publickey).",
            ErrorKind::Denied,
            "identity_file",
        );
        check(
            "ssh: connect to host h port 22: Connection refused",
            ErrorKind::Unavailable,
            "Connection refused",
        );
        check(
            "command-line: line 0: Bad configuration option: x",
            ErrorKind::InvalidInput,
            "options",
        );
        check("", ErrorKind::Unavailable, "said nothing");
    }

    #[test]
    fn the_command_line_asks_nothing_and_holds_no_command_of_the_user() {
        let config = SshConfig {
            user: Some("me".to_owned()),
            port: Some(2222),
            ..SshConfig::default()
        };
        let command = command(&config, "host", Path::new("/s/c"), true);
        let line: Vec<_> = command
            .as_std()
            .get_args()
            .map(|a| a.to_str().unwrap())
            .collect();
        for word in [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ControlMaster=yes",
        ] {
            assert!(line.contains(&word), "{word} in {line:?}");
        }
        assert_eq!(line[line.len() - 2..], ["--", "host"]);
    }
}
