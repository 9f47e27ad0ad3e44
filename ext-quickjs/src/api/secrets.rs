//! Credentials: kept apart from all that is published, readable by the user
//! alone.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Value};

use super::raise;
use crate::native::Native;
use crate::worker::Raised;

const FILE: &str = "credential.json";
/// What stands in a secret's place.
const REDACTED: &str = "[secret]";
/// Shorter texts would be found in what is no secret.
const SHORTEST: usize = 6;

fn file(folder: Option<&Path>) -> Result<PathBuf, String> {
    folder
        .map(|folder| folder.join(FILE))
        .ok_or_else(|| "the host has no `data_dir`; no credential can be kept".to_owned())
}

/// The credential of a skill, as JSON; nothing if it has none.
///
/// # Errors
/// If it can't be read.
pub(crate) fn read(folder: Option<&Path>) -> Result<Option<String>, String> {
    let Ok(file) = file(folder) else {
        return Ok(None);
    };
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Keeps a credential.
///
/// # Errors
/// If it can't be written.
pub(crate) fn keep(folder: Option<&Path>, json: &str) -> Result<(), String> {
    let file = file(folder)?;
    super::files::replace(
        file.parent().unwrap_or(Path::new("/")),
        &file,
        json.as_bytes(),
    )
    .map_err(|e| format!("the credential can't be kept in {}: {e}", file.display()))
}

/// Forgets the credential.
///
/// # Errors
/// If it is there still.
pub(crate) fn forget(folder: Option<&Path>) -> Result<(), String> {
    let Ok(file) = file(folder) else {
        return Ok(());
    };
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

/// A text without the skill's secrets, should its script have put them there.
pub(crate) fn redact(folder: Option<&Path>, text: &str) -> String {
    let mut text = text.to_owned();
    let Ok(Some(json)) = read(folder) else {
        return text;
    };
    let Ok(value) = serde_json::from_str(&json) else {
        return text;
    };
    let mut secrets = Vec::new();
    collect(&value, &mut secrets);
    // A secret that is part of another one must not hide it.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in secrets {
        text = text.replace(secret, REDACTED);
        let quoted = serde_json::Value::from(secret).to_string();
        let inner = &quoted[1..quoted.len() - 1];
        if inner != secret {
            text = text.replace(inner, REDACTED);
        }
    }
    text
}

/// A credential's texts, but for the names of kinds of tokens and the like.
fn collect<'v>(value: &'v serde_json::Value, into: &mut Vec<&'v str>) {
    const OPEN: &[&str] = &["token_type", "tokenType", "scope", "provider", "expires_at"];
    match value {
        serde_json::Value::String(text) if text.len() >= SHORTEST => into.push(text),
        serde_json::Value::Array(list) => list.iter().for_each(|one| collect(one, into)),
        serde_json::Value::Object(map) => map
            .iter()
            .filter(|(name, _)| !OPEN.contains(&name.as_str()))
            .for_each(|(_, one)| collect(one, into)),
        _ => {}
    }
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let get = move |ctx: Ctx<'js>| -> rquickjs::Result<Value<'js>> {
        let read = read(host.setup.data.as_deref()).map_err(Raised::error);
        match raise(&ctx, read)? {
            Some(json) => ctx.json_parse(json),
            None => Ok(Value::new_null(ctx)),
        }
    };
    table.set("credential", Function::new(ctx.clone(), get)?)?;
    let host = Rc::clone(native);
    let revoke = move |ctx: Ctx<'js>| {
        let forgotten = forget(host.setup.data.as_deref()).map_err(Raised::error);
        raise(&ctx, forgotten)
    };
    table.set("revoke", Function::new(ctx.clone(), revoke)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_the_users_alone_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let place = Some(folder.path());
        assert_eq!(read(place), Ok(None));
        keep(
            place,
            r#"{"access_token":"se\"cret-1","token_type":"Bearer","n":[1,"se\"cret-12"]}"#,
        )
        .unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join(FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            redact(place, r#"a se"cret-12 {"k":"se\"cret-1"} Bearer"#),
            r#"a [secret] {"k":"[secret]"} Bearer"#
        );
        forget(place).unwrap();
        forget(place).unwrap();
        assert_eq!(read(place), Ok(None));
        assert!(keep(None, "{}").unwrap_err().contains("data_dir"));
    }
}
