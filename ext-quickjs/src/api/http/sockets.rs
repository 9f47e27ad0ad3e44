//! `WebSocket` (RFC 6455): what JavaScript says to a connection and hears of it.

mod connection;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_script_host::http::Url;
use rquickjs::{Ctx, Function, Object, TypedArray};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use self::connection::Connection;
use super::turnstile;
use crate::api::{as_number, begun, bytes, raise};
use crate::native::Native;
use crate::worker::Raised;

/// A connection that is wanted, as `websocket.js` says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    url: String,
    protocols: Vec<String>,
    headers: Vec<(String, String)>,
}

/// What is to be done with a connection.
enum Command {
    Send(Frame),
    Close(Option<CloseFrame>),
}

/// The way to a connection that may be open still.
struct Line {
    commands: mpsc::UnboundedSender<Command>,
    /// Bytes that were not sent yet.
    buffered: Arc<AtomicUsize>,
}

type Lines = RefCell<HashMap<u64, Line>>;

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let lines = Rc::<Lines>::default();
    let turnstile = turnstile(native);
    let (host, of) = (Rc::clone(native), Rc::clone(&lines));
    let open = move |ctx: Ctx<'js>, asked: String| {
        let (commands, hear) = mpsc::unbounded_channel();
        let buffered = Arc::<AtomicUsize>::default();
        let operation = connect(&host, &asked).and_then(|connection| {
            let (buffered, turnstile) = (Arc::clone(&buffered), Arc::clone(&turnstile));
            host.begin(|number, say| connection.run(number, say, hear, buffered, turnstile))
        });
        if let Ok(number) = &operation {
            let line = Line { commands, buffered };
            of.borrow_mut().insert(*number, line);
        }
        begun(&ctx, operation)
    };
    table.set("socketOpen", Function::new(ctx.clone(), open)?)?;

    let (host, of) = (Rc::clone(native), Rc::clone(&lines));
    let send = move |ctx: Ctx<'js>, socket: f64, text: String| {
        let sent = send(&host, &of, as_number(socket), Frame::text(text));
        raise(&ctx, sent)
    };
    table.set("socketText", Function::new(ctx.clone(), send)?)?;

    let (host, of) = (Rc::clone(native), Rc::clone(&lines));
    let send = move |ctx: Ctx<'js>, socket: f64, data: TypedArray<'js, u8>| {
        let frame = Frame::binary(bytes(&ctx, &data)?);
        let sent = self::send(&host, &of, as_number(socket), frame);
        raise(&ctx, sent)
    };
    table.set("socketBytes", Function::new(ctx.clone(), send)?)?;

    let of = Rc::clone(&lines);
    let buffered = move |socket: f64| {
        let lines = of.borrow();
        let line = lines.get(&as_number(socket));
        line.map_or(0, |line| line.buffered.load(Ordering::Relaxed))
    };
    table.set("socketBuffered", Function::new(ctx.clone(), buffered)?)?;

    let of = Rc::clone(&lines);
    let close = move |socket: f64, code: Option<u16>, reason: String| {
        let frame = code.map(|code| CloseFrame {
            code: code.into(),
            reason: reason.into(),
        });
        if let Some(line) = of.borrow().get(&as_number(socket)) {
            // A connection that has ended is closed.
            line.commands.send(Command::Close(frame)).ok();
        }
    };
    table.set("socketClose", Function::new(ctx.clone(), close)?)?;

    let forget = move |socket: f64| {
        lines.borrow_mut().remove(&as_number(socket));
    };
    table.set("socketForget", Function::new(ctx.clone(), forget)?)
}

fn connect(host: &Native, asked: &str) -> Result<Connection, Raised> {
    let asked: Asked =
        serde_json::from_str(asked).map_err(|e| Raised::new("SyntaxError", e.to_string()))?;
    let url = Url::parse(&asked.url)
        .map_err(|e| Raised::new("SyntaxError", format!("{}: {e}", asked.url)))?;
    let granted = host
        .setup
        .grants
        .check_network(url.host_str().unwrap_or_default());
    granted.map_err(|words| Raised::new("NotAllowedError", words))?;
    Ok(Connection {
        url,
        protocols: asked.protocols,
        headers: asked.headers,
        most: host.setup.settings.limits.result_bytes,
    })
}

/// Hands something over to be sent. What waits to be sent is bounded.
fn send(host: &Native, lines: &Lines, socket: u64, frame: Frame) -> Result<(), Raised> {
    let lines = lines.borrow();
    let Some(line) = lines.get(&socket) else {
        return Ok(());
    };
    let most = host.setup.settings.limits.result_bytes;
    let length = frame.len();
    let waits = line.buffered.fetch_add(length, Ordering::Relaxed);
    if waits + length > most {
        line.buffered.fetch_sub(length, Ordering::Relaxed);
        let words = format!(
            "{waits} bytes wait to be sent; with {length} more it would be above {most} (wait \
             until `bufferedAmount` falls)"
        );
        return Err(Raised::new("QuotaExceededError", words));
    }
    // A connection that has ended takes nothing, as the standard has it.
    line.commands.send(Command::Send(frame)).ok();
    Ok(())
}
