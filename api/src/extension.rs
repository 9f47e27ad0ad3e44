//! Extensions: how parts plug in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::engine::InferenceEngine;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventSink;
use crate::id::ExtensionId;
use crate::policy::PolicyContributor;
use crate::runner::RemoteRunnerProvider;
use crate::source::ToolSource;
use crate::store::ThreadStoreFactory;
use crate::tool::ToolContributor;

/// The version of this crate, which an extension was built against.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What an extension says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Its id, unique among the extensions of a runtime.
    pub id: ExtensionId,
    /// Its own version.
    pub version: String,
    /// The version of this crate that it was built against.
    pub api_version: String,
    /// One line for people.
    pub description: String,
}

impl Manifest {
    /// A manifest of an extension that is built against this very crate.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the id isn't one.
    pub fn new(
        id: &str,
        version: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<Self> {
        Ok(Self {
            id: ExtensionId::new(id)?,
            version: version.into(),
            api_version: API_VERSION.to_owned(),
            description: description.into(),
        })
    }
}

/// A bundle of parts that plugs into a runtime.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// struct Quiet;
///
/// impl EventSink for Quiet {
///     fn publish(&self, _: &Event) {}
/// }
///
/// #[derive(Default)]
/// struct MyExtension;
///
/// impl Extension for MyExtension {
///     fn manifest(&self) -> Result<Manifest> {
///         Manifest::new("my-extension", "1.0.0", "Listens and says nothing")
///     }
///
///     fn register(&self, _: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
///         to.event_sink(Arc::new(Quiet));
///         Ok(())
///     }
/// }
///
/// // Makes it known to every binary that links this crate.
/// export_extension!(MyExtension);
///
/// let mut builder = ExtensionRegistryBuilder::new();
/// builder.extension(&MyExtension, &ExtensionConfig::empty())?;
/// assert_eq!(builder.build()?.manifests()[0].id, "my-extension");
/// assert!(linked_extensions().iter().any(|linked| linked.name == "MyExtension"));
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't an extension",
    note = "implement `haft_api::Extension` and name the type in `haft_api::export_extension!`"
)]
pub trait Extension: Send + Sync + 'static {
    /// What it says of itself. The same at every call.
    ///
    /// # Errors
    /// If the id isn't a valid one.
    fn manifest(&self) -> Result<Manifest>;

    /// Adds its parts. Reads the configuration, does no I/O, starts nothing:
    /// whatever takes time happens when a part is first used.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a configuration that isn't right, naming
    /// the key. Nothing of a failing extension stays registered.
    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()>;
}

/// An extension's settings: a JSON object.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExtensionConfig(Box<RawValue>);

impl ExtensionConfig {
    /// No settings.
    pub fn empty() -> Self {
        let empty = RawValue::from_string("{}".to_owned());
        Self(empty.expect("an empty object is valid JSON"))
    }

    /// Settings from JSON text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the text is no JSON object.
    pub fn from_json(text: impl Into<String>) -> Result<Self> {
        let raw = crate::item::raw_json(text)?;
        if raw.get().trim_start().starts_with('{') {
            Ok(Self(raw))
        } else {
            Err(Error::new(
                ErrorKind::InvalidInput,
                "an extension's settings must be an object",
            ))
        }
    }

    /// Settings from anything that serialises as an object.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_value(value: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_string(value).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the settings aren't JSON: {e}"),
            )
            .source(e)
        })?;
        Self::from_json(text)
    }

    /// The settings' JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    /// Reads the settings into a type. Use `#[serde(deny_unknown_fields)]` on
    /// it, so that a misspelt key is an error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the key.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.0.get()).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the settings don't fit: {e}"),
            )
        })
    }
}

/// An extension that is linked into this binary.
#[derive(Debug)]
pub struct LinkedExtension {
    /// The type's name.
    pub name: &'static str,
    /// The crate it stands in.
    pub package: &'static str,
    /// That crate's version.
    pub version: &'static str,
    /// Makes it.
    pub make: fn() -> Box<dyn Extension>,
}

#[doc(hidden)]
pub mod export {
    pub use inventory;

    inventory::collect!(super::LinkedExtension);
}

/// Makes an extension known to every binary that links this crate. The type
/// must be [`Default`].
#[macro_export]
macro_rules! export_extension {
    ($extension:ty) => {
        $crate::export::inventory::submit! {
            $crate::LinkedExtension {
                name: stringify!($extension),
                package: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
                make: || Box::new(<$extension as ::core::default::Default>::default()),
            }
        }
    };
}

/// The extensions that are linked into this binary, by package and name.
///
/// A crate that no code names isn't linked, whatever Cargo's manifest says:
/// write `use the_crate as _;` in the binary.
pub fn linked_extensions() -> Vec<&'static LinkedExtension> {
    let mut all: Vec<_> = inventory::iter::<LinkedExtension>.into_iter().collect();
    all.sort_by_key(|linked| (linked.package, linked.name));
    all
}

/// Something registered, and by whom; `None` is the host itself.
pub struct Registered<T: ?Sized> {
    /// The part.
    pub part: Arc<T>,
    /// The extension that brought it.
    pub owner: Option<ExtensionId>,
}

impl<T: ?Sized> Clone for Registered<T> {
    fn clone(&self) -> Self {
        Self {
            part: Arc::clone(&self.part),
            owner: self.owner.clone(),
        }
    }
}

impl<T: ?Sized> Registered<T> {
    fn owner_name(&self) -> String {
        self.owner
            .as_ref()
            .map_or("the host".to_owned(), ToString::to_string)
    }
}

impl<T: ?Sized> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part of {}", self.owner_name())
    }
}

#[derive(Default, Clone)]
struct Parts {
    engines: Vec<Registered<dyn InferenceEngine>>,
    tools: Vec<Registered<dyn ToolContributor>>,
    sources: Vec<Registered<dyn ToolSource>>,
    runners: Vec<Registered<dyn RemoteRunnerProvider>>,
    stores: Vec<Registered<dyn ThreadStoreFactory>>,
    policies: Vec<Registered<dyn PolicyContributor>>,
    sinks: Vec<Registered<dyn EventSink>>,
}

/// Collects what a runtime is made of.
#[derive(Default)]
pub struct ExtensionRegistryBuilder {
    parts: Parts,
    manifests: BTreeMap<ExtensionId, Manifest>,
    current: Option<ExtensionId>,
}

impl ExtensionRegistryBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers an extension: all of it or, if it fails or panics, nothing.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] for a second one of the same id,
    /// [`ErrorKind::Unsupported`] for one built against an incompatible version
    /// of this crate, and what the extension's own `register` says; each names
    /// the extension.
    pub fn extension(&mut self, extension: &dyn Extension, config: &ExtensionConfig) -> Result<()> {
        let manifest = guard(|| extension.manifest())
            .map_err(|e| e.operation("register an extension's manifest"))?;
        let id = manifest.id.clone();
        if self.manifests.contains_key(&id) {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "two extensions of one id")
                    .operation("register")
                    .context("extension", &id),
            );
        }
        if !compatible(&manifest.api_version, API_VERSION) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "built against an incompatible version of haft-api; rebuild it",
            )
            .operation("register")
            .context("extension", &id)
            .context("wanted", API_VERSION)
            .context("offered", &manifest.api_version));
        }
        let before = self.parts.clone();
        self.current = Some(id.clone());
        let outcome = guard(|| extension.register(config, self)).and_then(|()| self.parts.check());
        self.current = None;
        match outcome {
            Ok(()) => {
                self.manifests.insert(id, manifest);
                Ok(())
            }
            Err(error) => {
                self.parts = before;
                Err(error.operation("register").context("extension", id))
            }
        }
    }

    fn own<T: ?Sized>(&self, part: Arc<T>) -> Registered<T> {
        Registered {
            part,
            owner: self.current.clone(),
        }
    }

    /// Adds an engine.
    pub fn engine(&mut self, engine: Arc<dyn InferenceEngine>) -> &mut Self {
        self.parts.engines.push(self.own(engine));
        self
    }

    /// Adds a set of tools.
    pub fn tools(&mut self, tools: Arc<dyn ToolContributor>) -> &mut Self {
        self.parts.tools.push(self.own(tools));
        self
    }

    /// Adds a tool source.
    pub fn tool_source(&mut self, source: Arc<dyn ToolSource>) -> &mut Self {
        self.parts.sources.push(self.own(source));
        self
    }

    /// Adds a runner provider.
    pub fn runner(&mut self, runner: Arc<dyn RemoteRunnerProvider>) -> &mut Self {
        self.parts.runners.push(self.own(runner));
        self
    }

    /// Adds a kind of store.
    pub fn store(&mut self, store: Arc<dyn ThreadStoreFactory>) -> &mut Self {
        self.parts.stores.push(self.own(store));
        self
    }

    /// Adds a say in policy.
    pub fn policy(&mut self, policy: Arc<dyn PolicyContributor>) -> &mut Self {
        self.parts.policies.push(self.own(policy));
        self
    }

    /// Adds an event sink.
    pub fn event_sink(&mut self, sink: Arc<dyn EventSink>) -> &mut Self {
        self.parts.sinks.push(self.own(sink));
        self
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] for two parts of one kind with the same id,
    /// naming both owners.
    pub fn build(mut self) -> Result<Registry> {
        self.parts.check()?;
        self.parts.sort();
        Ok(Registry {
            parts: self.parts,
            manifests: self.manifests.into_values().collect(),
        })
    }
}

impl fmt::Debug for ExtensionRegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionRegistryBuilder")
            .field("extensions", &self.manifests.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Semantic versioning's rule: same major, or same minor while the major is 0.
pub(crate) fn compatible(offered: &str, wanted: &str) -> bool {
    let parse = |text: &str| {
        let mut numbers = text
            .split(['.', '-', '+'])
            .map_while(|part| part.parse::<u64>().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    match (parse(offered), parse(wanted)) {
        (Some((0, a)), Some((0, b))) => a == b,
        (Some((a, _)), Some((b, _))) => a == b,
        _ => false,
    }
}

/// Runs an extension's code; a panic becomes an error.
fn guard<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(Error::new(ErrorKind::Unexpected, panic_message(&*panic))))
}

/// The text of a caught panic.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    match text {
        Some(text) => format!("panicked: {text}"),
        None => "panicked".to_owned(),
    }
}

fn by_id<T: ?Sized>(
    what: &str,
    parts: &[Registered<T>],
    id: impl Fn(&T) -> ExtensionId,
) -> Result<()> {
    let mut seen: BTreeMap<ExtensionId, &Registered<T>> = BTreeMap::new();
    for part in parts {
        let id = guard(|| Ok(id(&part.part)))?;
        if let Some(first) = seen.insert(id.clone(), part) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("two parts of one id ({what})"),
            )
            .operation("register")
            .context(what, id)
            .context("first", first.owner_name())
            .context("second", part.owner_name()));
        }
    }
    Ok(())
}

impl Parts {
    fn check(&self) -> Result<()> {
        by_id("engine", &self.engines, |part| part.id().clone())?;
        by_id("tool source", &self.sources, |part| part.id().clone())?;
        by_id("runner", &self.runners, |part| part.id().clone())?;
        by_id("store", &self.stores, |part| part.id().clone())?;
        by_id("policy", &self.policies, |part| part.id().clone())
    }

    fn sort(&mut self) {
        self.engines.sort_by_key(|part| part.part.id().clone());
        self.sources.sort_by_key(|part| part.part.id().clone());
        self.runners.sort_by_key(|part| part.part.id().clone());
        self.stores.sort_by_key(|part| part.part.id().clone());
        self.policies.sort_by_key(|part| part.part.id().clone());
        self.tools.sort_by_key(|part| part.owner.clone());
        self.sinks.sort_by_key(|part| part.owner.clone());
    }
}

/// What a runtime is made of: complete, checked, and in an order that doesn't
/// depend on the order of registration.
#[derive(Clone)]
pub struct Registry {
    parts: Parts,
    manifests: Vec<Manifest>,
}

impl Registry {
    /// The extensions, by id.
    pub fn manifests(&self) -> &[Manifest] {
        &self.manifests
    }

    /// The engines, by id.
    pub fn engines(&self) -> &[Registered<dyn InferenceEngine>] {
        &self.parts.engines
    }

    /// The engine of that id.
    pub fn engine(&self, id: &str) -> Option<&Arc<dyn InferenceEngine>> {
        self.parts
            .engines
            .iter()
            .map(|e| &e.part)
            .find(|engine| *engine.id() == *id)
    }

    /// The sets of tools, by extension.
    pub fn tools(&self) -> &[Registered<dyn ToolContributor>] {
        &self.parts.tools
    }

    /// The tool sources, by id.
    pub fn tool_sources(&self) -> &[Registered<dyn ToolSource>] {
        &self.parts.sources
    }

    /// The runner providers, by id.
    pub fn runners(&self) -> &[Registered<dyn RemoteRunnerProvider>] {
        &self.parts.runners
    }

    /// The runner provider of that id.
    pub fn runner(&self, id: &str) -> Option<&Arc<dyn RemoteRunnerProvider>> {
        self.parts
            .runners
            .iter()
            .map(|r| &r.part)
            .find(|runner| *runner.id() == *id)
    }

    /// The kinds of store, by id.
    pub fn stores(&self) -> &[Registered<dyn ThreadStoreFactory>] {
        &self.parts.stores
    }

    /// The kind of store of that id.
    pub fn store(&self, id: &str) -> Option<&Arc<dyn ThreadStoreFactory>> {
        self.parts
            .stores
            .iter()
            .map(|s| &s.part)
            .find(|store| *store.id() == *id)
    }

    /// The says in policy, by id.
    pub fn policies(&self) -> &[Registered<dyn PolicyContributor>] {
        &self.parts.policies
    }

    /// The event sinks, by extension.
    pub fn event_sinks(&self) -> &[Registered<dyn EventSink>] {
        &self.parts.sinks
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("manifests", &self.manifests)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
