//! A host over scripts written on the spot, and calls without a runtime.
#![allow(unreachable_pub, missing_docs, reason = "a module of tests")]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_api::{BatchCall, ToolSource as _};
use haft_ext_lua::{Grants, Level, Limits, LogSink, LuaHost, Settings};
#[allow(unused_imports, reason = "each test file uses a part of it")]
pub use haft_testkit::calls::{Outcome, batch as calls};

#[derive(Default)]
pub struct Log(pub Mutex<Vec<(String, Level, String)>>);

impl LogSink for Log {
    fn log(&self, extension: &str, level: Level, message: &str) {
        let mut lines = self.0.lock().unwrap();
        lines.push((extension.to_owned(), level, message.to_owned()));
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
        let mut settings = Settings::default();
        settings.reload = Some(false);
        Self {
            folder: tempfile::tempdir().unwrap(),
            settings,
            log: Arc::default(),
        }
    }

    /// Writes a file; `.lua` files and `init.lua`s are extensions.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        let path = self.write(name, text);
        let place = match path.ends_with("init.lua") {
            true => path.parent().unwrap().to_owned(),
            false => path,
        };
        let top = place.parent() == Some(self.folder.path());
        if top
            && (place.is_dir() || name.ends_with(".lua"))
            && !self.settings.paths.contains(&place)
        {
            self.settings.paths.push(place);
        }
        self
    }

    /// Writes a file that is no extension.
    pub fn write_also(self, name: &str, text: &str) -> Self {
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

    pub fn grant(mut self, name: &str, grants: Grants) -> Self {
        self.settings.grants.insert(name.to_owned(), grants);
        self
    }

    pub fn start(&self) -> LuaHost {
        LuaHost::with_log(
            self.settings.clone(),
            Arc::clone(&self.log) as Arc<dyn LogSink>,
        )
        .unwrap()
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A host over one script `t.lua`.
pub fn script(text: &str) -> (World, LuaHost) {
    let world = World::new().file("t.lua", text);
    let host = world.start();
    (world, host)
}

pub async fn run(host: &LuaHost, batch: Vec<BatchCall>) -> Vec<Outcome> {
    host.tools().await.unwrap();
    haft_testkit::calls::run(host, batch).await
}

pub async fn batch(host: &LuaHost, of: &[(&str, &str)]) -> Vec<Outcome> {
    run(host, calls(of, None)).await
}

pub async fn call(host: &LuaHost, name: &str, arguments: &str) -> Outcome {
    batch(host, &[(name, arguments)]).await.remove(0)
}

/// A tool `t` with this body, called once with a limit.
pub async fn body(text: &str, limit: Duration) -> Outcome {
    let (_world, host) = script(&tool("t", text));
    run(&host, calls(&[("t", "{}")], Some(limit)))
        .await
        .remove(0)
}

/// A registration of a tool with this body.
pub fn tool(name: &str, body: &str) -> String {
    format!(
        "haft.register_tool {{ name = '{name}', description = 'A test.', effects = 'pure',\n\
         schema = {{ type = 'object' }}, handler = function(args, ctx)\n{body}\nend }}\n"
    )
}
