//! The host: the skills there are, and the ways to them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use haft_api::{Error, ErrorKind, Result, ToolOutput};
use serde_json::value::RawValue;

use haft_script_host::{Level, LogSink, StderrLog};

use crate::choices::Choices;
use crate::config::Settings;
use crate::lists::CommandInfo;
use crate::manifest;
use crate::skill::{SkillSnapshot, SkillStatus, ask};
use crate::worker::{Answer, Entry};

mod inner;
mod world;

pub(crate) use inner::Inner;
use inner::joined;

/// Runs skills, each in a runtime of its own.
///
/// Making one does no I/O: skills are looked for, and start, when they are
/// first asked for. Clones are the same host; when the last one is dropped, the
/// skills are stopped.
#[derive(Clone)]
pub struct QuickJsHost {
    pub(crate) inner: Arc<Inner>,
}

/// An answer of a skill to a method.
#[derive(Debug)]
#[non_exhaustive]
pub enum RpcAnswer {
    /// The skill has no hook for it.
    Missing,
    /// Its value as JSON; nothing for `undefined`.
    Value(Option<Box<RawValue>>),
}

impl std::fmt::Debug for QuickJsHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuickJsHost")
            .field("settings", self.inner.settings())
            .finish_non_exhaustive()
    }
}

impl QuickJsHost {
    /// A host with these settings; what skills say for people goes to standard
    /// error.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub fn new(settings: Settings) -> Result<Self> {
        Self::with_log(settings, Arc::new(StderrLog::new("skill")))
    }

    /// A host whose skills' messages go there.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_log(settings: Settings, log: Arc<dyn LogSink>) -> Result<Self> {
        let inner = Inner::new(settings, log)?;
        Ok(Self { inner })
    }

    /// What is known of all skills, by id, without asking them. Looks for
    /// skills, and starts those that start with the host, if that hasn't
    /// happened.
    pub async fn skills(&self) -> Vec<SkillSnapshot> {
        self.inner.begin().await;
        self.snapshots()
    }

    /// What is known of all skills that were found so far.
    pub fn snapshots(&self) -> Vec<SkillSnapshot> {
        let skills = self.inner.all();
        skills.iter().map(|skill| skill.snapshot()).collect()
    }

    /// What is known of a skill.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn snapshot(&self, id: &str) -> Result<SkillSnapshot> {
        Ok(self.inner.skill(id)?.snapshot())
    }

    /// Whether there is any place where skills could be.
    pub(crate) fn has_places(&self) -> bool {
        !self.inner.settings().paths.is_empty() || !self.inner.settings().folders.is_empty()
    }

    /// Looks for skills without starting any.
    pub fn discover(&self) {
        self.inner.discover();
    }

    /// Starts a skill and returns once it runs; one that runs is left alone.
    /// Dropping the future leaves the start under way.
    ///
    /// # Errors
    /// If there is none of that id; what went wrong on the way.
    pub async fn start(&self, id: &str) -> Result<SkillSnapshot> {
        self.inner.discover_once();
        let skill = self.inner.skill(id)?;
        self.inner.start(&skill).await
    }

    /// Stops a skill: its `stop` runs, calls that wait are told, its timers and
    /// schedules end. Takes a bounded time even if its code hangs. Credentials
    /// are kept.
    ///
    /// # Errors
    /// If there is none of that id.
    pub async fn stop(&self, id: &str) -> Result<SkillSnapshot> {
        let skill = self.inner.skill(id)?;
        let stopping = skill.stop(Arc::clone(&self.inner));
        joined(self.inner.io()?.spawn(stopping).await)
    }

    /// Remembers, in the folder of data, whether a skill starts with the host
    /// from now on, in place of what its manifest says.
    ///
    /// # Errors
    /// If there is no folder of data, or it can't be written.
    pub fn choose(&self, id: &str, starts: bool) -> Result<()> {
        let folder = self.inner.settings().data_dir.as_deref();
        Choices::set(folder, id, starts)
            .map_err(|words| Error::new(ErrorKind::Unavailable, words).permanent())
    }

    /// Whether a skill starts with the host.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn starts(&self, id: &str) -> Result<bool> {
        let skill = self.inner.skill(id)?;
        let choices = Choices::read(self.inner.settings().data_dir.as_deref());
        Ok(self.inner.starts(&skill, &choices))
    }

    /// Calls a method of a skill: a hook by the table in the README, or
    /// `onRpc`. `oauth/complete` keeps the parameters as the skill's credential
    /// and `oauth/revoked` forgets it, each before the hook is called.
    ///
    /// # Errors
    /// What the skill's code threw; that it isn't running.
    pub async fn rpc(
        &self,
        id: &str,
        method: &str,
        params: &serde_json::Value,
    ) -> Result<RpcAnswer> {
        self.inner.rpc(id, method, params).await
    }

    /// Tells all running skills of an event (`onServerEvent`), and waits until
    /// they have taken it. What goes wrong in one is logged.
    pub async fn broadcast(&self, event: &str, data: &serde_json::Value) {
        let params = serde_json::json!({"event": event, "data": data});
        let skills = self.inner.all();
        let running = skills.iter().filter(|s| s.status() == SkillStatus::Running);
        join_all(running.map(|skill| async {
            if let Err(error) = self.inner.rpc(&skill.id, "event", &params).await {
                let words = format!("the event `{event}`: {error}");
                self.inner.log(&skill.id, Level::Error, &words);
            }
        }))
        .await;
    }

    /// Calls a tool of a skill by its own name, outside of any turn.
    ///
    /// # Errors
    /// If the skill isn't running. What its code throws is an output that is an
    /// error.
    pub async fn call_tool(
        &self,
        id: &str,
        tool: &str,
        arguments: Box<RawValue>,
        limit: Option<Duration>,
    ) -> Result<ToolOutput> {
        let called = self.inner.call_tool(id, tool, arguments, limit, None).await;
        called.map_err(|failure| {
            failure
                .into_error()
                .context("skill", id)
                .context("tool", tool)
        })
    }

    /// The commands of the running skills, by name.
    pub async fn commands(&self) -> Vec<CommandInfo> {
        self.inner.begin().await;
        self.inner.commands()
    }

    /// Runs a command with the rest of its line, and returns what it has to
    /// show. Dropping the future ends it.
    ///
    /// # Errors
    /// What the skill's code threw; if there is no such command.
    pub async fn run_command(&self, name: &str, text: &str) -> Result<Option<String>> {
        let commands = self.commands().await;
        let command = commands.iter().find(|command| command.name == name);
        let command = command.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such command").context("command", name)
        })?;
        let skill = self.inner.skill(&command.skill)?;
        let run = || async {
            let worker = skill.running()?;
            let entry = Entry::Command {
                name: name.to_owned(),
                text: text.to_owned(),
            };
            let limit = self.inner.settings().limits.call();
            ask(&self.inner, &worker, entry, limit).await
        };
        let answer = run().await;
        match answer.map_err(|failure| failure.into_error().context("command", name))? {
            Answer::Json(Some(json)) => {
                // A text as it is; anything else as JSON.
                Ok(Some(serde_json::from_str::<String>(&json).unwrap_or(json)))
            }
            _ => Ok(None),
        }
    }

    /// What kept skills and tools out.
    pub async fn problems(&self) -> Vec<Error> {
        self.inner.begin().await;
        self.inner.problems()
    }

    /// Starts a running skill again from what is on disk; one that isn't
    /// running is read anew.
    ///
    /// # Errors
    /// If there is none of that id; what is wrong with it now.
    pub async fn reload(&self, id: &str) -> Result<SkillSnapshot> {
        let skill = self.inner.skill(id)?;
        let package = manifest::read(&skill.package().folder)
            .map_err(|words| Error::new(ErrorKind::InvalidInput, words))?;
        let was_started = matches!(skill.status(), SkillStatus::Running | SkillStatus::Error);
        if was_started {
            self.stop(id).await?;
        }
        skill.replace(package);
        match was_started {
            true => self.start(id).await,
            false => Ok(skill.snapshot()),
        }
    }
}
