//! Requests and WebSockets, by grant, and never on the skill's own thread.

mod bodies;
mod requests;
mod sockets;

use std::rc::Rc;
use std::sync::Arc;

use haft_script_host::http;
use rquickjs::{Ctx, Object};
use tokio::sync::Semaphore;

use crate::native::Native;
use crate::worker::Raised;

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    requests::equip(ctx, table, native)
}

pub(super) fn equip_sockets<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    sockets::equip(ctx, table, native)
}

/// Counts a skill's connections of a kind; who comes late waits.
fn turnstile(native: &Native) -> Arc<Semaphore> {
    let most = native.setup.settings.limits.connections.max(1);
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

fn raised(error: http::Error) -> Raised {
    match error {
        http::Error::Denied(words) => Raised::new("NotAllowedError", words),
        error => Raised::new("TypeError", format!("fetch failed: {error}")),
    }
}
