//! What all threads of a runtime share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft_api::{
    Binding, Destination, DestinationId, Error, ErrorKind, EventSink, ExtensionId, InferenceEngine,
    ModelInfo, PolicyContributor, Registry, Result, SessionState, ThreadId, ThreadStore,
};

use super::engines;
use crate::dispatch::{Bounds, Limits, ToolSet, private_folder};
use crate::guard;
use crate::options::RuntimeOptions;
use crate::thread::{Inner, Thread, lock};
use crate::workspace::{Place, SessionLocks, Workspace};

pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) options: RuntimeOptions,
    pub(crate) store: Arc<dyn ThreadStore>,
    pub(crate) problems: Vec<Error>,
    engines: BTreeMap<ExtensionId, Arc<dyn InferenceEngine>>,
    tools: ToolSet,
    policies: Arc<[Arc<dyn PolicyContributor>]>,
    sinks: Arc<[Arc<dyn EventSink>]>,
    locks: Arc<SessionLocks>,
    threads: Mutex<HashMap<ThreadId, Weak<Inner>>>,
    models: Mutex<HashMap<ModelKey, Option<ModelInfo>>>,
}

/// A model as it is asked for: its engine, and its name unless it is the
/// default one.
type ModelKey = (ExtensionId, Option<String>);

/// How long an engine may think about what it knows of a model, while a turn
/// waits.
const MODEL_TIME: Duration = Duration::from_secs(5);

impl Shared {
    pub(super) fn new(
        registry: Registry,
        options: RuntimeOptions,
        store: Arc<dyn ThreadStore>,
        tools: ToolSet,
        problems: Vec<Error>,
        shared: &Weak<Self>,
    ) -> Self {
        let engines = engines::layered(&registry, &options, shared);
        let policies = registry
            .policies()
            .iter()
            .map(|policy| Arc::clone(&policy.part))
            .collect();
        let sinks = registry
            .event_sinks()
            .iter()
            .map(|sink| Arc::clone(&sink.part))
            .collect();
        Self {
            registry,
            options,
            store,
            problems,
            engines,
            tools,
            policies,
            sinks,
            locks: Arc::default(),
            threads: Mutex::default(),
            models: Mutex::default(),
        }
    }

    /// What is known of a model; asked once.
    pub(crate) async fn model(
        &self,
        engine: &Arc<dyn InferenceEngine>,
        name: Option<&str>,
    ) -> Option<ModelInfo> {
        let key = (engine.id().clone(), name.map(str::to_owned));
        if let Some(known) = lock(&self.models).get(&key) {
            return known.clone();
        }
        let asked = guard::future(engine.id().as_str(), engine.model(name));
        let known = tokio::time::timeout(MODEL_TIME, asked).await;
        let known = known.ok().and_then(Result::ok);
        lock(&self.models).insert(key, known.clone());
        known
    }

    /// The engine of that id; without one the default, or the only one.
    pub(crate) fn engine(&self, id: Option<&ExtensionId>) -> Result<Arc<dyn InferenceEngine>> {
        let names = || {
            let names: Vec<_> = self.engines.keys().map(ExtensionId::as_str).collect();
            names.join(", ")
        };
        let chosen = match id.or(self.options.default_engine.as_ref()) {
            Some(id) => self.engines.get(id).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "there is no such engine").context("engine", id)
            }),
            None if self.engines.len() == 1 => self.engines.values().next().ok_or_else(no_engine),
            None => Err(no_engine()),
        };
        chosen
            .map(Arc::clone)
            .map_err(|error| error.context("engines", names()))
    }

    pub(crate) fn sinks(&self) -> Arc<[Arc<dyn EventSink>]> {
        Arc::clone(&self.sinks)
    }

    pub(crate) fn policies(&self) -> Arc<[Arc<dyn PolicyContributor>]> {
        Arc::clone(&self.policies)
    }

    /// The tools of a turn that begins now, and what kept others out.
    pub(crate) async fn turn_tools(&self) -> (ToolSet, Vec<Error>) {
        self.tools.with_sources(&self.registry).await
    }

    pub(crate) fn limits(&self, thread: &ThreadId) -> Limits {
        let options = &self.options;
        Limits {
            tool_timeout: options.tool_timeout,
            cancel_grace: options.cancel_grace,
            parallel_calls: options.parallel_calls,
            output: Bounds {
                shown: options.tool_output_bytes,
                spilled: options.spill_bytes,
                spill: options
                    .spill_dir
                    .as_ref()
                    .map(|dir| dir.join(thread.as_str())),
            },
        }
    }

    pub(crate) fn workspace(&self, place: Place, stored: Option<SessionState>) -> Workspace {
        Workspace::new(
            place,
            stored,
            Arc::clone(&self.locks),
            self.options.lease_wait,
        )
    }

    /// The local directory as the workspace of an unbound thread.
    pub(crate) fn local_place(&self, thread: &ThreadId, workspace: Option<String>) -> Place {
        let Some(local) = &self.options.local_runner else {
            return Place::Nowhere(
                "local workspace execution is disabled; bind the thread to a runner".to_owned(),
            );
        };
        let Some(workspace) = workspace else {
            return Place::Nowhere("the thread has no workspace folder".to_owned());
        };
        let Some(provider) = self.registry.runner(local.as_str()) else {
            return Place::Nowhere(format!("the runner `{local}` is not installed"));
        };
        let Ok(destination) = destination(&format!("local-{thread}"), local) else {
            return Place::Nowhere("the thread's id makes no destination".to_owned());
        };
        // What was spilled may be read back. A folder that can't be made costs
        // that; the spill itself will say so.
        let spill = self
            .options
            .spill_dir
            .as_ref()
            .map(|dir| dir.join(thread.as_str()));
        let spill = spill.filter(|dir| private_folder(dir).is_ok());
        let read_roots = spill
            .iter()
            .map(|dir| dir.to_string_lossy().into_owned())
            .collect();
        let binding = Binding {
            destination,
            workspace,
            read_roots,
        };
        Place::Local {
            provider: Arc::clone(provider),
            binding,
        }
    }

    /// The binding of a new thread that names none.
    pub(super) fn default_binding(&self, thread: &ThreadId) -> Result<Option<Binding>> {
        let Some(id) = &self.options.default_runner else {
            return Ok(None);
        };
        let provider = self
            .registry
            .runner(id.as_str())
            .ok_or_else(|| not_installed(id))?;
        let Some(workspace) = provider.default_workspace() else {
            return Ok(None);
        };
        let destination = destination(&format!("thread-{thread}"), id)?;
        Ok(Some(Binding {
            destination,
            workspace,
            read_roots: Vec::new(),
        }))
    }

    pub(super) fn check_binding(&self, binding: &Binding) -> Result<()> {
        binding.validate()?;
        let id = &binding.destination.provider_id;
        let provider = self
            .registry
            .runner(id.as_str())
            .ok_or_else(|| not_installed(id))?;
        guard::call(id.as_str(), || provider.validate(&binding.destination))?
    }

    /// The thread if it is open.
    pub(super) fn open(&self, id: &ThreadId) -> Option<Thread> {
        lock(&self.threads)
            .get(id)
            .and_then(Weak::upgrade)
            .map(|inner| Thread { inner })
    }

    /// Remembers an open thread; if another one got there first, that is it.
    pub(super) fn remember(&self, thread: &Thread) -> Thread {
        let mut threads = lock(&self.threads);
        if let Some(inner) = threads.get(thread.id()).and_then(Weak::upgrade) {
            return Thread { inner };
        }
        // Forget the closed ones now and then, not at every opening.
        if threads.len().is_power_of_two() {
            threads.retain(|_, open| open.strong_count() > 0);
        }
        threads.insert(thread.id().clone(), Arc::downgrade(&thread.inner));
        thread.clone()
    }
}

fn no_engine() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "no engine was named, and there is no default one",
    )
}

fn not_installed(id: &ExtensionId) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("the runner `{id}` is not installed"),
    )
    .context("runner", id)
}

fn destination(id: &str, provider: &ExtensionId) -> Result<Destination> {
    Ok(Destination {
        id: DestinationId::new(id)?,
        provider_id: provider.clone(),
        config: haft_api::raw_json("{}")?,
        manifest: None,
    })
}
