//! Shared objects built for the tests, and what a host does with them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate that uses its part of it"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use haft_api::{
    CallId, Error, Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Registry,
    ThreadId, Tool, ToolCall, ToolContext, ToolOutput, ToolRegistry, TurnId, raw_json,
};
use haft_plugin::{LoadOptions, LogLevel, Plugin, in_process, load};

pub mod session;

/// A way to build the fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// As `cargo build` does.
    Debug,
    /// As `cargo build --release` does, without link-time optimisation.
    Release,
    /// For size, with link-time optimisation, without symbols.
    Small,
    /// With an allocator of its own.
    Allocator,
    /// Where a panic ends the process.
    Abort,
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Debug => "fixture-debug",
            Self::Release => "fixture-release",
            Self::Small => "fixture-small",
            Self::Allocator => "fixture-allocator",
            Self::Abort => "fixture-abort",
        }
    }

    fn profile(self) -> &'static [&'static str] {
        match self {
            Self::Debug | Self::Allocator => &["inherits = 'dev'"],
            Self::Release => &[
                "inherits = 'release'",
                "lto = false",
                "codegen-units = 16",
                "strip = false",
            ],
            Self::Small => &["inherits = 'release'", "opt-level = 'z'"],
            Self::Abort => &["inherits = 'dev'", "panic = 'abort'"],
        }
    }

    /// The shared object, built at the first call.
    pub fn path(self) -> PathBuf {
        static BUILT: Mutex<BTreeMap<Build, PathBuf>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        built
            .entry(self)
            .or_insert_with(|| self.build(None))
            .clone()
    }

    /// The same with another compiler, if that is installed.
    pub fn path_with(self, toolchain: &str) -> Option<PathBuf> {
        let installed = Command::new("rustc")
            .env("RUSTUP_TOOLCHAIN", toolchain)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success());
        installed.then(|| self.build(Some(toolchain)))
    }

    fn build(self, toolchain: Option<&str>) -> PathBuf {
        let features = match self {
            Self::Allocator => "haft-api/dylib,allocator",
            _ => "haft-api/dylib",
        };
        let (name, profile) = (self.name(), self.profile());
        let package = "haft-plugin-fixture";
        shared_object(&root(), package, features, name, profile, toolchain)
    }
}

/// The folder of this repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An extension crate of a workspace as a shared object, as `cargo build` builds
/// it.
pub fn extension_crate(workspace: &Path, package: &str) -> PathBuf {
    // The debug fixture's profile: what both need is built once.
    let (name, profile) = (Build::Debug.name(), Build::Debug.profile());
    shared_object(workspace, package, "haft-api/dylib", name, profile, None)
}

fn shared_object(
    workspace: &Path,
    package: &str,
    features: &str,
    profile: &str,
    settings: &[&str],
    toolchain: Option<&str>,
) -> PathBuf {
    let target = folder().join(toolchain.unwrap_or("build"));
    let mut cargo = match toolchain {
        // The variable names this very toolchain's cargo otherwise.
        Some(_) => Command::new("cargo"),
        None => Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())),
    };
    if let Some(toolchain) = toolchain {
        cargo.env("RUSTUP_TOOLCHAIN", toolchain);
        for variable in ["CARGO", "RUSTC", "RUSTDOC"] {
            cargo.env_remove(variable);
        }
    }
    cargo
        .args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib"])
        .args(["--package", package])
        .args(["--features", features, "--profile", profile])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target);
    for setting in settings {
        cargo.args(["--config", &format!("profile.{profile}.{setting}")]);
    }
    let status = cargo.status().expect("cargo can be run");
    assert!(status.success(), "{cargo:?} failed");
    let library = package.replace('-', "_");
    let made = target.join(profile).join(format!("lib{library}.so"));
    let kept = format!("{}-{profile}-{library}.so", toolchain.unwrap_or("this"));
    let kept = folder().join(kept);
    // Moved into place: another test process may have the old one loaded.
    let fresh = kept.with_extension(format!("new-{}", std::process::id()));
    std::fs::copy(&made, &fresh).expect("the shared object was made");
    std::fs::rename(&fresh, &kept).expect("it can be kept");
    kept
}

/// Where the tests put what they build.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// A C file of the fixtures' folder as a shared object, compiled with these
/// macros.
pub fn compile_c(source: &str, name: &str, arguments: &[&str]) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/include");
    let target = folder().join(format!("lib{name}.so"));
    let fresh = target.with_extension(format!("new-{}", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
    ])
    .args(arguments)
    .arg("-I")
    .arg(include)
    .arg("-o")
    .arg(&fresh)
    .arg(fixtures.join(source));
    let status = cc.status().expect("a C compiler can be run");
    assert!(status.success(), "{cc:?} failed");
    std::fs::rename(&fresh, &target).expect("it can be kept");
    target
}

/// A plug-in's log.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(LogLevel, String)>>>);

impl Log {
    pub fn options(&self) -> LoadOptions {
        let lines = Arc::clone(&self.0);
        LoadOptions::default().log(Arc::new(move |level, text| {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push((level, text.to_owned()));
        }))
    }

    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|(_, text)| text.clone()).collect()
    }

    pub fn contains(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }
}

/// An extension of whatever a test wants.
struct Parts(Box<dyn Fn(&mut ExtensionRegistryBuilder) + Send + Sync>);

impl Extension for Parts {
    fn manifest(&self) -> Result<Manifest, Error> {
        Manifest::new("parts", "0.0.1", "Whatever a test wants")
    }

    fn register(
        &self,
        _: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<(), Error> {
        (self.0)(registry);
        Ok(())
    }
}

/// A registry, and what its tools are called by.
pub struct Side {
    pub registry: Registry,
    pub tools: ToolRegistry,
}

impl Side {
    pub fn new<'a>(extensions: impl IntoIterator<Item = &'a dyn Extension>) -> Self {
        let mut builder = ExtensionRegistryBuilder::new();
        for extension in extensions {
            let added = builder.extension(extension, &ExtensionConfig::empty());
            added.unwrap_or_else(|e| panic!("{e}"));
        }
        let registry = builder.build().unwrap_or_else(|e| panic!("{e}"));
        let mut tools = ToolRegistry::new();
        for contributor in registry.tools() {
            tools.set_owner(contributor.owner.clone());
            contributor.part.contribute(&mut tools).unwrap();
        }
        Self { registry, tools }
    }

    /// The fixture, linked in.
    pub fn linked() -> Self {
        use haft_plugin_fixture::{Fixture, Second};
        Self::new([&Fixture as &dyn Extension, &Second])
    }

    pub fn tool(&self, name: &str) -> Arc<dyn Tool> {
        Arc::clone(self.tools.get(name).expect("a tool of the fixture"))
    }

    pub async fn call(&self, name: &str, arguments: &str) -> Result<ToolOutput, Error> {
        self.call_in(context(), name, arguments).await
    }

    pub async fn call_in(
        &self,
        context: ToolContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, Error> {
        let tool = self.tool(name);
        within(tool.execute(tool_call(name, arguments), context)).await
    }

    /// The text of a call that succeeds.
    pub async fn text(&self, name: &str, arguments: &str) -> String {
        self.text_in(context(), name, arguments).await
    }

    pub async fn text_in(&self, context: ToolContext, name: &str, arguments: &str) -> String {
        let output = self.call_in(context, name, arguments).await;
        let output = output.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!output.is_error, "{name}: {output:?}");
        haft_api::join_text(&output.parts)
    }

    /// What the fixture counts of its dropped futures.
    pub async fn drops(&self) -> u64 {
        let counts = self.text("counts", "{}").await;
        let drops = counts.split(", ").nth(1).and_then(|d| d.split(' ').next());
        drops.and_then(|d| d.parse().ok()).expect("a count")
    }
}

/// A plug-in that is loaded and registered.
pub struct Loaded {
    pub plugin: Plugin,
    pub side: Side,
    pub log: Log,
}

impl std::ops::Deref for Loaded {
    type Target = Side;

    fn deref(&self) -> &Side {
        &self.side
    }
}

impl Loaded {
    pub fn new(path: &Path) -> Self {
        let log = Log::default();
        let plugin = load(path, &log.options()).unwrap_or_else(|e| panic!("{e}"));
        Self::register(plugin, log)
    }

    /// The fixture, as the tests' own profile builds it.
    pub fn fixture() -> Self {
        Self::new(&Build::Debug.path())
    }

    /// Parts of the test itself, called over the boundary.
    pub fn in_process(
        register: impl Fn(&mut ExtensionRegistryBuilder) + Send + Sync + 'static,
    ) -> Self {
        Self::all_in_process(vec![Box::new(Parts(Box::new(register)))])
    }

    /// Extensions that are linked in, called over the boundary.
    pub fn all_in_process(extensions: Vec<Box<dyn Extension>>) -> Self {
        let log = Log::default();
        let plugin = in_process(extensions, &log.options());
        Self::register(plugin.unwrap_or_else(|e| panic!("{e}")), log)
    }

    fn register(plugin: Plugin, log: Log) -> Self {
        let side = Side::new(plugin.extensions().map(|e| e as &dyn Extension));
        Self { plugin, side, log }
    }

    /// Waits until nothing is held on either side beyond what is registered.
    pub async fn at_rest(&self) {
        let registered = self.plugin.stats().plugin.objects;
        eventually("both sides are at rest", || {
            let stats = self.plugin.stats();
            stats.host == haft_plugin::ServerStats::default()
                && stats.plugin.tasks == 0
                && stats.plugin.objects <= registered
        })
        .await;
    }
}

pub fn context() -> ToolContext {
    ToolContext::new(
        ThreadId::new("thread").unwrap(),
        TurnId::new("turn").unwrap(),
    )
}

pub fn tool_call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: CallId::new("c1").unwrap(),
        name: name.to_owned(),
        arguments: raw_json(arguments).unwrap(),
        state: None,
    }
}

/// Longer than anything takes, on a machine that is busy with other things.
pub const LONG: Duration = Duration::from_secs(60);

/// Fails instead of hanging.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(LONG, future).await;
    ended.expect("it ends in time")
}

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An output sink that keeps everything.
#[derive(Default)]
pub struct Kept(Mutex<Vec<(haft_api::OutputChannel, Vec<u8>)>>);

impl Kept {
    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        String::from_utf8(bytes).unwrap()
    }
}

impl haft_api::OutputSink for Kept {
    fn write(&self, channel: haft_api::OutputChannel, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((channel, bytes.to_vec()));
    }
}

/// One runtime for what isn't async itself.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| tokio::runtime::Runtime::new().expect("a runtime"))
        .block_on(future)
}
