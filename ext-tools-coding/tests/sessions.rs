//! How the tools fare with a session that a test controls, and what they say of
//! themselves.

use std::sync::Arc;

use haft_api::{
    Error, ErrorKind, ReadOptions, RemoteRunnerProvider as _, RemoteRunnerSession, Result,
    ToolContributor as _, ToolOutput, ToolRegistry, WriteOptions, join_text,
};
use haft_ext_tools_coding::CodingTools;
use haft_testkit::{Gate, MemoryRunner, RunnerOperation, fixture};
use serde_json::json;

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    CodingTools::default().contribute(&mut tools).unwrap();
    tools
}

/// The tools over a session in memory.
struct Bench {
    session: Arc<dyn RemoteRunnerSession>,
}

impl Bench {
    async fn memory(runner: &MemoryRunner) -> Self {
        let session = runner.create(runner.binding("thread-test")).await.unwrap();
        Self { session }
    }

    async fn put(&self, path: &str, text: &str) {
        let options = WriteOptions::default().create_parents();
        let bytes = text.as_bytes().to_vec();
        self.session.write_file(path, bytes, options).await.unwrap();
    }

    async fn get(&self, path: &str) -> Vec<u8> {
        let file = self.session.read_file(path, ReadOptions::default()).await;
        file.unwrap().bytes
    }

    async fn call(&self, name: &str, arguments: serde_json::Value) -> Result<ToolOutput> {
        let tools = tools();
        let tool = tools.get(name).unwrap();
        let context = fixture::tool_context().with_workspace(Arc::clone(&self.session));
        let call = fixture::tool_call("call-1", name, &arguments.to_string());
        tool.execute(call, context).await
    }
}

#[tokio::test]
async fn an_edit_overtaken_by_another_is_made_again_or_says_so() {
    let runner = MemoryRunner::new().file("f", "one two");
    let bench = Bench::memory(&runner).await;
    let sandbox = bench.session.state().session_id;
    let writes = || runner.faults().on(RunnerOperation::WriteFile);
    let overtaken = async |meanwhile: &str| {
        let gate = Gate::new();
        let _held = writes().next().hold(&gate);
        let edit = bench.call("edit", json!({"path":"f","old":"one","new":"1"}));
        let change = async {
            while gate.arrivals() == 0 {
                tokio::task::yield_now().await;
            }
            runner.put(&sandbox, "f", meanwhile);
            gate.open();
        };
        futures::join!(edit, change).0.unwrap()
    };
    let called = overtaken("one three").await;
    assert!(!called.is_error, "{}", join_text(&called.parts));
    assert_eq!(bench.get("f").await, b"1 three");
    runner.put(&sandbox, "f", "one two");
    let called = overtaken("two").await;
    assert!(called.is_error);
    assert!(
        join_text(&called.parts).contains("changed by somebody else"),
        "{}",
        join_text(&called.parts)
    );
    assert_eq!(bench.get("f").await, b"two");
    // Not for ever.
    let before = writes().count();
    runner.put(&sandbox, "f", "one");
    let _busy = writes()
        .always()
        .fail(Error::new(ErrorKind::Busy, "changed"));
    let called = bench
        .call("edit", json!({"path":"f","old":"one","new":"1"}))
        .await
        .unwrap();
    let text = join_text(&called.parts);
    assert!(called.is_error);
    assert!(text.contains("kept being changed"), "{text}");
    assert_eq!(writes().count() - before, 10);
}

/// What breaks beneath a tool is no answer of the tool's.
#[tokio::test]
async fn a_failing_session_is_an_error_not_an_answer() {
    let runner = MemoryRunner::new().file("f", "x");
    let bench = Bench::memory(&runner).await;
    let down = || Error::new(ErrorKind::Unavailable, "the network is down");
    runner
        .faults()
        .on(RunnerOperation::ReadFile)
        .next()
        .fail(down());
    let error = bench
        .call("read_file", json!({"path":"f"}))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    runner
        .faults()
        .on(RunnerOperation::List)
        .next()
        .fail(down());
    let error = bench
        .call("glob", json!({"pattern":"*"}))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn every_tool_declares_what_it_does() {
    use haft_api::WorkspaceAccess::{Read, Write};
    let tools = tools();
    let declared: Vec<_> = tools
        .iter()
        .map(|tool| {
            let effects = tool.spec().effects;
            (
                tool.spec().name.as_str(),
                effects.workspace,
                effects.runs_commands,
                effects.network,
            )
        })
        .collect();
    assert_eq!(
        declared,
        [
            ("edit", Write, false, false),
            ("glob", Read, false, false),
            ("grep", Read, false, false),
            ("list_files", Read, false, false),
            ("read_file", Read, false, false),
            ("shell", Write, true, true),
            ("write_file", Write, false, false),
        ]
    );
    for tool in tools.iter() {
        let schema: serde_json::Value =
            serde_json::from_str(tool.spec().input_schema.get()).unwrap();
        assert_eq!(schema["type"], "object", "{}", tool.spec().name);
        assert_eq!(
            schema["additionalProperties"],
            false,
            "{}",
            tool.spec().name
        );
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].is_string(),
                "{} {name}",
                tool.spec().name
            );
        }
    }
}

#[test]
fn settings_are_checked() {
    use haft_api::{ExtensionConfig, ExtensionRegistryBuilder};
    use haft_ext_tools_coding::CodingToolsExtension;
    let register = |config: &str| {
        let mut builder = ExtensionRegistryBuilder::new();
        let config = ExtensionConfig::from_json(config).unwrap();
        builder
            .extension(&CodingToolsExtension, &config)
            .map_err(|e| e.to_string())
    };
    assert_eq!(register(r#"{"shell_timeout_seconds":5}"#), Ok(()));
    let check = |config: &str, word: &str| {
        let error = register(config).unwrap_err();
        assert!(error.contains(word), "{error}");
    };
    check(r#"{"shell_timeout_seconds":0}"#, "shell_timeout_seconds");
    check(
        r#"{"max_shell_timeout_seconds":5}"#,
        "max_shell_timeout_seconds",
    );
    check(r#"{"shel_timeout":5}"#, "shel_timeout");
}

#[tokio::test]
async fn a_folder_that_vanishes_costs_only_itself() {
    let runner = MemoryRunner::new();
    let bench = Bench::memory(&runner).await;
    bench.put("a/f.rs", "").await;
    bench.put("b/f.rs", "").await;
    let gone = Error::new(ErrorKind::NotFound, "gone");
    // The first listing is the workspace's, the second that of `a`.
    let lists = runner.faults().on(RunnerOperation::List);
    let next = lists.count() + 1;
    let _gone = runner
        .faults()
        .on(RunnerOperation::List)
        .nth(next)
        .fail(gone);
    let called = bench.call("list_files", json!({"depth":2})).await.unwrap();
    let text = join_text(&called.parts);
    assert_eq!(text, "a/\nb/\nb/f.rs\n[a can't be read]\n");
}
