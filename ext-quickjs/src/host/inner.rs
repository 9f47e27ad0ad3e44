//! What all clones of a host share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use haft_api::{Error, ErrorKind, ExtensionId, Result, ToolOutput};
use serde_json::value::RawValue;
use tokio::sync::OnceCell;

use super::RpcAnswer;
use super::world::{Redacting, World};
use crate::api::state::State;
use crate::choices::Choices;
use crate::config::Settings;
use crate::credentials::Credentials;
use crate::failure::Failure;
use crate::lists::CommandInfo;
use crate::manifest;
use crate::rpc::{self, Besides};
use crate::skill::{Skill, SkillSnapshot, SkillStatus, ask, hook};
use crate::supervisor::Supervisor;
use crate::worker::{Answer, CallFacts, Entry, Message, Setup};
use haft_script_host::{Level, LogSink};

/// The skills of a host, and what they need.
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
    io: Mutex<Option<tokio::runtime::Runtime>>,
    this: Weak<Inner>,
    #[cfg(feature = "reload")]
    watch: Mutex<Option<haft_script_host::Watch>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for skill in lock(&self.skills).values() {
            if let Ok(worker) = skill.running() {
                worker.say(Message::Stop);
            }
        }
        if let Some(io) = lock(&self.io).take() {
            io.shutdown_background();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a task of the host's own came to.
pub(super) fn joined<T>(outcome: std::result::Result<T, tokio::task::JoinError>) -> Result<T> {
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
    pub(super) fn new(settings: Settings, log: Arc<dyn LogSink>) -> Result<Arc<Self>> {
        let id = ExtensionId::new("quickjs")?;
        Ok(Arc::new_cyclic(|this| Self {
            id,
            settings: Arc::new(settings),
            log,
            skills: Mutex::default(),
            problems: Mutex::default(),
            begun: OnceCell::new(),
            numbers: AtomicU64::new(1),
            given_up: Arc::default(),
            supervisor: Arc::default(),
            io: Mutex::default(),
            this: Weak::clone(this),
            #[cfg(feature = "reload")]
            watch: Mutex::default(),
        }))
    }

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
    ///
    /// # Errors
    /// If the system has none for it.
    pub(crate) fn io(&self) -> Result<tokio::runtime::Handle> {
        let mut io = lock(&self.io);
        if let Some(runtime) = &*io {
            return Ok(runtime.handle().clone());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("js-host")
            .enable_all()
            .build()
            .map_err(|e| Error::io(e, "the host's own thread can't be started"))?;
        let handle = runtime.handle().clone();
        let supervisor = Arc::clone(&self.supervisor);
        handle.spawn(supervisor.run(self.settings.limits.wedge()));
        *io = Some(runtime);
        Ok(handle)
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
        let commands = self.commands();
        let taken = commands.windows(2).filter(|two| two[0].name == two[1].name);
        problems.extend(taken.map(|two| {
            let words = "another skill has a command of this name";
            Error::new(ErrorKind::AlreadyExists, words)
                .context("command", &two[1].name)
                .context("skill", &two[1].skill)
                .context("other", &two[0].skill)
        }));
        problems
    }

    /// The commands of the running skills, by name, then by skill.
    pub(super) fn commands(&self) -> Vec<CommandInfo> {
        let skills = self.all();
        let commands = skills.iter().flat_map(|s| s.lists().commands.clone());
        let mut commands: Vec<_> = commands.collect();
        commands.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
        commands
    }

    // Lookup.

    pub(super) fn discover_once(&self) {
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
                let data = self.data(&id);
                let credentials = Credentials::new(data.clone(), self.settings.credentials);
                let skill = Skill::new(package, Arc::new(credentials));
                match State::kept(data.as_deref(), &skill.credentials) {
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
    pub(super) fn starts(&self, skill: &Skill, choices: &Choices) -> bool {
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
        joined(self.io()?.spawn(starting).await)?
    }

    #[cfg(feature = "reload")]
    fn watch(&self) {
        if self.settings.reload == Some(false) {
            return;
        }
        let this = Weak::clone(&self.this);
        let Ok(io) = self.io() else { return };
        let changed = move |folder: PathBuf| {
            let Some(inner) = this.upgrade() else { return };
            io.spawn(async move {
                let host = super::QuickJsHost { inner };
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
        match crate::reload::watch(&self.settings, changed) {
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
            credentials: Arc::clone(&skill.credentials),
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
            io: self.io()?,
            supervisor: Arc::clone(&self.supervisor),
            data,
            credentials: Arc::clone(&skill.credentials),
            given_up: Arc::clone(&self.given_up),
        })
    }

    fn data(&self, id: &str) -> Option<PathBuf> {
        self.settings.data_dir.as_ref().map(|dir| dir.join(id))
    }

    // Calls.

    pub(super) async fn rpc(
        &self,
        id: &str,
        method: &str,
        params: &serde_json::Value,
    ) -> Result<RpcAnswer> {
        let skill = self.skill(id)?;
        let route = rpc::find(method);
        let at = |error: Error| error.context("skill", id).context("method", method);
        let credentials = Arc::clone(&skill.credentials);
        let kept = match route.besides {
            Besides::KeepCredential => {
                let json = params.to_string();
                let keep = move || credentials.keep(&json);
                joined(self.io()?.spawn_blocking(keep).await)?
            }
            Besides::ForgetCredential => joined(
                self.io()?
                    .spawn_blocking(move || credentials.forget())
                    .await,
            )?,
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
            && let (Some(this), Ok(io)) = (self.this.upgrade(), self.io())
        {
            self.log(
                &skill.id,
                Level::Error,
                &format!("stopped, its ping says: {words}"),
            );
            let stopping = Arc::clone(skill).stop(this);
            if io.spawn(stopping).await.is_ok() {
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
        within: Option<&CallFacts>,
    ) -> std::result::Result<ToolOutput, Failure> {
        let skill = self
            .skill(id)
            .map_err(|error| Failure::error(error.to_string()))?;
        let worker = skill.running()?;
        let limit = limit.unwrap_or_else(|| self.limit_of(&skill, tool));
        let entry = Entry::Tool {
            name: tool.to_owned(),
            arguments,
            facts: within.map(|facts| facts.of_inner(tool)),
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
