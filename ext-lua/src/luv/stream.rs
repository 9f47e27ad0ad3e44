//! Pipes and connections.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{AnyUserData, Function, IntoLuaMulti as _, Lua, Table, UserData, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;

use super::Loop;
use crate::script::OpenHandle;
use crate::state::reply;

/// Most bytes of a piece.
const PIECE: usize = 64 * 1024;

type Reader = Box<dyn AsyncRead + Unpin>;
type Writer = Box<dyn AsyncWrite + Unpin>;

/// Both ends of a stream that a script has.
pub(super) struct Stream {
    reader: Rc<Mutex<Option<Reader>>>,
    writer: Rc<Mutex<Option<Writer>>>,
    reading: RefCell<Option<tokio::task::AbortHandle>>,
}

impl UserData for Stream {}

impl Stream {
    pub(super) fn new(reader: Option<Reader>, writer: Option<Writer>) -> Self {
        Self {
            reader: Rc::new(Mutex::new(reader)),
            writer: Rc::new(Mutex::new(writer)),
            reading: RefCell::default(),
        }
    }

    fn stop(&self) {
        if let Some(task) = self.reading.borrow_mut().take() {
            task.abort();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
    }
}

fn stream(value: &AnyUserData) -> Result<mlua::UserDataRef<Stream>, String> {
    value
        .borrow::<Stream>()
        .map_err(|_| "it is no stream".to_owned())
}

pub(super) fn add(lua: &Lua, shared: &Loop, to: &Table) -> mlua::Result<()> {
    let of = shared.clone();
    to.raw_set(
        "read_start",
        shared
            .host
            .immediate(lua, move |_, (value, callback): (AnyUserData, Function)| {
                let stream = stream(&value)?;
                stream.stop();
                let (of, reader) = (of.clone(), Rc::clone(&stream.reader));
                let task = tokio::task::spawn_local(read(of, reader, callback));
                *stream.reading.borrow_mut() = Some(task.abort_handle());
                Ok(())
            })?,
    )?;
    to.raw_set(
        "read_stop",
        shared.host.immediate(lua, |_, value: AnyUserData| {
            stream(&value)?.stop();
            Ok(())
        })?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "write",
        shared.host.immediate(
            lua,
            move |_, (value, data, callback): (AnyUserData, mlua::LuaString, Option<Function>)| {
                let writer = Rc::clone(&stream(&value)?.writer);
                let data = data.as_bytes().to_vec();
                let write = async move {
                    match writer.lock().await.as_mut() {
                        Some(writer) => writer
                            .write_all(&data)
                            .await
                            .map(|()| reply(()))
                            .map_err(|e| format!("EPIPE: {e}")),
                        None => Err("EPIPE: the stream isn't open for writing".to_owned()),
                    }
                };
                of.later("a write's callback", write, callback);
                Ok(())
            },
        )?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "shutdown",
        shared.host.immediate(
            lua,
            move |_, (value, callback): (AnyUserData, Option<Function>)| {
                let writer = Rc::clone(&stream(&value)?.writer);
                let shutdown = async move {
                    if let Some(mut writer) = writer.lock().await.take() {
                        writer.shutdown().await.map_err(|e| format!("EPIPE: {e}"))?;
                    }
                    Ok(reply(()))
                };
                of.later("a shutdown's callback", shutdown, callback);
                Ok(())
            },
        )?,
    )?;
    to.raw_set(
        "close_stream",
        shared.host.immediate(lua, |_, value: AnyUserData| {
            let stream = stream(&value)?;
            stream.stop();
            let (reader, writer) = (Rc::clone(&stream.reader), Rc::clone(&stream.writer));
            // What is being written is written first.
            tokio::task::spawn_local(async move {
                reader.lock().await.take();
                writer.lock().await.take();
            });
            Ok(())
        })?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "connect",
        shared.host.immediate(
            lua,
            move |_, (address, port, callback): (String, u16, Function)| {
                of.script.grants.check_network(of.script.name(), &address)?;
                let connect = async move {
                    let connection = tokio::net::TcpStream::connect((address.as_str(), port))
                        .await
                        .map_err(|e| format!("{}: {e}", code(&e)))?;
                    let (reader, writer) = connection.into_split();
                    Ok(Box::new(move |lua: &Lua| {
                        let stream = Stream::new(Some(Box::new(reader)), Some(Box::new(writer)));
                        lua.create_userdata(stream)?.into_lua_multi(lua)
                    }) as crate::scheduler::Reply)
                };
                of.later("a connection's callback", connect, Some(callback));
                Ok(())
            },
        )?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "getaddrinfo",
        shared.host.immediate(
            lua,
            move |_, (name, service, callback): (String, Value, Function)| {
                of.script.grants.check_network(of.script.name(), &name)?;
                let port = match service {
                    Value::Integer(port) => u16::try_from(port).unwrap_or(0),
                    Value::String(text) => text.to_string_lossy().parse().unwrap_or(0),
                    _ => 0,
                };
                let resolve = async move {
                    let found: Vec<_> = tokio::net::lookup_host((name.as_str(), port))
                        .await
                        .map_err(|e| format!("ENOENT: {e}"))?
                        .collect();
                    Ok(Box::new(move |lua: &Lua| {
                        let list = lua.create_table()?;
                        for address in found {
                            let entry = lua.create_table()?;
                            entry.raw_set("addr", address.ip().to_string())?;
                            entry.raw_set("port", address.port())?;
                            let family = if address.is_ipv4() { "inet" } else { "inet6" };
                            entry.raw_set("family", family)?;
                            entry.raw_set("socktype", "stream")?;
                            list.raw_push(entry)?;
                        }
                        list.into_lua_multi(lua)
                    }) as crate::scheduler::Reply)
                };
                of.later("getaddrinfo's callback", resolve, Some(callback));
                Ok(())
            },
        )?,
    )
}

/// The name libuv has for an error.
pub(super) fn code(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => "ENOENT",
        Kind::PermissionDenied => "EACCES",
        Kind::AlreadyExists => "EEXIST",
        Kind::ConnectionRefused => "ECONNREFUSED",
        Kind::ConnectionReset => "ECONNRESET",
        Kind::NotADirectory => "ENOTDIR",
        Kind::IsADirectory => "EISDIR",
        Kind::DirectoryNotEmpty => "ENOTEMPTY",
        Kind::TimedOut => "ETIMEDOUT",
        Kind::BrokenPipe => "EPIPE",
        Kind::InvalidInput => "EINVAL",
        _ => "EIO",
    }
}

async fn read(of: Loop, reader: Rc<Mutex<Option<Reader>>>, callback: Function) {
    let open = OpenHandle::new(&of.script);
    let mut buffer = vec![0; PIECE];
    let mut reader = reader.lock().await;
    let Some(reader) = reader.as_mut() else {
        return;
    };
    loop {
        let outcome = reader.read(&mut buffer).await;
        let what = "a stream's callback";
        match outcome {
            Ok(0) => {
                of.call(what, &callback, |lua| {
                    (Value::Nil, Value::Nil).into_lua_multi(lua)
                });
                break;
            }
            Ok(read) => of.call(what, &callback, |lua| {
                let data = lua.create_string(&buffer[..read])?;
                (Value::Nil, data).into_lua_multi(lua)
            }),
            Err(error) => {
                let words = format!("{}: {error}", code(&error));
                of.call(what, &callback, |lua| words.into_lua_multi(lua));
                break;
            }
        }
    }
    tokio::task::yield_now().await;
    drop(open);
}
