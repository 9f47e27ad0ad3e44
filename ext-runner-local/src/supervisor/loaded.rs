//! A keeper from a shared object: this code, where a program has loaded it that
//! knows nothing of it and can't be asked to begin as a keeper.
//!
//! The keeper is then a program that does nothing, `true`, into which the system's
//! loader is told to bring this very file (`LD_PRELOAD`). A file that is loaded may
//! run a function before the program's own first line, and that function becomes
//! the keeper. Where this fails for any reason, `true` does nothing, and what is
//! missing is the keeper's answer.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{ARGUMENT, keeper};

/// Tells the function that runs on loading that it is meant.
pub(super) const VARIABLE: &str = "HAFT_KEEPER_IN_SHARED_OBJECT";

/// The file as the loader is told of it: the keeper's standard output, so that
/// neither its name nor what has its name by then matters.
pub(super) const PRELOAD: (&str, &str) = ("LD_PRELOAD", "/proc/self/fd/1");

const PROGRAM: &str = "true";
const USUAL_PLACES: &str = "/usr/bin:/bin";

/// The shared object that this code is in.
#[derive(Debug)]
pub(crate) struct SharedObject {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// The program that does nothing.
    pub(super) program: PathBuf,
}

impl SharedObject {
    /// The one that this code is in; `None` if it is part of the program itself.
    ///
    /// # Errors
    /// If it is in one that can't be loaded again.
    pub(super) fn own() -> io::Result<Option<Self>> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let address = keeper::keep as fn() -> i32 as usize;
        let Some(path) = mapped(&maps, address) else {
            return Ok(None);
        };
        if std::fs::read_link("/proc/self/exe").is_ok_and(|program| program == path) {
            return Ok(None);
        }
        let file = File::open(path).map_err(|e| {
            let message = format!(
                "the shared object {} is not what was loaded any more ({e}); start the program anew",
                path.display()
            );
            io::Error::new(e.kind(), message)
        })?;
        Ok(Some(Self {
            path: path.to_owned(),
            file,
            program: idle_program()?,
        }))
    }
}

/// The file that is mapped at an address, by the text of a process's `maps`. One
/// that was removed has a name that no file has.
fn mapped(maps: &str, address: usize) -> Option<&Path> {
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (range, file) = (fields.next()?, fields.nth(4)?);
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let holds = (number(start)?..number(end)?).contains(&address);
        let file = Path::new(file.trim_start());
        (holds && file.is_absolute()).then_some(file)
    })
}

pub(super) fn idle_program() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(USUAL_PLACES)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_absolute() && program.is_file())
        .ok_or_else(|| {
            let message = "there is no program `true` to become the keeper of commands";
            io::Error::new(io::ErrorKind::NotFound, message)
        })
}

// The loader calls what is listed in this section, once, when it has brought the
// file in.
// SAFETY: it is a function of the kind that such a list holds. Nothing of this code
// was set up before it, and it needs nothing but the C library, which was.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOADING: extern "C" fn() = on_loading;

extern "C" fn on_loading() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == ARGUMENT)
    {
        ignore_broken_pipes();
        std::process::exit(keeper::keep());
    }
}

/// As Rust's own beginning of a program does: a host that is gone is an error to
/// whoever writes to it, not the end.
fn ignore_broken_pipes() {
    // SAFETY: no handler is set, so none can run at a bad moment.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_at_an_address_is_found() {
        let maps = "55d0-55e0 r-xp 00000000 fe:00 12   /usr/bin/haft\n\
                    7f00-7f10 r--p 00000000 fe:00 34                         /opt/a b/x.so\n\
                    7f10-7f20 r-xp 00001000 fe:00 34                         /opt/a b/x.so\n\
                    7f20-7f30 rw-p 00000000 00:00 0 \n\
                    7f30-7f40 r-xp 00000000 fe:00 35   /opt/y.so (deleted)\n\
                    7ff0-7fff rw-p 00000000 00:00 0    [stack]\n";
        let check = |address: usize, expected: Option<&str>| {
            assert_eq!(
                mapped(maps, address),
                expected.map(Path::new),
                "{address:x}"
            );
        };
        check(0x55d0, Some("/usr/bin/haft"));
        check(0x7f1f, Some("/opt/a b/x.so"));
        check(0x7f25, None);
        check(0x7f30, Some("/opt/y.so (deleted)"));
        check(0x7ff1, None);
        check(0x1, None);
    }

    #[test]
    fn what_is_linked_is_in_no_shared_object() {
        assert!(SharedObject::own().unwrap().is_none());
    }
}
