//! A plug-in's parts, as objects for its host.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde_json::value::{RawValue, to_raw_value};

use super::link::{Link, Transport};
use super::server::{Enter, Giver, LogLevel, Origin, Reply, Request, Served, Server};
use super::task::caught;
use super::wire::{
    ContributedEngine, ContributedPart, ContributedRunner, ContributedSink, ContributedTool,
    ContributedTools, Described, DescribedExtension, RegisterArgs, Registered,
};
use crate::error::{Error, ErrorKind, Result};
use crate::extension::{Extension, ExtensionRegistryBuilder, Registry};
use crate::id::ExtensionId;
use crate::tool::ToolRegistry;

mod engine;
mod event;
mod history;
mod runner;
mod source;
mod store;

/// The object 0 of a plug-in.
struct Root {
    extensions: Vec<(ExtensionId, DescribedExtension, Box<dyn Extension>)>,
    server: OnceLock<Weak<Server>>,
}

/// What a plug-in lets go of when it is closed.
struct Ends {
    host: Arc<Link>,
    on_close: Box<dyn FnOnce() + Send>,
}

/// A server whose object 0 describes and registers these extensions, and which
/// calls its host back over `host`. Their code runs within `enter`. `on_close`
/// is called once, when the host closes the server.
///
/// # Errors
/// If an extension can't say what it is.
pub fn serve_extensions(
    extensions: Vec<Box<dyn Extension>>,
    host: Box<dyn Transport>,
    enter: Option<Arc<dyn Enter>>,
    on_close: Box<dyn FnOnce() + Send>,
) -> Result<Arc<Server>> {
    let mut described = Vec::with_capacity(extensions.len());
    for extension in extensions {
        let manifest = caught(|| extension.manifest()).unwrap_or_else(panicked)?;
        let id = manifest.id.clone();
        described.push((id, DescribedExtension { manifest }, extension));
    }
    let root = Arc::new(Root {
        extensions: described,
        server: OnceLock::new(),
    });
    let ends: Arc<Mutex<Option<Ends>>> = Arc::default();
    let end = {
        let ends = Arc::clone(&ends);
        Box::new(move || {
            let ends = ends.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Ends { host, on_close }) = ends {
                host.close();
                on_close();
            }
        })
    };
    // What a host writes into a plug-in's log is nobody's to read.
    let log = Box::new(|_: LogLevel, _: &str| {});
    let origin = Origin { owner: None, enter };
    let server = Server::new(Arc::clone(&root) as Arc<dyn Served>, origin, log, end);
    root.server.get_or_init(|| Arc::downgrade(&server));
    let host = Link::new("the host".to_owned(), host, Arc::clone(&server));
    // The link lives until the host closes the server.
    let ends_now = Some(Ends { host, on_close });
    *ends.lock().unwrap_or_else(PoisonError::into_inner) = ends_now;
    Ok(server)
}

impl Served for Root {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        match request.method {
            "describe" => {
                let described = self.extensions.iter().map(|(_, d, _)| d.clone());
                Reply::value(&Described {
                    extensions: described.collect(),
                })
            }
            "register" => {
                let arguments: RegisterArgs = request.read()?;
                let contributions = self.register(&arguments, &request.giver())?;
                Reply::value(&Registered { contributions })
            }
            "stats" => {
                let server = self.server.get().and_then(Weak::upgrade);
                Reply::value(&server.map(|server| server.stats()).unwrap_or_default())
            }
            _ => Ok(Reply::Unimplemented),
        }
    }
}

impl Root {
    fn register(&self, arguments: &RegisterArgs, giver: &Giver) -> Result<Vec<Box<RawValue>>> {
        let id = &arguments.extension;
        let (_, _, extension) = self
            .extensions
            .iter()
            .find(|(known, ..)| known == id)
            .ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "no such extension in this plug-in")
                    .context("extension", id)
            })?;
        let mut builder = ExtensionRegistryBuilder::new();
        caught(|| extension.register(&arguments.config, &mut builder)).unwrap_or_else(panicked)?;
        let giver = giver.owned_by(id.clone());
        // Contributors are asked for their tools in here.
        caught(|| contributions(&builder.build()?, &giver)).unwrap_or_else(panicked)
    }
}

fn panicked<T>(text: String) -> Result<T> {
    Err(Error::new(ErrorKind::Unexpected, text))
}

/// Hands out all parts of a registry. If that fails halfway, what was handed
/// out before stays until the plug-in is closed: nobody knows its number.
fn contributions(registry: &Registry, giver: &Giver) -> Result<Vec<Box<RawValue>>> {
    #[derive(serde::Serialize)]
    struct Contribution<T> {
        kind: &'static str,
        #[serde(flatten)]
        data: T,
    }
    fn entry(kind: &'static str, data: impl serde::Serialize) -> Result<Box<RawValue>> {
        to_raw_value(&Contribution { kind, data }).map_err(|e| {
            Error::new(ErrorKind::InvalidInput, format!("can't be described: {e}"))
                .context("contribution", kind)
        })
    }
    let mut all = Vec::new();
    for contributor in registry.tools() {
        let mut tools = ToolRegistry::new();
        tools.set_owner(contributor.owner.clone());
        contributor.part.contribute(&mut tools)?;
        let tools = tools.iter().map(|tool| ContributedTool {
            object: giver.give(Arc::new(source::ServedTool(Arc::clone(tool)))),
            spec: tool.spec().clone(),
        });
        let tools = tools.collect();
        all.push(entry("tools", ContributedTools { tools })?);
    }
    let part = |kind, id: &ExtensionId, object: Arc<dyn Served>| {
        let id = id.clone();
        let object = giver.give(object);
        entry(kind, ContributedPart { object, id })
    };
    for source in registry.tool_sources() {
        let served = Arc::new(source::ServedSource(Arc::clone(&source.part)));
        all.push(part("tool_source", source.part.id(), served)?);
    }
    for engine in registry.engines() {
        let served = engine::ServedEngine::new(Arc::clone(&engine.part));
        let data = ContributedEngine {
            object: giver.give(Arc::new(served)),
            id: engine.part.id().clone(),
            keeps_history: true,
        };
        all.push(entry("engine", data)?);
    }
    for runner in registry.runners() {
        let data = ContributedRunner {
            object: giver.give(Arc::new(runner::ServedProvider(Arc::clone(&runner.part)))),
            id: runner.part.id().clone(),
            capabilities: runner.part.capabilities(),
            default_workspace: runner.part.default_workspace(),
        };
        all.push(entry("runner", data)?);
    }
    for store in registry.stores() {
        let served = Arc::new(store::ServedFactory(Arc::clone(&store.part)));
        all.push(part("store", store.part.id(), served)?);
    }
    for policy in registry.policies() {
        let served = Arc::new(event::ServedPolicy(Arc::clone(&policy.part)));
        all.push(part("policy", policy.part.id(), served)?);
    }
    for sink in registry.event_sinks() {
        let object = giver.give(Arc::new(event::ServedEventSink(Arc::clone(&sink.part))));
        all.push(entry("event_sink", ContributedSink { object })?);
    }
    Ok(all)
}
