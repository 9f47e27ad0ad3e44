//! Tool sources: one batch a round, one outcome a slot.

mod support;

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    BatchCall, BatchOutcomes, Effects, Error, ErrorKind, ExtensionId, Result, SlashCommand,
    SlashCommandCall, SlashCommandOutput, ToolSource, ToolSpec, async_trait,
};
use haft_core::TurnStatus;
use haft_testkit::{BatchSource, CountingTool, Gate, Outcome, Round, fixture};
use support::{World, items, outcomes, request};

fn round(names: &[&str]) -> Round {
    names
        .iter()
        .zip('a'..)
        .fold(Round::new(), |round, (name, id)| {
            round.call(id.to_string(), *name, "{}")
        })
}

#[tokio::test]
async fn a_source_gets_one_batch_and_every_slot_an_outcome() {
    let lost = Error::new(ErrorKind::Unavailable, "server died");
    let source = Arc::new(
        BatchSource::new("src")
            .tool("good", Outcome::text("ok").after(Duration::from_millis(20)))
            .tool(
                "bad",
                Outcome::error(&Error::new(ErrorKind::NotFound, "no such file")),
            )
            .tool("lose", Outcome::Dropped)
            .tool("fast", Outcome::text("quick")),
    );
    let calls = ["good", "bad", "count", "lose", "fast", "good"];
    let started = World::new([round(&calls)])
        .source(&source)
        .tool(CountingTool::new("count"))
        .start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed);
    let outcomes = outcomes(&thread).await;
    assert_eq!(outcomes[0], "good: ok");
    assert!(outcomes[1].starts_with("bad: !") && outcomes[1].contains("no such file"));
    assert_eq!(outcomes[2], "count: 1");
    assert!(
        outcomes[3].contains("the source dropped this call"),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[4..], ["fast: quick", "good: ok"]);
    assert_eq!(source.batches().len(), 1);
    assert_eq!(source.batches()[0].len(), 5);
    assert_eq!(lost.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_source_that_fails_or_panics_costs_its_own_calls() {
    let check = async |outcome: Outcome, word: &str| {
        let source = Arc::new(
            BatchSource::new("src")
                .tool("odd", outcome)
                .tool("good", Outcome::text("ok")),
        );
        let started = World::new([round(&["odd", "count"])])
            .source(&source)
            .tool(CountingTool::new("count"))
            .start();
        let (thread, end) = started.turn("go").await;
        assert_eq!(end.status, TurnStatus::Completed);
        let outcomes = outcomes(&thread).await;
        assert!(outcomes[0].contains(word), "{outcomes:?}");
        assert_eq!(outcomes[1], "count: 1");
    };
    let died = Error::new(ErrorKind::Unavailable, "server died");
    check(Outcome::batch_error(&died), "server died").await;
    check(Outcome::Panic("boom".to_owned()), "boom").await;
    check(Outcome::WrongId("zzz".to_owned()), "dropped this call").await;
}

#[tokio::test(start_paused = true)]
async fn an_overdue_slot_is_filled_and_a_late_answer_refused() {
    let spec = |name: &str| {
        ToolSpec::new(fixture::tool_name(name), name)
            .effects(Effects::PURE)
            .timeout_ms(1_000)
    };
    let late = Outcome::text("too late").after(Duration::from_millis(1_500));
    let slow = Outcome::text("slow").after(Duration::from_millis(3_000));
    let source = Arc::new(
        BatchSource::new("src")
            .tool_with(spec("late"), late)
            .tool_with(spec("slow").timeout_ms(10_000), slow),
    );
    let started = World::new([round(&["late", "slow"])])
        .source(&source)
        .start();
    let (thread, _) = started.turn("go").await;
    let outcomes = outcomes(&thread).await;
    assert!(outcomes[0].contains("limit of 1.0 s"), "{outcomes:?}");
    assert_eq!(outcomes[1], "slow: slow");
    let accepted: Vec<_> = source
        .answers()
        .into_iter()
        .map(|(_, accepted)| accepted)
        .collect();
    assert_eq!(accepted, [false, true]);
}

#[tokio::test]
async fn an_interrupt_drops_the_batch() {
    let gate = Gate::new();
    let source = Arc::new(BatchSource::new("src").tool("wait", Outcome::text("never").at(&gate)));
    let started = World::new([round(&["wait", "wait"])])
        .source(&source)
        .start();
    let thread = started.thread().await;
    let turn = thread.start_turn(request("go")).await.unwrap();
    while source.batches().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert!(
        outcomes(&thread)
            .await
            .iter()
            .all(|outcome| outcome.contains("aborted"))
    );
    assert_eq!(source.executions().counts().cancelled, 2);
}

#[tokio::test]
async fn a_source_without_a_list_costs_its_tools_and_a_notice() {
    let source = Arc::new(BatchSource::new("src").tool("good", Outcome::text("ok")));
    source.fail_list(Some(&Error::new(ErrorKind::Unavailable, "server is down")));
    let started = World::new([]).source(&source).start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed);
    let notice = items(&thread)
        .await
        .into_iter()
        .find_map(|item| match item {
            haft_api::Item::Notice { text, .. } => Some(text),
            _ => None,
        });
    let notice = notice.expect("a notice");
    assert!(
        notice.contains("src") && notice.contains("server is down"),
        "{notice}"
    );
}

#[tokio::test]
async fn one_bad_tool_of_a_source_costs_that_tool() {
    let bad = ToolSpec::new(fixture::tool_name("bad"), "bad").effects(Effects::PURE);
    let bad = bad.schema(r#"{"type":"no-such-type"}"#).unwrap();
    let taken = ToolSpec::new(fixture::tool_name("count"), "taken").effects(Effects::PURE);
    let source = Arc::new(
        BatchSource::new("src")
            .tool("good", Outcome::text("ok"))
            .tool_with(bad, Outcome::text("never"))
            .tool_with(taken, Outcome::text("never")),
    );
    let started = World::new([])
        .source(&source)
        .tool(CountingTool::new("count"))
        .start();
    let (tools, problems) = started.runtime.tools().await;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["count", "good"]);
    assert_eq!(problems.len(), 2);
}

/// A source that has commands and no tools.
struct Commands {
    id: ExtensionId,
    names: Vec<&'static str>,
}

impl Commands {
    fn new(id: &str, names: &[&'static str]) -> Arc<Self> {
        Arc::new(Self {
            id: ExtensionId::new(id).unwrap(),
            names: names.to_vec(),
        })
    }
}

#[async_trait]
impl ToolSource for Commands {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        Ok(Vec::new())
    }

    async fn call_batch(&self, _: Vec<BatchCall>, _: Arc<dyn BatchOutcomes>) -> Result<()> {
        Ok(())
    }

    async fn commands(&self) -> Result<Vec<SlashCommand>> {
        if self.names.is_empty() {
            panic!("a bad list");
        }
        let commands = self.names.iter().map(|name| SlashCommand::new(*name, "x"));
        Ok(commands.collect())
    }

    async fn run_command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        match call.text.as_str() {
            "panic" => panic!("a bad command"),
            text => Ok(SlashCommandOutput::text(format!("{}: {text}", self.id))),
        }
    }
}

#[tokio::test]
async fn slash_commands_go_to_the_source_that_has_them() {
    let started = World::new([])
        .source(&Commands::new("a", &["one", "same"]))
        .source(&Commands::new("broken", &[]))
        .source(&Commands::new("c", &["same", "two"]))
        .source(&Arc::new(BatchSource::new("plain")))
        .start();
    let (commands, problems) = started.runtime.commands().await;
    let names: Vec<_> = commands.iter().map(|command| &*command.name).collect();
    assert_eq!(names, ["one", "same", "two"]);
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().any(|p| p.contains("a bad list")));
    assert!(
        problems
            .iter()
            .any(|p| p.contains("another source has a command"))
    );

    let run = async |name: &str, text: &str| {
        let ran = started
            .runtime
            .run_command(SlashCommandCall::new(name, text));
        ran.await.map(|output| output.text.unwrap())
    };
    assert_eq!(run("two", "x y").await.unwrap(), "c: x y");
    assert_eq!(run("same", "").await.unwrap(), "a: ");
    assert!(
        run("one", "panic")
            .await
            .unwrap_err()
            .to_string()
            .contains("a bad command")
    );
    assert_eq!(
        run("three", "").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}
