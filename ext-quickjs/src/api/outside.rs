//! The platform, other skills.

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Value};

use super::{begun, raise};
use crate::json;
use crate::native::Native;
use crate::worker::Raised;
use haft_script_host::Level;

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let os = || std::env::consts::OS;
    table.set("os", Function::new(ctx.clone(), os)?)?;

    let host = Rc::clone(native);
    let env = move |ctx: Ctx<'js>, name: String| -> rquickjs::Result<Option<String>> {
        let granted = host.setup.grants.check_env(&name);
        raise(
            &ctx,
            granted.map_err(|words| Raised::new("NotAllowedError", words)),
        )?;
        Ok(std::env::var(&name).ok())
    };
    table.set("env", Function::new(ctx.clone(), env)?)?;

    let host = Rc::clone(native);
    let notify = move |title: String, body: String| {
        host.log(Level::Info, &format!("notice: {title}: {body}"));
    };
    table.set("notify", Function::new(ctx.clone(), notify)?)?;

    let host = Rc::clone(native);
    let skills = move |ctx: Ctx<'js>| -> rquickjs::Result<Value<'js>> {
        ctx.json_parse(host.setup.outside.skills())
    };
    table.set("skills", Function::new(ctx.clone(), skills)?)?;

    let host = Rc::clone(native);
    let call = move |ctx: Ctx<'js>, skill: String, tool: String, arguments: Value<'js>| {
        let setup = &host.setup;
        let granted = match skill == setup.id() {
            true => Ok(()),
            false => setup.grants.check_skill(&skill),
        };
        raise(
            &ctx,
            granted.map_err(|words| Raised::new("NotAllowedError", words)),
        )?;
        let most = setup.settings.limits.result_bytes;
        let arguments = json::stringify(&ctx, &arguments, most)?.unwrap_or_else(|| "{}".to_owned());
        let arguments = haft_api::raw_json(arguments);
        let arguments = raise(&ctx, arguments.map_err(|e| Raised::error(e.to_string())))?;
        let called = setup
            .outside
            .call_tool(skill, tool, arguments, host.facts());
        begun(&ctx, host.operation(called))
    };
    table.set("callTool", Function::new(ctx.clone(), call)?)
}
