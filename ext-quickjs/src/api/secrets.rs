//! `oauth`: what a script may know of its credential.

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Value};

use super::raise;
use crate::native::Native;
use crate::worker::Raised;

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let get = move |ctx: Ctx<'js>| -> rquickjs::Result<Value<'js>> {
        let read = host.setup.credentials.read().map_err(Raised::error);
        match raise(&ctx, read)? {
            Some(json) => ctx.json_parse(&*json),
            None => Ok(Value::new_null(ctx)),
        }
    };
    table.set("credential", Function::new(ctx.clone(), get)?)?;
    let host = Rc::clone(native);
    let revoke = move |ctx: Ctx<'js>| {
        let forgotten = host.setup.credentials.forget().map_err(Raised::error);
        raise(&ctx, forgotten)
    };
    table.set("revoke", Function::new(ctx.clone(), revoke)?)
}
