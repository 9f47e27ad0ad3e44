//! Which skills the user starts and stops with the host.

use std::collections::BTreeMap;
use std::path::Path;

use crate::api::files;

const FILE: &str = "skills.json";

/// What the user chose, in place of what manifests say.
#[derive(Debug, Default)]
pub(crate) struct Choices(BTreeMap<String, bool>);

impl Choices {
    /// Reads what was kept; a file that can't be read is none.
    pub(crate) fn read(folder: Option<&Path>) -> Self {
        let text = folder.and_then(|folder| std::fs::read_to_string(folder.join(FILE)).ok());
        Self(
            text.and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
        )
    }

    /// Whether a skill starts with the host, if the user said so.
    pub(crate) fn of(&self, id: &str) -> Option<bool> {
        self.0.get(id).copied()
    }

    /// Keeps a choice.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn set(folder: Option<&Path>, id: &str, starts: bool) -> Result<(), String> {
        let folder = folder.ok_or("the host has no `data_dir`; no choice can be kept")?;
        let mut choices = Self::read(Some(folder));
        choices.0.insert(id.to_owned(), starts);
        let json = serde_json::to_string(&choices.0).map_err(|e| e.to_string())?;
        let file = folder.join(FILE);
        files::replace(folder, &file, json.as_bytes())
            .map_err(|e| format!("{}: {e}", file.display()))
    }
}
