//! A host over skills written on the spot, and calls without a runtime.
#![allow(unreachable_pub, missing_docs, reason = "a module of tests")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft_api::{BatchCall, ToolSource as _};
use haft_ext_quickjs::{Level, Limits, LogSink, QuickJsHost, Settings};
#[allow(unused_imports, reason = "each test file uses a part of it")]
pub use haft_testkit::calls::{Outcome, batch as calls, shown};

#[derive(Default)]
pub struct Log(pub Mutex<Vec<(String, Level, String)>>);

impl LogSink for Log {
    fn log(&self, skill: &str, level: Level, message: &str) {
        let mut lines = self.0.lock().unwrap();
        lines.push((skill.to_owned(), level, message.to_owned()));
    }
}

impl Log {
    pub fn text(&self) -> String {
        let lines = self.0.lock().unwrap();
        let lines = lines.iter().map(|(e, l, m)| format!("{e} {l} {m}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

pub struct World {
    pub folder: tempfile::TempDir,
    pub settings: Settings,
    pub log: Arc<Log>,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.reload = Some(false);
        settings.data_dir = Some(folder.path().join("data"));
        Self {
            folder,
            settings,
            log: Arc::default(),
        }
    }

    /// A skill of one script that starts with the host.
    pub fn skill(self, id: &str, source: &str) -> Self {
        self.skill_of(id, "", source)
    }

    /// A skill whose manifest says more (`"a": 1, …`).
    pub fn skill_of(mut self, id: &str, more: &str, source: &str) -> Self {
        let comma = if more.is_empty() { "" } else { "," };
        let manifest =
            format!(r#"{{"id":"{id}","name":"The {id}","runtime":"quickjs"{comma}{more}}}"#);
        self.write(&format!("{id}/manifest.json"), &manifest);
        self.write(&format!("{id}/index.js"), source);
        let place = self.folder.path().join(id);
        self.settings.paths.push(place);
        self
    }

    /// Writes a file that is no skill by itself.
    pub fn file(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn limits(mut self, set: impl FnOnce(&mut Limits)) -> Self {
        set(&mut self.settings.limits);
        self
    }

    pub fn start(&self) -> QuickJsHost {
        QuickJsHost::with_log(
            self.settings.clone(),
            Arc::clone(&self.log) as Arc<dyn LogSink>,
        )
        .unwrap()
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub async fn run(host: &QuickJsHost, batch: Vec<BatchCall>) -> Vec<Outcome> {
    haft_testkit::calls::run(host, batch).await
}

pub async fn batch(host: &QuickJsHost, of: &[(&str, &str)]) -> Vec<Outcome> {
    host.tools().await.unwrap();
    run(host, calls(of, None)).await
}

pub async fn call(host: &QuickJsHost, name: &str, arguments: &str) -> Outcome {
    batch(host, &[(name, arguments)]).await.remove(0)
}

pub async fn call_within(host: &QuickJsHost, name: &str, limit: Duration) -> Outcome {
    host.tools().await.unwrap();
    run(host, calls(&[(name, "{}")], Some(limit)))
        .await
        .remove(0)
}

/// A skill's script with these tools: names and bodies of async functions of
/// `args` and `call`.
pub fn tools(of: &[(&str, &str)]) -> String {
    let tools: Vec<_> = of
        .iter()
        .map(|(name, body)| {
            format!("{{ name: {name:?}, description: 'A test.', async execute(args, call) {{\n{body}\n}} }}")
        })
        .collect();
    format!("globalThis.__skill = {{ tools: [{}] }};", tools.join(",\n"))
}

/// The same with functions that aren't async.
pub fn sync_tools(of: &[(&str, &str)]) -> String {
    tools(of).replace("async execute", "execute")
}

/// What a body of an async tool comes to, and the messages of the skill.
pub async fn body(text: &str) -> Outcome {
    let world = World::new().skill("t", &tools(&[("t", text)]));
    call(&world.start(), "t__t", "{}").await
}

/// Waits until something holds; it has to in a generous time.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
