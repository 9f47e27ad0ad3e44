//! A plug-in that answers nonsense costs the call that got it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use haft_api::{
    Binding, Destination, DestinationId, Error, ErrorKind, ExtensionConfig, ExtensionId,
    ExtensionRegistryBuilder, OutputChannel, OutputSink, ProcessId, Readiness, RemoteRunnerSession,
    ThreadId, raw_json,
};
use haft_plugin::{LoadOptions, RefusalKind, load};

mod support;

use support::{Loaded, compile_c, context, within};

const TOOL: &str = r#"{"kind":"tools","tools":[{"object":5,"spec":{"name":"odd","description":"","input_schema":{}}}]}"#;

fn contributing(contributions: &str) -> String {
    format!(
        "REGISTER={:?}",
        format!("{{\"contributions\":[{contributions}]}}")
    )
}

/// The plug-in with these macros.
fn built(macros: &[String]) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let arguments: Vec<_> = macros.iter().map(|m| format!("-D{m}")).collect();
    let arguments: Vec<_> = arguments.iter().map(|a| &**a).collect();
    let name = format!("nonsense-{}-{count}", std::process::id());
    compile_c("nonsense.c", &name, &arguments)
}

fn loaded(contributions: &str, macros: &[&str]) -> Loaded {
    let mut all = vec![contributing(contributions)];
    all.extend(macros.iter().map(|&m| m.to_owned()));
    let path = built(&all);
    let loaded = Loaded::new(&path);
    std::fs::remove_file(&path).unwrap();
    loaded
}

fn answer(json: &str) -> String {
    format!("ANSWER={json:?}")
}

#[tokio::test]
async fn a_tools_answer() {
    let check = async |macros: &[&str], kind: ErrorKind, text: &str| {
        let loaded = loaded(TOOL, macros);
        let error = loaded.call("odd", "{}").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        error
    };
    let corrupt = ErrorKind::Corrupt;
    let error = check(
        &[&answer("{nonsense")],
        corrupt,
        "execute: not the expected JSON",
    )
    .await;
    assert!(error.context_value("plug-in").unwrap().contains("nonsense"));
    assert_eq!(error.context_value("json"), Some("{nonsense"));
    check(&[], corrupt, "not the expected JSON").await;
    check(&[&answer("{}")], corrupt, "missing field `parts`").await;
    let image = r#"{"parts":[{"type":"image","media_type":"image/png","data":""}],"images":[9]}"#;
    check(&[&answer(image)], corrupt, "the pictures' bytes don't fit").await;
    check(&[r#"ANSWER="\xff\xfe""#], corrupt, "not the expected JSON").await;
    check(&["STATUS=77"], corrupt, "something unknown of itself").await;
    check(&["STATUS=-1"], corrupt, "something unknown of itself").await;
    check(
        &["STATUS=HAFT_ITEM", &answer(r#"{"parts":[]}"#)],
        corrupt,
        "several messages",
    )
    .await;
    check(&["STATUS=HAFT_FAILED"], corrupt, "without a readable error").await;
    let failed = ["STATUS=HAFT_FAILED", &answer(r#"{"message":"so what"}"#)];
    check(&failed, ErrorKind::Unexpected, "so what").await;
    check(
        &["STATUS=HAFT_UNIMPLEMENTED"],
        ErrorKind::Unsupported,
        "can't do this",
    )
    .await;
    check(
        &["STATUS=HAFT_SHUTDOWN"],
        ErrorKind::Unavailable,
        "shut down",
    )
    .await;
    check(&["TASK={0, 0}"], corrupt, "became no task").await;
    let small = "ACT=static const haft_task_table s = {8, 0, 0}";
    check(&[small, "TASK={0, &s}"], corrupt, "became no task").await;
    let gaps = "ACT=static const haft_task_table s = {sizeof(s), poll, 0}";
    check(&[gaps, "TASK={0, &s}"], corrupt, "became no task").await;
    // Bytes that can't be there.
    let lengths = ["ANSWER_LENGTH=SIZE_MAX"];
    check(&lengths, corrupt, "bytes that aren't there").await;
}

#[tokio::test]
async fn a_sensible_answer_is_one() {
    let text = answer(r#"{"parts":[{"type":"text","text":"from C"}],"later":{"x":1}}"#);
    let loaded = loaded(TOOL, &[&text]);
    assert_eq!(loaded.text("odd", "{}").await, "from C");
}

#[test]
fn what_is_said_at_the_start() {
    let check = |macros: &[String], offered: &str| {
        let path = built(macros);
        let refusal = load(&path, &LoadOptions::default()).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refusal.kind(), RefusalKind::Describe, "{refusal}");
        assert!(refusal.offered().contains(offered), "{refusal}");
    };
    let describe = |json: &str| format!("DESCRIBE={json:?}");
    let manifest = |id: &str, version: &str| {
        format!(
            "{{\"manifest\":{{\"id\":{id:?},\"version\":\"1\",\"api_version\":{version:?},\
             \"description\":\"\"}}}}"
        )
    };
    let extensions = |all: &[String]| describe(&format!("{{\"extensions\":[{}]}}", all.join(",")));
    check(&[describe("nonsense")], "not the expected JSON");
    check(&[extensions(&[])], "none");
    check(
        &[extensions(&[manifest("../x", "0.1.0")])],
        "not a valid extension id",
    );
    let twice = [manifest("a", "0.1.0"), manifest("a", "0.1.0")];
    check(&[extensions(&twice)], "two of id a");
    check(&["DESCRIBE_STATUS=HAFT_PENDING".to_owned()], "due at once");
    check(&["DESCRIBE_STATUS=HAFT_FAILED".to_owned()], "extensions");

    let path = built(&[extensions(&[manifest("a", "9.9.9")])]);
    let refusal = load(&path, &LoadOptions::default()).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(refusal.kind(), RefusalKind::ApiVersion);
    assert_eq!(refusal.offered(), "9.9.9 (a)");
}

#[test]
fn what_is_said_at_registration() {
    let check = |macros: &[String], text: &str| {
        let path = built(macros);
        let plugin = load(&path, &LoadOptions::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut builder = ExtensionRegistryBuilder::new();
        let extension = plugin.extensions().next().unwrap();
        let error = builder.extension(extension, &ExtensionConfig::empty());
        let error = error.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(
            error.context_value("extension"),
            Some("nonsense"),
            "{error}"
        );
    };
    check(&["REGISTER_STATUS=HAFT_PENDING".to_owned()], "due at once");
    check(&["REGISTER=\"[]\"".to_owned()], "not the expected JSON");
    check(&[contributing("{}")], "missing field `kind`");
    check(
        &[contributing(r#"{"kind":"engine"}"#)],
        "missing field `object`",
    );
    let bad_id = r#"{"kind":"policy","object":1,"id":"NO"}"#;
    check(&[contributing(bad_id)], "not a valid extension id");
    let twice = r#"{"kind":"engine","object":1,"id":"e"}"#;
    let twice = format!("{twice},{twice}");
    check(&[contributing(&twice)], "two parts of one id");
}

#[tokio::test]
async fn a_kind_of_contribution_from_the_future_is_left_out_and_let_go_of() {
    let later = format!(r#"{{"kind":"hologram","object":9,"depth":3}},{TOOL}"#);
    let loaded = loaded(&later, &[&answer(r#"{"parts":[]}"#)]);
    assert!(loaded.call("odd", "{}").await.is_ok());
    assert!(
        loaded.log.contains("`hologram`"),
        "{:?}",
        loaded.log.lines()
    );
    // This plug-in counts releases instead of objects.
    assert_eq!(loaded.plugin.stats().plugin.objects, 1);
}

#[tokio::test]
async fn engines_sessions_and_stores() {
    let parts = r#"{"kind":"engine","object":1,"id":"e"},
        {"kind":"runner","object":2,"id":"r"},{"kind":"store","object":3,"id":"s"},
        {"kind":"policy","object":4,"id":"p"},{"kind":"tool_source","object":6,"id":"t"}"#;
    let binding = Binding {
        destination: Destination {
            id: DestinationId::new("d").unwrap(),
            provider_id: ExtensionId::new("r").unwrap(),
            config: raw_json("{}").unwrap(),
            manifest: None,
        },
        workspace: "/w".to_owned(),
        read_roots: Vec::new(),
    };
    let corrupt = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    };
    for json in ["", "nonsense", "{}", "[]"] {
        let loaded = loaded(parts, &[&answer(json)]);
        let registry = &loaded.registry;
        let engine = registry.engine("e").unwrap();
        let turn = haft_api::EngineRequest::new(
            ThreadId::new("t").unwrap(),
            haft_api::TurnId::new("u").unwrap(),
            haft_api::History::new(1, Vec::new()),
        );
        corrupt(within(engine.stream_turn(turn)).await.err().unwrap());
        if json != "[]" {
            corrupt(within(engine.models()).await.unwrap_err());
            let source = &registry.tool_sources()[0].part;
            corrupt(within(source.tools()).await.unwrap_err());
        }
        let readiness = within(engine.readiness()).await;
        assert!(matches!(readiness, Readiness::Unavailable { .. }));
        let runner = registry.runner("r").unwrap();
        corrupt(within(runner.create(binding.clone())).await.err().unwrap());
        let state = haft_api::SessionState {
            provider_id: ExtensionId::new("r").unwrap(),
            session_id: haft_api::SessionId::new("x").unwrap(),
            destination_id: DestinationId::new("d").unwrap(),
            snapshot: None,
            metadata: None,
        };
        corrupt(
            within(runner.resume(binding.clone(), state))
                .await
                .unwrap_err(),
        );
        let options = haft_api::StoreOptions::new("/h");
        let store = registry.store("s").unwrap();
        corrupt(within(store.open(options)).await.err().unwrap());
    }
}

/// A model that never ends, and says nothing that could be read: the first item
/// of a stream only says that the round was accepted.
#[tokio::test]
async fn a_stream_of_nonsense() {
    let engine = r#"{"kind":"engine","object":1,"id":"e"}"#;
    for json in ["{}", r#"{"text_delta":{}}"#, r#"{"finished":{"reason":7}}"#] {
        let loaded = loaded(engine, &["STATUS=HAFT_ITEM", &answer(json)]);
        let turn = haft_api::EngineRequest::new(
            ThreadId::new("t").unwrap(),
            haft_api::TurnId::new("u").unwrap(),
            haft_api::History::new(1, Vec::new()),
        );
        let engine = loaded.registry.engine("e").unwrap();
        let mut stream = within(engine.stream_turn(turn)).await.unwrap();
        let error = within(stream.next()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{json}: {error}");
        assert_eq!(error.operation_name(), Some("stream_turn"), "{error}");
        assert!(within(stream.next()).await.is_none(), "{json}");
    }
}

#[tokio::test]
async fn a_session_that_answers_nonsense() {
    let runner = r#"{"kind":"runner","object":2,"id":"r"}"#;
    let binding = Binding {
        destination: Destination {
            id: DestinationId::new("d").unwrap(),
            provider_id: ExtensionId::new("r").unwrap(),
            config: raw_json("{}").unwrap(),
            manifest: None,
        },
        workspace: "/w".to_owned(),
        read_roots: Vec::new(),
    };
    // One answer for all: a session, and the beginning of every other thing.
    let session = |more: &str| {
        answer(&format!(
            r#"{{"object":7,"state":{{"provider_id":"r","session_id":"x","destination_id":"d"}},
            "workspace":"/w"{more}}}"#
        ))
    };
    let made = async |more: &str, blob: &str| {
        let loaded = loaded(runner, &[&session(more), &format!("BLOB={blob:?}")]);
        let provider = Arc::clone(loaded.registry.runner("r").unwrap());
        within(provider.create(binding.clone())).await.unwrap()
    };
    let read = async |session: Arc<dyn RemoteRunnerSession>| {
        let process = ProcessId::new("p").unwrap();
        within(session.read_process(&process, None, 10, 0)).await
    };
    let chunks = r#","chunks":[{"seq":0,"channel":"stdout","len":3},{"seq":1,"channel":"stderr","len":2}],"closed":true"#;
    let whole = read(made(chunks, "abcde").await).await.unwrap();
    let bytes: Vec<_> = whole.chunks.iter().map(|c| c.bytes.clone()).collect();
    assert_eq!(
        (bytes, whole.closed),
        (vec![b"abc".to_vec(), b"de".to_vec()], true)
    );
    for blob in ["abcd", "abcdef", ""] {
        let error = read(made(chunks, blob).await).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.operation_name(), Some("read_process"));
    }
    // What it says of its state isn't one: the last known is kept.
    let session = made("", "").await;
    assert_eq!(session.state().session_id.as_str(), "x");
    assert_eq!(session.workspace(), "/w");
}

/// Notes whether it is still there.
struct Counting(AtomicUsize);

impl OutputSink for Counting {
    fn write(&self, _: OutputChannel, _: &[u8]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A plug-in that lets go of what it was only lent, calls what isn't there and
/// keeps what nobody offered.
#[tokio::test]
async fn a_plug_in_that_miscounts() {
    let act = "ACT=lent = object_in(json, \"\\\"output\\\":\"); \
        call_host(lent, \"write\", \"{\\\"channel\\\":\\\"stdout\\\"}\"); \
        if (call_host(12345678, \"write\", \"{}\") != HAFT_FAILED) abort(); \
        if (call_host(lent, \"dance\", \"{}\") != HAFT_UNIMPLEMENTED) abort(); \
        if (call_host(0, \"anything\", \"{}\") != HAFT_UNIMPLEMENTED) abort(); \
        if (call_host(lent, \"write\", \"gibberish\") != HAFT_FAILED) abort(); \
        for (int i = 0; i < 3; i++) host->release(host->data, lent); \
        host->release(host->data, 999); host->retain(host->data, 999); \
        if (call_host(lent, \"write\", \"{\\\"channel\\\":\\\"stdout\\\"}\") != HAFT_FAILED) abort()";
    let loaded = loaded(TOOL, &[act, &answer(r#"{"parts":[]}"#)]);
    let sink = Arc::new(Counting(AtomicUsize::new(0)));
    for round in 1..=3 {
        let context = context().with_output(Arc::clone(&sink) as _);
        loaded.call_in(context, "odd", "{}").await.unwrap();
        assert_eq!(sink.0.load(Ordering::Relaxed), round);
    }
    assert_eq!(
        loaded.plugin.stats().host,
        haft_plugin::ServerStats::default()
    );
    assert_eq!(Arc::strong_count(&sink), 1);
}

#[tokio::test]
async fn a_plug_in_that_closes_its_host() {
    let act = "ACT=host->close(host->data); \
        if (call_host(1, \"write\", \"{}\") != HAFT_SHUTDOWN) abort()";
    let loaded = loaded(TOOL, &[act, &answer(r#"{"parts":[]}"#)]);
    loaded.call("odd", "{}").await.unwrap();
    // It has cut itself off from being lent anything; calls go on.
    loaded.call("odd", "{}").await.unwrap();
}
