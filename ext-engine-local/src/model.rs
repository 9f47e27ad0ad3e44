//! Which model a name means.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use haft_api::{Error, ErrorKind, Result};

use crate::settings::ProfileChoice;

/// Files smaller than this hold models that need the small-model profile.
const SMALL_BYTES: u64 = 1_500_000_000;

/// What a model's name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelName {
    /// A model of the catalog.
    Catalog(String),
    /// A file.
    File(PathBuf),
}

impl ModelName {
    /// A name with a path separator or the ending `.gguf` is a path.
    pub(crate) fn parse(name: &str) -> Self {
        let gguf = name.len() > 5 && name.to_ascii_lowercase().ends_with(".gguf");
        if gguf || name.contains(std::path::is_separator) {
            Self::File(PathBuf::from(name))
        } else {
            Self::Catalog(name.to_owned())
        }
    }
}

/// A file of weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WeightsFile {
    /// Its absolute path.
    pub(crate) path: PathBuf,
    bytes: u64,
}

impl WeightsFile {
    /// Looks at a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::InvalidInput`] if
    /// it isn't in the GGUF format.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let fail = |e| Error::io(e, "can't read the model's file").context("path", path.display());
        let absolute = std::path::absolute(path).map_err(fail)?;
        let mut file = std::fs::File::open(&absolute).map_err(fail)?;
        let mut magic = [0; 4];
        let bytes = file.metadata().map_err(fail)?.len();
        if file.read_exact(&mut magic).is_err() || magic != *b"GGUF" {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "this isn't a model in the GGUF format",
            )
            .context("path", path.display()));
        }
        Ok(Self {
            path: absolute,
            bytes,
        })
    }

    /// Whether the small-model profile applies.
    pub(crate) fn is_small(&self, choice: ProfileChoice) -> bool {
        match choice {
            ProfileChoice::Small => true,
            ProfileChoice::Off => false,
            // One file of several says nothing about the whole.
            ProfileChoice::Auto => {
                let name = self.path.file_name().unwrap_or_default().to_string_lossy();
                self.bytes < SMALL_BYTES && !name.contains("-of-")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_path() {
        let catalog = |name: &str| ModelName::Catalog(name.to_owned());
        let file = |name: &str| ModelName::File(PathBuf::from(name));
        assert_eq!(ModelName::parse("smollm2-135m"), catalog("smollm2-135m"));
        assert_eq!(ModelName::parse("qwen.gguf"), file("qwen.gguf"));
        assert_eq!(ModelName::parse("Qwen.GGUF"), file("Qwen.GGUF"));
        assert_eq!(ModelName::parse("./x"), file("./x"));
        assert_eq!(ModelName::parse(".gguf"), catalog(".gguf"));
    }

    #[test]
    fn a_file_is_looked_at_before_a_server_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m-00001-of-00002.gguf");
        let kind = || WeightsFile::open(&path).unwrap_err().kind();
        assert_eq!(kind(), ErrorKind::NotFound);
        std::fs::write(&path, "GG").unwrap();
        assert_eq!(kind(), ErrorKind::InvalidInput);
        std::fs::write(&path, "GGUF and so on").unwrap();
        let part = WeightsFile::open(&path).unwrap();
        assert!(!part.is_small(ProfileChoice::Auto));
        assert!(part.is_small(ProfileChoice::Small));
        std::fs::rename(&path, folder.path().join("m.gguf")).unwrap();
        let mut whole = WeightsFile::open(&folder.path().join("m.gguf")).unwrap();
        assert!(whole.is_small(ProfileChoice::Auto));
        assert!(!whole.is_small(ProfileChoice::Off));
        whole.bytes = SMALL_BYTES;
        assert!(!whole.is_small(ProfileChoice::Auto));
    }
}
