//! The suite for [`EventSink`]s.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{
    Error, ErrorKind, Event, EventBody, EventSink, Item, NoticeLevel, OutputChannel, Part,
    RequestId, Usage, raw_json, unix_ms_now,
};

use super::Case;
use super::declare::collect_cases;
use crate::fixture::{call_id, extension_id, thread_id, tool_call, tool_result, turn_id};

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __event_sink_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            every_event_is_taken: "events of every kind are taken without a panic",
            any_content_is_taken: "events with texts of every kind and size are taken without a panic",
            publishing_returns_at_once: "10,000 events are taken without holding up the runtime",
            threads_may_be_mixed: "events of many threads and turns are taken in any mixture",
        }
    };
}

/// All cases for an event sink.
///
/// For one test per case use
/// [`event_sink_conformance!`](crate::event_sink_conformance).
pub fn event_sink_suite(
    make: impl Fn() -> Arc<dyn EventSink> + Send + Sync + 'static,
) -> Vec<Case> {
    crate::__event_sink_cases! { collect_cases [make] }
}

/// Declares one test for each promise of an [`EventSink`]. The argument makes
/// one.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::EventSink;
/// use haft_testkit::Journal;
///
/// haft_testkit::event_sink_conformance!(|| Arc::new(Journal::new()) as Arc<dyn EventSink>);
/// # #[tokio::main]
/// # async fn main() {
/// # haft_testkit::run_all(event_sink_conformance::cases()).await.assert_kept();
/// # }
/// ```
#[macro_export]
macro_rules! event_sink_conformance {
    ($make:expr) => {
        $crate::__event_sink_cases! {
            $crate::__declare_tests [event_sink_conformance, $crate::event_sink_suite, $make]
        }
    };
}

fn item(item: Item) -> EventBody {
    EventBody::ItemAppended {
        item: Arc::new(item),
    }
}

/// A body of every kind, with this text wherever there is one.
fn bodies(text: &str) -> Vec<EventBody> {
    let json = || raw_json("{}").unwrap_or_else(|e| panic!("{{}} stands in a case: {e}"));
    let request_id = || RequestId::new("r1").unwrap_or_else(|e| panic!("r1 stands in a case: {e}"));
    let (name, text) = (|| "tool".to_owned(), || text.to_owned());
    let error = Error::new(ErrorKind::Unavailable, text()).to_data();
    let usage = Usage::default();
    vec![
        EventBody::ThreadCreated {
            parent: Some(thread_id("parent")),
        },
        EventBody::TurnStarted {
            engine: extension_id("engine"),
            model: Some(text()),
        },
        item(Item::user(text())),
        item(Item::assistant(text())),
        item(Item::Reasoning {
            text: text(),
            state: None,
        }),
        item(Item::ToolCall(tool_call("c1", "tool", "{}"))),
        item(Item::ToolResult(tool_result("c1", "tool", &text()))),
        item(Item::Notice {
            level: NoticeLevel::Error,
            code: "conformance".to_owned(),
            text: text(),
        }),
        EventBody::MessageDelta { text: text() },
        EventBody::ReasoningDelta { text: text() },
        EventBody::ToolStarted {
            call_id: call_id("c1"),
            name: name(),
        },
        EventBody::ToolProgress {
            call_id: call_id("c1"),
            channel: OutputChannel::Stderr,
            text: text(),
        },
        EventBody::ToolCompleted {
            call_id: call_id("c1"),
            name: name(),
            is_error: true,
            parts: vec![Part::text(text())],
        },
        EventBody::ApprovalRequested {
            request_id: request_id(),
            call_id: call_id("c1"),
            name: name(),
            arguments: json(),
            reason: text(),
        },
        EventBody::ApprovalResolved {
            request_id: request_id(),
            approved: false,
        },
        EventBody::ExternalCallRequested {
            request_id: request_id(),
            call_id: call_id("c1"),
            name: name(),
            arguments: json(),
        },
        EventBody::Usage {
            round: usage,
            turn_total: usage,
        },
        EventBody::ThreadUpdated {
            fields: vec![text()],
        },
        EventBody::Lagged { from: 1, to: 9 },
        EventBody::TurnCompleted { usage },
        EventBody::TurnFailed { error, usage },
        EventBody::TurnInterrupted { usage },
    ]
}

/// Hands events over in order, as a runtime does.
fn publish(sink: &dyn EventSink, thread: &str, bodies: impl IntoIterator<Item = EventBody>) {
    for (seq, body) in (0..).zip(bodies) {
        let turn = (seq > 0).then(|| turn_id("turn"));
        sink.publish(&Event::new(
            seq,
            thread_id(thread),
            turn,
            unix_ms_now(),
            body,
        ));
    }
}

/// How long 10,000 events may take: half a millisecond each.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The functions behind the names of the list.
mod cases {
    use super::*;
    use crate::suite::Checked;
    use crate::suite::expect::ensure;

    type Sink = Arc<dyn EventSink>;

    pub(super) async fn every_event_is_taken(sink: Sink) -> Checked {
        publish(&*sink, "thread", bodies("text"));
        Ok(())
    }

    pub(super) async fn any_content_is_taken(sink: Sink) -> Checked {
        let large = "0123456789 ä 中 ".repeat(50_000);
        for text in [
            "",
            " \n\r\t",
            "\u{0}\u{1b}[31m",
            "ä 中 😀 \u{2028}",
            "{\"a\":",
            &large,
        ] {
            publish(&*sink, "thread", bodies(text));
        }
        Ok(())
    }

    pub(super) async fn publishing_returns_at_once(sink: Sink) -> Checked {
        let delta = || EventBody::MessageDelta {
            text: "word ".to_owned(),
        };
        let began = Instant::now();
        publish(&*sink, "thread", std::iter::repeat_with(delta).take(10_000));
        let took = began.elapsed();
        ensure!(
            took < AT_ONCE,
            "expected 10,000 events within {AT_ONCE:?}, got {took:?}"
        );
        Ok(())
    }

    pub(super) async fn threads_may_be_mixed(sink: Sink) -> Checked {
        let tasks = (0..8).map(|number| {
            let sink = Arc::clone(&sink);
            tokio::spawn(async move {
                for body in bodies("text") {
                    publish(&*sink, &format!("thread-{number}"), [body]);
                    tokio::task::yield_now().await;
                }
            })
        });
        for task in futures::future::join_all(tasks).await {
            task.map_err(|e| format!("expected every event to be taken, got: {e}"))?;
        }
        Ok(())
    }
}
