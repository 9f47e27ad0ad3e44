//! Calls of a tool source, as a turn makes them but without a turn, and what
//! came of them in a form that tests read easily.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() {
//! use haft_api::{Error, ErrorKind};
//! use haft_testkit::{BatchSource, Outcome, calls};
//!
//! let source = BatchSource::new("tools")
//!     .tool("greet", Outcome::text("hello"))
//!     .tool("fail", Outcome::error(&Error::new(ErrorKind::Unavailable, "closed")));
//! let batch = calls::batch(&[("greet", r#"{"who":"you"}"#), ("fail", "{}")], None);
//! let outcomes = calls::run(&source, batch).await;
//! assert_eq!(outcomes[0].text, "hello");
//! assert!(outcomes[1].is_error && outcomes[1].text.contains("closed"));
//! # }
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Deadline, Part, Result, ThreadId, ToolCall, ToolContext,
    ToolOutput, ToolSource, TurnId, raw_json,
};

/// What came of a call.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All parts as a text, a line each; or the error.
    pub text: String,
    /// Whether it failed, in whatever way.
    pub is_error: bool,
    /// How long after the batch began it was there.
    pub after: Duration,
    /// The parts; none of an error that has no output.
    pub parts: Vec<Part>,
}

/// A batch of calls: names of tools and arguments as JSON. The calls are named
/// `c00000` and so on, in the thread `thread` and the turn `turn`. `limit` is how
/// long they may take from now on.
///
/// # Panics
/// If arguments are no JSON.
pub fn batch(calls: &[(&str, &str)], limit: Option<Duration>) -> Vec<BatchCall> {
    let calls = calls.iter().enumerate().map(|(index, (name, arguments))| {
        let thread = ThreadId::new("thread").expect("an id of letters");
        let turn = TurnId::new("turn").expect("an id of letters");
        let mut context = ToolContext::new(thread, turn);
        context.deadline = limit.map(Deadline::after);
        let arguments = raw_json(*arguments)
            .unwrap_or_else(|error| panic!("{name}: {arguments} is no JSON: {error}"));
        let call = ToolCall {
            id: CallId::new(format!("c{index:05}")).expect("an id of letters"),
            name: (*name).to_owned(),
            arguments,
            state: None,
        };
        BatchCall { call, context }
    });
    calls.collect()
}

/// Runs a batch; the outcomes in the order of its calls. Dropping the future
/// cancels them.
///
/// # Panics
/// If the batch itself fails, or a call has no outcome at its end.
pub async fn run(source: &dyn ToolSource, batch: Vec<BatchCall>) -> Vec<Outcome> {
    let ids: Vec<_> = batch.iter().map(|call| call.call.id.clone()).collect();
    let slots = Arc::new(Slots {
        began: Instant::now(),
        filled: Mutex::default(),
    });
    let outcomes = Arc::clone(&slots) as Arc<dyn BatchOutcomes>;
    let called = source.call_batch(batch, outcomes).await;
    called.unwrap_or_else(|error| panic!("the batch failed: {error}"));
    let mut filled = slots.filled.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = |id: CallId| {
        let filled = filled.remove(&id);
        let (outcome, after) = filled.unwrap_or_else(|| panic!("{id} has no outcome"));
        match outcome {
            Ok(output) => Outcome {
                text: shown(&output.parts),
                is_error: output.is_error,
                after,
                parts: output.parts,
            },
            Err(error) => Outcome {
                text: error.to_string(),
                is_error: true,
                after,
                parts: Vec::new(),
            },
        }
    };
    ids.into_iter().map(outcome).collect()
}

/// Parts as a text, a line each: texts as they are, JSON as it is written,
/// images as `media/type:data`.
pub fn shown(parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Json { value } => value.get().to_owned(),
        Part::Image { media_type, data } => format!("{media_type}:{data}"),
        other => format!("{other:?}"),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The first outcome of each call.
struct Slots {
    began: Instant,
    filled: Mutex<BTreeMap<CallId, (Result<ToolOutput>, Duration)>>,
}

impl BatchOutcomes for Slots {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !filled.contains_key(call);
        if first {
            filled.insert(call.clone(), (outcome, self.began.elapsed()));
        }
        first
    }
}
