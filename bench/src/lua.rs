//! The Lua host, beside bare Lua in the same process.

mod calls;
mod collector;
mod json;
mod limits;
mod state;

pub(crate) use calls::{batch_of_one, dispatched, no_op, sleepers_64, sleepers_1000, wait};
pub(crate) use collector::pauses;
pub(crate) use json::{input, output};
pub(crate) use limits::{hostile, loops, recursion};
pub(crate) use state::{fresh, idle};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Deadline, ThreadId, ToolCall, ToolContext, ToolOutput,
    ToolSource as _, TurnId, raw_json,
};
use haft_bench::Result;
use haft_ext_lua::{LuaHost, Settings};
use tempfile::TempDir;

use crate::agent;

/// A host over one script, and what drives its callers.
struct Host {
    tokio: tokio::runtime::Runtime,
    lua: LuaHost,
    _folder: TempDir,
}

impl Host {
    fn new(script: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.lua");
        std::fs::write(&path, script)?;
        let mut settings = Settings::default();
        settings.paths.push(path);
        settings.reload = Some(false);
        let (tokio, lua) = (agent::one_thread()?, LuaHost::new(settings)?);
        let problems = tokio.block_on(async {
            lua.tools().await?;
            lua.problems().await
        })?;
        match problems.into_iter().next() {
            Some(problem) => Err(problem.into()),
            None => Ok(Self {
                tokio,
                lua,
                _folder: folder,
            }),
        }
    }

    /// Calls of one batch.
    fn calls(name: &str, arguments: &str, n: usize) -> Result<Vec<BatchCall>> {
        let call = |index| {
            Ok(BatchCall {
                call: ToolCall {
                    id: CallId::new(format!("c{index}"))?,
                    name: name.to_owned(),
                    arguments: raw_json(arguments)?,
                    state: None,
                },
                context: ToolContext::new(ThreadId::new("t")?, TurnId::new("u")?),
            })
        };
        (0..n).map(call).collect()
    }

    /// Runs calls that all succeed.
    fn run(&self, calls: Vec<BatchCall>) -> Result<()> {
        self.run_all(vec![calls])
    }

    /// Runs batches one after the other.
    fn run_all(&self, batches: Vec<Vec<BatchCall>>) -> Result<()> {
        self.tokio.block_on(async {
            for calls in batches {
                let (n, count) = (calls.len(), Arc::new(Successes::default()));
                let run = self.lua.call_batch(calls, Arc::clone(&count) as Arc<_>);
                run.await?;
                let succeeded = count.0.load(Ordering::Relaxed);
                if succeeded != n {
                    return Err(format!("{succeeded} of {n} calls succeeded").into());
                }
            }
            Ok(())
        })
    }

    /// Runs calls, the first under a deadline and the others with plenty of
    /// time, and gives what came of them.
    fn outcomes(&self, names: &[&str], deadline: Duration) -> Result<BTreeMap<CallId, Outcome>> {
        let mut calls = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let mut call = Self::calls(name, "{}", 1)?.remove(0);
            call.call.id = CallId::new(format!("c{index}"))?;
            call.context.deadline = Some(Deadline::after(match index {
                0 => deadline,
                _ => 20 * deadline,
            }));
            calls.push(call);
        }
        let outcomes = Arc::new(Outcomes::default());
        let run = self.lua.call_batch(calls, Arc::clone(&outcomes) as Arc<_>);
        self.tokio.block_on(run)?;
        Ok(outcomes.take())
    }
}

type Outcome = haft_api::Result<ToolOutput>;

/// Counts the calls that succeed: no more than any caller would do.
#[derive(Default)]
struct Successes(AtomicUsize);

impl BatchOutcomes for Successes {
    fn complete(&self, _: &CallId, outcome: Outcome) -> bool {
        let fine = matches!(outcome, Ok(output) if !output.is_error);
        self.0.fetch_add(usize::from(fine), Ordering::Relaxed);
        true
    }
}

#[derive(Default)]
struct Outcomes(Mutex<BTreeMap<CallId, Outcome>>);

impl Outcomes {
    fn take(&self) -> BTreeMap<CallId, Outcome> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl BatchOutcomes for Outcomes {
    fn complete(&self, call: &CallId, outcome: Outcome) -> bool {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.insert(call.clone(), outcome).is_none()
    }
}

/// A tool of this name and with this body, and nothing else about it.
fn tool(name: &str, body: &str) -> String {
    format!(
        "haft.register_tool {{ name = '{name}', description = 'A benchmark.', effects = 'pure',\n\
         handler = function(args, ctx)\n{body}\nend }}\n"
    )
}

/// An error of Lua's doesn't leave its thread; its words do.
fn said<T>(outcome: mlua::Result<T>) -> Result<T> {
    outcome.map_err(|error| error.to_string().into())
}
