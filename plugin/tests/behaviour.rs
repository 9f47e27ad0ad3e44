//! What a plug-in may do, it can do through the boundary too.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{Deadline, ErrorKind, ErrorStatus, Part};

mod support;

use support::session::MemorySession;
use support::{Kept, Loaded, context};

#[tokio::test]
async fn tools_are_called_with_all_they_are_given() {
    let loaded = Loaded::fixture();
    assert_eq!(
        loaded.text("echo", r#"{"text":"grüße \u0000 \" "}"#).await,
        "grüße \0 \" "
    );
    let mut context = context();
    context.deadline = Some(Deadline::from_unix_ms(12));
    context.turn_deadline = Some(Deadline::from_unix_ms(34));
    assert_eq!(
        loaded.text_in(context, "deadline", "{}").await,
        "thread turn Some(12) Some(34)"
    );
    assert_eq!(loaded.text("hello", "{}").await, "hello from the second");
    loaded.at_rest().await;
}

#[tokio::test]
async fn what_tools_say_comes_back_whole() {
    let loaded = Loaded::fixture();
    let output = loaded.call("image", r#"{"count":100000}"#).await.unwrap();
    let [Part::Text { text }, Part::Image { media_type, data }] = &output.parts[..] else {
        panic!("{output:?}");
    };
    assert_eq!((&**text, &**media_type), ("a picture", "image/png"));
    assert_eq!(data.len(), 100_000);

    let told = loaded.call("tell", r#"{"text":"no"}"#).await.unwrap();
    assert!(
        told.is_error && told.parts == [Part::text("no")],
        "{told:?}"
    );

    let error = loaded.call("fail", r#"{"text":"slow","ms":1500}"#).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind(), error.status(), error.retry_after_ms()),
        (ErrorKind::RateLimited, ErrorStatus::Temporary, Some(1500))
    );
    assert_eq!(error.to_string(), "fail: slow (why: asked to): the cause");
    assert_eq!(loaded.log.lines(), [""; 0]);
}

#[tokio::test]
async fn the_plug_ins_own_runtime_works_on_the_hosts_threads() {
    let loaded = Loaded::fixture();
    let check = async |name: &str, arguments: &str, expected: &str| {
        assert_eq!(loaded.text(name, arguments).await, expected, "{name}");
    };
    check("sleep", r#"{"ms":20}"#, "slept").await;
    check("spawn", r#"{"ms":5}"#, "haft-plugin").await;
    check("blocking", r#"{"ms":5}"#, "blocked").await;
    check("timeout", r#"{"ms":20}"#, "timed out").await;
    check("process", r#"{"text":"from a process"}"#, "from a process").await;
    check("tcp", r#"{"text":"abc"}"#, "cba").await;
    loaded.at_rest().await;
}

#[test]
fn a_plug_in_needs_no_runtime_of_its_host() {
    let loaded = Loaded::fixture();
    let call = support::tool_call("sleep", r#"{"ms":20}"#);
    let tool = loaded.tool("sleep");
    // Polled by something that is no tokio at all.
    let output = futures::executor::block_on(tool.execute(call, context())).unwrap();
    assert_eq!(haft_api::join_text(&output.parts), "slept");
}

#[tokio::test]
async fn the_host_is_called_back() {
    let loaded = Loaded::fixture();
    let output = Arc::new(Kept::default());
    let session = Arc::new(MemorySession::with("a", "0123456789"));
    let with = || {
        context()
            .with_output(Arc::clone(&output) as _)
            .with_workspace(Arc::clone(&session) as _)
    };
    let check = async |name: &str, arguments: &str, expected: &str| {
        assert_eq!(loaded.text_in(with(), name, arguments).await, expected);
    };
    check("output", r#"{"text":"x","count":3}"#, "said").await;
    check("output_thread", r#"{"text":"from a thread"}"#, "said").await;
    assert_eq!(output.text(), "x0\nx1\nx2\nfrom a thread");

    check("copy", r#"{"path":"a"}"#, "10 bytes in /work space").await;
    assert_eq!(session.file("a.copy").as_deref(), Some(&b"0123456789"[..]));
    check("copy_spawned", r#"{"path":"a.copy"}"#, "10 bytes").await;
    assert_eq!(
        session.file("a.copy.copy").as_deref(),
        Some(&b"0123456789"[..])
    );
    check("state", "{}", "the session").await;

    let error = loaded.call_in(with(), "copy", r#"{"path":"b"}"#).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("path: b"), "{error}");
    let error = loaded.call("copy", r#"{"path":"b"}"#).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    loaded.at_rest().await;
    assert_eq!(Arc::strong_count(&session), 1);
}

#[tokio::test]
async fn what_is_kept_beyond_its_call_stays_until_it_is_let_go_of() {
    let loaded = Loaded::fixture();
    let output = Arc::new(Kept::default());
    let with = || context().with_output(Arc::clone(&output) as _);
    loaded.text_in(with(), "keep", "{}").await;
    assert_eq!(loaded.plugin.stats().host.objects, 1);
    assert_eq!(Arc::strong_count(&output), 2);
    loaded.text("let_go", r#"{"text":"late"}"#).await;
    assert_eq!(output.text(), "late");
    assert_eq!(Arc::strong_count(&output), 1);
    loaded.at_rest().await;
}

#[tokio::test]
async fn cancelling_reaches_the_plug_in() {
    let loaded = Loaded::fixture();
    assert_eq!(loaded.drops().await, 0);
    let call = loaded.call("forever", "{}");
    let cancelled = tokio::time::timeout(Duration::from_millis(20), call).await;
    assert!(cancelled.is_err());
    // At once: dropping the call has dropped the future.
    assert_eq!(loaded.drops().await, 1);
    loaded.at_rest().await;
}
