//! A disk under the tests' control: real files, of which it is known what would
//! be left after a power cut.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::disk::{FileOps, SystemFiles};

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plan {
    /// The machine dies at the operation of this number.
    pub(super) die_at: Option<usize>,
    /// If that is a write, so many percent of it are done first.
    pub(super) written_percent: usize,
    /// Bytes until the disk is full.
    pub(super) room: Option<usize>,
    pub(super) fail_sync: bool,
    pub(super) fail_set_len: bool,
}

/// What a power cut makes of what wasn't synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Nothing: just the process was killed.
    Kept,
    /// It is as if it had never been.
    Lost,
    /// Half of the bytes are there; names are.
    Half,
    /// The lengths are there and the bytes are zeros; names are.
    Zeros,
}

#[derive(Default)]
pub(super) struct TestDisk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: Plan,
    dead: bool,
    operations: Vec<String>,
    syncs: usize,
    /// What is on the disk for sure, by the file's number.
    durable: HashMap<u64, Vec<u8>>,
    /// Changes of names, in order.
    changes: Vec<Change>,
}

struct Change {
    folder: u64,
    durable: bool,
    what: What,
}

enum What {
    Created(String),
    Renamed {
        from: String,
        to_folder: u64,
        to: String,
        replaced: Option<Vec<u8>>,
    },
    Removed {
        name: String,
        bytes: Option<Vec<u8>>,
    },
}

fn path_of(handle: BorrowedFd<'_>) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).unwrap()
}

fn number_of(handle: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(handle).unwrap().st_ino
}

impl TestDisk {
    pub(super) fn new(plan: Plan) -> Self {
        let disk = Self::default();
        disk.set(plan);
        disk
    }

    /// Changes what goes wrong from now on.
    pub(super) fn set(&self, plan: Plan) {
        self.lock().plan = plan;
    }

    /// The operations so far, in words.
    pub(super) fn operations(&self) -> Vec<String> {
        self.lock().operations.clone()
    }

    /// How often the disk was waited for.
    pub(super) fn syncs(&self) -> usize {
        self.lock().syncs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Counts an operation. An error if the machine is dead, or dies of it.
    fn begin(&self, what: String) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if state.dead {
            return Err(Errno::IO.into());
        }
        let number = state.operations.len();
        state.operations.push(what);
        if state.plan.die_at == Some(number) {
            state.dead = true;
        }
        Ok(state)
    }

    fn alive(state: &State) -> io::Result<()> {
        if state.dead {
            Err(Errno::IO.into())
        } else {
            Ok(())
        }
    }

    /// Makes of a home what is left of it after a while.
    pub(super) fn cut(&self, home: &Path, cut: Cut) {
        let mut state = self.lock();
        if cut == Cut::Lost {
            for change in std::mem::take(&mut state.changes).into_iter().rev() {
                if !change.durable {
                    undo(home, change);
                }
            }
        }
        walk(home, &mut |path| {
            let metadata = path.symlink_metadata().unwrap();
            if !metadata.is_file() || path.ends_with("lock") {
                return;
            }
            let now = fs::read(path).unwrap();
            let durable = state
                .durable
                .get(&metadata.ino())
                .map_or(&[][..], Vec::as_slice);
            let common = now.iter().zip(durable).take_while(|(a, b)| a == b).count();
            let left = match cut {
                Cut::Kept => now,
                Cut::Lost => durable.to_vec(),
                Cut::Half => now[..common + (now.len() - common) / 2].to_vec(),
                Cut::Zeros => {
                    let mut zeros = now[..common].to_vec();
                    zeros.resize(now.len(), 0);
                    zeros
                }
            };
            fs::write(path, left).unwrap();
            // Long ago, so that no reader waits for the writer to go on.
            File::open(path)
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH)
                .unwrap();
        });
    }
}

fn walk(path: &Path, show: &mut dyn FnMut(&Path)) {
    show(path);
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), show);
        }
    }
}

fn find(home: &Path, number: u64) -> Option<PathBuf> {
    let mut found = None;
    walk(home, &mut |path| {
        if path.symlink_metadata().unwrap().ino() == number {
            found = Some(path.to_owned());
        }
    });
    found
}

fn undo(home: &Path, change: Change) {
    // What stands in a folder that is gone is gone with it.
    let Some(folder) = find(home, change.folder) else {
        return;
    };
    match change.what {
        What::Created(name) => {
            let path = folder.join(name);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                let _ = fs::remove_file(path);
            }
        }
        What::Renamed {
            from,
            to_folder,
            to,
            replaced,
        } => {
            let to = find(home, to_folder).unwrap().join(to);
            fs::rename(&to, folder.join(from)).unwrap();
            if let Some(bytes) = replaced {
                fs::write(to, bytes).unwrap();
            }
        }
        What::Removed {
            name,
            bytes: Some(bytes),
        } => fs::write(folder.join(name), bytes).unwrap(),
        What::Removed { name, bytes: None } => fs::create_dir(folder.join(name)).unwrap(),
    }
}

impl FileOps for TestDisk {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.begin(format!("write {} bytes", bytes.len()))?;
        if state.dead {
            let part = bytes.len() * state.plan.written_percent / 100;
            if part > 0 {
                SystemFiles.write(file, &bytes[..part])?;
            }
            return Err(Errno::IO.into());
        }
        let room = state.plan.room.unwrap_or(usize::MAX);
        if room == 0 {
            return Err(Errno::NOSPC.into());
        }
        let written = SystemFiles.write(file, &bytes[..bytes.len().min(room)])?;
        state.plan.room = state.plan.room.map(|room| room - written);
        Ok(written)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        use std::os::fd::AsFd as _;
        let mut state = self.begin("sync a file".to_owned())?;
        Self::alive(&state)?;
        if state.plan.fail_sync {
            return Err(Errno::IO.into());
        }
        state.syncs += 1;
        let bytes = fs::read(path_of(file.as_fd()))?;
        state.durable.insert(number_of(file.as_fd()), bytes);
        Ok(())
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        let state = self.begin(format!("cut to {len}"))?;
        Self::alive(&state)?;
        if state.plan.fail_set_len {
            return Err(Errno::IO.into());
        }
        SystemFiles.set_len(file, len)
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
        let state = self.begin("set a mode".to_owned())?;
        Self::alive(&state)?;
        SystemFiles.set_mode(file, mode)
    }

    fn create_file(&self, folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<File> {
        let mut state = self.begin(format!("create the file {name}"))?;
        Self::alive(&state)?;
        if state.plan.room == Some(0) {
            return Err(Errno::NOSPC.into());
        }
        let file = SystemFiles.create_file(folder, name, flags)?;
        let what = What::Created(name.to_owned());
        state.changes.push(Change {
            folder: number_of(folder),
            durable: false,
            what,
        });
        Ok(file)
    }

    fn create_folder(&self, folder: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let mut state = self.begin(format!("create the folder {name}"))?;
        Self::alive(&state)?;
        SystemFiles.create_folder(folder, name)?;
        let what = What::Created(name.to_owned());
        state.changes.push(Change {
            folder: number_of(folder),
            durable: false,
            what,
        });
        Ok(())
    }

    fn rename(&self, from: (BorrowedFd<'_>, &str), to: (BorrowedFd<'_>, &str)) -> io::Result<()> {
        let mut state = self.begin(format!("rename {} to {}", from.1, to.1))?;
        Self::alive(&state)?;
        let target = path_of(to.0).join(to.1);
        let replaced = fs::read(&target).ok();
        if let Ok(metadata) = target.symlink_metadata() {
            state.durable.remove(&metadata.ino());
        }
        SystemFiles.rename(from, to)?;
        let what = What::Renamed {
            from: from.1.to_owned(),
            to_folder: number_of(to.0),
            to: to.1.to_owned(),
            replaced,
        };
        state.changes.push(Change {
            folder: number_of(from.0),
            durable: false,
            what,
        });
        Ok(())
    }

    fn remove(&self, folder: BorrowedFd<'_>, name: &str, flags: AtFlags) -> io::Result<()> {
        let mut state = self.begin(format!("remove {name}"))?;
        Self::alive(&state)?;
        let path = path_of(folder).join(name);
        let bytes = fs::read(&path).ok();
        let number = path.symlink_metadata()?.ino();
        SystemFiles.remove(folder, name, flags)?;
        // The number may be another's next.
        state.durable.remove(&number);
        state.changes.retain(|change| change.folder != number);
        let what = What::Removed {
            name: name.to_owned(),
            bytes,
        };
        state.changes.push(Change {
            folder: number_of(folder),
            durable: false,
            what,
        });
        Ok(())
    }

    fn sync_folder(&self, folder: BorrowedFd<'_>) -> io::Result<()> {
        let mut state = self.begin("sync a folder".to_owned())?;
        Self::alive(&state)?;
        state.syncs += 1;
        let number = number_of(folder);
        for change in &mut state.changes {
            change.durable |= change.folder == number;
        }
        Ok(())
    }
}
