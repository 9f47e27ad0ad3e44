//! A Lua state: libraries, limits, and the way host functions are made.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::state::{GcGenParams, GcMode};
use mlua::{
    FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, LuaOptions, MultiValue, StdLib, Table,
    Thread, Value, VmState,
};

use crate::config::Settings;
use crate::failure::Failure;
use crate::json::{self, Marks};
use crate::native;
use crate::pulse::Pulse;
use crate::scheduler::{
    Answer, Given, MemoryLimits, NewTask, QUANTUM, Reply, Scheduler, Tools, await_mark,
    preempt_mark,
};
use crate::script::Script;
use haft_script_host::{Level, LogSink};

/// What host functions share.
pub(crate) struct Host {
    pub(crate) scheduler: Rc<Scheduler>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) scripts: RefCell<Vec<Rc<Script>>>,
    pub(crate) marks: Rc<Marks>,
    /// Called when the events that scripts listen to have changed.
    pub(crate) listening: Box<dyn Fn()>,
    /// Numbers processes, so that their ids differ.
    pub(crate) next_process: std::cell::Cell<u64>,
    prelude: Prelude,
}

struct Prelude {
    environment: Function,
    immediate: Function,
    awaiting: Function,
}

/// Values as an operation's answer.
pub(crate) fn reply(values: impl IntoLuaMulti + 'static) -> Reply {
    Box::new(move |lua| values.into_lua_multi(lua))
}

/// Makes a state with nothing of any script in it.
pub(crate) fn new(
    settings: Arc<Settings>,
    log: Arc<dyn LogSink>,
    pulse: Arc<Pulse>,
    listening: Box<dyn Fn()>,
) -> mlua::Result<(Lua, Rc<Host>)> {
    let libraries = StdLib::COROUTINE
        | StdLib::TABLE
        | StdLib::IO
        | StdLib::OS
        | StdLib::STRING
        | StdLib::UTF8
        | StdLib::MATH;
    let lua = native::state(libraries)?;
    // Nothing is to be found while it is being made.
    lua.gc_stop();
    // Before anything else: a coroutine has the hook of the one that made it.
    lua.set_global_hook(
        HookTriggers::new().every_nth_instruction(QUANTUM),
        |lua, _| {
            let scheduler = lua
                .app_data_ref::<Weak<Scheduler>>()
                .and_then(|weak| weak.upgrade());
            match scheduler {
                Some(scheduler) => scheduler.tick(lua),
                None => Ok(VmState::Continue),
            }
        },
    )?;
    let marks = Marks::install(&lua)?;
    let offered = lua.create_table()?;
    offer(&lua, &offered)?;
    native::offer(&lua, &offered)?;
    let prelude: Table = lua.load(prelude()?).call(offered)?;
    let mib = |mib: usize| mib.saturating_mul(1024 * 1024);
    let scheduler = Rc::new(Scheduler::new(
        Tools {
            xpcall: prelude.get("xpcall")?,
            on_error: prelude.get("on_error")?,
            managed: prelude.get("managed")?,
        },
        MemoryLimits {
            state: mib(settings.limits.memory_mib),
            extension: mib(settings.limits.extension_memory_mib),
        },
        pulse,
    ));
    lua.set_app_data(Rc::downgrade(&scheduler));
    let host = Rc::new(Host {
        scheduler,
        settings,
        log,
        scripts: RefCell::default(),
        marks,
        listening,
        next_process: std::cell::Cell::new(1),
        prelude: Prelude {
            environment: prelude.get("environment")?,
            immediate: prelude.get("immediate")?,
            awaiting: prelude.get("awaiting")?,
        },
    });
    // What was needed to make it isn't any more: to enter this mode is to collect
    // all garbage.
    lua.gc_set_mode(GcMode::Generational(GcGenParams::default()));
    lua.gc_restart();
    Ok((lua, host))
}

/// The prelude, compiled once for all states and without what only a debugger
/// needs: reading its text would take longer than all the rest of a new state.
fn prelude() -> mlua::Result<&'static [u8]> {
    static COMPILED: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(compiled) = COMPILED.get() {
        return Ok(compiled);
    }
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::default())?;
    let text = lua.load(include_str!("prelude.lua"));
    let compiled = text.set_name("=[host]").into_function()?.dump(true);
    Ok(COMPILED.get_or_init(|| compiled))
}

fn scheduler(lua: &Lua) -> Option<Rc<Scheduler>> {
    lua.app_data_ref::<Weak<Scheduler>>()
        .and_then(|weak| weak.upgrade())
}

/// What the prelude needs of the host.
fn offer(lua: &Lua, to: &Table) -> mlua::Result<()> {
    to.set("await", await_mark())?;
    to.set("preempt", preempt_mark())?;
    let hook_yielded = lua.create_function(|lua, coroutine: Thread| {
        Ok(scheduler(lua).is_some_and(|s| s.take_hook_yield(&coroutine)))
    })?;
    to.set("hook_yielded", hook_yielded)?;
    let doomed =
        lua.create_function(|lua, ()| Ok(scheduler(lua).is_some_and(|s| s.doom_text().is_some())))?;
    to.set("doomed", doomed)?;
    let doom_text =
        lua.create_function(|lua, ()| Ok(scheduler(lua).and_then(|s| s.doom_text())))?;
    to.set("doom_text", doom_text)?;
    let abandon = lua.create_function(|lua, ()| {
        if let Some(scheduler) = scheduler(lua) {
            scheduler.abandon_operation();
        }
        Ok(())
    })?;
    to.set("abandon_operation", abandon)?;
    let expose = lua.create_function(|lua, ()| {
        if let Some(scheduler) = scheduler(lua) {
            scheduler.expose();
        }
        Ok(())
    })?;
    to.set("expose", expose)?;
    let collect = lua.create_function(|lua, ()| {
        if let Some(scheduler) = scheduler(lua) {
            scheduler.collect_asked(lua);
        }
        Ok(())
    })?;
    to.set("collect", collect)?;
    let resume = lua.create_function(|lua, (thread, values): (Thread, MultiValue)| {
        let resumed = match scheduler(lua) {
            Some(scheduler) => scheduler.resume_from_script(&thread, values),
            None => Err("cannot resume dead coroutine"),
        };
        Ok(match resumed {
            Ok(()) => (true, None),
            Err(words) => (false, Some(words)),
        })
    })?;
    to.set("resume", resume)?;
    to.set("cannot_wait", lua.create_function(cannot_wait)?)?;
    to.set("trace", lua.create_function(|lua, ()| Ok(trace(lua, 2)))?)?;
    to.set("traceback", lua.create_function(traceback)?)?;
    to.set("getinfo", lua.create_function(getinfo)?)?;
    Ok(())
}

/// Words for a function that would have to wait where nothing can.
fn cannot_wait(lua: &Lua, name: String) -> mlua::Result<String> {
    let mut inside = None;
    for level in 2..200 {
        let found = lua.inspect_stack(level, |frame| {
            (frame.source().what == "C").then(|| {
                let name = frame.names().name.map(|name| name.into_owned());
                name.unwrap_or_else(|| "a C function".to_owned())
            })
        });
        match found {
            None => break,
            Some(Some(function)) => {
                inside = Some(function);
                break;
            }
            Some(None) => {}
        }
    }
    Ok(match inside {
        Some(function) => format!(
            "{name}: can't wait here: `{function}` called this function, and it can't be suspended"
        ),
        None => format!("{name}: can't wait here: nothing that runs could be suspended"),
    })
}

/// A traceback without the host's own frames.
fn trace(lua: &Lua, level: usize) -> String {
    let Ok(text) = lua.traceback(None, level) else {
        return String::new();
    };
    let text = text.to_string_lossy();
    // What is compiled without its name is the host's.
    let shown = |line: &&str| {
        !line.starts_with("\t?: in ")
            && !line.starts_with("\t[host]:")
            && !line.contains("in function 'xpcall'")
    };
    text.lines().filter(shown).collect::<Vec<_>>().join("\n")
}

/// `debug.traceback`.
fn traceback(lua: &Lua, mut values: MultiValue) -> mlua::Result<Value> {
    if matches!(values.front(), Some(Value::Thread(_))) {
        values.pop_front();
    }
    let message = values.pop_front().unwrap_or(Value::Nil);
    let head = match &message {
        Value::Nil => String::new(),
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            format!("{}\n", message.to_string()?)
        }
        _ => return Ok(message),
    };
    let text = lua.create_string(head + &trace(lua, 1))?;
    Ok(Value::String(text))
}

/// The harmless part of `debug.getinfo`.
fn getinfo(lua: &Lua, mut values: MultiValue) -> mlua::Result<Value> {
    if matches!(values.front(), Some(Value::Thread(_))) {
        values.pop_front();
    }
    let table = lua.create_table()?;
    match values.pop_front() {
        Some(Value::Function(function)) => {
            let info = function.info();
            table.set("what", info.what)?;
            table.set("source", info.source.clone())?;
            table.set("short_src", info.short_src.or(info.source))?;
            table.set("linedefined", info.line_defined.map_or(-1, as_line))?;
            table.set(
                "lastlinedefined",
                info.last_line_defined.map_or(-1, as_line),
            )?;
            table.set("func", function)?;
        }
        Some(Value::Integer(level)) => {
            let level = usize::try_from(level).unwrap_or(0);
            let found = lua.inspect_stack(level, |frame| {
                let source = frame.source();
                table.set("what", source.what)?;
                table.set("source", source.source.as_deref())?;
                table.set("short_src", source.short_src.as_deref())?;
                table.set("currentline", frame.current_line().map_or(-1, as_line))?;
                table.set("linedefined", source.line_defined.map_or(-1, as_line))?;
                table.set("name", frame.names().name.as_deref())
            });
            match found {
                Some(set) => set?,
                None => return Ok(Value::Nil),
            }
        }
        _ => return Ok(Value::Nil),
    }
    Ok(Value::Table(table))
}

fn as_line(line: usize) -> i64 {
    i64::try_from(line).unwrap_or(-1)
}

impl Host {
    /// Makes a script's globals; `own` is what is its own in them.
    pub(crate) fn environment(&self, own: Table) -> mlua::Result<Table> {
        self.prelude.environment.call(own)
    }

    /// A function that gives plain values, or `nil` and a message.
    pub(crate) fn plain<A, R>(
        &self,
        lua: &Lua,
        f: impl Fn(&Lua, A) -> Result<R, String> + 'static,
    ) -> mlua::Result<Function>
    where
        A: FromLuaMulti,
        R: IntoLuaMulti,
    {
        let scheduler = Rc::downgrade(&self.scheduler);
        lua.create_function(move |lua, arguments: MultiValue| {
            match guarded(&scheduler, || convert(lua, arguments, &f)) {
                Ok(values) => Ok(values),
                Err(message) => (Value::Nil, message).into_lua_multi(lua),
            }
        })
    }

    /// A function that answers at once, and raises its errors where it was
    /// called.
    pub(crate) fn immediate<A, R>(
        &self,
        lua: &Lua,
        f: impl Fn(&Lua, A) -> Result<R, String> + 'static,
    ) -> mlua::Result<Function>
    where
        A: FromLuaMulti,
        R: IntoLuaMulti,
    {
        let scheduler = Rc::downgrade(&self.scheduler);
        let raw = lua.create_function(move |lua, arguments: MultiValue| {
            answer(lua, guarded(&scheduler, || convert(lua, arguments, &f)))
        })?;
        self.prelude.immediate.call(raw)
    }

    /// A function that suspends its caller until the future is ready.
    pub(crate) fn awaiting<A, F>(
        &self,
        lua: &Lua,
        name: &str,
        f: impl Fn(&Lua, A) -> Result<F, String> + 'static,
    ) -> mlua::Result<Function>
    where
        A: FromLuaMulti,
        F: Future<Output = Answer> + 'static,
    {
        let scheduler = Rc::downgrade(&self.scheduler);
        let raw = lua.create_function(move |lua, arguments: MultiValue| {
            let begun = guarded(&scheduler, || {
                let arguments = A::from_lua_multi(arguments, lua).map_err(|e| words(&e))?;
                let operation = f(lua, arguments)?;
                scheduler
                    .upgrade()
                    .ok_or_else(|| "the host has ended".to_owned())?
                    .operate(operation)?;
                Ok(MultiValue::new())
            });
            answer(lua, begun)
        })?;
        self.prelude.awaiting.call((name, raw))
    }

    /// Runs a callback of a script in a coroutine of its own. What it raises is
    /// logged with the extension's name.
    pub(crate) fn call_back(
        self: &Rc<Self>,
        lua: &Lua,
        script: &Rc<Script>,
        what: &str,
        function: &Function,
        arguments: MultiValue,
    ) {
        let (log_to, described) = (Rc::clone(script), what.to_owned());
        let spawned = self.scheduler.spawn(
            lua,
            NewTask {
                id: None,
                what: what.into(),
                script: Rc::clone(script),
                call: None,
                function: function.clone(),
                arguments: Given::Any(arguments),
                deadline: Some(Instant::now() + script.limits.all.callback()),
                on_end: Rc::new(move |_, outcome| {
                    if let Err(failure) = outcome {
                        log_to.say(Level::Error, &format!("{described}: {failure}"));
                    }
                }),
            },
        );
        if let Err(error) = spawned {
            let failure = Failure::from_error(&error);
            script.say(Level::Error, &format!("{what}: {failure}"));
        }
    }

    pub(crate) fn json_limits(&self) -> json::Limits {
        json::Limits {
            bytes: self.settings.limits.result_bytes,
        }
    }
}

/// Loads a text, never bytecode.
pub(crate) fn load_text(
    lua: &Lua,
    source: &[u8],
    name: &str,
    env: Table,
) -> Result<Function, Failure> {
    // The loader takes a `#` line at a file's head for a shell's.
    let source = match source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source) {
        hashed if hashed.starts_with(b"#") => {
            let end = hashed.iter().position(|b| *b == b'\n');
            &hashed[end.unwrap_or(hashed.len())..]
        }
        plain => plain,
    };
    lua.load(source)
        .set_name(format!("@{name}"))
        .set_mode(ChunkMode::Text)
        .set_environment(env)
        .into_function()
        .map_err(|e| match e {
            mlua::Error::SyntaxError { message, .. } => Failure::error(message),
            other => Failure::from_error(&other),
        })
}

fn convert<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    arguments: MultiValue,
    f: &impl Fn(&Lua, A) -> Result<R, String>,
) -> Result<MultiValue, String> {
    let arguments = A::from_lua_multi(arguments, lua).map_err(|e| words(&e))?;
    f(lua, arguments)?
        .into_lua_multi(lua)
        .map_err(|e| words(&e))
}

/// An error of a conversion, in a line.
fn words(error: &mlua::Error) -> String {
    match error {
        mlua::Error::BadArgument { pos, cause, .. } => format!("argument {pos}: {}", words(cause)),
        mlua::Error::FromLuaConversionError {
            from, to, message, ..
        } => {
            let why = message.as_deref().map(|m| format!(" ({m})"));
            format!("expected {to}, got {from}{}", why.unwrap_or_default())
        }
        other => Failure::from_error(other).message,
    }
}

/// Runs the host's own code; a panic becomes an error that no `pcall` of a
/// script turns into success.
fn guarded<T>(
    scheduler: &Weak<Scheduler>,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        Err(match scheduler.upgrade() {
            Some(scheduler) => scheduler.note_panic(&*panic),
            None => haft_api::panic_message(&*panic),
        })
    })
}

fn answer(lua: &Lua, outcome: Result<MultiValue, String>) -> mlua::Result<MultiValue> {
    match outcome {
        Ok(mut values) => {
            values.push_front(Value::Boolean(true));
            Ok(values)
        }
        Err(message) => (false, message).into_lua_multi(lua),
    }
}

#[cfg(test)]
mod tests;
