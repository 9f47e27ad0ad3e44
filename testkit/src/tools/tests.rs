use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt;
use haft_api::{BatchCall, BatchOutcomes, CallId, OutputSink, ToolSource};

use super::*;
use crate::fixture::{tool_call, tool_context};
use crate::lock::lock;

async fn run(tool: &dyn Tool, arguments: &str) -> Result<ToolOutput> {
    tool.execute(tool_call("c", "t", arguments), tool_context())
        .await
}

#[tokio::test(start_paused = true)]
async fn tools_do_what_their_names_say() {
    let text = async |tool: &dyn Tool, arguments: &str| match run(tool, arguments).await {
        Ok(output) if output.is_error => format!("told: {}", haft_api::join_text(&output.parts)),
        Ok(output) => haft_api::join_text(&output.parts),
        Err(error) => format!("broke: {error}"),
    };
    assert_eq!(
        text(&EchoTool::new("t"), r#"{"a":1.0}"#).await,
        r#"{"a":1.0}"#
    );
    assert_eq!(text(&FailTool::new("t", "no"), "{}").await, "broke: no");
    assert_eq!(text(&FailTool::telling("t", "no"), "{}").await, "told: no");
    let counting = CountingTool::new("t");
    assert_eq!(text(&counting, "{}").await, "1");
    assert_eq!(text(&counting, "{}").await, "2");
    assert_eq!(counting.count(), 2);

    let sleeping = SleepTool::new("t");
    let began = tokio::time::Instant::now();
    assert_eq!(text(&sleeping, r#"{"ms":700}"#).await, "slept");
    assert_eq!(began.elapsed(), Duration::from_millis(700));
    let endless = tokio::time::timeout(Duration::from_secs(3600), run(&sleeping, "{}"));
    assert!(endless.await.is_err());
    let counts = sleeping.executions().counts();
    assert_eq!(
        (counts.started, counts.finished, counts.cancelled),
        (2, 1, 1)
    );

    let panicking = PanicTool::new("t", "boom");
    let caught = std::panic::AssertUnwindSafe(run(&panicking, "{}"))
        .catch_unwind()
        .await;
    assert!(caught.is_err());
    let counts = panicking.executions().counts();
    assert_eq!((counts.finished, counts.cancelled), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn output_is_kept_of_a_tool_that_hangs() {
    #[derive(Default)]
    struct Kept(Mutex<Vec<u8>>);
    impl OutputSink for Kept {
        fn write(&self, _: OutputChannel, bytes: &[u8]) {
            lock(&self.0).extend_from_slice(bytes);
        }
    }
    let check = async |tool: OutputTool, ends: bool| {
        let kept = Arc::new(Kept::default());
        let context = tool_context().with_output(Arc::clone(&kept) as Arc<dyn OutputSink>);
        let run = tool.execute(tool_call("c", "t", "{}"), context);
        assert_eq!(
            tokio::time::timeout(Duration::from_secs(1), run)
                .await
                .is_ok(),
            ends
        );
        assert_eq!(*lock(&kept.0), b"ab\xff");
    };
    let pieces = || {
        [
            (OutputChannel::Stdout, "ab".into()),
            (OutputChannel::Stderr, vec![0xff]),
        ]
    };
    check(OutputTool::new("t", pieces()), true).await;
    check(OutputTool::hanging("t", pieces()), false).await;
}

#[tokio::test]
async fn executions_side_by_side_are_seen() {
    let gate = crate::gate::Gate::new();
    let held = gate.clone();
    let tool = FnTool::new("t", move |_, _| {
        let held = held.clone();
        async move {
            held.pass().await;
            Ok(ToolOutput::text("done"))
        }
    });
    let executions = tool.executions();
    let open = async {
        executions.wait_until(|counts| counts.running() == 2).await;
        gate.open();
    };
    let (a, b, ()) = tokio::join!(run(&tool, "{}"), run(&tool, r#"{"b":1}"#), open);
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(executions.counts().most_at_once, 2);
    assert_eq!(executions.arguments(), ["{}", r#"{"b":1}"#]);
}

/// Keeps the first answer of each call of a batch.
#[derive(Default)]
struct Board {
    calls: Vec<CallId>,
    filled: Mutex<Vec<String>>,
    taken: Mutex<Vec<CallId>>,
}

impl BatchOutcomes for Board {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut taken = lock(&self.taken);
        if !self.calls.contains(call) || taken.contains(call) {
            return false;
        }
        taken.push(call.clone());
        let word = match outcome {
            Ok(output) => haft_api::join_text(&output.parts),
            Err(error) => error.kind().to_string(),
        };
        lock(&self.filled).push(format!("{call}={word}"));
        true
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_goes_wrong_in_every_way() {
    let denied = Error::new(ErrorKind::Denied, "no");
    let source = Arc::new(
        BatchSource::new("s")
            .tool("fine", Outcome::text("ok"))
            .tool("error", Outcome::error(&denied))
            .tool("slow", Outcome::text("slow").after(Duration::from_secs(1)))
            .tool("drop", Outcome::Dropped)
            .tool("stall", Outcome::Stalled)
            .tool(
                "twice",
                Outcome::Twice(ToolOutput::text("1"), ToolOutput::text("2")),
            )
            .tool(
                "late",
                Outcome::Late(Duration::from_secs(1), ToolOutput::text("late")),
            )
            .tool("astray", Outcome::WrongId("nobody".to_owned()))
            .tool("panic", Outcome::Panic("boom".to_owned()))
            .tool("batch", Outcome::batch_error(&denied))
            .tool(
                "echo",
                Outcome::function(
                    |call, _| async move { Ok(ToolOutput::text(call.arguments.get())) },
                ),
            ),
    );
    // What a batch of such calls fills, and how the batch ends.
    let check = async |names: &str, filled: &str, ending: &str| {
        let calls: Vec<_> = names
            .split(' ')
            .map(|name| BatchCall {
                call: tool_call(name, name, "{}"),
                context: tool_context(),
            })
            .collect();
        let board = Arc::new(Board {
            calls: calls.iter().map(|c| c.call.id.clone()).collect(),
            ..Board::default()
        });
        let run = source.call_batch(calls, Arc::clone(&board) as Arc<dyn BatchOutcomes>);
        let run = tokio::time::timeout(Duration::from_secs(60), run);
        let ended = match std::panic::AssertUnwindSafe(run).catch_unwind().await {
            Err(_) => "panic",
            Ok(Err(_)) => "hangs",
            Ok(Ok(Err(_))) => "error",
            Ok(Ok(Ok(()))) => "ok",
        };
        assert_eq!(lock(&board.filled).join(" "), filled, "{names}");
        assert_eq!(ended, ending, "{names}");
        board
    };
    check("fine error echo", "fine=ok error=denied echo={}", "ok").await;
    check("slow fine", "fine=ok slow=slow", "ok").await;
    check("drop fine", "fine=ok", "ok").await;
    check("stall fine", "fine=ok", "hangs").await;
    check("twice", "twice=1", "ok").await;
    check("astray fine", "fine=ok", "ok").await;
    check("panic", "", "panic").await;
    check("batch fine", "fine=ok", "error").await;
    check("unknown fine", "unknown=not_found fine=ok", "ok").await;
    let board = check("late", "", "ok").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(*lock(&board.filled), ["late=late"]);
    let refused = source
        .answers()
        .iter()
        .filter(|(_, accepted)| !accepted)
        .count();
    assert_eq!(
        refused, 2,
        "the second of two answers, and the one gone astray"
    );
    assert_eq!(source.batches().len(), 10);

    source.fail_list(Some(&denied));
    assert!(source.tools().await.is_err());
    source.fail_list(None);
    assert_eq!(source.tools().await.unwrap().len(), 11);
}
