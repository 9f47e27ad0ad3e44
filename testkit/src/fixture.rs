//! Short ways to the values that every test needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_api::{
    CallId, EngineRequest, ExtensionId, History, Item, ProcessId, ThreadId, ToolCall, ToolContext,
    ToolName, ToolResult, TurnId, raw_json,
};

/// Numbers that are used once in a process.
fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Unwraps an id made from text that stands in a test.
macro_rules! must {
    ($made:expr, $text:expr) => {
        $made.unwrap_or_else(|error| panic!("{:?} stands in a test as an id: {error}", $text))
    };
}

/// A thread id that no other call of this process returns.
pub fn fresh_thread() -> ThreadId {
    thread_id(&format!("thread-{}-{}", std::process::id(), fresh()))
}

/// A process id (of a session) that no other call of this process returns.
pub fn fresh_process() -> ProcessId {
    let text = format!("process-{}", fresh());
    must!(ProcessId::new(&text), text)
}

/// A thread id.
///
/// # Panics
/// If the text isn't one.
pub fn thread_id(text: &str) -> ThreadId {
    must!(ThreadId::new(text), text)
}

/// A turn id.
///
/// # Panics
/// If the text isn't one.
pub fn turn_id(text: &str) -> TurnId {
    must!(TurnId::new(text), text)
}

/// A call id.
///
/// # Panics
/// If the text isn't one.
pub fn call_id(text: &str) -> CallId {
    must!(CallId::new(text), text)
}

/// An extension's id.
///
/// # Panics
/// If the text isn't one.
pub fn extension_id(text: &str) -> ExtensionId {
    must!(ExtensionId::new(text), text)
}

/// A tool's name.
///
/// # Panics
/// If the text isn't one.
pub fn tool_name(text: &str) -> ToolName {
    must!(ToolName::new(text), text)
}

/// A tool call.
///
/// # Panics
/// If the id isn't one, or the arguments aren't JSON.
pub fn tool_call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: call_id(id),
        name: name.to_owned(),
        arguments: raw_json(arguments)
            .unwrap_or_else(|error| panic!("{arguments:?} stands in a test as JSON: {error}")),
        state: None,
    }
}

/// A tool's successful result, of plain text.
///
/// # Panics
/// If the id isn't one.
pub fn tool_result(id: &str, name: &str, text: &str) -> ToolResult {
    ToolResult {
        call_id: call_id(id),
        name: name.to_owned(),
        is_error: false,
        parts: vec![haft_api::Part::text(text)],
    }
}

/// A context with neither workspace nor deadline nor output.
pub fn tool_context() -> ToolContext {
    ToolContext::new(thread_id("thread"), turn_id("turn"))
}

/// A history of these items, of a generation of its own.
pub fn history(items: impl IntoIterator<Item = Item>) -> History {
    History::new(fresh(), items.into_iter().map(Arc::new).collect())
}

/// A request with this history.
pub fn engine_request(items: impl IntoIterator<Item = Item>) -> EngineRequest {
    EngineRequest::new(thread_id("thread"), turn_id("turn"), history(items))
}
