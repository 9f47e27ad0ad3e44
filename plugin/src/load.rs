//! Loading.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use haft_api::boundary::abi::HaftPluginHead;
use haft_api::boundary::wire::{Described, Hello, Nothing};
use haft_api::boundary::{
    EndpointRef, Link, Log, LogLevel, Origin, Reply, Request, Served, Server, ServerStats, connect,
    export, is_compatible, serve_extensions,
};
use haft_api::{API_VERSION, Extension};
use tokio::runtime::Handle;

use crate::check::{CheckOptions, PluginInfo, check};
use crate::extension::PluginExtension;
use crate::lend::Lender;
use crate::library;
use crate::refusal::{Refusal, RefusalKind};

/// Takes the lines of a plug-in's log.
pub type LogFn = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// How to load a plug-in.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// What more to check of the file.
    pub check: CheckOptions,
    /// Where the host's sessions and sinks run when a plug-in calls them, if they
    /// were lent outside of any runtime. Otherwise they run in the one that they
    /// were lent from, on whatever thread that is.
    pub runtime: Option<Handle>,
    /// Where the plug-in's log goes, panics among it. Without one: to standard
    /// error.
    pub log: Option<LogFn>,
}

impl LoadOptions {
    /// Only the file with this SHA-256 will do.
    #[must_use]
    pub fn sha256(mut self, digest: impl Into<String>) -> Self {
        self.check = self.check.sha256(digest);
        self
    }

    /// Sends the plug-in's log there.
    #[must_use]
    pub fn log(mut self, log: LogFn) -> Self {
        self.log = Some(log);
        self
    }

    /// Sets the runtime; see the field.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// The host's object 0: there is nothing to be asked of it yet.
struct Host;

impl Served for Host {
    fn call(self: Arc<Self>, _: Request<'_>) -> haft_api::Result<Reply> {
        Ok(Reply::Unimplemented)
    }
}

/// A plug-in that was loaded. It is closed when this and all that came of it
/// are dropped; its code stays in the process for ever.
pub struct Plugin {
    info: PluginInfo,
    extensions: Vec<PluginExtension>,
    link: Arc<Link>,
}

/// How much is held on both sides of a boundary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PluginStats {
    /// The host's objects that are lent to the plug-in, and the calls of them.
    pub host: ServerStats,
    /// The plug-in's objects and the calls of them. Zero once it is closed.
    pub plugin: ServerStats,
}

/// Loads a shared object. `path` must come from the user's own configuration or
/// command line, never from a file of the workspace.
///
/// The same file may be loaded several times; each is an instance of its own.
///
/// # Errors
/// The first thing that is wrong, in the order of [`RefusalKind`].
pub fn load(path: &Path, options: &LoadOptions) -> Result<Plugin, Refusal> {
    let checked = check(path, &options.check)?;
    checked.is_unchanged()?;
    let loaded = library::open(path, &checked.head)?;
    checked.is_unchanged()?;
    attach(checked.info, options, |host| {
        let hello = Hello {
            api_version: API_VERSION.to_owned(),
        };
        let hello = serde_json::to_vec(&hello).expect("a struct of one string is valid JSON");
        loaded.start(host, &hello)
    })
}

/// Serves extensions of this very process as if they were a plug-in: everything
/// goes over the C ABI, but nothing is loaded, and their code runs in the
/// host's own runtime. For tests: it shows what of an extension wouldn't
/// survive the boundary.
///
/// # Errors
/// If they don't say properly what they are.
pub fn in_process(
    extensions: Vec<Box<dyn Extension>>,
    options: &LoadOptions,
) -> Result<Plugin, Refusal> {
    let head = HaftPluginHead::of_this_crate("in this process");
    let info = PluginInfo::new(Path::new("in-process"), 0, &head);
    attach(info, options, |host| {
        let server = serve_extensions(extensions, connect(host)?, None, Box::new(|| {}))?;
        Ok(export(server))
    })
}

/// Starts a plug-in and asks what it brings.
fn attach(
    info: PluginInfo,
    options: &LoadOptions,
    start: impl FnOnce(EndpointRef) -> haft_api::Result<EndpointRef>,
) -> Result<Plugin, Refusal> {
    let path = &info.file;
    let name = path.display().to_string();
    let log = logger(name.clone(), options.log.clone());
    let server = Server::new(Arc::new(Host), Origin::default(), log, Box::new(|| {}));
    let endpoint = start(export(Arc::clone(&server)));
    let transport = endpoint.and_then(connect).map_err(|error| {
        let text = error.to_string();
        Refusal::new(RefusalKind::Init, path, "a plug-in that starts", text).source(error)
    })?;
    let link = Link::new(name, transport, server);
    let extensions = describe(path, &link, options)?;
    Ok(Plugin {
        info,
        extensions,
        link,
    })
}

fn describe(
    path: &Path,
    link: &Arc<Link>,
    options: &LoadOptions,
) -> Result<Vec<PluginExtension>, Refusal> {
    let refuse =
        |wanted: &str, offered: String| Refusal::new(RefusalKind::Describe, path, wanted, offered);
    let described: Described = link
        .root()
        .now("describe", &Nothing {})
        .map_err(|error| refuse("a list of extensions", error.to_string()).source(error))?;
    if described.extensions.is_empty() {
        return Err(refuse("at least one extension", "none".to_owned()));
    }
    let lender = Lender::new(options.runtime.clone());
    let mut extensions: Vec<PluginExtension> = Vec::new();
    for extension in described.extensions {
        let manifest = extension.manifest;
        if extensions.iter().any(|known| known.id() == &manifest.id) {
            let offered = format!("two of id {}", manifest.id);
            return Err(refuse("extensions of different ids", offered));
        }
        if !is_compatible(&manifest.api_version) {
            let wanted = format!("compatible with {API_VERSION}");
            let offered = format!("{} ({})", manifest.api_version, manifest.id);
            return Err(Refusal::new(RefusalKind::ApiVersion, path, wanted, offered));
        }
        let link = Arc::clone(link);
        extensions.push(PluginExtension::new(manifest, link, lender.clone()));
    }
    Ok(extensions)
}

fn logger(file: String, log: Option<LogFn>) -> Log {
    match log {
        Some(log) => Box::new(move |level, text| log(level, text)),
        None => Box::new(move |_, text| {
            use std::io::Write as _;
            // There is nobody left to be told if this fails.
            let _ = writeln!(std::io::stderr(), "haft: plug-in {file}: {text}");
        }),
    }
}

impl Plugin {
    /// What the file says of itself.
    pub fn info(&self) -> &PluginInfo {
        &self.info
    }

    /// Its extensions, to be registered like any other.
    pub fn extensions(&self) -> impl Iterator<Item = &PluginExtension> {
        self.extensions.iter()
    }

    /// Its extensions, to be kept.
    pub fn into_extensions(self) -> Vec<PluginExtension> {
        self.extensions
    }

    /// Ends all of its work. Calls under way and later ones fail as
    /// unavailable.
    pub fn close(&self) {
        self.link.close();
    }

    /// How much is held on both sides, to find what isn't let go of.
    pub fn stats(&self) -> PluginStats {
        let stats = self.link.root().now::<ServerStats>("stats", &Nothing {});
        let mut plugin = stats.unwrap_or_default();
        // The question itself was a call.
        plugin.tasks = plugin.tasks.saturating_sub(1);
        PluginStats {
            host: self.link.server().stats(),
            plugin,
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("info", &self.info)
            .field("extensions", &self.extensions)
            .finish_non_exhaustive()
    }
}
