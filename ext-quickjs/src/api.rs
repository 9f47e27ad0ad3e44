//! What the host gives to scripts: native functions, and the pieces of
//! JavaScript that make the usual interfaces of them.

mod compiled;
pub(crate) mod cron;
pub(crate) mod crypto;
pub(crate) mod db;
pub(crate) mod encoding;
pub(crate) mod files;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod model;
pub(crate) mod outside;
pub(crate) mod secrets;
pub(crate) mod state;
pub(crate) mod url;

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, TypedArray, Value};

pub(crate) use self::compiled::evaluate;
use crate::native::{Native, throw};
use crate::rpc;
use crate::thrown;
use crate::types;
use crate::worker::{Answer, Raised};
use haft_script_host::Level;

/// A piece: its name, its JavaScript (a function of `host` that returns its
/// globals), and the native functions it needs.
struct Piece {
    name: &'static str,
    source: &'static str,
    equip: for<'js> fn(&Ctx<'js>, &Object<'js>, &Rc<Native>) -> rquickjs::Result<()>,
}

const PIECES: &[Piece] = &[
    Piece {
        name: "events",
        source: include_str!("js/events.js"),
        equip: |_, _, _| Ok(()),
    },
    Piece {
        name: "encoding",
        source: include_str!("js/encoding.js"),
        equip: encoding::equip,
    },
    Piece {
        name: "url",
        source: include_str!("js/url.js"),
        equip: url::equip,
    },
    Piece {
        name: "clone",
        source: include_str!("js/clone.js"),
        equip: |_, _, _| Ok(()),
    },
    Piece {
        name: "crypto",
        source: include_str!("js/crypto.js"),
        equip: crypto::equip,
    },
    Piece {
        name: "fetch",
        source: include_str!("js/fetch.js"),
        equip: equip_http,
    },
    Piece {
        name: "streams",
        source: include_str!("js/streams.js"),
        equip: |_, _, _| Ok(()),
    },
    Piece {
        name: "blob",
        source: include_str!("js/blob.js"),
        equip: |_, _, _| Ok(()),
    },
    Piece {
        name: "websocket",
        source: include_str!("js/websocket.js"),
        equip: equip_sockets,
    },
    Piece {
        name: "storage",
        source: include_str!("js/storage.js"),
        equip: |ctx, table, native| {
            state::equip(ctx, table, native)?;
            db::equip(ctx, table, native)?;
            files::equip(ctx, table, native)
        },
    },
    Piece {
        name: "model",
        source: include_str!("js/model.js"),
        equip: model::equip,
    },
    Piece {
        name: "host",
        source: include_str!("js/host.js"),
        equip: |ctx, table, native| {
            cron::equip(ctx, table, native)?;
            secrets::equip(ctx, table, native)?;
            outside::equip(ctx, table, native)
        },
    },
];

#[cfg(feature = "http")]
use http::{equip as equip_http, equip_sockets};

#[cfg(not(feature = "http"))]
fn equip_http<'js>(ctx: &Ctx<'js>, table: &Object<'js>, _: &Rc<Native>) -> rquickjs::Result<()> {
    table.set("bodyPlace", Function::new(ctx.clone(), without_http)?)?;
    table.set("fetch", Function::new(ctx.clone(), without_http)?)
}

#[cfg(not(feature = "http"))]
fn equip_sockets<'js>(ctx: &Ctx<'js>, table: &Object<'js>, _: &Rc<Native>) -> rquickjs::Result<()> {
    table.set("socketOpen", Function::new(ctx.clone(), without_http)?)
}

#[cfg(not(feature = "http"))]
fn without_http(ctx: Ctx<'_>) -> rquickjs::Result<f64> {
    let words = "this program was built without HTTP (feature `http`)";
    Err(throw(&ctx, &Raised::new("NotSupportedError", words)))
}

/// What throws in JavaScript if it fails.
pub(crate) fn raise<T>(ctx: &Ctx<'_>, outcome: Result<T, Raised>) -> rquickjs::Result<T> {
    outcome.map_err(|raised| throw(ctx, &raised))
}

/// The number of an operation, as JavaScript knows it.
pub(crate) fn begun(ctx: &Ctx<'_>, outcome: Result<u64, Raised>) -> rquickjs::Result<f64> {
    raise(ctx, outcome).map(as_double)
}

/// Numbers are counted up from one.
#[allow(clippy::cast_precision_loss, reason = "a count never gets that far")]
fn as_double(number: u64) -> f64 {
    number as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers that JavaScript was given before"
)]
fn as_number(double: f64) -> u64 {
    double as u64
}

/// The bytes of a `Uint8Array`.
pub(crate) fn bytes<'js>(ctx: &Ctx<'js>, array: &TypedArray<'js, u8>) -> rquickjs::Result<Vec<u8>> {
    // SAFETY: no JavaScript runs, on this thread or another, between the look
    // at the buffer and the end of the copy; nothing of the slice is kept.
    #[allow(
        unsafe_code,
        reason = "the engine's buffers can be read in no other way"
    )]
    let copied = unsafe { array.as_bytes() }.map(<[u8]>::to_vec);
    copied.ok_or_else(|| throw(ctx, &Raised::new("TypeError", "the buffer is detached")))
}

/// The native functions that `core.js` needs.
///
/// # Errors
/// If there isn't the memory for them.
pub(crate) fn core<'js>(ctx: &Ctx<'js>, native: &Rc<Native>) -> rquickjs::Result<Object<'js>> {
    let table = Object::new(ctx.clone())?;
    let of = |native: &Rc<Native>| Rc::clone(native);

    let host = of(native);
    let log = move |ctx: Ctx<'js>, level: String, text: rquickjs::String<'js>| {
        let text = thrown::text_from(&ctx, &text)?;
        host.log(Level::parse(&level).unwrap_or(Level::Info), &text);
        rquickjs::Result::Ok(())
    };
    table.set("log", Function::new(ctx.clone(), log)?)?;

    let host = of(native);
    let done = move |ctx: Ctx<'js>, call: f64, value: Value<'js>| {
        host.done(&ctx, as_number(call), &value);
    };
    table.set("done", Function::new(ctx.clone(), done)?)?;

    let host = of(native);
    let failed = move |ctx: Ctx<'js>, call: f64, error: Value<'js>| {
        let failure = thrown::from_value(&ctx, &error);
        host.finish(as_number(call), Err(failure));
    };
    table.set("failed", Function::new(ctx.clone(), failed)?)?;

    let host = of(native);
    let lists = move |call: f64, json: String| {
        host.finish(as_number(call), Ok(Answer::Json(Some(json))));
    };
    table.set("lists", Function::new(ctx.clone(), lists)?)?;

    let host = of(native);
    let is_live = move |call: f64| host.is_live(as_number(call));
    table.set("isLive", Function::new(ctx.clone(), is_live)?)?;

    let host = of(native);
    let facts = move |call: f64| {
        let calls = host.calls.borrow();
        let facts = calls.get(&as_number(call)).and_then(|c| c.facts.as_ref());
        facts.map_or_else(|| "{}".to_owned(), |facts| facts.json())
    };
    table.set("facts", Function::new(ctx.clone(), facts)?)?;

    let host = of(native);
    let progress = move |call: f64, text: String| {
        let calls = host.calls.borrow();
        if let Some(facts) = calls.get(&as_number(call)).and_then(|c| c.facts.as_ref()) {
            let channel = haft_api::OutputChannel::Stdout;
            facts.context.output.write(channel, text.as_bytes());
        }
    };
    table.set("progress", Function::new(ctx.clone(), progress)?)?;

    let host = of(native);
    let set_timer =
        move |ctx: Ctx<'js>, ms: f64, repeats: bool| begun(&ctx, host.set_timer(ms, repeats));
    table.set("setTimer", Function::new(ctx.clone(), set_timer)?)?;

    let host = of(native);
    let clear_timer = move |timer: f64| host.clear_timer(as_number(timer));
    table.set("clearTimer", Function::new(ctx.clone(), clear_timer)?)?;

    let host = of(native);
    let abort = move |operation: f64| host.abort(as_number(operation));
    table.set("abort", Function::new(ctx.clone(), abort)?)?;

    let hooks = || rpc::HOOKS.to_vec();
    table.set("hooks", Function::new(ctx.clone(), hooks)?)?;

    let globals = || -> Vec<Vec<&'static str>> {
        let lazy = types::globals().filter(|global| !global.piece.is_empty());
        lazy.map(|global| vec![global.name, global.piece]).collect()
    };
    table.set("globals", Function::new(ctx.clone(), globals)?)?;

    // The table comes with each call: a function that kept it would keep it for
    // ever.
    let host = of(native);
    let piece = move |ctx: Ctx<'js>,
                      this: rquickjs::function::This<Object<'js>>,
                      name: String|
          -> rquickjs::Result<Value<'js>> {
        let found = PIECES.iter().find(|piece| piece.name == name);
        let found = found.ok_or_else(|| throw(&ctx, &Raised::error("there is no such piece")))?;
        (found.equip)(&ctx, &this.0, &host)?;
        evaluate(&ctx, found.name, found.source)
    };
    table.set("piece", Function::new(ctx.clone(), piece)?)?;
    Ok(table)
}
