//! A strict check of histories, after the rules of the providers' wires.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use haft_api::{CallId, Item, Part, ProviderState, ToolCall, ToolResult};

pub(crate) mod content;

#[cfg(test)]
mod tests;

/// Whose rules a history must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Wire {
    /// OpenAI's Chat Completions: an assistant's `tool_calls` are followed by a
    /// `tool` message for each before any other; call ids of at most 40.
    OpenAiChat,
    /// OpenAI's Responses: a `function_call_output` for each `function_call`;
    /// call ids of at most 64.
    OpenAiResponses,
    /// Anthropic's Messages: all results of a round open the next user message;
    /// text has to be more than white space; the first message is the user's.
    Anthropic,
}

impl Wire {
    /// Every wire there is a check for.
    pub const ALL: [Self; 3] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic];

    /// The most characters of a call's id.
    fn id_length(self) -> usize {
        match self {
            Self::OpenAiChat => 40,
            Self::OpenAiResponses | Self::Anthropic => 64,
        }
    }

    /// Whether a text of white space counts as empty.
    fn refuses_blank_text(self) -> bool {
        self == Self::Anthropic
    }

    /// Whether the conversation has to begin with the user.
    fn begins_with_user(self) -> bool {
        self == Self::Anthropic
    }
}

/// The rule that a history breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Every tool call has a result, before the conversation goes on.
    MissingResult,
    /// No call has two results.
    DuplicateResult,
    /// No result is without an earlier call.
    ResultWithoutCall,
    /// The results of a round come in the order of its calls.
    ResultOrder,
    /// Nothing stands between the results of a round but notices.
    Interleaved,
    /// No two calls of a thread have one id.
    DuplicateCallId,
    /// A call's id fits the wire.
    CallIdShape,
    /// A call's name isn't empty.
    EmptyName,
    /// A result bears its call's name.
    NameMismatch,
    /// No message, result or block is empty.
    EmptyContent,
    /// A call's arguments are a JSON object, or a JSON string of what the model
    /// wrote.
    Arguments,
    /// An image is base64 of a type that models read.
    Image,
    /// A structured value, or a provider's state, is JSON that every parser
    /// takes.
    Json,
    /// The conversation begins with the user.
    FirstItem,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The item's place in the list, from 0; the list's length where something
    /// is missing at the end.
    pub item: usize,
    /// Which rule.
    pub rule: Rule,
    /// The wires whose rule it is.
    pub wires: Vec<Wire>,
    /// What was expected and what is there.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}: {:?}: {}", self.item, self.rule, self.message)?;
        if self.wires.len() < Wire::ALL.len() {
            write!(f, " ({:?} only)", self.wires)?;
        }
        Ok(())
    }
}

/// Checks that every provider would take this history with a next message of
/// the user's after it.
///
/// Takes `&[Item]` as well as `&[Arc<Item>]`. Notices are skipped: models don't
/// see them.
///
/// # Errors
/// All violations, in the order of the items.
///
/// ```
/// use haft_api::Item;
/// use haft_testkit::{Rule, fixture, validate_history};
///
/// let mut items = vec![
///     Item::user("add 1 and 2"),
///     Item::ToolCall(fixture::tool_call("c1", "add", r#"{"a":1,"b":2}"#)),
/// ];
/// let violations = validate_history(&items).unwrap_err();
/// assert_eq!(violations[0].rule, Rule::MissingResult);
///
/// items.push(Item::ToolResult(fixture::tool_result("c1", "add", "3")));
/// assert_eq!(validate_history(&items), Ok(()));
/// ```
pub fn validate_history<I: Borrow<Item>>(items: &[I]) -> Result<(), Vec<Violation>> {
    let mut all: Vec<Violation> = Vec::new();
    for wire in Wire::ALL {
        let Err(violations) = validate_history_for(wire, items) else {
            continue;
        };
        for violation in violations {
            let same = |other: &&mut Violation| {
                other.item == violation.item
                    && other.rule == violation.rule
                    && other.message == violation.message
            };
            match all.iter_mut().find(same) {
                Some(known) => known.wires.push(wire),
                None => all.push(violation),
            }
        }
    }
    all.sort_by_key(|violation| violation.item);
    if all.is_empty() { Ok(()) } else { Err(all) }
}

/// As [`validate_history`], by the rules of one wire alone.
///
/// # Errors
/// All violations, in the order of the items.
pub fn validate_history_for<I: Borrow<Item>>(
    wire: Wire,
    items: &[I],
) -> Result<(), Vec<Violation>> {
    let mut check = Check::new(wire);
    for (index, item) in items.iter().enumerate() {
        if let Item::ToolResult(result) = item.borrow() {
            check.last_result.insert(result.call_id.clone(), index);
        }
    }
    for (index, item) in items.iter().enumerate() {
        check.item(index, item.borrow());
    }
    check.end_of_round(items.len(), "the end of the history");
    if check.violations.is_empty() {
        Ok(())
    } else {
        check.violations.sort_by_key(|violation| violation.item);
        Err(check.violations)
    }
}

/// The state of a walk over a history.
struct Check {
    wire: Wire,
    violations: Vec<Violation>,
    /// Whether an item that models see was met.
    begun: bool,
    /// Calls of the current round without a result, in order.
    open: VecDeque<CallId>,
    /// Whether a result of the current round was met.
    answering: bool,
    /// Every call met, by id, with its name.
    called: BTreeMap<CallId, String>,
    /// Every call whose result was met.
    answered: BTreeSet<CallId>,
    /// Where each call's last result stands in the whole history.
    last_result: BTreeMap<CallId, usize>,
}

impl Check {
    fn new(wire: Wire) -> Self {
        Self {
            wire,
            violations: Vec::new(),
            begun: false,
            open: VecDeque::new(),
            answering: false,
            called: BTreeMap::new(),
            answered: BTreeSet::new(),
            last_result: BTreeMap::new(),
        }
    }

    fn report(&mut self, item: usize, rule: Rule, message: impl Into<String>) {
        self.violations.push(Violation {
            item,
            rule,
            wires: vec![self.wire],
            message: message.into(),
        });
    }

    fn item(&mut self, index: usize, item: &Item) {
        if matches!(item, Item::Notice { .. }) {
            return;
        }
        let is_user = matches!(item, Item::UserMessage { .. });
        if !self.begun && !is_user && self.wire.begins_with_user() {
            let found = item.type_name();
            let message = format!("the first message must be the user's, found {found}");
            self.report(index, Rule::FirstItem, message);
        }
        self.begun = true;
        match item {
            Item::UserMessage { parts } => {
                self.end_of_round(index, "a user message");
                self.parts(index, "a user message", parts);
            }
            Item::AssistantMessage { text, state } => {
                self.model_speaks(index, "an assistant message");
                self.text(index, "an assistant message", text);
                self.state(index, state.as_ref());
            }
            Item::Reasoning { text, state } => {
                self.model_speaks(index, "reasoning");
                if state.is_none() {
                    self.text(index, "reasoning without a provider's state", text);
                }
                self.state(index, state.as_ref());
            }
            Item::ToolCall(call) => {
                self.model_speaks(index, "a tool call");
                self.call(index, call);
            }
            Item::ToolResult(result) => self.result(index, result),
            other => {
                let message = format!("an item of type {} is unknown here", other.type_name());
                self.report(index, Rule::EmptyContent, message);
            }
        }
    }

    /// Something of the model's: part of the round whose calls are still all
    /// unanswered, or the beginning of a next round.
    fn model_speaks(&mut self, index: usize, what: &str) {
        if self.answering {
            self.end_of_round(index, what);
        }
    }

    /// The calls made so far must have their results by now.
    fn end_of_round(&mut self, index: usize, before: &str) {
        self.answering = false;
        for id in std::mem::take(&mut self.open) {
            // A result that is there but too late is reported at its place.
            if self.last_result.get(&id).is_none_or(|last| *last < index) {
                let message = format!("call {id} has no result before {before}");
                self.report(index, Rule::MissingResult, message);
            }
        }
    }

    fn call(&mut self, index: usize, call: &ToolCall) {
        let id = &call.id;
        let most = self.wire.id_length();
        if id.as_str().len() > most {
            let message = format!("call id {id} is longer than {most} characters");
            self.report(index, Rule::CallIdShape, message);
        }
        if call.name.trim().is_empty() {
            self.report(index, Rule::EmptyName, format!("call {id} names no tool"));
        }
        if let Err(problem) = content::arguments(call.arguments.get()) {
            let message = format!("the arguments of call {id} {problem}");
            self.report(index, Rule::Arguments, message);
        }
        self.state(index, call.state.as_ref());
        if self.called.insert(id.clone(), call.name.clone()).is_some() {
            self.report(
                index,
                Rule::DuplicateCallId,
                format!("two calls have the id {id}"),
            );
        }
        self.open.push_back(id.clone());
    }

    fn result(&mut self, index: usize, result: &ToolResult) {
        let id = &result.call_id;
        self.parts(index, "a tool result", &result.parts);
        match self.called.get(id).cloned() {
            None => {
                let message = format!("a result for {id}, but there is no such call before it");
                self.report(index, Rule::ResultWithoutCall, message);
                return;
            }
            Some(name) if name != result.name => {
                let found = &result.name;
                let message = format!("call {id} is of `{name}`, its result of `{found}`");
                self.report(index, Rule::NameMismatch, message);
            }
            Some(_) => {}
        }
        let place = self.open.iter().position(|open| open == id);
        let Some(place) = place else {
            if self.answered.contains(id) {
                self.report(
                    index,
                    Rule::DuplicateResult,
                    format!("call {id} has two results"),
                );
            } else {
                self.answered.insert(id.clone());
                let message = format!("the result of call {id} comes after its round was over");
                self.report(index, Rule::Interleaved, message);
            }
            return;
        };
        self.answering = true;
        if place > 0 {
            let first = &self.open[0];
            let message = format!("expected the result of call {first}, found that of {id}");
            self.report(index, Rule::ResultOrder, message);
        }
        self.open.remove(place);
        self.answered.insert(id.clone());
        if self.open.is_empty() {
            self.answering = false;
        }
    }

    fn text(&mut self, index: usize, what: &str, text: &str) {
        let problem = if text.is_empty() {
            "has an empty text"
        } else if self.wire.refuses_blank_text() && text.trim().is_empty() {
            "has a text of nothing but white space"
        } else {
            return;
        };
        self.report(index, Rule::EmptyContent, format!("{what} {problem}"));
    }

    fn parts(&mut self, index: usize, what: &str, parts: &[Part]) {
        if parts.is_empty() {
            self.report(index, Rule::EmptyContent, format!("{what} has no parts"));
        }
        for part in parts {
            match part {
                Part::Text { text } => self.text(index, what, text),
                Part::Image { media_type, data } => {
                    if let Err(problem) = content::image(media_type, data) {
                        self.report(index, Rule::Image, format!("{what} has an image {problem}"));
                    }
                }
                Part::Json { value } => self.json(index, what, value.get()),
                _ => self.report(
                    index,
                    Rule::EmptyContent,
                    format!("{what} has an unknown part"),
                ),
            }
        }
    }

    fn state(&mut self, index: usize, state: Option<&ProviderState>) {
        if let Some(state) = state {
            self.json(index, "a provider's state", state.data.get());
        }
    }

    fn json(&mut self, index: usize, what: &str, text: &str) {
        if let Err(error) = content::json(text) {
            self.report(
                index,
                Rule::Json,
                format!("{what} has a value that isn't JSON: {error}"),
            );
        }
    }
}
