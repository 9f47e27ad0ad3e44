//! The traces that a round's calls leave in their thread's log.

use std::sync::Arc;

use haft_api::{
    CallId, Durability, EventBody, Item, OutputChannel, Result, ToolCall, ToolOutput, ToolResult,
    TurnId, async_trait,
};

use super::Inner;
use super::records::ThreadRecord;
use crate::dispatch::Journal;

pub(crate) struct ThreadJournal {
    pub(crate) thread: Arc<Inner>,
    pub(crate) turn: TurnId,
}

#[async_trait]
impl Journal for ThreadJournal {
    async fn starting(&self, call: &ToolCall, side_effects: bool) -> Result<()> {
        if side_effects {
            let record = ThreadRecord::ToolStarted {
                call_ids: vec![call.id.clone()],
            };
            let mut log = self.thread.log.lock().await;
            let durability = Durability::Barrier;
            self.thread
                .append(&mut log, Some(&self.turn), &[record], durability)
                .await?;
        }
        let body = EventBody::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
        };
        self.thread.hub.publish(Some(self.turn.clone()), body);
        Ok(())
    }

    async fn ended(&self, results: Vec<ToolResult>) -> Result<()> {
        let records: Vec<_> = results
            .into_iter()
            .map(|result| ThreadRecord::Item(Arc::new(Item::ToolResult(result))))
            .collect();
        let mut log = self.thread.log.lock().await;
        self.thread
            .append(&mut log, Some(&self.turn), &records, Durability::Barrier)
            .await
    }

    fn progress(&self, call: &CallId, channel: OutputChannel, text: String) {
        let body = EventBody::ToolProgress {
            call_id: call.clone(),
            channel,
            text,
        };
        self.thread.hub.publish(Some(self.turn.clone()), body);
    }

    async fn ask(&self, call: &ToolCall, reason: String) -> Result<bool> {
        self.thread.ask(&self.turn, call, reason).await
    }

    async fn answer_outside(&self, call: &ToolCall) -> Result<ToolOutput> {
        self.thread.answer_outside(&self.turn, call).await
    }
}
