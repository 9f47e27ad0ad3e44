//! Tool sources and event sinks through the boundary.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use haft_api::{
    BatchCall, BatchOutcomes, CallId, ErrorKind, Event, EventBody, Result, SlashCommand,
    SlashCommandCall, ThreadId, ToolOutput, join_text,
};

mod support;

use support::{Kept, Loaded, context, tool_call, within};

#[derive(Default)]
struct Slots(Mutex<BTreeMap<CallId, Result<ToolOutput>>>);

impl BatchOutcomes for Slots {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.contains_key(call) {
            return false;
        }
        slots.insert(call.clone(), outcome);
        true
    }
}

impl Slots {
    fn shown(&self) -> Vec<String> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |(id, outcome): (&CallId, &Result<ToolOutput>)| match outcome {
            Ok(output) => format!("{id}: {}", join_text(&output.parts)),
            Err(error) => format!("{id}: {:?} {}", error.kind(), error.message()),
        };
        slots.iter().map(shown).collect()
    }
}

fn batch(arguments: &[&str], output: &Arc<Kept>) -> Vec<BatchCall> {
    let call = |(index, arguments): (usize, &&str)| {
        let mut call = tool_call("slot", arguments);
        call.id = CallId::new(format!("c{index}")).unwrap();
        let context = context().with_output(Arc::clone(output) as _);
        BatchCall { call, context }
    };
    arguments.iter().enumerate().map(call).collect()
}

#[tokio::test]
async fn a_batch_fills_its_slots_one_by_one() {
    let loaded = Loaded::fixture();
    let [source] = loaded.registry.tool_sources() else {
        panic!("one source");
    };
    let tools = source.part.tools().await.unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].name, "slot");

    let (slots, output) = (Arc::new(Slots::default()), Arc::new(Kept::default()));
    let calls = batch(
        &[
            r#"{"ms":20}"#,
            r#"{"how":"error"}"#,
            r#"{"how":"panic"}"#,
            r#"{"how":"never"}"#,
            "{}",
        ],
        &output,
    );
    let outcomes = Arc::clone(&slots) as Arc<dyn BatchOutcomes>;
    within(source.part.call_batch(calls, outcomes))
        .await
        .unwrap();
    assert_eq!(
        slots.shown(),
        ["c0: c0 is done", "c1: Busy not now", "c4: c4 is done"]
    );
    let mut written: Vec<char> = output.text().chars().filter(char::is_ascii_digit).collect();
    written.sort_unstable();
    assert_eq!(written, ['0', '1', '2', '3', '4']);
    loaded.at_rest().await;
    assert_eq!(Arc::strong_count(&slots), 1);
}

#[tokio::test]
async fn commands_and_problems_are_told() {
    let loaded = Loaded::fixture();
    let source = &loaded.registry.tool_sources()[0].part;
    let problems = within(source.problems()).await;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].kind(), ErrorKind::Corrupt);
    assert_eq!(problems[0].context_value("file"), Some("x"));
    let commands = within(source.commands()).await.unwrap();
    assert_eq!(commands, [SlashCommand::new("echo", "Says it back")]);
    let call = SlashCommandCall::new("echo", "a  b");
    let silent = within(source.run_command(call.clone())).await.unwrap();
    assert_eq!(silent.text, None);
    let call = call.thread(ThreadId::new("t1").unwrap());
    let shown = within(source.run_command(call)).await.unwrap();
    assert_eq!(shown.text.as_deref(), Some("a  b in t1"));
    let other = SlashCommandCall::new("other", "");
    let error = within(source.run_command(other)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    loaded.at_rest().await;
}

#[tokio::test]
async fn a_batchs_own_error_is_one() {
    let loaded = Loaded::fixture();
    let source = &loaded.registry.tool_sources()[0];
    let (slots, output) = (Arc::new(Slots::default()), Arc::new(Kept::default()));
    let calls = batch(&[r#"{"how":"batch-error"}"#], &output);
    let error = within(source.part.call_batch(calls, slots))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(error.message(), "all is lost");
    loaded.at_rest().await;
}

#[tokio::test]
async fn event_sinks_get_every_event_and_a_panic_costs_one() {
    let loaded = Loaded::fixture();
    let [sink] = loaded.registry.event_sinks() else {
        panic!("one sink");
    };
    let publish = |seq, text: &str| {
        let text = text.to_owned();
        let body = EventBody::MessageDelta { text };
        let thread = ThreadId::new("t").unwrap();
        sink.part.publish(&Event::new(seq, thread, None, 0, body));
    };
    for seq in 0..10 {
        publish(seq, "x");
    }
    publish(10, "panic");
    publish(11, "x");
    assert_eq!(loaded.text("counts", "{}").await, "11 events, 0 drops");
    assert!(loaded.log.contains("an event of ill omen"));
    assert!(loaded.log.contains("an event wasn't taken (event: 10)"));
    loaded.plugin.close();
    publish(12, "x");
}
