//! What is checked of a shared object before any of its code can run.

use std::fs::File;
use std::path::{Path, PathBuf};

use haft_api::boundary::abi::{
    ABI_MAJOR, ABI_MINOR, FLAG_UNWINDS, HaftPlugin, HaftPluginHead, MAGIC,
};
use haft_api::boundary::is_compatible;

use crate::refusal::{Refusal, RefusalKind};

mod digest;
mod elf;
mod permission;

pub use digest::sha256_of;

/// What more to check.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// The SHA-256 that the file must have, in hexadecimal digits.
    pub sha256: Option<String>,
}

impl CheckOptions {
    /// Only this very file will do.
    #[must_use]
    pub fn sha256(mut self, digest: impl Into<String>) -> Self {
        self.sha256 = Some(digest.into());
        self
    }
}

/// What a plug-in's file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginInfo {
    /// The file.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// The version of `haft-api` that it was built against.
    pub api_version: String,
    /// What it was built with, for people.
    pub build_info: String,
    /// Its ABI, major and minor.
    pub abi: (u32, u32),
}

impl PluginInfo {
    pub(crate) fn new(file: &Path, size: u64, head: &HaftPluginHead) -> Self {
        Self {
            file: file.to_owned(),
            size,
            api_version: head.api_version(),
            build_info: head.build_info(),
            abi: (head.abi_major, head.abi_minor),
        }
    }
}

/// A file that was checked, and what is needed to see that it is still the same.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) info: PluginInfo,
    pub(crate) head: HaftPluginHead,
    file: File,
}

impl Checked {
    /// Whether the path still leads to the file that was checked. Only the user
    /// could have replaced it, by building anew at this very moment.
    pub(crate) fn is_unchanged(&self) -> Result<(), Refusal> {
        let path = &self.info.file;
        let checked = self.file.metadata().map_err(|e| unreadable(path, e))?;
        let now = path.symlink_metadata().map_err(|e| unreadable(path, e))?;
        if permission::is_same(&checked, &now) {
            return Ok(());
        }
        let (wanted, offered) = ("the file that was checked", "another one");
        Err(Refusal::new(RefusalKind::Changed, path, wanted, offered))
    }
}

/// Whether a shared object could be loaded, and what it says of itself. Runs
/// none of its code.
///
/// # Errors
/// The first thing that is wrong, in the order of [`RefusalKind`].
pub fn check_file(path: &Path, options: &CheckOptions) -> Result<PluginInfo, Refusal> {
    check(path, options).map(|checked| checked.info)
}

pub(crate) fn check(path: &Path, options: &CheckOptions) -> Result<Checked, Refusal> {
    if !path.is_absolute() {
        return Err(Refusal::new(
            RefusalKind::NotAbsolute,
            path,
            "an absolute path",
            path.display(),
        ));
    }
    let (file, size) = permission::open(path)?;
    if let Some(wanted) = &options.sha256 {
        let offered = digest::of(&file).map_err(|e| unreadable(path, e))?;
        if !offered.eq_ignore_ascii_case(wanted) {
            return Err(Refusal::new(RefusalKind::Digest, path, wanted, offered));
        }
    }
    let head = elf::head(path, &file, size)?;
    check_head(path, &head)?;
    let info = PluginInfo::new(path, size, &head);
    Ok(Checked { info, head, file })
}

fn check_head(path: &Path, head: &HaftPluginHead) -> Result<(), Refusal> {
    let refuse =
        |kind, wanted: String, offered: String| Err(Refusal::new(kind, path, wanted, offered));
    if head.magic != MAGIC {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        return refuse(RefusalKind::Magic, shown(&MAGIC), shown(&head.magic));
    }
    if head.abi_major != ABI_MAJOR {
        let (wanted, offered) = (ABI_MAJOR.to_string(), head.abi_major.to_string());
        return refuse(RefusalKind::AbiMajor, wanted, offered);
    }
    if head.abi_minor > ABI_MINOR {
        let wanted = format!("{ABI_MAJOR}.{ABI_MINOR} or earlier");
        let offered = format!("{}.{}", head.abi_major, head.abi_minor);
        return refuse(RefusalKind::AbiMinor, wanted, offered);
    }
    let least = size_of::<HaftPlugin>();
    if (head.size as usize) < least {
        let wanted = format!("at least {least} bytes");
        return refuse(RefusalKind::TableSize, wanted, head.size.to_string());
    }
    if head.flags & FLAG_UNWINDS == 0 {
        let (wanted, offered) = ("unwinding".to_owned(), "aborting".to_owned());
        return refuse(RefusalKind::Abort, wanted, offered);
    }
    if !is_compatible(&head.api_version()) {
        let wanted = format!("compatible with {}", haft_api::API_VERSION);
        return refuse(RefusalKind::ApiVersion, wanted, head.api_version());
    }
    Ok(())
}

fn unreadable(path: &Path, error: std::io::Error) -> Refusal {
    Refusal::new(RefusalKind::Unreadable, path, "a readable file", &error).source(error)
}
