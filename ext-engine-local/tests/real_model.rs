//! The whole engine with the real server and the real weights.
//!
//! They are fetched into the folder that `HAFT_TEST_MODELS` names, else into
//! `haft-models` of the target folder, and stay there. Where they can't be
//! fetched, each test says so and passes.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use haft_api::{
    CallId, Effects, EngineEvent, EngineRequest, EngineToolCall, ErrorKind, FinishReason, History,
    InferenceEngine, Item, Part, Readiness, Result, ThreadId, ToolCall, ToolName, ToolResult,
    ToolSpec, TurnId, raw_json,
};
use haft_ext_engine_local::{
    LocalEngine, LocalModels, LocalSettings, ProfileChoice, ServerChoice, SetupProblem,
};

/// One model at a time: the machine may be a small one.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn home() -> PathBuf {
    std::env::var_os("HAFT_TEST_MODELS").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("haft-models"),
        PathBuf::from,
    )
}

fn settings() -> LocalSettings {
    let mut settings = LocalSettings::default();
    settings.home = Some(home());
    settings.server = ServerChoice::Fetched;
    settings.download = false;
    settings
}

/// Fetches what is missing; false, with the reason printed, where that can't be.
#[expect(
    clippy::print_stderr,
    reason = "who reads the test's output wants to know"
)]
async fn is_here() -> bool {
    let models = LocalModels::new(home()).without_native_server();
    match models.get(models.default_model(), &|_| {}).await {
        Ok(_) => true,
        Err(error) => {
            let problem = SetupProblem::of(&error);
            let excused = matches!(
                problem,
                Some(
                    SetupProblem::NoNetwork
                        | SetupProblem::NoPython { .. }
                        | SetupProblem::NoVenv { .. }
                        | SetupProblem::NoBuild
                        | SetupProblem::DiskFull { .. }
                )
            );
            assert!(excused, "{error}");
            eprintln!("skipped: {}", error.message());
            false
        }
    }
}

/// A folder and the tools that work on it.
struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "notes.txt",
            "Remember the milk. The meeting is on Monday at ten.\n",
        );
        write("todo.md", "- buy bread\n- call Ann\n- water the plants\n");
        Self(folder)
    }

    fn tools() -> Vec<ToolSpec> {
        let spec = |name: &str, description: &str, required: &[&str], effects| {
            let properties: serde_json::Map<_, _> = required
                .iter()
                .map(|name| ((*name).to_owned(), serde_json::json!({"type": "string"})))
                .collect();
            let schema = serde_json::json!({
                "type": "object", "properties": properties, "required": required,
            });
            ToolSpec::new(ToolName::new(name).unwrap(), description)
                .schema(schema.to_string())
                .unwrap()
                .effects(effects)
        };
        vec![
            spec(
                "edit",
                "Replace text in a file.",
                &["path", "old", "new"],
                Effects::WRITES,
            ),
            spec("list", "List the files.", &[], Effects::READS),
            spec("read", "Read a file.", &["path"], Effects::READS),
            spec("run", "Run a command.", &["command"], Effects::COMMANDS),
            spec(
                "search",
                "Search for a word in all files.",
                &["pattern"],
                Effects::READS,
            ),
            spec(
                "write",
                "Write text to a file.",
                &["path", "content"],
                Effects::WRITES,
            ),
        ]
    }

    fn run(&self, call: &EngineToolCall) -> (String, bool) {
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(self.0.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let path = self.0.path().join(text("path"));
        match call.name.as_str() {
            "list" => (names().join("\n"), false),
            "read" => match std::fs::read_to_string(path) {
                Ok(text) => (text, false),
                Err(_) => (format!("no such file: {}", text("path")), true),
            },
            "write" => {
                std::fs::write(path, text("content")).unwrap();
                (
                    format!("Wrote {} bytes to {}.", text("content").len(), text("path")),
                    false,
                )
            }
            "search" => {
                let mut found = Vec::new();
                for name in names() {
                    let all = std::fs::read_to_string(self.0.path().join(&name)).unwrap();
                    for (at, line) in all.lines().enumerate() {
                        if line.contains(&text("pattern")) {
                            found.push(format!("{name}:{}: {line}", at + 1));
                        }
                    }
                }
                (
                    if found.is_empty() {
                        "no matches".to_owned()
                    } else {
                        found.join("\n")
                    },
                    false,
                )
            }
            other => (format!("no such tool: {other}"), true),
        }
    }
}

fn request(items: &[Arc<Item>], tools: Vec<ToolSpec>) -> EngineRequest {
    let mut request = EngineRequest::new(
        ThreadId::new("thread").unwrap(),
        TurnId::new("turn").unwrap(),
        History::new(1, items.to_vec()),
    );
    request.tools = tools.into();
    request
}

#[derive(Default)]
struct Round {
    text: String,
    calls: Vec<EngineToolCall>,
    output_tokens: u64,
}

async fn round(engine: &LocalEngine, request: EngineRequest) -> Result<Round> {
    let mut stream = engine.stream_turn(request).await?;
    let mut round = Round::default();
    let mut ends = 0;
    while let Some(event) = stream.next().await {
        match event? {
            EngineEvent::TextDelta { text } => round.text.push_str(&text),
            EngineEvent::Call(call) => round.calls.push(call),
            EngineEvent::Usage(usage) => round.output_tokens = usage.output.unwrap_or_default(),
            EngineEvent::Finished { reason } => {
                ends += 1;
                assert_eq!(reason == FinishReason::ToolCalls, !round.calls.is_empty());
            }
            _ => {}
        }
    }
    assert_eq!(ends, 1);
    Ok(round)
}

struct Turn {
    calls: Vec<(String, String)>,
    answer: String,
    output_tokens: u64,
    items: Vec<Arc<Item>>,
}

/// Runs rounds as a runtime does.
async fn turn(
    engine: &LocalEngine,
    workspace: &Workspace,
    before: &[Arc<Item>],
    asked: &str,
) -> Turn {
    let mut items = before.to_vec();
    items.push(Arc::new(Item::user(asked)));
    let (mut calls, mut output_tokens) = (Vec::new(), 0);
    for _ in 0..6 {
        let round = round(engine, request(&items, Workspace::tools()))
            .await
            .unwrap();
        output_tokens += round.output_tokens;
        if round.calls.is_empty() {
            items.push(Arc::new(Item::assistant(round.text.clone())));
            return Turn {
                calls,
                answer: round.text,
                output_tokens,
                items,
            };
        }
        for call in round.calls {
            let id = CallId::new(format!("call-{}", items.len())).unwrap();
            let (text, is_error) = workspace.run(&call);
            calls.push((call.name.clone(), call.arguments.clone()));
            items.push(Arc::new(Item::ToolCall(ToolCall {
                id: id.clone(),
                name: call.name.clone(),
                arguments: raw_json(call.arguments).unwrap(),
                state: None,
            })));
            items.push(Arc::new(Item::ToolResult(ToolResult {
                call_id: id,
                name: call.name,
                is_error,
                parts: vec![Part::text(text)],
            })));
        }
    }
    panic!("{asked}: no end of calls: {calls:?}");
}

#[tokio::test]
#[expect(
    clippy::print_stderr,
    reason = "the figures are what this test is also for"
)]
async fn tool_turns_with_the_tiny_model() {
    let _one = ONE_AT_A_TIME.lock().await;
    if !is_here().await {
        return;
    }
    let engine = LocalEngine::new(settings()).unwrap();
    assert_eq!(engine.readiness().await, Readiness::Ready);
    let model = engine.model(None).await.unwrap();
    assert_eq!(
        (model.name.as_str(), model.hint.is_some()),
        ("smollm2-135m", true)
    );

    let cases = [
        (
            "What does notes.txt say?",
            "read",
            r#"{"path":"notes.txt"}"#,
        ),
        ("List the files", "list", "{}"),
        ("What is in todo.md?", "read", r#"{"path":"todo.md"}"#),
        (
            "Write hello to greeting.txt",
            "write",
            r#"{"content":"hello","path":"greeting.txt"}"#,
        ),
        ("How many files are here?", "list", "{}"),
        ("Read notes.txt", "read", r#"{"path":"notes.txt"}"#),
        ("Show me todo.md", "read", r#"{"path":"todo.md"}"#),
        (
            "Create a file named hi.txt with the text hello world",
            "write",
            r#"{"content":"hello world","path":"hi.txt"}"#,
        ),
        ("What files are there?", "list", "{}"),
        (
            "Search for the word milk",
            "search",
            r#"{"pattern":"milk"}"#,
        ),
        (
            "Write \"buy milk\" into shop.md",
            "write",
            r#"{"content":"buy milk","path":"shop.md"}"#,
        ),
        ("Read missing.txt", "read", r#"{"path":"missing.txt"}"#),
    ];
    let (mut right, mut tokens, begun) = (0, 0, Instant::now());
    for (asked, tool, arguments) in cases {
        let workspace = Workspace::new();
        let at = Instant::now();
        let turn = turn(&engine, &workspace, &[], asked).await;
        eprintln!(
            "{:.1} s  {asked} -> {:?} -> {}",
            at.elapsed().as_secs_f32(),
            turn.calls,
            turn.answer
        );
        tokens += turn.output_tokens;
        assert!(!turn.answer.trim().is_empty(), "{asked}");
        assert_eq!(turn.calls.len(), 1, "{asked}");
        right += usize::from(turn.calls[0] == (tool.to_owned(), arguments.to_owned()));
        // The worked examples stand in no item.
        let thread = serde_json::to_string(&turn.items).unwrap();
        assert!(!thread.contains("readme.txt"), "{thread}");
    }
    let took = begun.elapsed().as_secs_f32();
    let total = cases.len();
    eprintln!("{right} of {total} calls right; {took:.1} s, {tokens} tokens of output");
    // Processors round differently: a call or two may come out otherwise.
    assert!(right >= total - 2, "{right} of {total} calls right");
}

#[tokio::test]
async fn the_answer_is_about_the_file_and_a_second_file_gets_a_second_round() {
    let _one = ONE_AT_A_TIME.lock().await;
    if !is_here().await {
        return;
    }
    let engine = LocalEngine::new(settings()).unwrap();
    let workspace = Workspace::new();
    let first = turn(&engine, &workspace, &[], "What does notes.txt say?").await;
    assert!(
        first.answer.to_lowercase().contains("monday"),
        "{}",
        first.answer
    );
    let second = turn(
        &engine,
        &workspace,
        &first.items,
        "Read notes.txt and todo.md",
    )
    .await;
    let mut paths: Vec<_> = second
        .calls
        .iter()
        .map(|(_, arguments)| arguments.clone())
        .collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 2, "{:?}", second.calls);
}

/// The processes that this one has started and that are still there.
fn children() -> Vec<i32> {
    let mine = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        state != Some("Z") && parent == Some(mine.as_str())
    })
    .collect()
}

fn kill(pid: i32) {
    let status = std::process::Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test]
async fn a_dropped_stream_frees_the_server_and_a_killed_server_comes_back() {
    let _one = ONE_AT_A_TIME.lock().await;
    if !is_here().await {
        return;
    }
    let before = children();
    let mut long = settings();
    long.profile = ProfileChoice::Off;
    let engine = LocalEngine::new(long).unwrap();
    let story = || {
        let mut request = request(
            &[Arc::new(Item::user("Tell me a very long story."))],
            vec![],
        );
        request.options.max_output_tokens = Some(3_000);
        request
    };
    let mut stream = engine.stream_turn(story()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    // The server has one place; it would take half a minute if it went on.
    let mut short = story();
    short.options.max_output_tokens = Some(3);
    let at = Instant::now();
    round(&engine, short.clone()).await.unwrap();
    assert!(at.elapsed() < Duration::from_secs(15), "{:?}", at.elapsed());

    let mut stream = engine.stream_turn(story()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    let server: Vec<_> = children()
        .into_iter()
        .filter(|pid| !before.contains(pid))
        .collect();
    assert_eq!(server.len(), 1, "turns share one server");
    kill(server[0]);
    let error = loop {
        match stream
            .next()
            .await
            .expect("a broken stream ends in an error")
        {
            Ok(event) => assert!(!matches!(event, EngineEvent::Finished { .. })),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("signal: 9"), "{error}");
    assert!(error.context_value("output").is_some(), "{error}");
    round(&engine, short).await.unwrap();
}

#[tokio::test]
async fn too_long_a_request_is_a_context_overflow() {
    let _one = ONE_AT_A_TIME.lock().await;
    if !is_here().await {
        return;
    }
    let mut settings = settings();
    settings.profile = ProfileChoice::Off;
    settings.context_tokens = Some(512);
    let engine = LocalEngine::new(settings).unwrap();
    let long = Arc::new(Item::user("word ".repeat(2_000)));
    let error = round(&engine, request(&[long], vec![]))
        .await
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::ContextOverflow, "{error}");
}

const HOLDER: &str = "HAFT_TEST_HOLD_MODEL";

/// What the process that is to be killed does: the test below, in its other role.
async fn hold_a_model(told: &Path) {
    let engine = LocalEngine::new(settings()).unwrap();
    let hello = request(&[Arc::new(Item::user("Hello"))], vec![]);
    let _stream = engine.stream_turn(hello).await.unwrap();
    std::fs::write(told, children()[0].to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn the_server_dies_with_a_process_that_is_killed() {
    if let Some(told) = std::env::var_os(HOLDER) {
        hold_a_model(Path::new(&told)).await;
    }
    let _one = ONE_AT_A_TIME.lock().await;
    if !is_here().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("pid");
    let mut holder = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_server_dies_with_a_process_that_is_killed"])
        .env(HOLDER, &told)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut pid = None;
    for _ in 0..1_200 {
        pid = std::fs::read_to_string(&told)
            .ok()
            .and_then(|text| text.parse::<i32>().ok());
        if pid.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pid = pid.expect("the process that holds a server didn't get that far");
    let alive = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            !stat
                .rsplit(')')
                .next()
                .unwrap_or_default()
                .starts_with(" Z")
        })
    };
    assert!(alive());
    holder.kill().await.unwrap();
    for _ in 0..600 {
        if !alive() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server lives on");
}
