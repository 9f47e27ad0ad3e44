//! The host as a source of tools and a sink of events.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    BatchCall, BatchOutcomes, CallId, Error, Event, EventBody, EventSink, ExtensionId, Result,
    SlashCommand, SlashCommandCall, SlashCommandOutput, ToolSource, ToolSpec, async_trait,
};
use haft_script_host::{Level, look_again};
use tokio::sync::oneshot;

use crate::host::{LuaHost, Running, lost};
use crate::worker::{Batch, Message};

/// A batch of no more calls than this may be over before its caller is asleep.
const FEW: usize = 4;

#[async_trait]
impl ToolSource for LuaHost {
    fn id(&self) -> &ExtensionId {
        LuaHost::id(self)
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        let (_, snapshot) = self.ready().await?;
        Ok(snapshot.tools.clone())
    }

    async fn problems(&self) -> Vec<Error> {
        // Without a state `tools` has failed already, and said why.
        LuaHost::problems(self).await.unwrap_or_default()
    }

    async fn call_batch(
        &self,
        calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()> {
        let (worker, _) = self.ready().await?;
        let ids: Vec<CallId> = calls.iter().map(|call| call.call.id.clone()).collect();
        let limit = self.settings().limits.call();
        let first_due = calls
            .iter()
            .map(|call| call.context.deadline.map_or(limit, |d| d.remaining()))
            .min()
            .unwrap_or(Duration::ZERO);
        let calls: Vec<_> = calls
            .into_iter()
            .map(|call| (self.next_number(), call))
            .collect();
        let numbers = calls.iter().map(|(number, _)| *number).collect();
        let few = calls.len() <= FEW;
        let (done, mut all) = oneshot::channel();
        let mut running = Running::new(self, &worker, numbers);
        worker.say(Message::Batch(Batch {
            calls,
            outcomes: Arc::clone(&outcomes),
            over: running.over(),
            done,
        }));
        // Most calls take microseconds.
        let soon = few.then(|| look_again(|| told(&mut all))).flatten();
        let later = async {
            tokio::select! {
                biased;
                all = all => all.is_ok(),
                () = worker.lost.cancelled() => false,
                () = self.stuck(&worker, first_due) => {
                    self.give_up(&worker);
                    false
                }
            }
        };
        let whole = match soon {
            Some(whole) => whole,
            None => later.await,
        };
        running.finish();
        if !whole {
            for id in &ids {
                outcomes.complete(id, Err(lost()));
            }
        }
        Ok(())
    }

    async fn commands(&self) -> Result<Vec<SlashCommand>> {
        Ok(self.ready().await?.1.commands.clone())
    }

    async fn run_command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        self.command(call).await
    }
}

/// Whether the batch is whole, if that is known.
fn told(all: &mut oneshot::Receiver<()>) -> Option<bool> {
    match all.try_recv() {
        Ok(()) => Some(true),
        Err(oneshot::error::TryRecvError::Closed) => Some(false),
        Err(oneshot::error::TryRecvError::Empty) => None,
    }
}

/// Passes events on to the scripts that listen to them.
pub(crate) struct Listeners(pub(crate) LuaHost);

impl EventSink for Listeners {
    fn publish(&self, event: &Event) {
        let Some(name) = name(&event.body) else {
            return;
        };
        let worker = match self.0.listening(name) {
            Ok(Some(worker)) => worker,
            Ok(None) => return,
            Err(error) => {
                let words = format!("an event `{name}` is dropped: {error}");
                self.0.log(Level::Warn, &words);
                return;
            }
        };
        match serde_json::to_string(event) {
            Ok(json) => {
                if !worker.event(name, json) {
                    let words = format!("an event `{name}` is dropped: scripts are too slow");
                    self.0.log(Level::Warn, &words);
                }
            }
            Err(error) => {
                let words = format!("an event `{name}` can't be passed on: {error}");
                self.0.log(Level::Error, &words);
            }
        }
    }
}

/// The events that scripts can listen to.
pub(crate) const EVENTS: &[&str] = &[
    "thread.created",
    "turn.started",
    "item.appended",
    "tool.started",
    "tool.completed",
    "approval.requested",
    "approval.resolved",
    "usage",
    "turn.completed",
    "turn.failed",
    "turn.interrupted",
];

fn name(body: &EventBody) -> Option<&'static str> {
    Some(match body {
        EventBody::ThreadCreated { .. } => "thread.created",
        EventBody::TurnStarted { .. } => "turn.started",
        EventBody::ItemAppended { .. } => "item.appended",
        EventBody::ToolStarted { .. } => "tool.started",
        EventBody::ToolCompleted { .. } => "tool.completed",
        EventBody::ApprovalRequested { .. } => "approval.requested",
        EventBody::ApprovalResolved { .. } => "approval.resolved",
        EventBody::Usage { .. } => "usage",
        EventBody::TurnCompleted { .. } => "turn.completed",
        EventBody::TurnFailed { .. } => "turn.failed",
        EventBody::TurnInterrupted { .. } => "turn.interrupted",
        _ => return None,
    })
}
