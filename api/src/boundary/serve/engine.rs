//! Engines.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::history::Histories;
use crate::boundary::message::Message;
use crate::boundary::server::{Reply, Request, Served};
use crate::boundary::wire::{ModelArgs, Nothing, TurnArgs};
use crate::boundary::{RESEND_HISTORY, wire::HistoryData};
use crate::engine::{EngineRequest, EngineStream, InferenceEngine};
use crate::error::{Error, ErrorKind, Result};

pub(super) struct ServedEngine {
    engine: Arc<dyn InferenceEngine>,
    histories: Mutex<Histories>,
}

impl ServedEngine {
    pub(super) fn new(engine: Arc<dyn InferenceEngine>) -> Self {
        Self {
            engine,
            histories: Mutex::default(),
        }
    }

    fn request(&self, request: &Request<'_>) -> Result<EngineRequest> {
        let arguments: TurnArgs<'static> = request.read()?;
        let HistoryData {
            generation, from, ..
        } = arguments.history;
        let bytes = request.size();
        let items = arguments.history.into_items(request.blob())?;
        let thread = arguments.thread;
        let (history, memo) = self
            .histories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(&thread, generation, from, items, bytes)
            .map_err(|_| {
                Error::new(ErrorKind::NotFound, "the history isn't known here any more")
                    .context(RESEND_HISTORY, "true")
            })?;
        let mut turn = EngineRequest::new(thread, arguments.turn, history);
        turn.round = arguments.round;
        turn.model = arguments.model;
        turn.instructions = arguments.instructions;
        turn.tools = arguments.tools;
        turn.tool_choice = arguments.tool_choice;
        turn.options = arguments.options;
        turn.output_schema = arguments.output_schema;
        turn.deadline = arguments.deadline;
        turn.memo = memo;
        Ok(turn)
    }
}

impl Served for ServedEngine {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        Ok(match request.method {
            "readiness" => {
                Reply::later(async move { Message::json(&self.engine.readiness().await) })
            }
            "models" => Reply::later(async move { Message::json(&self.engine.models().await?) }),
            "model" => {
                let ModelArgs { name } = request.read()?;
                Reply::later(
                    async move { Message::json(&self.engine.model(name.as_deref()).await?) },
                )
            }
            "stream_turn" => {
                let turn = self.request(&request)?;
                let engine = Arc::clone(&self.engine);
                let start = Box::pin(async move { engine.stream_turn(turn).await });
                Reply::Stream(Box::pin(Round::Starting(start)))
            }
            _ => Reply::Unimplemented,
        })
    }
}

/// First an item that says that the model has accepted the request, then its
/// events.
enum Round {
    Starting(Pin<Box<dyn Future<Output = Result<EngineStream>> + Send>>),
    Running(EngineStream),
}

impl Stream for Round {
    type Item = Result<Message>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::Starting(start) => match ready!(start.as_mut().poll(context)) {
                Ok(stream) => {
                    *self = Self::Running(stream);
                    Poll::Ready(Some(Message::json(&Nothing {})))
                }
                Err(error) => Poll::Ready(Some(Err(error))),
            },
            Self::Running(stream) => {
                let event = ready!(stream.as_mut().poll_next(context));
                Poll::Ready(event.map(|event| event.and_then(|event| Message::json(&event))))
            }
        }
    }
}
