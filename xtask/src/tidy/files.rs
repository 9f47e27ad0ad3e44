//! The repository's own text files.

use std::path::Path;

use super::source::Source;
use crate::Result;
use crate::workspace::relative;

/// Folders that hold nothing of ours; those whose name starts with a dot are
/// left out as well, but for these.
const FOREIGN: &[&str] = &["target", "node_modules", "venv"];
const DOT_FOLDERS: &[&str] = &[".ci", ".cargo", ".github"];

/// The kinds of text that rules read; files without an extension are read too.
const EXTENSIONS: &[&str] = &[
    "rs", "toml", "md", "sh", "py", "yml", "yaml", "c", "h", "lua", "js",
];

/// One text file.
pub(crate) struct Text {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Text {
    /// The path's last part.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// True if the file serves tests only, by where it lies.
    pub(crate) fn in_test_folder(path: &str) -> bool {
        path.split('/')
            .any(|part| part == "tests" || part == "benches")
    }
}

/// All text files of the repository, each Rust file also as tokens.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) texts: Vec<Text>,
    pub(crate) sources: Vec<Source>,
}

impl Files {
    /// Reads everything below `root`, in the order of the paths.
    ///
    /// # Errors
    /// If a folder or file can't be read, with its path.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Self::default();
        files.read_folder(root, root)?;
        files.sources = files
            .texts
            .iter()
            .filter(|file| file.path.ends_with(".rs"))
            .map(|file| Source::new(&file.path, &file.text))
            .collect();
        Source::mark_test_modules(&mut files.sources);
        Ok(files)
    }

    fn read_folder(&mut self, root: &Path, folder: &Path) -> Result<()> {
        let about = |path: &Path, e| format!("cannot read {}: {e}", path.display());
        let mut entries = std::fs::read_dir(folder)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .map_err(|e| about(folder, e))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            // Not followed if it is a link: what it points to is somebody else's.
            let kind = entry.file_type().map_err(|e| about(&path, e))?;
            if kind.is_dir() {
                let hidden = name.starts_with('.') && !DOT_FOLDERS.contains(&name.as_ref());
                if !hidden && !FOREIGN.contains(&name.as_ref()) {
                    self.read_folder(root, &path)?;
                }
            } else if kind.is_file() && is_text(&name) {
                let bytes = std::fs::read(&path).map_err(|e| about(&path, e))?;
                if let Ok(text) = String::from_utf8(bytes) {
                    self.texts.push(Text {
                        path: relative(root, &path),
                        text,
                    });
                }
            }
        }
        Ok(())
    }

    /// The text of a file, if there is one.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let file = self.texts.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }

    /// The tokens of a Rust file, if there is one.
    pub(crate) fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }
}

fn is_text(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((_, extension)) => EXTENSIONS.contains(&extension),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_text_files_are_found_and_foreign_ones_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("a/src/lib.rs", b"#[cfg(test)]\nmod proofs;");
        write("a/src/proofs.rs", b"fn x() {}");
        write(".ci/run", b"true");
        write("README.md", b"hi");
        write("target/debug/build/x.rs", b"no");
        write("a/target/x.rs", b"no");
        write(".git/config", b"no");
        write("picture.png", b"no");
        write("binary", b"\xff\xfe");
        let files = Files::read(folder.path()).unwrap();
        let paths: Vec<_> = files.texts.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [".ci/run", "README.md", "a/src/lib.rs", "a/src/proofs.rs"]
        );
        assert!(files.source("a/src/proofs.rs").unwrap().is_test_line(1));
        assert!(!files.source("a/src/lib.rs").unwrap().is_test);
        assert_eq!(files.text("README.md"), Some("hi"));
    }
}
