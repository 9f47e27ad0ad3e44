//! `haft.fs`: files of the call's workspace, or of this machine by grant.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use haft_api::{FileKind, ListOptions, ReadOptions, RemoteRunnerSession, WriteMode, WriteOptions};
use mlua::{Lua, Table, Value};

use super::{option, options};
use crate::scheduler::Answer;
use crate::script::Script;
use crate::state::{Host, reply};

/// Where a path is.
enum Target {
    /// In the workspace of the call that runs.
    Session(Arc<dyn RemoteRunnerSession>, String),
    /// On this machine, as a grant allows.
    Local(PathBuf),
}

fn target(host: &Host, script: &Script, path: &str, write: bool) -> Result<Target, String> {
    let call = host.scheduler.current().and_then(|task| task.call.clone());
    let session = call.and_then(|call| call.workspace().cloned());
    match session {
        // What a grant names outside of the workspace is this machine's.
        Some(session) if !path.starts_with('/') || path.starts_with(session.workspace()) => {
            Ok(Target::Session(session, path.to_owned()))
        }
        Some(session) => match script.check_path(path, write) {
            Ok(place) => Ok(Target::Local(place)),
            Err(_) => Ok(Target::Session(session, path.to_owned())),
        },
        None => script.check_path(path, write).map(Target::Local),
    }
}

fn io(path: &str, error: &std::io::Error) -> String {
    format!("{path}: {error}")
}

pub(super) fn add(
    lua: &Lua,
    host: &Rc<Host>,
    script: &Rc<Script>,
    haft: &Table,
) -> mlua::Result<()> {
    let fs = lua.create_table()?;
    let with = || (Rc::clone(host), Rc::clone(script));

    let (shared, of) = with();
    fs.raw_set(
        "read",
        host.awaiting(
            lua,
            "haft.fs.read",
            move |lua, (path, given): (String, Option<Value>)| {
                let given = options(lua, given)?;
                let mut range = ReadOptions::default();
                range.offset = option(&given, "offset")?.unwrap_or(0);
                range.limit = option(&given, "limit")?;
                let target = target(&shared, &of, &path, false)?;
                Ok(async move { read(target, path, range).await })
            },
        )?,
    )?;

    let (shared, of) = with();
    fs.raw_set(
        "write",
        host.awaiting(
            lua,
            "haft.fs.write",
            move |lua, (path, text, given): (String, mlua::LuaString, Option<Value>)| {
                let given = options(lua, given)?;
                let mut how = WriteOptions::default();
                how.create_parents = option(&given, "create_parents")?.unwrap_or(false);
                if option(&given, "create_new")?.unwrap_or(false) {
                    how.mode = WriteMode::CreateNew;
                }
                let target = target(&shared, &of, &path, true)?;
                let bytes = text.as_bytes().to_vec();
                Ok(async move { write(target, path, bytes, how).await })
            },
        )?,
    )?;

    let (shared, of) = with();
    fs.raw_set(
        "list",
        host.awaiting(lua, "haft.fs.list", move |_, path: String| {
            let target = target(&shared, &of, &path, false)?;
            Ok(async move { list(target, path).await })
        })?,
    )?;

    let (shared, of) = with();
    fs.raw_set(
        "stat",
        host.awaiting(lua, "haft.fs.stat", move |_, path: String| {
            let target = target(&shared, &of, &path, false)?;
            Ok(async move { stat(target, path).await })
        })?,
    )?;

    let (shared, of) = with();
    fs.raw_set(
        "remove",
        host.awaiting(lua, "haft.fs.remove", move |_, path: String| {
            let target = target(&shared, &of, &path, true)?;
            Ok(async move {
                match target {
                    Target::Session(session, inner) => {
                        session.remove(&inner).await.map_err(|e| e.to_string())?;
                    }
                    Target::Local(place) => {
                        let folder = tokio::fs::symlink_metadata(&place)
                            .await
                            .is_ok_and(|found| found.is_dir());
                        match folder {
                            true => tokio::fs::remove_dir(&place).await,
                            false => tokio::fs::remove_file(&place).await,
                        }
                        .map_err(|e| io(&path, &e))?;
                    }
                }
                Ok(reply(()))
            })
        })?,
    )?;

    let (shared, of) = with();
    fs.raw_set(
        "make_dir",
        host.awaiting(lua, "haft.fs.make_dir", move |_, path: String| {
            let target = target(&shared, &of, &path, true)?;
            Ok(async move {
                match target {
                    Target::Session(session, inner) => {
                        session.make_dir(&inner).await.map_err(|e| e.to_string())?;
                    }
                    Target::Local(place) => tokio::fs::create_dir_all(&place)
                        .await
                        .map_err(|e| io(&path, &e))?,
                }
                Ok(reply(()))
            })
        })?,
    )?;
    haft.raw_set("fs", fs)
}

async fn read(target: Target, path: String, range: ReadOptions) -> Answer {
    use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
    let bytes = match target {
        Target::Session(session, inner) => {
            let file = session.read_file(&inner, range).await;
            file.map_err(|e| e.to_string())?.bytes
        }
        Target::Local(place) => {
            let inner = async {
                let mut file = tokio::fs::File::open(&place).await?;
                if range.offset > 0 {
                    file.seek(std::io::SeekFrom::Start(range.offset)).await?;
                }
                let mut bytes = Vec::new();
                file.take(range.limit.unwrap_or(u64::MAX))
                    .read_to_end(&mut bytes)
                    .await?;
                Ok(bytes)
            };
            inner.await.map_err(|e| io(&path, &e))?
        }
    };
    Ok(Box::new(move |lua| {
        let text = lua.create_string(bytes)?;
        Ok([Value::String(text)].into_iter().collect())
    }))
}

async fn write(target: Target, path: String, bytes: Vec<u8>, how: WriteOptions) -> Answer {
    match target {
        Target::Session(session, inner) => {
            session
                .write_file(&inner, bytes, how)
                .await
                .map_err(|e| e.to_string())?;
        }
        Target::Local(place) => {
            let inner = async {
                if let (true, Some(parent)) = (how.create_parents, place.parent()) {
                    tokio::fs::create_dir_all(parent).await?;
                }
                if how.mode == WriteMode::CreateNew {
                    use tokio::io::AsyncWriteExt as _;
                    let mut new = tokio::fs::OpenOptions::new();
                    let mut file = new.write(true).create_new(true).open(&place).await?;
                    file.write_all(&bytes).await?;
                    return file.flush().await;
                }
                replace(&place, &bytes).await
            };
            inner.await.map_err(|e: std::io::Error| io(&path, &e))?;
        }
    }
    Ok(reply(()))
}

/// Writes a file so that a reader sees the old one or the new one.
pub(crate) async fn replace(place: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    let temporary = place.with_file_name(name);
    let outcome = async {
        tokio::fs::write(&temporary, bytes).await?;
        if let Ok(found) = tokio::fs::metadata(place).await {
            tokio::fs::set_permissions(&temporary, found.permissions()).await?;
        }
        tokio::fs::rename(&temporary, place).await
    }
    .await;
    if outcome.is_err() {
        tokio::fs::remove_file(&temporary).await.ok();
    }
    outcome
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "dir",
        FileKind::Symlink => "symlink",
        FileKind::Other => "other",
    }
}

fn kind_of(found: std::fs::FileType) -> FileKind {
    match found {
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_dir() => FileKind::Dir,
        kind if kind.is_file() => FileKind::File,
        _ => FileKind::Other,
    }
}

async fn list(target: Target, path: String) -> Answer {
    let mut entries: Vec<(String, FileKind, u64)> = Vec::new();
    match target {
        Target::Session(session, inner) => {
            let mut how = ListOptions::default();
            loop {
                let page = session
                    .list(&inner, how.clone())
                    .await
                    .map_err(|e| e.to_string())?;
                let found = page.entries.into_iter();
                entries.extend(found.map(|entry| (entry.name, entry.kind, entry.size)));
                match page.next {
                    Some(next) => how.after = Some(next),
                    None => break,
                }
            }
        }
        Target::Local(place) => {
            let inner = async {
                let mut folder = tokio::fs::read_dir(&place).await?;
                while let Some(entry) = folder.next_entry().await? {
                    let found = entry.metadata().await?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    entries.push((name, kind_of(found.file_type()), found.len()));
                }
                Ok(())
            };
            inner.await.map_err(|e| io(&path, &e))?;
            entries.sort_by(|a, b| a.0.cmp(&b.0));
        }
    }
    Ok(Box::new(move |lua| {
        let list = lua.create_table()?;
        for (name, kind, size) in entries {
            let entry = lua.create_table()?;
            entry.raw_set("name", name)?;
            entry.raw_set("kind", kind_name(kind))?;
            entry.raw_set("size", size)?;
            list.raw_push(entry)?;
        }
        Ok([Value::Table(list)].into_iter().collect())
    }))
}

async fn stat(target: Target, path: String) -> Answer {
    let (kind, size, modified) = match target {
        Target::Session(session, inner) => match session.metadata(&inner).await {
            Ok(found) => (found.kind, found.size, found.modified_ms),
            Err(e) if e.kind() == haft_api::ErrorKind::NotFound => return Ok(reply(Value::Nil)),
            Err(e) => return Err(e.to_string()),
        },
        Target::Local(place) => match tokio::fs::symlink_metadata(&place).await {
            Ok(found) => {
                let modified = found.modified().ok().and_then(|at| {
                    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
                    u64::try_from(since.as_millis()).ok()
                });
                (kind_of(found.file_type()), found.len(), modified)
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(reply(Value::Nil)),
            Err(e) => return Err(io(&path, &e)),
        },
    };
    Ok(Box::new(move |lua| {
        let table = lua.create_table()?;
        table.raw_set("kind", kind_name(kind))?;
        table.raw_set("size", size)?;
        table.raw_set("modified_ms", modified)?;
        Ok([Value::Table(table)].into_iter().collect())
    }))
}
