//! Timers.

use std::cell::RefCell;
use std::time::Duration;

use mlua::{AnyUserData, Function, Lua, MultiValue, Table, UserData};

use super::Loop;
use crate::script::OpenHandle;

/// A timer that runs.
struct Running(RefCell<Option<tokio::task::AbortHandle>>);

impl UserData for Running {}

pub(super) fn add(lua: &Lua, shared: &Loop, to: &Table) -> mlua::Result<()> {
    let of = shared.clone();
    to.raw_set(
        "timer",
        shared.host.immediate(
            lua,
            move |lua, (first, interval, callback): (f64, Option<f64>, Function)| {
                let first = crate::api::milliseconds(first)?;
                let interval = crate::api::milliseconds(interval.unwrap_or(0.0))?;
                let (of, open) = (of.clone(), OpenHandle::new(&of.script));
                let task = tokio::task::spawn_local(async move {
                    let _open = open;
                    tokio::time::sleep(first).await;
                    loop {
                        of.call("a timer's callback", &callback, |_| Ok(MultiValue::new()));
                        if interval.is_zero() {
                            // The callback begins before the timer counts as gone.
                            tokio::task::yield_now().await;
                            return;
                        }
                        tokio::time::sleep(interval.max(Duration::from_millis(1))).await;
                    }
                });
                lua.create_userdata(Running(RefCell::new(Some(task.abort_handle()))))
                    .map_err(|e| e.to_string())
            },
        )?,
    )?;
    to.raw_set(
        "stop",
        shared.host.immediate(lua, |_, running: AnyUserData| {
            if let Ok(running) = running.borrow::<Running>()
                && let Some(task) = running.0.borrow_mut().take()
            {
                task.abort();
            }
            Ok(())
        })?,
    )?;
    let of = shared.clone();
    to.raw_set(
        "soon",
        shared.host.immediate(
            lua,
            move |_, (what, callback, arguments): (String, Function, MultiValue)| {
                of.call(&what, &callback, |_| Ok(arguments));
                Ok(())
            },
        )?,
    )
}
