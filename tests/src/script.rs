//! Scripts for the replay engine.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// The events of one round.
pub type Round = Vec<Value>;

/// A number that is used once.
pub(crate) fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A round of text.
pub fn text(text: &str) -> Round {
    vec![json!({"type": "text", "text": text})]
}

/// A call with an id.
pub fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({"type": "call", "id": id, "name": name, "arguments": arguments})
}

/// A round of calls of one tool.
pub fn calls(name: &str, arguments: impl IntoIterator<Item = Value>) -> Round {
    let numbered = (0..).zip(arguments);
    numbered
        .map(|(n, arguments)| call(&format!("c{n}"), name, arguments))
        .collect()
}

pub(crate) fn lines(rounds: &[Round]) -> String {
    let line = |round: &Round| format!("{}\n", json!({"events": round}));
    rounds.iter().map(line).collect()
}
