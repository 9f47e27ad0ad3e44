//! From a round's events to its items.

use haft_api::{EngineEvent, EngineToolCall, FinishReason, Item, ProviderState, Usage};

use crate::thread::records::Served;

/// One block of what the model said, in the order it said it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Item(Item),
    Call(EngineToolCall),
}

/// Joins deltas to blocks.
#[derive(Default)]
pub(super) struct Assembler {
    blocks: Vec<Block>,
    open: Open,
    usage: Usage,
    served: Option<Served>,
}

#[derive(Default)]
enum Open {
    #[default]
    None,
    Text(String),
    Reasoning(String),
}

/// A round that ended as it should.
pub(super) struct Round {
    pub(super) blocks: Vec<Block>,
    pub(super) usage: Usage,
    /// Who answered, if the engine said so.
    pub(super) served: Option<Served>,
    pub(super) reason: FinishReason,
}

impl Round {
    /// All that was said.
    pub(super) fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Item(Item::AssistantMessage { text, .. }) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Assembler {
    /// Takes an event; the reason if it was the last one.
    pub(super) fn take(&mut self, event: EngineEvent) -> Option<FinishReason> {
        match event {
            EngineEvent::TextDelta { text } => match &mut self.open {
                Open::Text(open) => open.push_str(&text),
                _ => {
                    self.close(None);
                    self.open = Open::Text(text);
                }
            },
            EngineEvent::ReasoningDelta { text } => match &mut self.open {
                Open::Reasoning(open) => open.push_str(&text),
                _ => {
                    self.close(None);
                    self.open = Open::Reasoning(text);
                }
            },
            EngineEvent::TextEnd { state } => self.close(state),
            EngineEvent::ReasoningEnd { state } => {
                if !matches!(self.open, Open::Reasoning(_)) {
                    self.close(None);
                    self.open = Open::Reasoning(String::new());
                }
                self.close(state);
            }
            EngineEvent::Call(call) => {
                self.close(None);
                self.blocks.push(Block::Call(call));
            }
            EngineEvent::Usage(usage) => self.usage = usage,
            EngineEvent::Served { engine, model } => self.served = Some(Served { engine, model }),
            EngineEvent::Finished { reason } => return Some(reason),
            _ => {}
        }
        None
    }

    fn close(&mut self, state: Option<ProviderState>) {
        let item = match std::mem::take(&mut self.open) {
            Open::Text(text) if !text.trim().is_empty() => Item::AssistantMessage { text, state },
            Open::Reasoning(text) if !text.is_empty() || state.is_some() => {
                Item::Reasoning { text, state }
            }
            _ => return,
        };
        self.blocks.push(Block::Item(item));
    }

    pub(super) fn finish(mut self, reason: FinishReason) -> Round {
        self.close(None);
        Round {
            blocks: self.blocks,
            usage: self.usage,
            served: self.served,
            reason,
        }
    }

    /// What may be kept of a round that broke off: the text that was shown.
    /// Calls don't run, and provider state of half a round is worth nothing.
    pub(super) fn broken_off(mut self) -> (Vec<Item>, Usage) {
        self.close(None);
        let kept = self.blocks.into_iter().filter_map(|block| match block {
            Block::Item(Item::AssistantMessage { text, .. }) => Some(Item::assistant(text)),
            _ => None,
        });
        (kept.collect(), self.usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> EngineEvent {
        EngineEvent::TextDelta {
            text: text.to_owned(),
        }
    }

    fn thought(text: &str) -> EngineEvent {
        EngineEvent::ReasoningDelta {
            text: text.to_owned(),
        }
    }

    fn state() -> Option<ProviderState> {
        let data = haft_api::raw_json("1").unwrap();
        Some(ProviderState {
            provider: "p".to_owned(),
            data,
        })
    }

    fn call() -> EngineEvent {
        EngineEvent::Call(EngineToolCall {
            id: None,
            name: "f".to_owned(),
            arguments: String::new(),
            state: None,
        })
    }

    fn show(block: &Block) -> String {
        let mark = |state: &Option<ProviderState>| if state.is_some() { "+" } else { "" };
        match block {
            Block::Item(Item::AssistantMessage { text, state }) => {
                format!("text {text}{}", mark(state))
            }
            Block::Item(Item::Reasoning { text, state }) => {
                format!("thought {text}{}", mark(state))
            }
            Block::Item(other) => other.type_name().to_owned(),
            Block::Call(call) => format!("call {}", call.name),
        }
    }

    #[test]
    fn deltas_become_blocks_in_order() {
        let check = |events: Vec<EngineEvent>, expected: &[&str]| {
            let mut assembler = Assembler::default();
            events
                .into_iter()
                .for_each(|event| assert_eq!(assembler.take(event), None));
            let blocks = assembler.finish(FinishReason::End).blocks;
            assert_eq!(blocks.iter().map(show).collect::<Vec<_>>(), expected);
        };
        check(vec![text("a"), text("b")], &["text ab"]);
        check(
            vec![thought("x"), text("a"), call(), text("b")],
            &["thought x", "text a", "call f", "text b"],
        );
        check(
            vec![
                text("a"),
                EngineEvent::TextEnd { state: state() },
                text("b"),
            ],
            &["text a+", "text b"],
        );
        check(
            vec![EngineEvent::ReasoningEnd { state: state() }],
            &["thought +"],
        );
        check(
            vec![thought("x"), EngineEvent::ReasoningEnd { state: None }],
            &["thought x"],
        );
        check(
            vec![text(" \n"), EngineEvent::ReasoningEnd { state: None }],
            &[],
        );
    }

    #[test]
    fn of_a_broken_round_only_shown_text_is_kept() {
        let mut assembler = Assembler::default();
        for event in [thought("x"), text("shown"), call(), text("half")] {
            assembler.take(event);
        }
        let (items, _) = assembler.broken_off();
        assert_eq!(items, [Item::assistant("shown"), Item::assistant("half")]);
    }
}
