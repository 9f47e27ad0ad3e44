//! What a scripted engine does in one round.

use std::time::Duration;

use haft_api::{EngineEvent, EngineToolCall, Error, ErrorData, FinishReason, ProviderState, Usage};

use crate::gate::Gate;

/// One step of a [`Round`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// Gives an event, whatever it is.
    Event(EngineEvent),
    /// Waits.
    Wait(Wait),
    /// Fails.
    Error(ErrorData),
    /// Panics.
    Panic(String),
    /// Ends the stream at once.
    Cut,
    /// Finishes: for tool calls if there were any, else at its end.
    Finish,
}

/// What a step waits for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Wait {
    /// Time.
    Sleep(Duration),
    /// A gate.
    Hold(Gate),
    /// Nothing that ever comes.
    Stall,
}

impl Wait {
    pub(super) async fn done(&self) {
        match self {
            Self::Sleep(time) => tokio::time::sleep(*time).await,
            Self::Hold(gate) => gate.pass().await,
            Self::Stall => std::future::pending().await,
        }
    }
}

/// What a scripted engine does in one round, in the order of the calls.
///
/// A round that says nothing of its end finishes by itself: for tool calls if
/// there were any, else because all was said.
///
/// ```
/// use std::time::Duration;
/// use haft_api::{Error, ErrorKind};
/// use haft_testkit::{Gate, Round};
///
/// let gate = Gate::new();
/// Round::new().text("Hel").text("lo");
/// Round::new().reasoning("hm").call("c1", "read", r#"{"path":"a"}"#).usage(10, 5);
/// Round::new().text("half").hold(&gate).text(" and half");
/// Round::new().text("half").sleep(Duration::from_secs(1)).cut();
/// Round::new().refuse(Error::new(ErrorKind::RateLimited, "slow down"));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Round {
    pub(super) opening: Vec<Step>,
    pub(super) steps: Vec<Step>,
    ended: bool,
}

impl Default for Round {
    fn default() -> Self {
        Self::new()
    }
}

impl Round {
    /// A round that says nothing and finishes.
    pub fn new() -> Self {
        Self {
            opening: Vec::new(),
            steps: vec![Step::Finish],
            ended: false,
        }
    }

    /// Adds a step. What is added after an end (a finish, a cut, an error) is
    /// played too, for engines that don't keep the contract.
    pub fn step(mut self, step: Step) -> Self {
        let ends = matches!(
            step,
            Step::Finish | Step::Cut | Step::Error(_) | Step::Panic(_)
        );
        if self.ended {
            self.steps.push(step);
        } else {
            // The end that every round has by itself goes last, or makes room.
            self.steps.pop();
            self.steps.push(step);
            if !ends {
                self.steps.push(Step::Finish);
            }
        }
        self.ended |= ends;
        self
    }

    /// Gives an event, whatever it is.
    pub fn event(self, event: EngineEvent) -> Self {
        let ends = matches!(event, EngineEvent::Finished { .. });
        let mut round = self.step(Step::Event(event));
        if ends && !round.ended {
            round.steps.pop();
            round.ended = true;
        }
        round
    }

    /// A piece of the answer.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.event(EngineEvent::TextDelta { text: text.into() })
    }

    /// A piece of reasoning.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.event(EngineEvent::ReasoningDelta { text: text.into() })
    }

    /// Closes the text and attaches a provider's state to it.
    pub fn text_end(self, state: Option<ProviderState>) -> Self {
        self.event(EngineEvent::TextEnd { state })
    }

    /// Closes the reasoning and attaches a provider's state to it.
    pub fn reasoning_end(self, state: Option<ProviderState>) -> Self {
        self.event(EngineEvent::ReasoningEnd { state })
    }

    /// A whole call. The arguments are text as a model would write it, valid
    /// or not.
    pub fn call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.engine_call(EngineToolCall {
            id: Some(id.into()),
            name: name.into(),
            arguments: arguments.into(),
            state: None,
        })
    }

    /// A whole call to which the provider gave no id.
    pub fn call_without_id(self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.engine_call(EngineToolCall {
            id: None,
            name: name.into(),
            arguments: arguments.into(),
            state: None,
        })
    }

    /// A whole call, with everything an engine may say of it.
    pub fn engine_call(self, call: EngineToolCall) -> Self {
        self.event(EngineEvent::Call(call))
    }

    /// A piece of a call that is being written.
    pub fn call_delta(self, index: u32, name: Option<&str>, arguments: impl Into<String>) -> Self {
        self.event(EngineEvent::CallDelta {
            index,
            name: name.map(str::to_owned),
            arguments: arguments.into(),
        })
    }

    /// Tokens read and written so far.
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.event(EngineEvent::Usage(Usage {
            input: Some(input),
            output: Some(output),
            ..Usage::default()
        }))
    }

    /// Says nothing for a while.
    pub fn sleep(self, time: Duration) -> Self {
        self.step(Step::Wait(Wait::Sleep(time)))
    }

    /// Says nothing until the gate is open.
    pub fn hold(self, gate: &Gate) -> Self {
        self.step(Step::Wait(Wait::Hold(gate.clone())))
    }

    /// Says nothing any more, for ever.
    pub fn stall(self) -> Self {
        self.step(Step::Wait(Wait::Stall))
    }

    /// Fails in the middle of the stream.
    pub fn error(self, error: Error) -> Self {
        self.step(Step::Error(error.to_data()))
    }

    /// Panics in the middle of the stream.
    pub fn panic(self, message: impl Into<String>) -> Self {
        self.step(Step::Panic(message.into()))
    }

    /// Ends the stream without having finished.
    pub fn cut(self) -> Self {
        self.step(Step::Cut)
    }

    /// Finishes for this reason.
    pub fn finish(self, reason: FinishReason) -> Self {
        self.event(EngineEvent::Finished { reason })
    }

    fn before(mut self, step: Step) -> Self {
        self.opening.push(step);
        self
    }

    /// Fails before there is a stream: the request was refused.
    pub fn refuse(self, error: Error) -> Self {
        self.before(Step::Error(error.to_data()))
    }

    /// Panics before there is a stream.
    pub fn panic_at_once(self, message: impl Into<String>) -> Self {
        self.before(Step::Panic(message.into()))
    }

    /// Takes a while to accept the request.
    pub fn accept_after(self, time: Duration) -> Self {
        self.before(Step::Wait(Wait::Sleep(time)))
    }

    /// Accepts the request once the gate is open.
    pub fn accept_at(self, gate: &Gate) -> Self {
        self.before(Step::Wait(Wait::Hold(gate.clone())))
    }

    /// Never accepts the request, and never refuses it.
    pub fn never_accept(self) -> Self {
        self.before(Step::Wait(Wait::Stall))
    }
}
