//! What a workspace's own file may say.
//!
//! A workspace may come from anywhere, so its file is not the user's word: it
//! can choose among what the user has set up, and nothing else. It can neither
//! load code, nor name programs and servers, nor hold or redirect secrets, nor
//! free everything from approval.

use std::path::Path;

use toml::{Table, Value};

use super::{Layer, file};
use crate::args::Approve;
use crate::failure::{Failure, Outcome};

/// Its name.
const FILE_NAME: &str = "haft.toml";

/// Settings of extensions that neither run, reach nor reveal anything.
const HARMLESS: [(&str, &[&str]); 4] = [
    (
        "engine-anthropic",
        &[
            "cache",
            "connect_timeout_ms",
            "idle_timeout_ms",
            "max_tokens",
            "models",
        ],
    ),
    (
        "engine-local",
        &[
            "context_tokens",
            "idle_shutdown_seconds",
            "profile",
            "start_timeout_seconds",
            "threads",
        ],
    ),
    (
        "engine-openai",
        &["connect_timeout_ms", "idle_timeout_ms", "models"],
    ),
    ("engine-replay", &["script"]),
];

const SECRET_ENDINGS: [&str; 6] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "credentials",
];

/// Reads the file of a workspace, if it has one.
pub(super) fn load(workspace: &Path) -> Outcome<Layer> {
    let path = workspace.join(FILE_NAME);
    let Some(text) = file::read(&path)? else {
        return Ok(Layer::default());
    };
    // What isn't TOML at all is told of below.
    if let Ok(table) = text.parse::<Table>() {
        if table.contains_key("plugin") {
            return Err(refuse(&path, "plugin", "it would load code"));
        }
        check_values(&path, "", &table)?;
    }
    let layer = file::parse(&path, &text)?;
    check_layer(&path, &layer)?;
    Ok(layer)
}

fn refuse(path: &Path, key: &str, why: &str) -> Failure {
    Failure::usage(format!(
        "{}: `{key}` can't be set by a workspace: {why}; set it in your own configuration",
        path.display()
    ))
}

/// Whatever the key is called, now or in a later version.
fn check_values(path: &Path, prefix: &str, table: &Table) -> Outcome<()> {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        let lower = name.to_ascii_lowercase();
        if SECRET_ENDINGS.iter().any(|ending| lower.ends_with(ending)) {
            return Err(refuse(path, &key, "secrets don't belong into it"));
        }
        check_value(path, &key, value)?;
    }
    Ok(())
}

fn check_value(path: &Path, key: &str, value: &Value) -> Outcome<()> {
    match value {
        Value::String(text) if is_shared_object(text) => {
            Err(refuse(path, key, "it names a shared object"))
        }
        Value::Table(table) => check_values(path, &format!("{key}."), table),
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| check_value(path, key, value)),
        _ => Ok(()),
    }
}

fn is_shared_object(text: &str) -> bool {
    let name = text
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(text)
        .to_ascii_lowercase();
    let one_word = !text.contains(char::is_whitespace);
    let ending = [".so", ".dylib", ".dll"]
        .iter()
        .any(|ending| name.ends_with(ending));
    one_word && (ending || name.contains(".so."))
}

fn check_layer(path: &Path, layer: &Layer) -> Outcome<()> {
    if layer.approve == Some(Approve::All) {
        return Err(refuse(path, "approve", "`all` is for you to say"));
    }
    if layer.store.is_some() {
        return Err(refuse(
            path,
            "store",
            "threads are kept where you keep them",
        ));
    }
    if let Some(key) = layer.runner.loosened() {
        let why = "it may only tighten what commands may do";
        return Err(refuse(path, key, why));
    }
    for (id, settings) in &layer.ext {
        let harmless = HARMLESS.iter().find(|(known, _)| known == id);
        let harmless = harmless.map_or(&[] as &[&str], |(_, keys)| *keys);
        if let Some(key) = settings
            .keys()
            .find(|key| !harmless.contains(&key.as_str()))
        {
            let key = format!("ext.{id}.{key}");
            return Err(refuse(path, &key, "it reaches beyond the workspace"));
        }
    }
    Ok(())
}
