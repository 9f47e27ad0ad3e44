//! One model call, shown as it comes.

use std::sync::Arc;

use haft_api::{
    EngineEvent, EngineRequest, Error, ErrorKind, EventBody, InferenceEngine, Item, TurnId, Usage,
};
use tokio_util::sync::CancellationToken;

use super::assemble::{Assembler, Round};
use crate::events::EventHub;
use crate::guard;
use crate::moment::Moment;

/// How a round's stream ended.
pub(super) enum StreamEnd {
    Finished(Round),
    /// It broke off; what was shown of it is kept.
    Broken {
        kept: Vec<Item>,
        usage: Usage,
        error: Error,
    },
    Interrupted {
        kept: Vec<Item>,
        usage: Usage,
    },
}

/// Runs one round's model call, shown in `hub` if there is one.
pub(super) async fn run(
    engine: &Arc<dyn InferenceEngine>,
    request: EngineRequest,
    hub: Option<&EventHub>,
    cancel: &CancellationToken,
    end: Option<Moment>,
) -> StreamEnd {
    let turn = request.turn.clone();
    let mut assembler = Assembler::default();
    let outcome = {
        let reading = read(engine, request, &mut assembler, |event| {
            if let Some(hub) = hub {
                show(hub, &turn, event);
            }
        });
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            outcome = reading => Some(outcome),
            () = Moment::passed(end) => Some(Err(Error::new(
                ErrorKind::Timeout,
                "the turn's time was over before the model had answered",
            ))),
        }
    };
    match outcome {
        Some(Ok(reason)) => StreamEnd::Finished(assembler.finish(reason)),
        Some(Err(error)) => {
            let (kept, usage) = assembler.broken_off();
            let error = error
                .operation("model round")
                .context("engine", engine.id());
            StreamEnd::Broken { kept, usage, error }
        }
        None => {
            let (kept, usage) = assembler.broken_off();
            StreamEnd::Interrupted { kept, usage }
        }
    }
}

async fn read(
    engine: &Arc<dyn InferenceEngine>,
    request: EngineRequest,
    assembler: &mut Assembler,
    show: impl Fn(&EngineEvent),
) -> haft_api::Result<haft_api::FinishReason> {
    let id = engine.id().clone();
    let mut stream = guard::future(id.as_str(), engine.stream_turn(request)).await?;
    let mut since_yield = 0u32;
    while let Some(event) = guard::next(id.as_str(), &mut stream).await {
        let event = event?;
        show(&event);
        if let Some(reason) = assembler.take(event) {
            return Ok(reason);
        }
        // An engine whose events are all there already must not keep an
        // interrupt from being seen.
        since_yield += 1;
        if since_yield.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        "the model's answer broke off before its end",
    ))
}

fn show(hub: &EventHub, turn: &TurnId, event: &EngineEvent) {
    let body = match event {
        EngineEvent::TextDelta { text } if !text.is_empty() => {
            EventBody::MessageDelta { text: text.clone() }
        }
        EngineEvent::ReasoningDelta { text } if !text.is_empty() => {
            EventBody::ReasoningDelta { text: text.clone() }
        }
        _ => return,
    };
    hub.publish(Some(turn.clone()), body);
}
