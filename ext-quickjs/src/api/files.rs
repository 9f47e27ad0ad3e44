//! `data`: files of the skill's own; `fs`: files by grant.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::rc::Rc;

use rquickjs::{Ctx, Function, Object};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, statat};
use rustix::io::Errno;

use super::raise;
use crate::native::Native;
use crate::thrown::text_from;
use crate::worker::Raised;

/// Where `data` has its files, in the skill's folder of data.
const FILES: &str = "files";
const OPEN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
/// Most bytes that are read at once.
const MOST: u64 = 64 * 1024 * 1024;

/// The parts of a path that stays below where it begins.
fn parts(path: &str) -> Result<Vec<&str>, String> {
    let refuse = || format!("`{path}` leads out of the skill's own folder");
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(refuse)?),
            Component::CurDir => {}
            _ => return Err(refuse()),
        }
    }
    match parts.is_empty() || path.contains('\0') {
        true => Err(format!("`{path}` names no file")),
        false => Ok(parts),
    }
}

/// Opens the folder that a file lies in, never through a link.
fn parent(root: &Path, parts: &[&str], make: bool) -> Result<OwnedFd, Errno> {
    let mut folder = openat(CWD, root, OPEN | OFlags::DIRECTORY, Mode::empty())?;
    for part in parts {
        if make {
            match mkdirat(&folder, *part, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        folder = openat(&folder, *part, OPEN | OFlags::DIRECTORY, Mode::empty())?;
    }
    Ok(folder)
}

fn words(path: &str, error: Errno) -> String {
    match error {
        Errno::LOOP | Errno::NOTDIR => format!("`{path}`: links aren't followed"),
        error => format!("`{path}`: {}", std::io::Error::from(error)),
    }
}

fn read_within(root: &Path, path: &str) -> Result<Option<String>, String> {
    let parts = parts(path)?;
    let (name, folders) = parts.split_last().ok_or("no file is named")?;
    let open = || -> Result<OwnedFd, Errno> {
        let folder = parent(root, folders, false)?;
        openat(&folder, *name, OPEN | OFlags::RDONLY, Mode::empty())
    };
    match open() {
        Ok(file) => read_text(File::from(file), path).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(words(path, error)),
    }
}

fn read_text(file: File, path: &str) -> Result<String, String> {
    let at = |e: std::io::Error| format!("`{path}`: {e}");
    let mut text = String::new();
    let read = file.take(MOST + 1).read_to_string(&mut text).map_err(at)?;
    match u64::try_from(read).is_ok_and(|read| read > MOST) {
        true => Err(format!("`{path}` is larger than {MOST} bytes")),
        false => Ok(text),
    }
}

fn write_within(root: &Path, path: &str, text: &[u8]) -> Result<(), String> {
    let parts = parts(path)?;
    let (name, folders) = parts.split_last().ok_or("no file is named")?;
    std::fs::create_dir_all(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let folder = parent(root, folders, true).map_err(|e| words(path, e))?;
    // A link in the file's place isn't written through, and isn't replaced.
    if let Ok(stat) = statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW)
        && FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
    {
        return Err(format!("`{path}` is no plain file"));
    }
    write_at(&folder, name, text).map_err(|e| format!("`{path}`: {e}"))
}

/// Writes a file beside its place and puts it there: it is whole or the old
/// one.
fn write_at(folder: impl AsFd, name: &str, text: &[u8]) -> std::io::Result<()> {
    let fresh = format!(".{name}.{}", uuid::Uuid::new_v4().simple());
    let flags = OPEN | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(openat(&folder, &*fresh, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file
        .write_all(text)
        .and_then(|()| Ok(renameat(&folder, &*fresh, &folder, name)?));
    if written.is_err() {
        rustix::fs::unlinkat(&folder, &*fresh, AtFlags::empty()).ok();
    }
    written
}

/// Replaces a file in a folder that is made if it isn't there; nobody else can
/// read it.
pub(crate) fn replace(folder: &Path, file: &Path, text: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(std::io::ErrorKind::InvalidFilename)?;
    write_at(parent(folder, &[], false)?, name, text)
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let root = {
        let host = Rc::clone(native);
        move || match &host.setup.data {
            Some(data) => Ok(data.join(FILES)),
            None => Err("the host has no `data_dir`; nothing can be kept in files".to_owned()),
        }
    };
    let at = root.clone();
    let read = move |ctx: Ctx<'js>, path: String| -> rquickjs::Result<Option<String>> {
        let outcome = at().and_then(|root| read_within(&root, &path));
        raise(&ctx, outcome.map_err(Raised::error))
    };
    table.set("dataRead", Function::new(ctx.clone(), read)?)?;
    let write = move |ctx: Ctx<'js>, path: String, text: rquickjs::String<'js>| {
        let text = text_from(&ctx, &text)?;
        let outcome = root().and_then(|root| write_within(&root, &path, text.as_bytes()));
        raise(&ctx, outcome.map_err(Raised::error))
    };
    table.set("dataWrite", Function::new(ctx.clone(), write)?)?;

    let host = Rc::clone(native);
    let read = move |ctx: Ctx<'js>, path: String| -> rquickjs::Result<String> {
        let outcome = host.setup.grants.check_path(Path::new(&path), false);
        let outcome = outcome.and_then(|place| {
            let file = File::open(&place).map_err(|e| format!("`{path}`: {e}"))?;
            read_text(file, &path)
        });
        raise(&ctx, outcome.map_err(Raised::error))
    };
    table.set("fsRead", Function::new(ctx.clone(), read)?)?;

    let host = Rc::clone(native);
    let write = move |ctx: Ctx<'js>, path: String, text: rquickjs::String<'js>| {
        let text = text_from(&ctx, &text)?;
        let outcome = host.setup.grants.check_path(Path::new(&path), true);
        let outcome = outcome.and_then(|place| {
            std::fs::write(place, text.as_bytes()).map_err(|e| format!("`{path}`: {e}"))
        });
        raise(&ctx, outcome.map_err(Raised::error))
    };
    table.set("fsWrite", Function::new(ctx.clone(), write)?)?;

    let host = Rc::clone(native);
    let list = move |ctx: Ctx<'js>, path: String| -> rquickjs::Result<Vec<String>> {
        let outcome = host.setup.grants.check_path(Path::new(&path), false);
        let outcome = outcome.and_then(|place| {
            let entries = std::fs::read_dir(place).map_err(|e| format!("`{path}`: {e}"))?;
            let mut names: Vec<String> = entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect();
            names.sort();
            Ok(names)
        });
        raise(&ctx, outcome.map_err(Raised::error))
    };
    table.set("fsList", Function::new(ctx.clone(), list)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_skills_own_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("files");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        write_within(&root, "a/b.txt", b"kept").unwrap();
        write_within(&root, "a/b.txt", b"again").unwrap();
        assert_eq!(
            read_within(&root, "./a/b.txt"),
            Ok(Some("again".to_owned()))
        );
        assert_eq!(read_within(&root, "missing/too"), Ok(None));
        std::os::unix::fs::symlink(&secret, root.join("link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), root.join("folder")).unwrap();
        for path in [
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "link",
            "folder/secret",
            "",
            ".",
            "a\0b",
        ] {
            assert!(read_within(&root, path).is_err(), "{path:?}");
            assert!(write_within(&root, path, b"x").is_err(), "{path:?}");
        }
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "secret");
        let left: Vec<_> = std::fs::read_dir(root.join("a")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
