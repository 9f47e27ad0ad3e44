//! The host: the skills there are, and the ways to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, join_all};
use haft_api::{Error, ErrorKind, ExtensionId, Part, Result, ToolOutput};
use serde_json::value::RawValue;
use tokio::sync::OnceCell;

use crate::api::secrets;
use crate::api::state::State;
use crate::choices::Choices;
use crate::config::Settings;
use crate::failure::Failure;
use crate::lists::CommandInfo;
use crate::log::{Level, LogSink, StderrLog};
use crate::manifest;
use crate::rpc::{self, Besides};
use crate::skill::{Skill, SkillSnapshot, SkillStatus, ask, hook};
use crate::supervisor::Supervisor;
use crate::worker::{Answer, Entry, Message, Outside, Raised, Settled, Setup};

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

pub(crate) struct Inner {
    id: ExtensionId,
    settings: Arc<Settings>,
    log: Arc<dyn LogSink>,
    skills: Mutex<BTreeMap<String, Arc<Skill>>>,
    problems: Mutex<Vec<haft_api::ErrorData>>,
    begun: OnceCell<()>,
    numbers: AtomicU64,
    /// Threads that were given up and still run.
    given_up: Arc<AtomicUsize>,
    supervisor: Arc<Supervisor>,
    io: OnceLock<tokio::runtime::Runtime>,
    this: Weak<Inner>,
    #[cfg(feature = "reload")]
    watch: Mutex<Option<crate::reload::Watch>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for skill in lock(&self.skills).values() {
            if let Ok(worker) = skill.running() {
                worker.say(Message::Stop);
            }
        }
        if let Some(io) = self.io.take() {
            io.shutdown_background();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for QuickJsHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuickJsHost")
            .field("settings", &self.inner.settings)
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
        Self::with_log(settings, Arc::new(StderrLog))
    }

    /// A host whose skills' messages go there.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_log(settings: Settings, log: Arc<dyn LogSink>) -> Result<Self> {
        let id = ExtensionId::new("quickjs")?;
        let inner = Arc::new_cyclic(|this| Inner {
            id,
            settings: Arc::new(settings),
            log,
            skills: Mutex::default(),
            problems: Mutex::default(),
            begun: OnceCell::new(),
            numbers: AtomicU64::new(1),
            given_up: Arc::default(),
            supervisor: Arc::default(),
            io: OnceLock::new(),
            this: Weak::clone(this),
            #[cfg(feature = "reload")]
            watch: Mutex::default(),
        });
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
        !self.inner.settings.paths.is_empty() || !self.inner.settings.folders.is_empty()
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
        joined(self.inner.io().spawn(stopping).await)
    }

    /// Remembers, in the folder of data, whether a skill starts with the host
    /// from now on, in place of what its manifest says.
    ///
    /// # Errors
    /// If there is no folder of data, or it can't be written.
    pub fn choose(&self, id: &str, starts: bool) -> Result<()> {
        let folder = self.inner.settings.data_dir.as_deref();
        Choices::set(folder, id, starts)
            .map_err(|words| Error::new(ErrorKind::Unavailable, words).permanent())
    }

    /// Whether a skill starts with the host.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn starts(&self, id: &str) -> Result<bool> {
        let skill = self.inner.skill(id)?;
        let choices = Choices::read(self.inner.settings.data_dir.as_deref());
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
        let called = self.inner.call_tool(id, tool, arguments, limit).await;
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
        let mut commands: Vec<_> = self
            .inner
            .all()
            .iter()
            .flat_map(|skill| skill.lists().commands.clone())
            .collect();
        commands.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
        commands
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
            let limit = self.inner.settings.limits.call();
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

fn joined<T>(outcome: std::result::Result<T, tokio::task::JoinError>) -> Result<T> {
    outcome.map_err(|error| {
        Error::new(
            ErrorKind::Unexpected,
            format!("the host's own task failed: {error}"),
        )
    })
}

fn unknown(id: &str, known: &[Arc<Skill>]) -> Error {
    let known: Vec<_> = known.iter().map(|skill| skill.id.as_str()).collect();
    Error::new(ErrorKind::NotFound, "there is no such skill")
        .context("skill", id)
        .context("known", known.join(", "))
}

impl Inner {
    pub(crate) fn id(&self) -> &ExtensionId {
        &self.id
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn log(&self, skill: &str, level: Level, message: &str) {
        self.log.log(skill, level, message);
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Where the host's own work happens: a thread of its own.
    pub(crate) fn io(&self) -> &tokio::runtime::Handle {
        let runtime = self.io.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("js-host")
                .enable_all()
                .build()
                .expect("the system has a thread for the host");
            let supervisor = Arc::clone(&self.supervisor);
            runtime.spawn(supervisor.run(self.settings.limits.wedge()));
            runtime
        });
        runtime.handle()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Skill>> {
        lock(&self.skills).values().cloned().collect()
    }

    pub(crate) fn skill(&self, id: &str) -> Result<Arc<Skill>> {
        let found = lock(&self.skills).get(id).cloned();
        found.ok_or_else(|| unknown(id, &self.all()))
    }

    pub(crate) fn problems(&self) -> Vec<Error> {
        let mut problems: Vec<Error> = lock(&self.problems)
            .iter()
            .map(|problem| problem.clone().into())
            .collect();
        for skill in self.all() {
            let snapshot = skill.snapshot();
            if let (SkillStatus::Error, Some(words)) = (snapshot.status, snapshot.error) {
                let error = Error::new(ErrorKind::Unavailable, words).permanent();
                problems.push(error.context("skill", &skill.id));
            }
            let lists = skill.lists();
            problems.extend(lists.problems.iter().map(|p| Error::from(p.clone())));
        }
        problems
    }

    // Lookup.

    fn discover_once(&self) {
        if lock(&self.skills).is_empty() {
            self.discover();
        }
    }

    /// Reads the folders. A skill that is known already stays as it is.
    pub(crate) fn discover(&self) {
        let mut problems = Vec::new();
        let mut places = self.settings.paths.clone();
        for folder in &self.settings.folders {
            places.extend(manifest::within(folder));
        }
        for place in places {
            if let Err(words) = self.find(&place) {
                let problem = Error::new(ErrorKind::InvalidInput, words);
                self.log(
                    "host",
                    Level::Warn,
                    &format!("a skill is left out: {problem}"),
                );
                problems.push(problem.to_data());
            }
        }
        *lock(&self.problems) = problems;
    }

    fn find(&self, place: &Path) -> std::result::Result<(), String> {
        let package = manifest::read(place)?;
        let mut skills = lock(&self.skills);
        let id = package.manifest.id.clone();
        match skills.get(&id) {
            Some(known) if known.package().folder == package.folder => {}
            Some(known) => {
                return Err(format!(
                    "{}: there is a skill `{id}` already, in {}",
                    place.display(),
                    known.package().folder.display()
                ));
            }
            None => {
                let skill = Skill::new(package);
                let data = self.data(&id);
                match State::kept(data.as_deref()) {
                    Ok(state) => skill.set_published(state),
                    Err(words) => self.log(&id, Level::Warn, &words),
                }
                skills.insert(id, Arc::new(skill));
            }
        }
        Ok(())
    }

    /// Looks for skills and starts those that start with the host, once.
    pub(crate) async fn begin(&self) {
        self.begun
            .get_or_init(|| async {
                self.discover();
                let skills = self.all();
                let choices = Choices::read(self.settings.data_dir.as_deref());
                let starting = skills.iter().filter(|skill| self.starts(skill, &choices));
                join_all(starting.map(|skill| async {
                    if let Err(error) = self.start(skill).await {
                        self.log(&skill.id, Level::Error, &error.to_string());
                    }
                }))
                .await;
                #[cfg(feature = "reload")]
                if !skills.is_empty() {
                    self.watch();
                }
            })
            .await;
        for skill in self.all() {
            skill.settled().await;
        }
    }

    /// Whether a skill starts with the host: it is named, or the user said so,
    /// or its manifest does.
    fn starts(&self, skill: &Skill, choices: &Choices) -> bool {
        let package = skill.package();
        let named = self
            .settings
            .paths
            .iter()
            .any(|path| path.canonicalize().is_ok_and(|path| path == package.folder));
        let manifest = &package.manifest;
        named
            || choices
                .of(&skill.id)
                .unwrap_or(manifest.auto_start && manifest.fits_platform())
    }

    pub(crate) async fn start(&self, skill: &Arc<Skill>) -> Result<SkillSnapshot> {
        let this = self.this.upgrade().ok_or_else(gone)?;
        let starting = Arc::clone(skill).start(this);
        joined(self.io().spawn(starting).await)?
    }

    #[cfg(feature = "reload")]
    fn watch(&self) {
        if self.settings.reload == Some(false) {
            return;
        }
        let this = Weak::clone(&self.this);
        let io = self.io().clone();
        let changed = move |folder: PathBuf| {
            let Some(inner) = this.upgrade() else { return };
            io.spawn(async move {
                let host = QuickJsHost { inner };
                let skills = host.inner.all();
                let known = skills.iter().find(|s| s.package().folder == folder);
                let Some(id) = known.map(|skill| skill.id.clone()) else {
                    host.inner.discover();
                    return;
                };
                match host.reload(&id).await {
                    Ok(_) => host.inner.log(&id, Level::Info, "loaded again"),
                    Err(error) => host.inner.log(&id, Level::Error, &error.to_string()),
                }
            });
        };
        match crate::reload::Watch::start(&self.settings, changed) {
            Ok(watch) => *lock(&self.watch) = Some(watch),
            Err(words) => {
                let words = format!("changes aren't noticed: {words}");
                self.log("host", Level::Warn, &words);
            }
        }
    }

    /// What a skill's thread is made of.
    ///
    /// # Errors
    /// If too many threads are stuck.
    pub(crate) fn setup(&self, skill: &Skill) -> Result<Setup> {
        let stuck = self.given_up.load(Ordering::Relaxed);
        if stuck >= self.settings.limits.given_up {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{stuck} runtimes are stuck in code that can't be interrupted; no more are \
                     started until one of them ends"
                ),
            )
            .permanent());
        }
        let package = skill.package();
        let id = skill.id.clone();
        let grants = self.settings.grants.get(&id);
        let data = self.data(&id);
        let log: Arc<dyn LogSink> = Arc::new(Redacting {
            log: Arc::clone(&self.log),
            data: data.clone(),
        });
        Ok(Setup {
            grants: grants.unwrap_or(&package.manifest.grants).clone(),
            package,
            settings: Arc::clone(&self.settings),
            log,
            outside: Arc::new(World {
                host: Weak::clone(&self.this),
                skill: id,
            }),
            io: self.io().clone(),
            supervisor: Arc::clone(&self.supervisor),
            data,
            given_up: Arc::clone(&self.given_up),
        })
    }

    fn data(&self, id: &str) -> Option<PathBuf> {
        self.settings.data_dir.as_ref().map(|dir| dir.join(id))
    }

    // Calls.

    async fn rpc(&self, id: &str, method: &str, params: &serde_json::Value) -> Result<RpcAnswer> {
        let skill = self.skill(id)?;
        let route = rpc::find(method);
        let at = |error: Error| error.context("skill", id).context("method", method);
        let data = self.data(id);
        let kept = match route.besides {
            Besides::KeepCredential => secrets::keep(data.as_deref(), &params.to_string()),
            Besides::ForgetCredential => secrets::forget(data.as_deref()),
            Besides::Health | Besides::Nothing => Ok(()),
        };
        kept.map_err(|words| at(Error::new(ErrorKind::Unavailable, words).permanent()))?;
        let worker = skill
            .running()
            .map_err(|failure| at(failure.into_error()))?;
        let entry = hook(route.hook, route.given.arguments(method, params));
        let limit = self.settings.limits.hook();
        let answer = ask(self, &worker, entry, limit)
            .await
            .map_err(|failure| at(failure.into_error()))?;
        let answer = match answer {
            Answer::Missing => return Ok(RpcAnswer::Missing),
            Answer::Json(json) => json,
            Answer::Output(_) => None,
        };
        if route.besides == Besides::Health {
            self.judge(&skill, answer.as_deref()).await;
        }
        answer
            .map(haft_api::raw_json)
            .transpose()
            .map(RpcAnswer::Value)
            .map_err(at)
    }

    /// What an answer to a ping means: an authentication that failed stops the
    /// skill, a network that failed is remarked.
    async fn judge(&self, skill: &Arc<Skill>, answer: Option<&str>) {
        let answer: serde_json::Value = answer
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        if answer.is_null() || answer["ok"] == true {
            skill.complain(None);
            return;
        }
        let said = |names: &[&str]| {
            let text = names.iter().find_map(|name| answer[*name].as_str());
            text.map(str::to_owned)
        };
        let kind = said(&["errorType", "error_type", "type"]).unwrap_or_default();
        let words = said(&["errorMessage", "error_message", "message", "error"])
            .unwrap_or_else(|| answer.to_string());
        if kind == "auth"
            && let Some(this) = self.this.upgrade()
        {
            self.log(
                &skill.id,
                Level::Error,
                &format!("stopped, its ping says: {words}"),
            );
            let stopping = Arc::clone(skill).stop(this);
            if self.io().spawn(stopping).await.is_ok() {
                skill.fail_auth(&words);
            }
        } else {
            self.log(&skill.id, Level::Warn, &format!("its ping says: {words}"));
            skill.complain(Some(words));
        }
    }

    pub(crate) async fn call_tool(
        &self,
        id: &str,
        tool: &str,
        arguments: Box<RawValue>,
        limit: Option<Duration>,
    ) -> std::result::Result<ToolOutput, Failure> {
        let skill = self
            .skill(id)
            .map_err(|error| Failure::error(error.to_string()))?;
        let worker = skill.running()?;
        let limit = limit.unwrap_or_else(|| self.limit_of(&skill, tool));
        let entry = Entry::Tool {
            name: tool.to_owned(),
            arguments,
            facts: None,
        };
        match ask(self, &worker, entry, limit).await? {
            Answer::Output(output) => Ok(output),
            Answer::Missing | Answer::Json(_) => Ok(ToolOutput::default()),
        }
    }

    /// How long a call of a tool may take: what the tool says, the manifest,
    /// the settings.
    pub(crate) fn limit_of(&self, skill: &Skill, tool: &str) -> Duration {
        let lists = skill.lists();
        let own = lists.tools.iter().find(|one| one.name == tool);
        let ms = own
            .and_then(|tool| tool.spec.timeout_ms)
            .or(skill.package().manifest.timeout_ms);
        ms.map_or(self.settings.limits.call(), Duration::from_millis)
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the host is gone")
}

/// What a skill reaches outside of its runtime.
struct World {
    host: Weak<Inner>,
    skill: String,
}

impl Outside for World {
    fn published(&self, state: Arc<str>) {
        if let Some(host) = self.host.upgrade()
            && let Ok(skill) = host.skill(&self.skill)
        {
            skill.set_published(state);
        }
    }

    fn call_tool(
        &self,
        skill: String,
        tool: String,
        arguments: Box<RawValue>,
    ) -> BoxFuture<'static, std::result::Result<Settled, Raised>> {
        let host = Weak::clone(&self.host);
        async move {
            let host = host
                .upgrade()
                .ok_or_else(|| Raised::error("the host is gone"))?;
            let output = host
                .call_tool(&skill, &tool, arguments, None)
                .await
                .map_err(|failure| Raised::error(failure.to_string()))?;
            let json = said(&output).map_err(Raised::error)?;
            match output.is_error {
                true => Err(Raised::error(
                    serde_json::from_str::<String>(&json).unwrap_or(json),
                )),
                false => Ok(Settled::Json(json)),
            }
        }
        .boxed()
    }

    fn skills(&self) -> String {
        let skills = self
            .host
            .upgrade()
            .map(|host| host.all())
            .unwrap_or_default();
        let list: Vec<_> = skills
            .iter()
            .map(|skill| {
                let snapshot = skill.snapshot();
                serde_json::json!({
                    "id": snapshot.id,
                    "name": snapshot.name,
                    "status": snapshot.status,
                    "tools": skill.lists().tools.iter().map(|t| t.name.clone()).collect::<Vec<_>>(),
                })
            })
            .collect();
        serde_json::Value::from(list).to_string()
    }
}

/// What another skill is told a tool said: its one value, or all its parts.
fn said(output: &ToolOutput) -> std::result::Result<String, String> {
    match &*output.parts {
        [] => Ok("null".to_owned()),
        [Part::Text { text }] => serde_json::to_string(text).map_err(|e| e.to_string()),
        [Part::Json { value }] => Ok(value.get().to_owned()),
        parts => serde_json::to_string(parts).map_err(|e| e.to_string()),
    }
}

/// Keeps a skill's secrets out of its messages.
struct Redacting {
    log: Arc<dyn LogSink>,
    data: Option<PathBuf>,
}

impl LogSink for Redacting {
    fn log(&self, skill: &str, level: Level, message: &str) {
        let message = secrets::redact(self.data.as_deref(), message);
        self.log.log(skill, level, &message);
    }
}
