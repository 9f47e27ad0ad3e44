//! What the answer consists of.

use std::borrow::Cow;

use haft_api::{EngineEvent, FinishReason, ProviderState, Result};
use haft_engine_http::assembly::{OpenCalls, Order};
use haft_engine_http::tool_names::ToolNames;
use haft_engine_http::{failure, raw};
use serde_json::value::RawValue;

use super::event::{Event, Item, Part, parts, text_or_value};
use super::items::{Items, Kind, Piece};

/// The items of an answer, put together.
#[derive(Debug, Clone, Default)]
pub(super) struct Output {
    names: ToolNames,
    provider: String,
    items: Items,
    order: Order,
    calls: OpenCalls,
    /// Why the model said nothing, in its own words.
    refusal: String,
}

impl Output {
    pub(super) fn new(names: ToolNames, provider: String) -> Self {
        Self {
            names,
            provider,
            ..Self::default()
        }
    }

    /// An item that is added or done. Says whether the model said something.
    pub(super) fn item(
        &mut self,
        event: &Event<'_>,
        done: bool,
        events: &mut Vec<EngineEvent>,
    ) -> Result<bool> {
        let Some(item) = event.item.filter(|i| raw::kind(i) == raw::Kind::Object) else {
            return Ok(false);
        };
        self.take_item(item, event.output_index(), event.item_id(), done, events)?;
        Ok(true)
    }

    fn take_item(
        &mut self,
        raw: &RawValue,
        index: Option<u64>,
        id: Option<Cow<'_, str>>,
        done: bool,
        events: &mut Vec<EngineEvent>,
    ) -> Result<()> {
        let item = Item::read(raw)?;
        let kind = Kind::of(&item.r#type.and_then(raw::string).unwrap_or_default());
        let own_id = item.id.and_then(raw::string).filter(|id| !id.is_empty());
        let call_id = item.call_id.and_then(raw::string);
        let id = own_id.or(id).or_else(|| call_id.clone());
        let mut slot = match done {
            true => self.items.of_piece(kind, index, id.as_deref()),
            false => self.items.added(kind, index, id.as_deref()),
        };
        if self.items.slot(slot).done {
            // Told twice, or another one under the same index.
            let is_known = kind == Kind::Call
                && self
                    .calls
                    .iter()
                    .any(|call| call.id.as_deref() == call_id.as_deref());
            if is_known || self.items.slot(slot).is(id.as_deref()) {
                return Ok(());
            }
            slot = self.items.add(kind, index, id.as_deref());
        }
        self.items.slot(slot).done = done;
        match kind {
            Kind::Call => self.take_call(slot, &item, events),
            Kind::Message if done => self.end_message(slot, &item, events),
            Kind::Reasoning if done => self.end_reasoning(slot, raw, &item, events),
            _ => {}
        }
        Ok(())
    }

    fn take_call(&mut self, slot: usize, item: &Item<'_>, events: &mut Vec<EngineEvent>) {
        let id = item.call_id.or(item.id).and_then(raw::string);
        let name = item.name.and_then(raw::string);
        let arguments = text_or_value(item.arguments);
        self.call_piece(slot, id, name, arguments, Piece::Whole, events);
    }

    fn call_piece(
        &mut self,
        slot: usize,
        id: Option<Cow<'_, str>>,
        name: Option<Cow<'_, str>>,
        arguments: Option<Cow<'_, str>>,
        piece: Piece,
        events: &mut Vec<EngineEvent>,
    ) {
        let before = self.calls.len();
        let (index, call) = self.calls.at(slot);
        call.take_id(id.as_deref());
        let named = call.take_name(name.as_deref());
        let name = named.then(|| self.names.original(&call.name).to_owned());
        let arguments = arguments.unwrap_or_default();
        let new = match piece {
            Piece::Delta => {
                call.push(&arguments);
                &*arguments
            }
            Piece::Whole => call.set_whole(&arguments),
        };
        if name.is_some() || !new.is_empty() {
            events.push(EngineEvent::CallDelta {
                index,
                name,
                arguments: new.to_owned(),
            });
        }
        if self.calls.len() > before {
            self.order.call(slot);
        }
    }

    fn end_message(&mut self, slot: usize, item: &Item<'_>, events: &mut Vec<EngineEvent>) {
        for (index, part) in (0_u64..).zip(parts(item.content)) {
            self.take_part(slot, index, &part, events);
        }
        // What the message is to the model, which wants to be told so again.
        let phase = item.phase.and_then(raw::string);
        let state = phase.and_then(|phase| {
            let data = serde_json::value::to_raw_value(&serde_json::json!({ "phase": phase }));
            Some(self.state(data.ok()?))
        });
        self.order.end_text(slot, state, events);
    }

    fn take_part(
        &mut self,
        slot: usize,
        index: u64,
        part: &Part<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        if let Some(refusal) = part.refusal.and_then(raw::string) {
            self.take_refusal(&refusal, Piece::Whole);
        } else if let Some(text) = part.text.and_then(raw::string) {
            let new = self.items.slot(slot).take(index, Piece::Whole, &text);
            self.order.text(slot, new, events);
        }
    }

    fn end_reasoning(
        &mut self,
        slot: usize,
        raw: &RawValue,
        item: &Item<'_>,
        events: &mut Vec<EngineEvent>,
    ) {
        let (summary, content) = (parts(item.summary), parts(item.content));
        if self.items.slot(slot).text.is_empty() {
            let told = if summary.is_empty() {
                (Kind::RawReasoning, &content)
            } else {
                (Kind::Reasoning, &summary)
            };
            for (index, part) in (0..).zip(told.1) {
                let text = part.text.and_then(raw::string).unwrap_or_default();
                self.reasoning_piece(slot, told.0, index, Piece::Whole, &text, events);
            }
        }
        // Without either there is nothing in it that the server could use again:
        // it keeps nothing by itself.
        let encrypted = item.encrypted_content.and_then(raw::string);
        let usable = encrypted.is_some_and(|text| !text.is_empty()) || !content.is_empty();
        let state = usable.then(|| self.state(raw.to_owned()));
        self.order.end_reasoning(slot, state, events);
    }

    fn state(&self, data: Box<RawValue>) -> ProviderState {
        ProviderState {
            provider: self.provider.clone(),
            data,
        }
    }

    /// A piece of an item, or the whole of what came in pieces. Says whether the
    /// model said something.
    pub(super) fn piece(
        &mut self,
        event: &Event<'_>,
        kind: Kind,
        piece: Piece,
        events: &mut Vec<EngineEvent>,
    ) -> bool {
        let id = event.item_id();
        let slot = self
            .items
            .of_piece(kind, event.output_index(), id.as_deref());
        let text = match (kind, piece) {
            (_, Piece::Delta) => text_or_value(event.delta),
            (Kind::Call, Piece::Whole) => text_or_value(event.arguments),
            (_, Piece::Whole) => text_or_value(event.text),
        };
        match kind {
            Kind::Call => {
                let id = event.call_id.and_then(raw::string);
                let name = event.name.and_then(raw::string);
                self.call_piece(slot, id, name, text, piece, events);
            }
            Kind::Message => {
                let text = text.unwrap_or_default();
                let new = self.items.slot(slot).take(event.part_index(), piece, &text);
                self.order.text(slot, new, events);
            }
            Kind::Reasoning | Kind::RawReasoning => {
                let text = text.unwrap_or_default();
                self.reasoning_piece(slot, kind, event.part_index(), piece, &text, events);
            }
            Kind::Other => {}
        }
        true
    }

    fn reasoning_piece(
        &mut self,
        slot: usize,
        kind: Kind,
        part: u64,
        piece: Piece,
        text: &str,
        events: &mut Vec<EngineEvent>,
    ) {
        let item = self.items.slot(slot);
        // Of what is told in two ways, the one that comes first is followed.
        if item.text.is_empty() {
            item.kind = kind;
        } else if item.kind != kind {
            return;
        }
        let before = item.part.map(|(part, _)| part);
        let new = item.take(part, piece, text);
        if before.is_some_and(|before| before != part) && !new.is_empty() {
            self.order.part_reasoning(slot, events);
        }
        self.order.reasoning(slot, new, events);
    }

    /// A part that is done, told whole.
    pub(super) fn part(
        &mut self,
        event: &Event<'_>,
        events: &mut Vec<EngineEvent>,
    ) -> Result<bool> {
        let Some(part) = event.part.filter(|p| raw::kind(p) == raw::Kind::Object) else {
            return Ok(false);
        };
        let part: Part<'_> = raw::shaped(part, "a part of an item")?;
        if part.is("output_text") || part.is("refusal") {
            let id = event.item_id();
            let index = event.output_index();
            let slot = self.items.of_piece(Kind::Message, index, id.as_deref());
            self.take_part(slot, event.part_index(), &part, events);
        }
        Ok(true)
    }

    /// A piece of a refusal. Says that the model said something.
    pub(super) fn refusal(&mut self, event: &Event<'_>, piece: Piece) -> bool {
        let text = match piece {
            Piece::Delta => event.delta,
            Piece::Whole => event.refusal,
        };
        let text = text.and_then(raw::string).unwrap_or_default();
        self.take_refusal(&text, piece);
        true
    }

    fn take_refusal(&mut self, text: &str, piece: Piece) {
        match piece {
            Piece::Delta => self.refusal.push_str(text),
            Piece::Whole if self.refusal.is_empty() => text.clone_into(&mut self.refusal),
            Piece::Whole => {}
        }
    }

    /// The items as the end of the response tells them: those that were told
    /// nowhere else are taken from here.
    pub(super) fn complete(
        &mut self,
        output: Vec<&RawValue>,
        events: &mut Vec<EngineEvent>,
    ) -> Result<()> {
        if self.items.is_empty() {
            for (index, item) in (0..).zip(output) {
                self.take_item(item, Some(index), None, true, events)?;
            }
            return Ok(());
        }
        let missing = |kind| !self.items.has(kind);
        let (no_message, no_calls) = (missing(Kind::Message), missing(Kind::Call));
        for (index, raw) in (0..).zip(output) {
            let kind = Item::read(raw)?.r#type.and_then(raw::string);
            let take = match Kind::of(&kind.unwrap_or_default()) {
                Kind::Message => no_message,
                Kind::Call => no_calls,
                _ => false,
            };
            if take {
                self.take_item(raw, Some(index), None, true, events)?;
            }
        }
        Ok(())
    }

    /// Why the answer ended, if nothing cut it off.
    pub(super) fn reason(&self) -> FinishReason {
        // A refusal stands apart from the answer's text, and ends it.
        if !self.refusal.is_empty() {
            return FinishReason::Other(format!("refusal: {}", failure::quote(&self.refusal)));
        }
        match (self.calls.cut_off(), self.calls.is_empty()) {
            (true, _) => FinishReason::Length,
            (false, false) => FinishReason::ToolCalls,
            (false, true) => FinishReason::End,
        }
    }

    /// Hands on what was held back, the calls if they may run.
    pub(super) fn finish(&mut self, run: bool, events: &mut Vec<EngineEvent>) {
        let name = |wire: &str| self.names.original(wire).to_owned();
        self.order
            .finish(run.then_some(&mut self.calls), name, events);
    }

    /// Begins the answer anew.
    pub(super) fn restart(&mut self, events: &mut Vec<EngineEvent>) {
        self.items = Items::default();
        self.calls.restart();
        self.refusal.clear();
        self.order.restart(events);
    }
}
