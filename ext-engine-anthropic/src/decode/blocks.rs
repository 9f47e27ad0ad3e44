//! The blocks of a message, put together.

use std::borrow::Cow;
use std::collections::HashMap;

use haft_api::{EngineEvent, ProviderState, Result};
use haft_engine_http::assembly::{OpenCalls, Order};
use haft_engine_http::raw;
use haft_engine_http::tool_names::ToolNames;
use serde::Serialize;
use serde_json::value::RawValue;

use super::event::{BlockDelta, ContentBlock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// Thinking that only the server can read.
    Redacted,
    Call,
    /// What the server does by itself.
    Other,
}

impl Kind {
    fn of(type_name: &str) -> Self {
        match type_name {
            "text" => Self::Text,
            "thinking" => Self::Thinking,
            "redacted_thinking" => Self::Redacted,
            "tool_use" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// One block so far.
#[derive(Debug, Clone)]
struct Block {
    kind: Kind,
    stopped: bool,
    /// Something of it came.
    begun: bool,
    /// A call's input as its block started with it.
    input: Option<String>,
    thinking: String,
    signature: String,
    /// The block itself, where it goes back as it came.
    whole: Option<Box<RawValue>>,
}

/// The blocks so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocks {
    names: ToolNames,
    provider: String,
    blocks: Vec<Block>,
    /// The latest block at each index.
    by_index: HashMap<u64, usize>,
    /// The first block that may not have stopped.
    first_open: usize,
    order: Order,
    calls: OpenCalls,
}

impl Blocks {
    pub(super) fn new(names: ToolNames, provider: String) -> Self {
        Self {
            names,
            provider,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn add(&mut self, kind: Kind, index: Option<u64>) -> usize {
        let slot = self.blocks.len();
        self.blocks.push(Block {
            kind,
            stopped: false,
            begun: false,
            input: None,
            thinking: String::new(),
            signature: String::new(),
            whole: None,
        });
        if let Some(index) = index {
            self.by_index.insert(index, slot);
        }
        slot
    }

    fn latest(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        }
    }

    /// The block of a piece, made if there is none of its kind.
    fn of_piece(&mut self, kind: Kind, index: Option<u64>) -> usize {
        let found = self.latest(index).filter(|slot| {
            let block = &self.blocks[*slot];
            block.kind == kind || (kind == Kind::Call && block.kind == Kind::Other)
        });
        found.unwrap_or_else(|| self.add(kind, index))
    }

    /// A block starts.
    pub(super) fn start(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        events: &mut Vec<EngineEvent>,
    ) -> Result<()> {
        if raw::kind(raw) != raw::Kind::Object {
            return Ok(());
        }
        let block: ContentBlock<'_> = raw::shaped(raw, "a block")?;
        let kind = Kind::of(&block.r#type.and_then(raw::string).unwrap_or_default());
        // Told twice, before anything of it came.
        let again = index.and_then(|_| self.latest(index)).filter(|slot| {
            let known = &self.blocks[*slot];
            known.kind == kind && !known.stopped && !known.begun
        });
        let slot = again.unwrap_or_else(|| self.add(kind, index));
        let text = |raw: Option<&'_ RawValue>| raw.and_then(raw::string).map(Cow::into_owned);
        match kind {
            Kind::Text => self.take_text(slot, &text(block.text).unwrap_or_default(), events),
            Kind::Thinking => {
                self.take_thinking(slot, &text(block.thinking).unwrap_or_default(), events);
                let signature = text(block.signature).unwrap_or_default();
                self.blocks[slot].signature.push_str(&signature);
            }
            Kind::Redacted => self.blocks[slot].whole = Some(raw.to_owned()),
            Kind::Call => {
                self.blocks[slot].input = block.input.and_then(|input| match raw::kind(input) {
                    raw::Kind::Null => None,
                    raw::Kind::String => raw::string(input).map(Cow::into_owned),
                    _ => Some(input.get().to_owned()),
                });
                let before = self.calls.len();
                let (place, call) = self.calls.at(slot);
                call.take_id(text(block.id).as_deref());
                if call.take_name(text(block.name).as_deref()) {
                    events.push(EngineEvent::CallDelta {
                        index: place,
                        name: Some(self.names.original(&call.name).to_owned()),
                        arguments: String::new(),
                    });
                }
                if self.calls.len() > before {
                    self.order.call(slot);
                }
            }
            Kind::Other => {}
        }
        Ok(())
    }

    fn take_text(&mut self, slot: usize, text: &str, events: &mut Vec<EngineEvent>) {
        self.blocks[slot].begun |= !text.is_empty();
        self.order.text(slot, text, events);
    }

    fn take_thinking(&mut self, slot: usize, text: &str, events: &mut Vec<EngineEvent>) {
        let block = &mut self.blocks[slot];
        block.begun |= !text.is_empty();
        block.thinking.push_str(text);
        self.order.reasoning(slot, text, events);
    }

    /// A piece of a block.
    pub(super) fn delta(
        &mut self,
        index: Option<u64>,
        delta: &BlockDelta<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        if let Some(text) = delta.text.and_then(raw::string) {
            let slot = self.of_piece(Kind::Text, index);
            self.take_text(slot, &text, events);
        }
        if let Some(thinking) = delta.thinking.and_then(raw::string) {
            let slot = self.of_piece(Kind::Thinking, index);
            self.take_thinking(slot, &thinking, events);
        }
        if let Some(signature) = delta.signature.and_then(raw::string) {
            let slot = self.of_piece(Kind::Thinking, index);
            self.blocks[slot].begun = true;
            self.blocks[slot].signature.push_str(&signature);
        }
        let piece = delta.partial_json.and_then(|piece| match raw::kind(piece) {
            raw::Kind::Null => None,
            raw::Kind::String => raw::string(piece),
            _ => Some(Cow::Borrowed(piece.get())),
        });
        if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
            self.take_input(index, &piece, events);
        }
    }

    fn take_input(&mut self, index: Option<u64>, piece: &str, events: &mut Vec<EngineEvent>) {
        let slot = self.of_piece(Kind::Call, index);
        let block = &mut self.blocks[slot];
        if block.kind == Kind::Other {
            return;
        }
        block.begun = true;
        block.input = None;
        let before = self.calls.len();
        let (place, call) = self.calls.at(slot);
        call.push(piece);
        events.push(EngineEvent::CallDelta {
            index: place,
            name: None,
            arguments: piece.to_owned(),
        });
        if self.calls.len() > before {
            self.order.call(slot);
        }
    }

    /// A block stops.
    pub(super) fn stop(&mut self, index: Option<u64>, events: &mut Vec<EngineEvent>) {
        if let Some(slot) = self.latest(index) {
            self.stop_slot(slot, events);
        }
    }

    /// Whatever hasn't stopped does so now.
    pub(super) fn stop_all(&mut self, events: &mut Vec<EngineEvent>) {
        while self.first_open < self.blocks.len() {
            self.stop_slot(self.first_open, events);
            self.first_open += 1;
        }
    }

    fn stop_slot(&mut self, slot: usize, events: &mut Vec<EngineEvent>) {
        let block = &mut self.blocks[slot];
        if std::mem::replace(&mut block.stopped, true) {
            return;
        }
        match block.kind {
            Kind::Call => {
                let Some(input) = block.input.take() else {
                    return;
                };
                let (index, call) = self.calls.at(slot);
                let new = call.set_whole(&input);
                if !new.is_empty() {
                    events.push(EngineEvent::CallDelta {
                        index,
                        name: None,
                        arguments: new.to_owned(),
                    });
                }
            }
            Kind::Thinking => {
                let state = thinking(&block.thinking, &block.signature);
                self.end_reasoning(slot, state, events);
            }
            Kind::Redacted => {
                let state = block.whole.take();
                self.end_reasoning(slot, state, events);
            }
            Kind::Text | Kind::Other => {}
        }
    }

    fn end_reasoning(
        &mut self,
        slot: usize,
        state: Option<Box<RawValue>>,
        events: &mut Vec<EngineEvent>,
    ) {
        let state = state.map(|data| ProviderState {
            provider: self.provider.clone(),
            data,
        });
        self.order.end_reasoning(slot, state, events);
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the message was cut off within a call's input.
    pub(super) fn cut_off(&self) -> bool {
        self.calls.cut_off()
    }

    /// Hands on what was held back, the calls if they may run.
    pub(super) fn finish(&mut self, run: bool, events: &mut Vec<EngineEvent>) {
        let name = |wire: &str| self.names.original(wire).to_owned();
        self.order
            .finish(run.then_some(&mut self.calls), name, events);
    }

    /// Begins the message anew.
    pub(super) fn restart(&mut self, events: &mut Vec<EngineEvent>) {
        self.blocks.clear();
        self.by_index.clear();
        self.first_open = 0;
        self.calls.restart();
        self.order.restart(events);
    }
}

/// A block of thinking as it goes back; `None` if there is nothing in it.
fn thinking(thinking: &str, signature: &str) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct Thinking<'a> {
        r#type: &'static str,
        thinking: &'a str,
        signature: &'a str,
    }
    if thinking.is_empty() && signature.is_empty() {
        return None;
    }
    let block = Thinking {
        r#type: "thinking",
        thinking,
        signature,
    };
    // Text always serialises.
    serde_json::value::to_raw_value(&block).ok()
}
