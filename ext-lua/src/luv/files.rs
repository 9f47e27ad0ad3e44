//! Files, at once or with a callback.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{FromLua as _, Function, IntoLuaMulti as _, Lua, MultiValue, Table, Value};

use super::Loop;
use super::stream::code;

/// Most bytes of one read.
const LARGEST: usize = 64 * 1024 * 1024;

type Files = Arc<Mutex<HashMap<i64, fs::File>>>;

/// What is to be done, free of Lua.
enum Operation {
    Open(PathBuf, String),
    Close(i64),
    Read(i64, usize, Option<u64>),
    Write(i64, Vec<u8>, Option<u64>),
    Stat(PathBuf),
    Lstat(PathBuf),
    Fstat(i64),
    Unlink(PathBuf),
    Mkdir(PathBuf),
    Rmdir(PathBuf),
    Rename(PathBuf, PathBuf),
    Scandir(PathBuf),
    Realpath(PathBuf),
    Access(PathBuf, bool),
    Copy(PathBuf, PathBuf),
}

/// What came of it.
enum Done {
    Yes,
    Number(i64),
    Bytes(Vec<u8>),
    Text(String),
    Found(fs::Metadata),
    Entries(Vec<(String, &'static str)>),
}

pub(super) fn add(lua: &Lua, shared: &Loop, to: &Table) -> mlua::Result<()> {
    let files = Files::default();
    let (of, open) = (shared.clone(), Arc::clone(&files));
    let now = shared
        .host
        .plain(lua, move |lua, (name, arguments): (String, MultiValue)| {
            let outcome = operation(lua, &of, &name, &arguments).and_then(|op| run(&open, op));
            Ok(values(lua, outcome))
        })?;
    to.raw_set("fs_now", now)?;
    let of = shared.clone();
    let later = shared.host.immediate(
        lua,
        move |lua, (name, callback, arguments): (String, Function, MultiValue)| {
            let prepared = operation(lua, &of, &name, &arguments);
            let files = Arc::clone(&files);
            let (to, open) = (of.clone(), crate::script::OpenHandle::new(&of.script));
            tokio::task::spawn_local(async move {
                let outcome = match prepared {
                    Ok(operation) => tokio::task::spawn_blocking(move || run(&files, operation))
                        .await
                        .unwrap_or_else(|e| Err(format!("EIO: {e}"))),
                    Err(words) => Err(words),
                };
                to.call("a file operation's callback", &callback, |lua| {
                    Ok(values(lua, outcome))
                });
                tokio::task::yield_now().await;
                drop(open);
            });
            Ok(())
        },
    )?;
    to.raw_set("fs_later", later)
}

fn operation(
    lua: &Lua,
    of: &Loop,
    name: &str,
    arguments: &MultiValue,
) -> Result<Operation, String> {
    let at = |index: usize| arguments.get(index).cloned().unwrap_or(Value::Nil);
    let text = |index: usize| {
        String::from_lua(at(index), lua)
            .map_err(|_| format!("EINVAL: fs_{name}: argument {} must be a string", index + 1))
    };
    let path = |index: usize, write: bool| {
        of.script
            .check_path(&text(index)?, write)
            .map_err(|e| format!("EACCES: {e}"))
    };
    let number = |index: usize| match at(index) {
        Value::Integer(number) => Ok(number),
        Value::Number(number) if number.fract() == 0.0 => Ok(number as i64),
        _ => Err(format!(
            "EINVAL: fs_{name}: argument {} must be a number",
            index + 1
        )),
    };
    let offset = |index: usize| u64::try_from(number(index).unwrap_or(-1)).ok();
    Ok(match name {
        "open" => {
            let flags = match at(1) {
                Value::Integer(0) => "r".to_owned(),
                Value::Integer(_) => "r+".to_owned(),
                _ => text(1)?,
            };
            Operation::Open(path(0, flags != "r")?, flags)
        }
        "close" => Operation::Close(number(0)?),
        "read" => {
            let size = usize::try_from(number(1)?).unwrap_or(0).min(LARGEST);
            Operation::Read(number(0)?, size, offset(2))
        }
        "write" => {
            let data = match at(1) {
                Value::String(data) => data.as_bytes().to_vec(),
                Value::Table(pieces) => {
                    let mut whole = Vec::new();
                    for piece in pieces.sequence_values::<mlua::LuaString>() {
                        let piece = piece.map_err(|e| format!("EINVAL: {e}"))?;
                        whole.extend_from_slice(&piece.as_bytes());
                    }
                    whole
                }
                _ => return Err("EINVAL: fs_write: argument 2 must be a string".to_owned()),
            };
            Operation::Write(number(0)?, data, offset(2))
        }
        "stat" => Operation::Stat(path(0, false)?),
        "lstat" => Operation::Lstat(path(0, false)?),
        "fstat" => Operation::Fstat(number(0)?),
        "unlink" => Operation::Unlink(path(0, true)?),
        "mkdir" => Operation::Mkdir(path(0, true)?),
        "rmdir" => Operation::Rmdir(path(0, true)?),
        "rename" => Operation::Rename(path(0, true)?, path(1, true)?),
        "scandir" => Operation::Scandir(path(0, false)?),
        "realpath" => Operation::Realpath(path(0, false)?),
        "access" => {
            let mode = at(1).to_string().unwrap_or_default().to_lowercase();
            let write = mode.contains('w') || mode == "2";
            Operation::Access(path(0, write)?, write)
        }
        "copyfile" => Operation::Copy(path(0, false)?, path(1, true)?),
        _ => return Err(format!("ENOSYS: fs_{name}")),
    })
}

fn run(files: &Files, operation: Operation) -> Result<Done, String> {
    act(files, operation).map_err(|e| format!("{}: {e}", code(&e)))
}

fn act(files: &Files, operation: Operation) -> std::io::Result<Done> {
    let mut open = files.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "no such open file");
    Ok(match operation {
        Operation::Open(path, flags) => {
            if path.metadata().is_ok_and(|found| !found.is_file()) {
                let words = "not a regular file";
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, words));
            }
            let mut how = fs::OpenOptions::new();
            match flags.as_str() {
                "r" => how.read(true),
                "r+" => how.read(true).write(true),
                "w" => how.write(true).create(true).truncate(true),
                "w+" => how.read(true).write(true).create(true).truncate(true),
                "wx" => how.write(true).create_new(true),
                "a" => how.append(true).create(true),
                "a+" => how.read(true).append(true).create(true),
                _ => {
                    let words = "unknown flags";
                    return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, words));
                }
            };
            let file = how.open(path)?;
            let number = (3..).find(|n| !open.contains_key(n)).unwrap_or(3);
            open.insert(number, file);
            Done::Number(number)
        }
        Operation::Close(number) => {
            open.remove(&number).ok_or_else(missing)?;
            Done::Yes
        }
        Operation::Read(number, size, offset) => {
            let file = open.get_mut(&number).ok_or_else(missing)?;
            if let Some(offset) = offset {
                file.seek(SeekFrom::Start(offset))?;
            }
            let mut bytes = Vec::new();
            file.take(size as u64).read_to_end(&mut bytes)?;
            Done::Bytes(bytes)
        }
        Operation::Write(number, bytes, offset) => {
            let file = open.get_mut(&number).ok_or_else(missing)?;
            if let Some(offset) = offset {
                file.seek(SeekFrom::Start(offset))?;
            }
            file.write_all(&bytes)?;
            Done::Number(i64::try_from(bytes.len()).unwrap_or(i64::MAX))
        }
        Operation::Stat(path) => Done::Found(fs::metadata(path)?),
        Operation::Lstat(path) => Done::Found(fs::symlink_metadata(path)?),
        Operation::Fstat(number) => Done::Found(open.get(&number).ok_or_else(missing)?.metadata()?),
        Operation::Unlink(path) => fs::remove_file(path).map(|()| Done::Yes)?,
        Operation::Mkdir(path) => fs::create_dir(path).map(|()| Done::Yes)?,
        Operation::Rmdir(path) => fs::remove_dir(path).map(|()| Done::Yes)?,
        Operation::Rename(from, to) => fs::rename(from, to).map(|()| Done::Yes)?,
        Operation::Scandir(path) => {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let kind = kind(entry.file_type()?);
                entries.push((entry.file_name().to_string_lossy().into_owned(), kind));
            }
            entries.sort();
            Done::Entries(entries)
        }
        Operation::Realpath(path) => Done::Text(path.canonicalize()?.display().to_string()),
        Operation::Access(path, write) => {
            let found = fs::metadata(path)?;
            if write && found.permissions().readonly() {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
            Done::Yes
        }
        Operation::Copy(from, to) => fs::copy(from, to).map(|_| Done::Yes)?,
    })
}

fn kind(of: fs::FileType) -> &'static str {
    match of {
        of if of.is_symlink() => "link",
        of if of.is_dir() => "directory",
        of if of.is_file() => "file",
        _ => "unknown",
    }
}

/// True and a value, or false, nothing and a message.
fn values(lua: &Lua, outcome: Result<Done, String>) -> MultiValue {
    let make = |done: Done| -> mlua::Result<MultiValue> {
        match done {
            Done::Yes => (true, true).into_lua_multi(lua),
            Done::Number(number) => (true, number).into_lua_multi(lua),
            Done::Bytes(bytes) => (true, lua.create_string(bytes)?).into_lua_multi(lua),
            Done::Text(text) => (true, text).into_lua_multi(lua),
            Done::Found(found) => (true, stat(lua, &found)?).into_lua_multi(lua),
            Done::Entries(entries) => {
                let list = lua.create_table()?;
                for (name, kind) in entries {
                    let entry = lua.create_table()?;
                    entry.raw_set("name", name)?;
                    entry.raw_set("type", kind)?;
                    list.raw_push(entry)?;
                }
                (true, list).into_lua_multi(lua)
            }
        }
    };
    let made = outcome.and_then(|done| make(done).map_err(|e| format!("ENOMEM: {e}")));
    made.or_else(|words| (false, Value::Nil, words).into_lua_multi(lua))
        .unwrap_or_default()
}

fn stat(lua: &Lua, found: &fs::Metadata) -> mlua::Result<Table> {
    use std::os::unix::fs::MetadataExt as _;
    let table = lua.create_table()?;
    table.raw_set("type", kind(found.file_type()))?;
    table.raw_set("size", found.len())?;
    table.raw_set("mode", found.mode())?;
    table.raw_set("uid", found.uid())?;
    table.raw_set("gid", found.gid())?;
    table.raw_set("ino", found.ino())?;
    table.raw_set("nlink", found.nlink())?;
    let time = |sec: i64, nsec: i64| -> mlua::Result<Table> {
        let time = lua.create_table()?;
        time.raw_set("sec", sec)?;
        time.raw_set("nsec", nsec)?;
        Ok(time)
    };
    table.raw_set("mtime", time(found.mtime(), found.mtime_nsec())?)?;
    table.raw_set("atime", time(found.atime(), found.atime_nsec())?)?;
    table.raw_set("ctime", time(found.ctime(), found.ctime_nsec())?)?;
    Ok(table)
}
