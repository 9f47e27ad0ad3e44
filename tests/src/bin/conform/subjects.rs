//! What of each extension crate is tested, and what its suites need for it. A
//! new extension crate is a new line of [`SUBJECTS`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use haft_api::{Binding, Item, StoreOptions, ThreadStore, ThreadStoreFactory, ToolName, ToolSpec};
use haft_api::{Destination, DestinationId, ExtensionId, async_trait, join_text, raw_json};
use haft_testkit::{
    Case, EngineFixture, ExtensionFixture, PostgresServer, RunnerFixture, SourceFixture,
    StoreFixture, ToolFixture, engine_suite, extension_suite, runner_suite, store_suite,
    tool_source_suite, tool_suite,
};
use serde_json::json;

use crate::host::{Host, Result};
use crate::server::{CALLING, Server};

/// A suite of the test kit, and the name of the part that it is run on.
pub(crate) type Suite = (&'static str, Vec<Case>);

/// An extension crate.
struct Subject {
    package: &'static str,
    /// Settings with which the extension brings something, as JSON.
    config: &'static str,
    /// The suites of its parts.
    parts: fn(Host) -> Vec<Suite>,
}

const SUBJECTS: &[Subject] = &[
    Subject::new("extension-crate", "{}", example),
    // Its model is tested by the suite `real_server`, where it is installed.
    Subject::new("haft-ext-engine-local", "{}", |_| Vec::new()),
    Subject::new("haft-ext-engine-anthropic", "{}", engine_anthropic),
    Subject::new("haft-ext-engine-openai", "{}", engine_openai),
    Subject::new("haft-ext-engine-replay", "{}", engine_replay),
    Subject::new("haft-ext-lua", r#"{"paths":["/nowhere/a.lua"]}"#, lua),
    Subject::new(
        "haft-ext-quickjs",
        r#"{"paths":["/nowhere/skill"]}"#,
        quickjs,
    ),
    Subject::new("haft-ext-runner-local", "{}", runner_local),
    // Its own tests run the suite of runners where there is a server to run it on.
    Subject::new(
        "haft-ext-runner-ssh",
        r#"{"host":"nowhere.example","root":"/srv"}"#,
        |_| Vec::new(),
    ),
    Subject::new("haft-ext-store-jsonl", "{}", store_jsonl),
    Subject::new("haft-ext-store-postgres", "{}", store_postgres),
    Subject::new("haft-ext-tools-coding", "{}", tools_coding),
];

impl Subject {
    const fn new(
        package: &'static str,
        config: &'static str,
        parts: fn(Host) -> Vec<Suite>,
    ) -> Self {
        Self {
            package,
            config,
            parts,
        }
    }
}

/// All suites for a package: its extension's, and those of its parts.
pub(crate) fn suites(package: &str, host: &Host) -> Result<Vec<Suite>> {
    let subject = SUBJECTS.iter().find(|subject| subject.package == package);
    let Subject { config, parts, .. } = subject.ok_or_else(|| {
        let place = "tests/src/bin/conform/subjects.rs";
        format!("{package} has no line in {place}; add one with the suites of its parts")
    })?;
    let extension = host.clone();
    let whole =
        extension_suite(move || ExtensionFixture::new(extension.extension()).config(config));
    let mut suites = vec![("extension", whole)];
    suites.extend(parts(host.clone()));
    Ok(suites)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn tool(name: &str) -> ToolSpec {
    let name = ToolName::new(name).expect("a tool's name");
    ToolSpec::new(name, "Looks at something.")
}

/// A store's factory, and a home of its own.
struct Home {
    folder: tempfile::TempDir,
    factory: Arc<dyn ThreadStoreFactory>,
}

#[async_trait]
impl StoreFixture for Home {
    async fn open(&self) -> haft_api::Result<Arc<dyn ThreadStore>> {
        let home = self.folder.path().join("home");
        let options = StoreOptions::new(home.display().to_string());
        self.factory.open(options).await
    }
}

fn binding(runner: &str, workspace: &str) -> Binding {
    Binding {
        destination: Destination {
            id: DestinationId::new("conform").expect("an id"),
            provider_id: ExtensionId::new(runner).expect("an id"),
            config: raw_json("{}").expect("JSON"),
            manifest: None,
        },
        workspace: workspace.to_owned(),
        read_roots: Vec::new(),
    }
}

fn store_jsonl(host: Host) -> Vec<Suite> {
    let suite = store_suite(move || Home {
        folder: folder(),
        factory: Arc::clone(host.registry("{}").store("jsonl").expect("the store")),
    });
    vec![("store", suite)]
}

/// A schema of its own in a database server that all cases share.
struct Schema {
    name: String,
    factory: Arc<dyn ThreadStoreFactory>,
}

/// A database server, and the file that says where it is.
struct Database {
    _server: PostgresServer,
    folder: tempfile::TempDir,
}

impl Database {
    fn start() -> std::result::Result<Self, String> {
        let server = PostgresServer::start(&[])?;
        let folder = folder();
        std::fs::write(folder.path().join("url"), server.url()).map_err(|e| e.to_string())?;
        Ok(Self {
            _server: server,
            folder,
        })
    }
}

/// The server, or why there is none.
fn postgres() -> std::result::Result<&'static Database, String> {
    static DATABASE: OnceLock<std::result::Result<Database, String>> = OnceLock::new();
    let database = DATABASE.get_or_init(Database::start);
    database.as_ref().map_err(Clone::clone)
}

#[async_trait]
impl StoreFixture for Schema {
    async fn open(&self) -> haft_api::Result<Arc<dyn ThreadStore>> {
        let mut options = StoreOptions::new("");
        options.config = raw_json(json!({ "schema": self.name }).to_string())?;
        self.factory.open(options).await
    }

    fn unavailable(&self) -> Option<String> {
        postgres().err()
    }
}

fn store_postgres(host: Host) -> Vec<Suite> {
    static SCHEMAS: AtomicU64 = AtomicU64::new(0);
    let suite = store_suite(move || {
        let config = match postgres() {
            Ok(database) => json!({ "url_file": database.folder.path().join("url") }).to_string(),
            Err(_) => "{}".to_owned(),
        };
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        Schema {
            name: format!("conform_{number}"),
            factory: Arc::clone(host.registry(&config).store("postgres").expect("the store")),
        }
    });
    vec![("store", suite)]
}

fn runner_local(host: Host) -> Vec<Suite> {
    // In a shared object it can't know that this program looks after commands.
    let program = std::env::current_exe().expect("this program's path");
    let config = json!({ "supervisor": program }).to_string();
    let suite = runner_suite(move || {
        let folder = folder();
        let workspace = folder.path().canonicalize().expect("a path");
        let workspace = workspace.to_str().expect("a path that is text");
        let registry = host.registry(&config);
        let provider = Arc::clone(registry.runner("local").expect("the runner"));
        RunnerFixture::new(provider, binding("local", workspace)).keeping(folder)
    });
    vec![("runner", suite)]
}

fn tools_coding(host: Host) -> Vec<Suite> {
    let suite = tool_suite(move || {
        let mut fixture = ToolFixture::new(Arc::clone(&host.registry("{}").tools()[0].part));
        for (name, arguments) in [
            (
                "write_file",
                r#"{"path":"src/a.rs","content":"fn a() {}\n"}"#,
            ),
            ("read_file", r#"{"path":"src/a.rs"}"#),
            ("list_files", r#"{"depth":2}"#),
            ("glob", r#"{"pattern":"**/*.rs"}"#),
            ("grep", r#"{"pattern":"fn","context":1}"#),
            ("write_file", r#"{"path":"b","content":"one two"}"#),
            ("edit", r#"{"path":"b","old":"one","new":"1"}"#),
            ("shell", r#"{"command":"echo hi","timeout":30}"#),
        ] {
            fixture = fixture.example(name, arguments);
        }
        fixture
    });
    vec![("tools", suite)]
}

fn engine_replay(host: Host) -> Vec<Suite> {
    let suite = engine_suite(move || {
        let folder = folder();
        // All that an empty script says is "done".
        let talking = folder.path().join("talking.jsonl");
        std::fs::write(&talking, "").expect("a script");
        let calling = folder.path().join("calling.jsonl");
        let call = r#"{"events":[{"type":"call","name":"look","arguments":{"at":"it"}}]}"#;
        std::fs::write(&calling, call).expect("a script");

        let registry = host.registry(&json!({ "script": talking }).to_string());
        EngineFixture::new(Arc::clone(registry.engine("replay").expect("the engine")))
            .calling(CALLING, tool("look"))
            .prepare(move |request| {
                let last = request.history.items().last().map(|item| &**item);
                if matches!(last, Some(Item::UserMessage { parts }) if join_text(parts) == CALLING)
                {
                    request.model = Some(calling.to_string_lossy().into_owned());
                }
            })
            .keeping(folder)
    });
    vec![("engine", suite)]
}

/// An engine over HTTP, with settings besides the server's address.
fn engine_over_http(host: Host, id: &'static str, settings: &'static [(&str, &str)]) -> Vec<Case> {
    engine_suite(move || {
        let server = Server::start();
        let mut config = json!({ "base_url": server.base_url });
        for (key, value) in settings {
            config[*key] = json!(value);
        }
        let registry = host.registry(&config.to_string());
        EngineFixture::new(Arc::clone(registry.engine(id).expect("the engine")))
            .calling(CALLING, tool("world.look"))
            .keeping(server)
    })
}

fn engine_openai(host: Host) -> Vec<Suite> {
    let chat = engine_over_http(host.clone(), "openai", &[("wire", "chat")]);
    let responses = engine_over_http(host, "openai", &[("wire", "responses")]);
    vec![
        ("engine over chat", chat),
        ("engine over responses", responses),
    ]
}

fn engine_anthropic(host: Host) -> Vec<Suite> {
    vec![("engine", engine_over_http(host, "anthropic", &[]))]
}

/// A tool of each kind, for the suite of sources.
const LUA: &str = r#"
haft.register_tool { name = "add", description = "Adds two numbers.", effects = "pure",
  schema = { type = "object", required = { "a", "b" },
    properties = { a = { type = "number" }, b = { type = "number" } } },
  handler = function(args) return args.a + args.b end }
haft.register_tool { name = "nap", description = "Sleeps a little.", effects = "pure",
  handler = function() haft.sleep(5) return "rested" end }
haft.register_tool { name = "fail", description = "Fails.", effects = "pure",
  handler = function() error({ code = 7 }) end }
haft.register_tool { name = "slow", description = "Takes long.", effects = "pure",
  handler = function() haft.sleep(30000) return "late" end }
"#;

fn lua(host: Host) -> Vec<Suite> {
    let suite = tool_source_suite(move || {
        let folder = folder();
        let script = folder.path().join("conform.lua");
        std::fs::write(&script, LUA).expect("a script");
        let config = json!({ "paths": [script], "reload": false });
        let registry = host.registry(&config.to_string());
        SourceFixture::new(Arc::clone(&registry.tool_sources()[0].part))
            .example("add", r#"{"a":1,"b":2}"#)
            .example("nap", "{}")
            .failing("fail", "{}")
            .slow("slow", "{}")
            .keeping(folder)
    });
    vec![("tool source", suite)]
}

const SKILL: &str = r#"
const rest = (ms) => new Promise((done) => setTimeout(done, ms));
const tools = [
  { name: "add", description: "Adds.", effects: "pure",
    inputSchema: { type: "object", required: ["a", "b"],
      properties: { a: { type: "number" }, b: { type: "number" } } },
    execute({ a, b }) {
      if (typeof a !== "number" || typeof b !== "number") throw new TypeError("two numbers");
      return a + b;
    } },
  { name: "nap", description: "Sleeps.", effects: "pure",
    async execute() { await rest(5); return "rested"; } },
  { name: "fail", description: "Fails.", effects: "pure",
    execute() { throw new Error("no"); } },
  { name: "slow", description: "Takes long.", effects: "pure",
    async execute() { await rest(30000); } },
];
"#;

fn quickjs(host: Host) -> Vec<Suite> {
    let suite = tool_source_suite(move || {
        let folder = folder();
        let skill = folder.path().join("conform");
        std::fs::create_dir(&skill).expect("a folder");
        let manifest = r#"{"id":"conform","name":"Conform","runtime":"quickjs"}"#;
        std::fs::write(skill.join("manifest.json"), manifest).expect("a manifest");
        std::fs::write(skill.join("index.js"), SKILL).expect("a script");
        let config = json!({ "paths": [skill], "reload": false });
        let registry = host.registry(&config.to_string());
        SourceFixture::new(Arc::clone(&registry.tool_sources()[0].part))
            .example("conform__add", r#"{"a":1,"b":2}"#)
            .example("conform__nap", "{}")
            .failing("conform__fail", "{}")
            .slow("conform__slow", "{}")
            .keeping(folder)
    });
    vec![("tool source", suite)]
}

/// The third party's crate in `examples`, which is never linked in here.
fn example(host: Host) -> Vec<Suite> {
    let [tools, source, engine, policy, sink, store, runner] =
        std::array::from_fn(|_| host.clone());
    vec![
        (
            "tools",
            tool_suite(move || {
                ToolFixture::new(Arc::clone(&tools.registry("{}").tools()[0].part))
                    .example("word_count", r#"{"text":"one two"}"#)
            }),
        ),
        (
            "tool source",
            tool_source_suite(move || {
                SourceFixture::new(Arc::clone(&source.registry("{}").tool_sources()[0].part))
                    .example("miles_to_km", r#"{"value":2}"#)
            }),
        ),
        (
            "engine",
            engine_suite(move || {
                let registry = engine.registry("{}");
                EngineFixture::new(Arc::clone(registry.engine("parrot").expect("the engine")))
            }),
        ),
        (
            "policy",
            haft_testkit::policy_suite(move || {
                Arc::clone(&policy.registry("{}").policies()[0].part)
            }),
        ),
        (
            "event sink",
            haft_testkit::event_sink_suite(move || {
                Arc::clone(&sink.registry("{}").event_sinks()[0].part)
            }),
        ),
        (
            "store",
            // A fixture's store is the same for as long as the fixture is there.
            store_suite(move || Home {
                folder: folder(),
                factory: Arc::clone(store.registry("{}").store("ephemeral").expect("the store")),
            }),
        ),
        (
            "runner",
            runner_suite(move || {
                let registry = runner.registry("{}");
                let provider = Arc::clone(registry.runner("scratch").expect("the runner"));
                RunnerFixture::new(provider, binding("scratch", "/scratch"))
            }),
        ),
    ]
}
