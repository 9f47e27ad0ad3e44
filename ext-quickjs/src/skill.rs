//! One skill, seen from outside: its life and what is known of it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haft_api::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::credentials::Credentials;
use crate::failure::{Failure, FailureKind};
use crate::host::Inner;
use crate::lists::{Found, Lists};
use crate::manifest::Package;
use crate::worker::{Answer, Entry, Message, Request, Worker};
use haft_script_host::Level;

/// How long past a deadline an answer may be on its way.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_millis(25);
/// How often a runtime may break in a while before its skill is left alone.
const BREAKS: usize = 5;
const A_WHILE: Duration = Duration::from_secs(60);

/// Where a skill is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SkillStatus {
    /// Known, and never started.
    Pending,
    /// Loading, or in `init` or `start`.
    Initializing,
    /// It takes calls.
    Running,
    /// In `stop`.
    Stopping,
    /// Stopped; it can be started again.
    Stopped,
    /// It failed; the snapshot says why. It can be started again.
    Error,
}

impl std::fmt::Display for SkillStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::Initializing => "initializing",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Error => "error",
        })
    }
}

/// What is known of a skill, without asking it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SkillSnapshot {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Where it is in its life.
    pub status: SkillStatus,
    /// Why it failed, or what its last ping complained of.
    pub error: Option<String>,
    /// Its tools, by the names that a model sees.
    pub tools: Vec<String>,
    /// How it is set up, as its manifest says.
    pub setup: Option<Box<RawValue>>,
    /// What it has published: a JSON object. Never a secret.
    pub state: Box<RawValue>,
}

struct Life {
    package: Arc<Package>,
    status: SkillStatus,
    error: Option<String>,
    worker: Option<Arc<Worker>>,
    lists: Arc<Lists>,
    breaks: Vec<Instant>,
}

/// A skill that is known.
pub(crate) struct Skill {
    pub(crate) id: String,
    pub(crate) credentials: Arc<Credentials>,
    life: Mutex<Life>,
    published: Mutex<Option<Arc<str>>>,
    /// One start or stop at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Skill {
    pub(crate) fn new(package: Package, credentials: Arc<Credentials>) -> Self {
        Self {
            id: package.manifest.id.clone(),
            credentials,
            life: Mutex::new(Life {
                package: Arc::new(package),
                status: SkillStatus::Pending,
                error: None,
                worker: None,
                lists: Arc::default(),
                breaks: Vec::new(),
            }),
            published: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn package(&self) -> Arc<Package> {
        Arc::clone(&self.life().package)
    }

    pub(crate) fn set_published(&self, state: Arc<str>) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    pub(crate) fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.life().lists)
    }

    pub(crate) fn status(&self) -> SkillStatus {
        self.life().status
    }

    pub(crate) fn snapshot(&self) -> SkillSnapshot {
        let state = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        let state = state.as_deref().and_then(raw).or_else(|| raw("{}"));
        let life = self.life();
        let manifest = &life.package.manifest;
        SkillSnapshot {
            id: self.id.clone(),
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            description: manifest.description.clone(),
            status: life.status,
            error: life.error.clone(),
            tools: life
                .lists
                .tools
                .iter()
                .map(|tool| tool.spec.name.to_string())
                .collect(),
            setup: manifest.setup.clone(),
            state: state.expect("an empty object is JSON"),
        }
    }

    /// The thread of a running skill.
    ///
    /// # Errors
    /// The skill's status, if it isn't running.
    pub(crate) fn running(&self) -> std::result::Result<Arc<Worker>, Failure> {
        let life = self.life();
        match (&life.worker, life.status) {
            (Some(worker), SkillStatus::Running) => Ok(Arc::clone(worker)),
            (_, status) => {
                let why = match &life.error {
                    Some(error) => format!(": {error}"),
                    None => String::new(),
                };
                Err(Failure::new(
                    FailureKind::Stopped,
                    format!(
                        "the skill `{}` isn't running; its status is `{status}`{why}",
                        self.id
                    ),
                ))
            }
        }
    }

    /// Starts it, and returns once it runs.
    ///
    /// # Errors
    /// What went wrong on the way; the status is `error` then.
    pub(crate) async fn start(self: Arc<Self>, host: Arc<Inner>) -> Result<SkillSnapshot> {
        let _turn = self.turn.lock().await;
        if self.status() == SkillStatus::Running {
            return Ok(self.snapshot());
        }
        let package = self.package();
        if !package.manifest.fits_platform() {
            let words = format!(
                "it runs on {} alone, this is {}",
                package.manifest.platforms.join(", "),
                std::env::consts::OS
            );
            return Err(self.failed(ErrorKind::Unsupported, words));
        }
        self.set_status(SkillStatus::Initializing, None);
        let made = host.setup(&self).and_then(|setup| {
            let io = setup.io.clone();
            Ok((Worker::start(setup)?, io))
        });
        let (worker, io) = match made {
            Ok(made) => made,
            Err(error) => return Err(self.failed(error.kind(), error.to_string())),
        };
        let found = match self.bring_up(&host, &worker).await {
            Ok(found) => found,
            Err(failure) => {
                worker.say(Message::Stop);
                let kind = failure.kind;
                let error = self.failed(ErrorKind::InvalidInput, failure.to_string());
                return Err(match kind {
                    FailureKind::Deadline => Error::new(ErrorKind::Timeout, error.to_string()),
                    _ => error,
                });
            }
        };
        {
            let mut life = self.life();
            life.worker = Some(Arc::clone(&worker));
            life.status = SkillStatus::Running;
            life.error = None;
        }
        host.log(&self.id, Level::Debug, "running");
        let (skill, lost) = (Arc::clone(&self), worker.lost.clone());
        let (inner, of) = (Arc::downgrade(&host), Arc::downgrade(&worker));
        io.spawn(async move {
            lost.cancelled().await;
            if let (Some(host), Some(worker)) = (inner.upgrade(), of.upgrade())
                && let Some(why) = worker.why_lost()
            {
                skill.broke(&host, &worker, &why);
            }
        });
        if !found.has("onPing") {
            return Ok(self.snapshot());
        }
        // For information only: nothing waits for it.
        let (skill, inner) = (Arc::clone(&self), Arc::downgrade(&host));
        io.spawn(async move {
            if let Some(host) = inner.upgrade() {
                let ping = hook("onPing", "[]".to_owned());
                let limit = host.settings().limits.hook();
                if let Err(failure) = ask(&host, &worker, ping, limit).await {
                    host.log(
                        &skill.id,
                        Level::Warn,
                        &format!("`onPing` failed: {failure}"),
                    );
                }
            }
        });
        Ok(self.snapshot())
    }

    async fn bring_up(
        &self,
        host: &Arc<Inner>,
        worker: &Arc<Worker>,
    ) -> std::result::Result<Found, Failure> {
        let limits = host.settings().limits.clone();
        let answer = ask(host, worker, Entry::Load, limits.load()).await?;
        let json = match answer {
            Answer::Json(Some(json)) => json,
            _ => "{}".to_owned(),
        };
        let found = Found::read(&json).map_err(Failure::error)?;
        let mut is_read = found.has_lists();
        for name in ["init", "start"] {
            if found.has(name) {
                ask(host, worker, hook(name, "[]".to_owned()), limits.hook()).await?;
                is_read = false;
            }
        }
        match is_read {
            // No code ran since.
            true => {
                worker.touched.store(false, Ordering::Relaxed);
                self.take_lists(host, &json);
            }
            false => self.read_lists(host, worker).await?,
        }
        Ok(found)
    }

    async fn read_lists(
        &self,
        host: &Arc<Inner>,
        worker: &Arc<Worker>,
    ) -> std::result::Result<(), Failure> {
        worker.touched.store(false, Ordering::Relaxed);
        let limit = host.settings().limits.callback();
        let answer = ask(host, worker, Entry::Lists, limit).await?;
        if let Answer::Json(Some(json)) = answer {
            self.take_lists(host, &json);
        }
        Ok(())
    }

    fn take_lists(&self, host: &Inner, json: &str) {
        let lists = Lists::read(&self.id, json, &host.settings().deny_tools);
        for problem in &lists.problems {
            let problem = Error::from(problem.clone());
            host.log(&self.id, Level::Warn, &problem.to_string());
        }
        self.life().lists = Arc::new(lists);
    }

    /// Reads the lists again if code ran since.
    pub(crate) async fn refresh(&self, host: &Arc<Inner>) {
        let Ok(worker) = self.running() else { return };
        if !worker.touched.load(Ordering::Relaxed) {
            return;
        }
        if let Err(failure) = self.read_lists(host, &worker).await {
            let words = format!("its tools can't be read: {failure}");
            host.log(&self.id, Level::Warn, &words);
        }
    }

    /// Stops it, within a bound.
    pub(crate) async fn stop(self: Arc<Self>, host: Arc<Inner>) -> SkillSnapshot {
        let _turn = self.turn.lock().await;
        let worker = {
            let mut life = self.life();
            let worker = life.worker.take();
            if worker.is_some() {
                life.status = SkillStatus::Stopping;
            }
            worker
        };
        if let Some(worker) = worker {
            worker.say(Message::Stop);
            let limits = &host.settings().limits;
            let ended = worker.lost.cancelled();
            if tokio::time::timeout(limits.stop() + limits.wedge(), ended)
                .await
                .is_err()
            {
                worker.give_up("it didn't end when it was stopped");
            }
        }
        self.set_status(SkillStatus::Stopped, None);
        self.snapshot()
    }

    /// What is on disk takes the place of what was known.
    pub(crate) fn replace(&self, package: Package) {
        self.life().package = Arc::new(package);
    }

    fn set_status(&self, status: SkillStatus, error: Option<String>) {
        let mut life = self.life();
        life.status = status;
        life.error = error;
        if status != SkillStatus::Running {
            life.worker = None;
        }
        if matches!(status, SkillStatus::Stopped | SkillStatus::Error) {
            life.lists = Arc::default();
        }
    }

    fn failed(&self, kind: ErrorKind, words: String) -> Error {
        self.set_status(SkillStatus::Error, Some(words.clone()));
        Error::new(kind, words)
            .operation("start a skill")
            .context("skill", &self.id)
    }

    /// What the skill's last ping complained of.
    pub(crate) fn complain(&self, error: Option<String>) {
        let mut life = self.life();
        if life.status == SkillStatus::Running {
            life.error = error;
        }
    }

    /// Its ping said that it isn't let in any more, and it was stopped for it.
    pub(crate) fn fail_auth(&self, words: &str) {
        self.set_status(
            SkillStatus::Error,
            Some(format!("authentication failed: {words}")),
        );
    }

    /// Its runtime was given up: a fresh one takes its place.
    fn broke(self: &Arc<Self>, host: &Arc<Inner>, worker: &Arc<Worker>, why: &str) {
        let again = {
            let mut life = self.life();
            if !life
                .worker
                .as_ref()
                .is_some_and(|of| Arc::ptr_eq(of, worker))
            {
                return;
            }
            life.worker = None;
            life.status = SkillStatus::Error;
            life.error = Some(format!("its runtime was given up: {why}"));
            let now = Instant::now();
            life.breaks.retain(|at| now - *at < A_WHILE);
            life.breaks.push(now);
            life.breaks.len() <= BREAKS
        };
        let words = match again {
            true => format!("the runtime is given up and started anew: {why}"),
            false => format!(
                "the runtime broke {BREAKS} times in a minute; the skill is left alone: {why}"
            ),
        };
        host.log(&self.id, Level::Error, &words);
        if let (true, Ok(io)) = (again, host.io()) {
            let (skill, host) = (Arc::clone(self), Arc::clone(host));
            io.spawn(async move {
                if let Err(error) = Arc::clone(&skill).start(Arc::clone(&host)).await {
                    host.log(&skill.id, Level::Error, &error.to_string());
                }
            });
        }
    }

    /// Waits until a start or stop that is under way has ended.
    pub(crate) async fn settled(&self) {
        drop(self.turn.lock().await);
    }
}

pub(crate) fn hook(name: &'static str, arguments: String) -> Entry {
    Entry::Hook { name, arguments }
}

/// Calls that were made of a thread. Dropping it ends those that still run.
pub(crate) struct Asked {
    pub(crate) worker: Arc<Worker>,
    pub(crate) numbers: Vec<u64>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            let numbers = std::mem::take(&mut self.numbers);
            self.worker.say(Message::Cancel(numbers));
        }
    }
}

/// What those are told who wait for a thread that is lost.
pub(crate) fn lost(id: &str, worker: &Worker) -> Failure {
    match worker.why_lost() {
        Some(words) => Failure::new(FailureKind::Wedged, crate::actor::restarted(&words)),
        None => Failure::stopped(id),
    }
}

/// One call into a skill.
///
/// # Errors
/// What its code threw; that it took too long; that the skill was stopped or
/// its runtime given up.
pub(crate) async fn ask(
    host: &Inner,
    worker: &Arc<Worker>,
    entry: Entry,
    limit: Duration,
) -> std::result::Result<Answer, Failure> {
    let number = host.next_number();
    let (done, outcome) = oneshot::channel();
    let deadline = Instant::now() + limit;
    let mut asked = Asked {
        worker: Arc::clone(worker),
        numbers: vec![number],
    };
    worker.say(Message::Requests(vec![Request {
        number,
        entry,
        deadline,
        reply: Box::new(move |outcome| {
            // Nobody waits any more.
            done.send(outcome).ok();
        }),
    }]));
    tokio::select! {
        biased;
        outcome = outcome => {
            asked.numbers.clear();
            match outcome {
                Ok(outcome) => outcome,
                Err(_) => {
                    worker.lost.cancelled().await;
                    Err(lost("", worker))
                }
            }
        }
        () = worker.lost.cancelled() => {
            asked.numbers.clear();
            Err(lost("", worker))
        }
        () = tokio::time::sleep_until((deadline + ON_ITS_WAY).into()) => {
            Err(Failure::deadline("the call"))
        }
    }
}
