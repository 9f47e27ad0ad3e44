//! Credentials: kept apart from all that is published, in the system's keyring
//! or in a file that the user alone can read.

#[cfg(feature = "keyring")]
mod keyring;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::api::files;

/// The credential itself.
const FILE: &str = "credential.json";
/// The name of the keyring's entry that has it.
const MARK: &str = "credential.keyring";
/// What stands in a secret's place.
const REDACTED: &str = "[secret]";
/// Shorter texts would be found in what is no secret.
const SHORTEST: usize = 6;

/// Where credentials are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CredentialPlace {
    /// In the system's keyring, or not at all.
    Keyring,
    /// In a file of mode 0600 in the skill's folder of data.
    File,
}

/// The credential of one skill.
#[derive(Debug)]
pub(crate) struct Credentials {
    folder: Option<PathBuf>,
    place: Option<CredentialPlace>,
    /// What was read of the keyring: the entry and its text. To ask it takes
    /// milliseconds.
    known: Mutex<Option<(String, Arc<str>)>>,
}

impl Credentials {
    /// Those of the skill whose data are in this folder. Does no I/O.
    pub(crate) fn new(folder: Option<PathBuf>, place: Option<CredentialPlace>) -> Self {
        Self {
            folder,
            place,
            known: Mutex::default(),
        }
    }

    /// The credential, as JSON; nothing if there is none.
    ///
    /// # Errors
    /// If it can't be read.
    pub(crate) fn read(&self) -> Result<Option<Arc<str>>, String> {
        if let Some(text) = self.file(FILE)? {
            return Ok(Some(text.into()));
        }
        let Some(entry) = self.file(MARK)? else {
            return Ok(None);
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, text)) = &*known
            && *of == entry
        {
            return Ok(Some(Arc::clone(text)));
        }
        let Some(text) = in_keyring::read(&entry)? else {
            return Err("the credential is no longer in the system's keyring".to_owned());
        };
        let text: Arc<str> = text.into();
        *known = Some((entry, Arc::clone(&text)));
        Ok(Some(text))
    }

    /// Keeps a credential, in place of the one there was.
    ///
    /// # Errors
    /// If it can't be kept.
    pub(crate) fn keep(&self, json: &str) -> Result<(), String> {
        let folder = self.folder.as_deref();
        let folder = folder.ok_or("the host has no `data_dir`; no credential can be kept")?;
        let before = self.file(MARK)?;
        let kept = match self.place {
            Some(CredentialPlace::File) => Err(String::new()),
            _ => self.keep_in_keyring(folder, before.as_deref(), json),
        };
        match (kept, self.place) {
            (Ok(()), _) => remove(&folder.join(FILE)),
            (Err(words), Some(CredentialPlace::Keyring)) => {
                Err(format!("the credential can't be kept: {words}"))
            }
            (Err(_), _) => {
                write(folder, FILE, json)?;
                self.leave_keyring(folder, before)
            }
        }
    }

    fn keep_in_keyring(
        &self,
        folder: &Path,
        before: Option<&str>,
        json: &str,
    ) -> Result<(), String> {
        // The same entry as before, so that none is left behind.
        let fresh = || format!("skill-{}", uuid::Uuid::new_v4());
        let entry = before.map_or_else(fresh, str::to_owned);
        in_keyring::write(&entry, json)?;
        // Whatever comes first, a crash leaves a credential that can be read.
        write(folder, MARK, &entry)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((entry, json.into()));
        Ok(())
    }

    fn leave_keyring(&self, folder: &Path, before: Option<String>) -> Result<(), String> {
        let Some(entry) = before else {
            return Ok(());
        };
        // An entry that nobody knows any more is of no use to anybody.
        in_keyring::remove(&entry).ok();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        remove(&folder.join(MARK))
    }

    /// Forgets the credential.
    ///
    /// # Errors
    /// If it is there still.
    pub(crate) fn forget(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        if let Some(entry) = self.file(MARK)? {
            in_keyring::remove(&entry)?;
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
            remove(&folder.join(MARK))?;
        }
        remove(&folder.join(FILE))
    }

    /// A text without the skill's secrets, should its script have put them there.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let Ok(Some(json)) = self.read() else {
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

    fn file(&self, name: &str) -> Result<Option<String>, String> {
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        let file = folder.join(name);
        match std::fs::read_to_string(&file) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let file = folder.join(name);
    files::replace(folder, &file, text.as_bytes())
        .map_err(|e| format!("the credential can't be kept in {}: {e}", file.display()))
}

fn remove(file: &Path) -> Result<(), String> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file.display()))
        }
        _ => Ok(()),
    }
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

#[cfg(feature = "keyring")]
use self::keyring as in_keyring;

/// What a program knows of keyrings that was built without them.
#[cfg(not(feature = "keyring"))]
mod in_keyring {
    const WORDS: &str = "this program was built without the system's keyring (feature `keyring`)";

    pub(super) fn read(_entry: &str) -> Result<Option<String>, String> {
        Err(WORDS.to_owned())
    }

    pub(super) fn write(_entry: &str, _text: &str) -> Result<(), String> {
        Err(WORDS.to_owned())
    }

    pub(super) fn remove(_entry: &str) -> Result<(), String> {
        Err(WORDS.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(folder: &Path, place: Option<CredentialPlace>) -> Credentials {
        Credentials::new(Some(folder.to_owned()), place)
    }

    #[test]
    fn credentials_are_the_users_alone_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let kept = credentials(folder.path(), Some(CredentialPlace::File));
        assert_eq!(kept.read(), Ok(None));
        let json = r#"{"access_token":"se\"cret-1","token_type":"Bearer","n":[1,"se\"cret-12"]}"#;
        kept.keep(json).unwrap();
        assert_eq!(kept.read().unwrap().as_deref(), Some(json));
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join(FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            kept.redact(r#"a se"cret-12 {"k":"se\"cret-1"} Bearer"#),
            r#"a [secret] {"k":"[secret]"} Bearer"#
        );
        kept.forget().unwrap();
        kept.forget().unwrap();
        assert_eq!(kept.read(), Ok(None));
        let nowhere = Credentials::new(None, None);
        assert!(nowhere.keep("{}").unwrap_err().contains("data_dir"));
    }

    #[cfg(not(feature = "keyring"))]
    #[test]
    fn without_a_keyring_a_file_has_it_unless_that_isnt_wanted() {
        let folder = tempfile::tempdir().unwrap();
        credentials(folder.path(), None).keep("{}").unwrap();
        assert!(folder.path().join(FILE).exists());
        let refused = credentials(folder.path(), Some(CredentialPlace::Keyring)).keep("{}");
        assert!(refused.unwrap_err().contains("feature `keyring`"));
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        std::fs::write(folder.path().join(MARK), "skill-1").unwrap();
        let elsewhere = credentials(folder.path(), None);
        assert!(elsewhere.read().unwrap_err().contains("feature `keyring`"));
        assert!(
            elsewhere
                .forget()
                .unwrap_err()
                .contains("feature `keyring`")
        );
    }
}
