//! Tools that ask the turn's model.

mod support;

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    Decision, EngineToolCall, Error, ErrorKind, EventBody, ExtensionId, Item, MODEL_CALL,
    ModelInfo, ModelRequest, PolicyContributor, PolicyRequest, Result, ToolChoice, ToolOutput,
    async_trait,
};
use haft_core::{ToolRun, TurnStatus};
use haft_testkit::{FnTool, Gate, MemoryStore, Round, ScriptedEngine, fixture};
use support::{World, outcomes, request, wait_for};

/// A tool that says what the model answers, or how that failed.
fn asking(name: &str) -> FnTool {
    FnTool::new(name, |call, context| async move {
        let asked = ModelRequest::text(format!("{}?", call.name)).instructions("Be brief.");
        let answer = context.model()?.generate(asked).await;
        Ok(match answer {
            Ok(answer) => ToolOutput::text(format!(
                "{} by {} {}",
                answer.text,
                answer.engine,
                answer.model.unwrap_or_default()
            )),
            Err(error) => ToolOutput::error(format!("{:?} {error}", error.kind())),
        })
    })
}

fn calls(names: &[&str]) -> Round {
    let calls = names.iter().zip('a'..);
    calls.fold(Round::new(), |round, (name, id)| {
        round.call(id.to_string(), *name, "{}")
    })
}

#[tokio::test]
async fn a_tool_asks_the_turns_model_and_the_turn_pays() {
    let rounds = [
        calls(&["ask"]).usage(10, 5),
        Round::new()
            .reasoning("hm")
            .text("forty-two")
            .usage(300, 40),
        Round::new().text("done").usage(20, 2),
    ];
    let started = World::new(rounds).tool(asking("ask")).start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.answer, "done");
    assert_eq!(
        outcomes(&thread).await,
        ["ask: forty-two by scripted scripted-model"]
    );
    assert_eq!((end.usage.input, end.usage.output), (Some(330), Some(47)));
    // The model is shown the question, and nothing of the thread.
    let asked = &started.engine.requests()[1];
    let items: Vec<Item> = asked
        .history
        .items()
        .iter()
        .map(|i| (**i).clone())
        .collect();
    assert_eq!(items, [Item::user("ask?")]);
    assert_eq!(&*asked.instructions, "Be brief.");
    assert_eq!(asked.tool_choice, ToolChoice::None);
    assert!(asked.tools.is_empty() && asked.deadline.is_some());
    // Nothing of it is in the history, nor shown as the turn's own text.
    let summary = started.journal.summary();
    assert!(!summary.contains("delta"), "{summary}");
    assert_eq!(summary.matches("usage").count(), 3, "{summary}");
}

#[tokio::test]
async fn what_it_costs_survives_the_process_and_measures_no_history() {
    let store = MemoryStore::new();
    let rounds = [
        calls(&["ask"]).usage(10, 5),
        // Would fill the window many times over, if it were the thread's.
        Round::new().text("long").usage(900_000, 50_000),
        Round::new().text("done").usage(20, 2),
    ];
    let mut model = ModelInfo::new("small");
    model.context_tokens = Some(10_000);
    let engine = ScriptedEngine::new().with_models([model]).rounds(rounds);
    let id = {
        let started = World::with_engine(engine)
            .tool(asking("ask"))
            .store(store.shared())
            .start();
        let (thread, end) = started.turn("go").await;
        assert_eq!(end.status, TurnStatus::Completed);
        assert_eq!(started.engine.requests().len(), 3);
        thread.id().clone()
    };
    let again = World::new([]).store(store.shared()).start();
    let thread = again.runtime.open_thread(&id).await.unwrap();
    let items = thread.items(None, usize::MAX).await;
    assert_eq!(items.usage.input, Some(900_030));
    assert_eq!(items.models.len(), 1);
    assert_eq!(items.models[0].usage.output, Some(50_007));
}

#[tokio::test]
async fn many_ask_at_once_and_each_gets_its_own_answer() {
    let names: Vec<String> = (0..20).map(|n| format!("ask{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let engine = ScriptedEngine::new().answering(|request| {
        let said = request.history.items().last().map(|item| match &**item {
            Item::UserMessage { parts } => haft_api::join_text(parts),
            _ => "done".to_owned(),
        });
        Round::new().text(said.unwrap_or_default()).usage(1, 1)
    });
    engine.push(calls(&names));
    let world = names
        .iter()
        .fold(World::with_engine(engine), |world, name| {
            world.tool(asking(name))
        });
    let started = world.start();
    let (thread, end) = started.turn("go").await;
    let expected: Vec<String> = names
        .iter()
        .map(|name| format!("{name}: {name}? by scripted scripted-model"))
        .collect();
    assert_eq!(outcomes(&thread).await, expected);
    assert_eq!(end.usage.input, Some(21));
}

/// Has one word for requests of a model, and lets tools run.
struct Word(ExtensionId, Decision);

#[async_trait]
impl PolicyContributor for Word {
    fn id(&self) -> &ExtensionId {
        &self.0
    }

    async fn review(&self, request: PolicyRequest) -> Result<Decision> {
        if request.call.name != MODEL_CALL {
            return Ok(Decision::Allow);
        }
        // What is asked can be read.
        assert!(request.call.arguments.get().contains("ask?"));
        Ok(self.1.clone())
    }
}

#[tokio::test]
async fn policy_is_asked_first() {
    let check = async |word: Decision, answer: Option<bool>, expected: &str| {
        let mut world = World::new([calls(&["ask"]), Round::new().text("yes")]).tool(asking("ask"));
        let id = fixture::extension_id("word");
        world.registry.policy(Arc::new(Word(id, word)));
        let started = world.start();
        let thread = started.thread().await;
        let mut events = thread.subscribe(64);
        let turn = thread.start_turn(request("go")).await.unwrap();
        if let Some(answer) = answer {
            wait_for(&mut events, |event| {
                matches!(event.body, EventBody::ApprovalRequested { .. })
            })
            .await;
            let asked = thread.open_requests().await.remove(0);
            assert_eq!(asked.name, MODEL_CALL);
            thread.answer_approval(&asked.id, answer).await.unwrap();
        }
        assert_eq!(turn.ended().await.status, TurnStatus::Completed);
        let outcomes = outcomes(&thread).await;
        assert!(outcomes[0].contains(expected), "{outcomes:?}");
    };
    let reason = || "too dear".to_owned();
    let (ask, deny) = (
        Decision::Ask { reason: reason() },
        Decision::Deny { reason: reason() },
    );
    check(Decision::Allow, None, "ask: yes by scripted").await;
    check(deny, None, "Denied model.generate: denied: too dear").await;
    check(ask.clone(), Some(true), "ask: yes by scripted").await;
    check(ask, Some(false), "the user did not approve").await;
}

#[tokio::test]
async fn a_request_ends_with_its_call_and_is_paid_for() {
    let gate = Gate::new();
    // Asks, and doesn't wait for the answer.
    let careless = FnTool::new("ask", |_, context| async move {
        let model = Arc::clone(context.model()?);
        let asking = tokio::spawn(async move { model.generate(ModelRequest::text("?")).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(asking);
        Ok(ToolOutput::text("left"))
    });
    let rounds = [
        calls(&["ask"]).usage(10, 5),
        Round::new().text("half").usage(7, 3).hold(&gate),
        Round::new().text("done").usage(20, 2),
    ];
    let started = World::new(rounds).tool(careless).start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.answer, "done");
    assert_eq!(outcomes(&thread).await, ["ask: left"]);
    assert_eq!(started.engine.counts().cancelled, 1);
    assert_eq!(end.usage.input, Some(37));
}

#[tokio::test]
async fn an_interrupt_reaches_the_request() {
    let gate = Gate::new();
    let rounds = [calls(&["ask"]), Round::new().text("half").hold(&gate)];
    let started = World::new(rounds).tool(asking("ask")).start();
    let thread = started.thread().await;
    let turn = thread.start_turn(request("go")).await.unwrap();
    while gate.arrivals() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert_eq!(started.engine.counts().active, 0);
}

#[tokio::test(start_paused = true)]
async fn it_is_retried_and_fails_like_any_round() {
    let busy = || Error::new(ErrorKind::RateLimited, "slow down");
    let refused = || Error::new(ErrorKind::Denied, "no credit");
    let rounds = [
        calls(&["ask"]),
        Round::new().refuse(busy()),
        Round::new().text("at last"),
        calls(&["ask"]),
        Round::new().refuse(refused()),
    ];
    let started = World::new(rounds).tool(asking("ask")).start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed);
    let outcomes = outcomes(&thread).await;
    assert!(outcomes[0].starts_with("ask: at last by"), "{outcomes:?}");
    assert!(outcomes[1].contains("no credit"), "{outcomes:?}");
}

#[tokio::test]
async fn without_a_turn_or_a_question_there_is_no_model() {
    let started = World::new([]).tool(asking("ask")).start();
    let call = EngineToolCall {
        id: None,
        name: "ask".to_owned(),
        arguments: "{}".to_owned(),
        state: None,
    };
    let results = started.runtime.run_tools(vec![call], ToolRun::default());
    let results = results.await.unwrap();
    assert!(results[0].text().contains("it isn't part of a turn"));

    let blank = FnTool::new("ask", |_, context| async move {
        let answer = context.model()?.generate(ModelRequest::text(" \n")).await;
        Err(answer.unwrap_err())
    });
    let started = World::new([calls(&["ask"])]).tool(blank).start();
    let (thread, _) = started.turn("go").await;
    let outcomes = outcomes(&thread).await;
    assert!(
        outcomes[0].contains("the request's input is empty"),
        "{outcomes:?}"
    );
}
