//! What the behaviour tests share: the tools over a session.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haft_api::{
    Binding, Destination, OutputChannel, OutputSink, ReadOptions, RemoteRunnerProvider as _,
    RemoteRunnerSession, Result, ToolContext, ToolContributor as _, ToolOutput, ToolRegistry,
    WriteOptions, join_text, raw_json,
};
use haft_ext_runner_local::{LocalConfig, LocalRunner, Sandbox};
use haft_ext_tools_coding::CodingTools;
use haft_testkit::{MemoryRunner, fixture};

pub fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    CodingTools::default().contribute(&mut tools).unwrap();
    tools
}

/// The tools over a session.
#[derive(Clone)]
pub struct Bench {
    pub session: Arc<dyn RemoteRunnerSession>,
    /// Keeps a local workspace's folder.
    folder: Option<Arc<tempfile::TempDir>>,
}

/// What a call brought.
#[derive(Debug)]
pub struct Called {
    pub output: ToolOutput,
    pub stdout: String,
    pub stderr: String,
}

impl Called {
    pub fn text(&self) -> String {
        join_text(&self.output.parts)
    }
}

impl Bench {
    pub async fn local() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&work).unwrap();
        let binding = Binding {
            destination: Destination {
                id: "thread-test".try_into().unwrap(),
                provider_id: "local".try_into().unwrap(),
                config: raw_json("{}").unwrap(),
                manifest: None,
            },
            workspace: work.to_str().unwrap().to_owned(),
            read_roots: Vec::new(),
        };
        let mut config = LocalConfig::default();
        config.sandbox = Sandbox::Prefer;
        let runner = LocalRunner::new(config).unwrap();
        Self {
            session: runner.create(binding).await.unwrap(),
            folder: Some(Arc::new(folder)),
        }
    }

    pub async fn memory(runner: &MemoryRunner) -> Self {
        Self {
            session: runner.create(runner.binding("thread-test")).await.unwrap(),
            folder: None,
        }
    }

    /// One over each kind of session.
    pub async fn each() -> [(&'static str, Self); 2] {
        let memory = Self::memory(&MemoryRunner::new()).await;
        [("local", Self::local().await), ("memory", memory)]
    }

    /// The folder of a local workspace.
    pub fn root(&self) -> PathBuf {
        Path::new(self.session.workspace()).to_owned()
    }

    pub async fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let options = WriteOptions::default().create_parents();
        self.session
            .write_file(path, bytes.into(), options)
            .await
            .unwrap();
    }

    pub async fn get(&self, path: &str) -> Vec<u8> {
        let file = self.session.read_file(path, ReadOptions::default()).await;
        file.unwrap_or_else(|e| panic!("{path}: {e}")).bytes
    }

    pub async fn try_call(&self, name: &str, arguments: serde_json::Value) -> Result<Called> {
        let context = fixture::tool_context();
        self.call_in(name, arguments, context).await
    }

    pub async fn call_in(
        &self,
        name: &str,
        arguments: serde_json::Value,
        context: ToolContext,
    ) -> Result<Called> {
        let tools = tools();
        let tool = tools.get(name).unwrap_or_else(|| panic!("no tool {name}"));
        let kept = Arc::new(Kept::default());
        let context = context
            .with_workspace(Arc::clone(&self.session))
            .with_output(kept.clone());
        let call = fixture::tool_call("call-1", name, &arguments.to_string());
        let output = tool.execute(call, context).await?;
        Ok(Called {
            output,
            stdout: kept.text(OutputChannel::Stdout),
            stderr: kept.text(OutputChannel::Stderr),
        })
    }

    /// A call that succeeds; its text.
    pub async fn ok(&self, name: &str, arguments: serde_json::Value) -> String {
        let called = self.try_call(name, arguments.clone()).await.unwrap();
        assert!(
            !called.output.is_error,
            "{name} {arguments}: {}",
            called.text()
        );
        called.text()
    }

    /// A call that the model is told has failed; its text.
    pub async fn told(&self, name: &str, arguments: serde_json::Value) -> String {
        let called = self.try_call(name, arguments.clone()).await.unwrap();
        assert!(
            called.output.is_error,
            "{name} {arguments}: {}",
            called.text()
        );
        called.text()
    }
}

#[derive(Default)]
pub struct Kept(Mutex<Vec<(OutputChannel, Vec<u8>)>>);

impl OutputSink for Kept {
    fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        self.0.lock().unwrap().push((channel, bytes.to_vec()));
    }
}

impl Kept {
    pub fn text(&self, channel: OutputChannel) -> String {
        let kept = self.0.lock().unwrap();
        let bytes = kept.iter().filter(|(of, _)| *of == channel);
        let bytes: Vec<u8> = bytes.flat_map(|(_, bytes)| bytes.clone()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
