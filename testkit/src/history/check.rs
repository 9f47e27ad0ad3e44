//! The walk over a history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use haft_api::{CallId, Item, Part, ProviderState, ToolCall, ToolResult};

use super::content;
use super::rule::{Rule, Violation, Wire};

/// The state of a walk over a history.
pub(super) struct Check {
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
    /// A walk over a history in which each call's last result stands there.
    pub(super) fn new(wire: Wire, last_result: BTreeMap<CallId, usize>) -> Self {
        Self {
            wire,
            violations: Vec::new(),
            begun: false,
            open: VecDeque::new(),
            answering: false,
            called: BTreeMap::new(),
            answered: BTreeSet::new(),
            last_result,
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

    /// Ends the walk after so many items.
    pub(super) fn end(mut self, length: usize) -> Vec<Violation> {
        self.end_of_round(length, "the end of the history");
        self.violations.sort_by_key(|violation| violation.item);
        self.violations
    }

    /// Looks at the next item.
    pub(super) fn item(&mut self, index: usize, item: &Item) {
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
