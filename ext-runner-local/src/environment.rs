//! The clean environment of commands: an allow-list, never a deny-list.

use std::ffi::{OsStr, OsString};

use crate::config::LocalConfig;

/// A variable's name and value.
pub(crate) type Variable = (OsString, OsString);

const PASSED: [&str; 9] = [
    "PATH", "HOME", "LANG", "LC_*", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL",
];

/// Without any `PATH` a shell finds nothing at all.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const SECRET_ENDINGS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS"];

/// What commands get of the host's environment, by name.
pub(crate) fn clean(config: &LocalConfig, host: impl Iterator<Item = Variable>) -> Vec<Variable> {
    let mut kept: Vec<Variable> = host
        .filter(|(name, _)| name.to_str().is_some_and(|name| passes(config, name)))
        .collect();
    for (name, value) in &config.set_env {
        set(&mut kept, OsStr::new(name), OsStr::new(value));
    }
    if !kept.iter().any(|(name, _)| name == "PATH") {
        set(&mut kept, OsStr::new("PATH"), OsStr::new(DEFAULT_PATH));
    }
    kept.sort();
    kept
}

/// Sets a variable, over one of the same name.
pub(crate) fn set(variables: &mut Vec<Variable>, name: &OsStr, value: &OsStr) {
    match variables.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value.to_owned(),
        None => variables.push((name.to_owned(), value.to_owned())),
    }
}

fn passes(config: &LocalConfig, name: &str) -> bool {
    let configured = config.pass_env.iter().map(String::as_str);
    PASSED
        .into_iter()
        .chain(configured)
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix) && !looks_secret(name),
            None => name == pattern,
        })
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_passes() {
        let check = |pass: &[&str], name: &str, expected: bool| {
            let config = LocalConfig {
                pass_env: pass.iter().map(|&name| name.to_owned()).collect(),
                ..LocalConfig::default()
            };
            let host = [(OsString::from(name), OsString::from("v"))];
            let kept = clean(&config, host.into_iter());
            let there = kept
                .iter()
                .any(|(known, value)| known == name && value == "v");
            assert_eq!(there, expected, "{name} with {pass:?}");
        };
        check(&[], "HOME", true);
        check(&[], "LC_ALL", true);
        check(&[], "LC_API_KEY", false);
        check(&[], "OPENAI_API_KEY", false);
        check(&[], "SSH_AUTH_SOCK", false);
        check(&["AWS_*"], "AWS_REGION", true);
        check(&["AWS_*"], "AWS_SESSION_TOKEN", false);
        check(&["AWS_*"], "AWS_SECRET_ACCESS_KEY", false);
        check(&["AWS_SESSION_TOKEN"], "AWS_SESSION_TOKEN", true);
        check(&["*"], "DB_PASSWORD", false);
    }

    #[test]
    fn a_set_value_wins_and_a_path_is_always_there() {
        let mut config = LocalConfig::default();
        config.set_env.insert("TERM".into(), "dumb".into());
        let host = [("TERM".into(), "xterm".into())];
        let kept = clean(&config, host.into_iter());
        assert!(kept.contains(&("TERM".into(), "dumb".into())));
        assert!(kept.contains(&("PATH".into(), DEFAULT_PATH.into())));
        assert_eq!(kept.iter().filter(|(name, _)| name == "TERM").count(), 1);
    }
}
