//! What commands may read, and what they never see, where nothing else is said.

use std::path::{Path, PathBuf};

use crate::config::LocalConfig;
use crate::environment::Variable;

/// The system's own folders.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/sys/devices/system",
    "/run/systemd/resolve",
    "/var/lib/dpkg",
];

/// Tools that live in a home, and what they need to run; no keys among them.
const HOME: [&str; 17] = [
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".rustup",
    ".local/bin",
    ".local/share/uv",
    ".local/pipx",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".sdkman",
    "go/pkg",
];

/// Where keys and passwords usually lie.
const SECRETS: [&str; 19] = [
    "~/.ssh",
    "~/.aws",
    "~/.azure",
    "~/.gnupg",
    "~/.kube",
    "~/.docker",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/git/credentials",
    "~/.git-credentials",
    "~/.netrc",
    "~/.npmrc",
    "~/.pypirc",
    "~/.cargo/credentials.toml",
    "~/.password-store",
    "~/.local/share/keyrings",
    "~/.mozilla",
    "~/.config/haft",
    "~/.local/share/haft",
];

/// The same, of the system; other users than root can't read them anyway.
const SYSTEM_SECRETS: [&str; 8] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/ssl/private",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
];

/// What commands may read besides the workspace: what is there of it, the outer
/// before the inner.
pub(crate) fn readable(config: &LocalConfig, env: &[Variable], roots: &[PathBuf]) -> Vec<PathBuf> {
    let home = home();
    let mut all: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    if let Some(home) = &home {
        all.extend(HOME.iter().map(|path| home.join(path)));
    }
    if let Some((_, path)) = env.iter().find(|(name, _)| name == "PATH") {
        // Not the home itself, nor the root, even if somebody put it there.
        let folders = std::env::split_paths(path).filter(|p| p.is_absolute());
        all.extend(folders.filter(|p| p.parent().is_some() && Some(p) != home.as_ref()));
    }
    all.extend(
        config
            .read
            .iter()
            .filter_map(|path| expand(path, home.as_deref())),
    );
    all.extend(roots.iter().cloned());
    all.retain(|path| path.symlink_metadata().is_ok());
    all.sort();
    all.dedup();
    all
}

/// What commands never see.
pub(crate) fn hidden(config: &LocalConfig) -> Vec<PathBuf> {
    let home = home();
    let named = config.hide.iter().map(String::as_str);
    let mut all: Vec<PathBuf> = SECRETS
        .into_iter()
        .chain(SYSTEM_SECRETS)
        .chain(named)
        .filter_map(|path| expand(path, home.as_deref()))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let host_keys = std::fs::read_dir("/etc/ssh")
        .into_iter()
        .flatten()
        .flatten();
    all.extend(host_keys.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ssh_host_") && name.ends_with("_key")
    }));
    all.sort();
    all.dedup();
    all
}

fn expand(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(path)),
    }
}

/// The user's home, if it is one.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute() && home.parent().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_readable_and_a_root_on_the_path_is_not() {
        let env = [("PATH".into(), "/:relative:/usr/bin:/nonexistent/bin".into())];
        let config = LocalConfig {
            read: vec!["/proc/version".into(), "/nonexistent".into()],
            ..LocalConfig::default()
        };
        let readable = readable(&config, &env, &[PathBuf::from("/dev")]);
        let has = |path: &str| readable.iter().any(|known| known == Path::new(path));
        for (path, expected) in [
            ("/usr", true),
            ("/usr/bin", true),
            ("/etc", true),
            ("/proc/version", true),
            ("/dev", true),
            ("/", false),
            ("relative", false),
            ("/nonexistent", false),
            ("/nonexistent/bin", false),
        ] {
            assert_eq!(has(path), expected, "{path} in {readable:?}");
        }
    }
}
