//! An answer, put together in the provider's order.

use std::collections::HashMap;

use haft_api::{EngineEvent, EngineToolCall, ProviderState};

/// A tool call that is being put together.
#[derive(Debug, Clone, Default)]
pub struct OpenCall {
    /// The id under which its result is told.
    pub id: Option<String>,
    /// Its name on the wire: the first one that wasn't empty.
    pub name: String,
    /// Its arguments so far.
    pub arguments: String,
    /// What the provider needs back with it.
    pub state: Option<ProviderState>,
}

impl OpenCall {
    /// Takes an id, unless there is one already. Empty ones are none.
    pub fn take_id(&mut self, id: Option<&str>) {
        if let (None, Some(id)) = (&self.id, id.filter(|id| !id.is_empty())) {
            self.id = Some(id.to_owned());
        }
    }

    /// Takes a name, unless there is one already. True if it was taken.
    pub fn take_name(&mut self, name: Option<&str>) -> bool {
        match name.filter(|name| self.name.is_empty() && !name.is_empty()) {
            Some(name) => {
                name.clone_into(&mut self.name);
                true
            }
            None => false,
        }
    }

    /// Appends a piece of the arguments.
    pub fn push(&mut self, piece: &str) {
        self.arguments.push_str(piece);
    }

    /// Takes the arguments as a whole, after pieces of them or instead, and
    /// gives what is new of them. A server's placeholder (nothing, `{}`) doesn't
    /// replace what came in pieces.
    pub fn set_whole(&mut self, whole: &str) -> &str {
        let from = self.arguments.len();
        if let Some(rest) = whole.strip_prefix(&*self.arguments) {
            self.arguments.push_str(rest);
            return &self.arguments[from..];
        }
        if !matches!(whole.trim(), "" | "{}") {
            whole.clone_into(&mut self.arguments);
        }
        ""
    }

    /// Whether the arguments end in their middle: an answer with such a call was
    /// cut off, and none of its calls may run.
    pub fn is_cut_off(&self) -> bool {
        let arguments = self.arguments.trim();
        !arguments.is_empty()
            && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_err_and(|e| e.is_eof())
    }

    /// The call under its tool's own name.
    pub fn into_call(self, name: String) -> EngineToolCall {
        EngineToolCall {
            id: self.id,
            name,
            arguments: self.arguments,
            state: self.state,
        }
    }
}

/// The calls of an answer, each with the slot of the answer that it stands in.
#[derive(Debug, Clone, Default)]
pub struct OpenCalls {
    calls: Vec<OpenCall>,
    /// Which call stands in a slot.
    places: HashMap<usize, usize>,
    /// How many there were before the answer began anew. They were shown, and
    /// their numbers aren't used again.
    earlier: usize,
}

impl OpenCalls {
    /// The call of a slot, made if there is none, and its place among the calls.
    pub fn at(&mut self, slot: usize) -> (u32, &mut OpenCall) {
        let next = self.calls.len();
        let place = *self.places.entry(slot).or_insert(next);
        if place == next {
            self.calls.push(OpenCall::default());
        }
        (
            u32::try_from(self.earlier + place).unwrap_or(u32::MAX),
            &mut self.calls[place],
        )
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All calls, in the order they were begun.
    pub fn iter(&self) -> impl Iterator<Item = &OpenCall> {
        self.calls.iter()
    }

    /// Whether the answer was cut off within a call.
    pub fn cut_off(&self) -> bool {
        self.calls.iter().any(OpenCall::is_cut_off)
    }

    /// Begins anew, without any call.
    pub fn restart(&mut self) {
        self.earlier += self.calls.len();
        self.calls.clear();
        self.places.clear();
    }

    /// Takes the call of a slot out.
    fn take(&mut self, slot: usize) -> Option<OpenCall> {
        let place = self.places.remove(&slot)?;
        Some(std::mem::take(&mut self.calls[place]))
    }
}

/// The order of what an answer consists of.
///
/// Text and reasoning are handed on as they come, until the first call: what
/// stands behind a call is held back until the calls may be told, at the end of
/// the answer, so that the history has everything in the provider's order and
/// can give it back so. A slot is a place in the answer, such as a content
/// block or an output item.
#[derive(Debug, Clone, Default)]
pub struct Order {
    open: Open,
    held: Vec<Held>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Text(usize),
    Reasoning(usize),
}

#[derive(Debug, Clone)]
enum Held {
    Event(EngineEvent),
    Call(usize),
}

impl Order {
    /// A piece of a slot's text.
    pub fn text(&mut self, slot: usize, text: &str, events: &mut Vec<EngineEvent>) {
        if text.is_empty() {
            return;
        }
        if matches!(self.open, Open::Text(other) if other != slot) {
            self.tell(EngineEvent::TextEnd { state: None }, events);
        }
        self.open = Open::Text(slot);
        let text = text.to_owned();
        self.tell(EngineEvent::TextDelta { text }, events);
    }

    /// A piece of a slot's reasoning.
    pub fn reasoning(&mut self, slot: usize, text: &str, events: &mut Vec<EngineEvent>) {
        if text.is_empty() {
            return;
        }
        if matches!(self.open, Open::Reasoning(other) if other != slot) {
            self.tell(EngineEvent::ReasoningEnd { state: None }, events);
        }
        self.open = Open::Reasoning(slot);
        let text = text.to_owned();
        self.tell(EngineEvent::ReasoningDelta { text }, events);
    }

    /// Closes what is open of a slot's reasoning; what follows is a block of its
    /// own.
    pub fn part_reasoning(&mut self, slot: usize, events: &mut Vec<EngineEvent>) {
        if self.open == Open::Reasoning(slot) {
            self.open = Open::Nothing;
            self.tell(EngineEvent::ReasoningEnd { state: None }, events);
        }
    }

    /// Ends a slot's text. A state of text that something else has come between
    /// is worth nothing, and left out.
    pub fn end_text(
        &mut self,
        slot: usize,
        state: Option<ProviderState>,
        events: &mut Vec<EngineEvent>,
    ) {
        if self.open == Open::Text(slot) && state.is_some() {
            self.open = Open::Nothing;
            self.tell(EngineEvent::TextEnd { state }, events);
        }
    }

    /// Ends a slot's reasoning, which may be nothing but its state.
    pub fn end_reasoning(
        &mut self,
        slot: usize,
        state: Option<ProviderState>,
        events: &mut Vec<EngineEvent>,
    ) {
        let is_open = self.open == Open::Reasoning(slot);
        if state.is_none() && !is_open {
            return;
        }
        // The state of one block isn't that of another.
        if !is_open && matches!(self.open, Open::Reasoning(_)) {
            self.tell(EngineEvent::ReasoningEnd { state: None }, events);
        }
        self.open = Open::Nothing;
        self.tell(EngineEvent::ReasoningEnd { state }, events);
    }

    /// A call stands here.
    pub fn call(&mut self, slot: usize) {
        self.held.push(Held::Call(slot));
    }

    /// Begins anew. What was shown can't be taken back, but it is closed.
    pub fn restart(&mut self, events: &mut Vec<EngineEvent>) {
        self.held.clear();
        match std::mem::take(&mut self.open) {
            Open::Nothing => {}
            Open::Text(_) => events.push(EngineEvent::TextEnd { state: None }),
            Open::Reasoning(_) => events.push(EngineEvent::ReasoningEnd { state: None }),
        }
    }

    /// Hands on what was held back. The calls are told if the answer is one that
    /// wants them run, each under the name that `name` gives it.
    pub fn finish(
        &mut self,
        calls: Option<&mut OpenCalls>,
        name: impl Fn(&str) -> String,
        events: &mut Vec<EngineEvent>,
    ) {
        let mut calls = calls;
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Event(event) => events.push(event),
                Held::Call(slot) => {
                    if let Some(call) = calls.as_mut().and_then(|calls| calls.take(slot)) {
                        let own = name(&call.name);
                        events.push(EngineEvent::Call(call.into_call(own)));
                    }
                }
            }
        }
    }

    fn tell(&mut self, event: EngineEvent, events: &mut Vec<EngineEvent>) {
        if self.held.is_empty() {
            events.push(event);
        } else {
            self.held.push(Held::Event(event));
        }
    }
}
