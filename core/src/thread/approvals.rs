//! Questions that wait for an answer from outside: approvals, external calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use haft_api::{
    CallId, Durability, Error, ErrorKind, EventBody, RequestId, Result, ToolCall, ToolOutput,
    TurnId,
};
use tokio::sync::oneshot;

use super::fold::Approval;
use super::records::{CallText, ThreadRecord};
use super::{Inner, Thread, lock};

/// A question that waits for an answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenRequest {
    /// What the answer has to name.
    pub id: RequestId,
    /// The call it is about.
    pub call_id: CallId,
    /// The tool.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: String,
    /// Why it is asked; `None` for an external call.
    pub reason: Option<String>,
}

enum Waiter {
    Approval(oneshot::Sender<bool>),
    External(oneshot::Sender<ToolOutput>),
}

/// The questions of the turn under way.
#[derive(Default)]
pub(crate) struct Desk {
    waiting: Mutex<HashMap<RequestId, (OpenRequest, Waiter)>>,
}

/// Takes a question from the desk when whoever asked goes away.
struct Asked<'a> {
    desk: &'a Desk,
    id: RequestId,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        lock(&self.desk.waiting).remove(&self.id);
    }
}

impl Desk {
    fn put(&self, request: OpenRequest, waiter: Waiter) -> Asked<'_> {
        let id = request.id.clone();
        lock(&self.waiting).insert(id.clone(), (request, waiter));
        Asked { desk: self, id }
    }

    fn take_approval(&self, id: &RequestId) -> Option<oneshot::Sender<bool>> {
        let mut waiting = lock(&self.waiting);
        match waiting.remove(id)? {
            (_, Waiter::Approval(answer)) => Some(answer),
            other => {
                waiting.insert(id.clone(), other);
                None
            }
        }
    }

    fn take_external(&self, id: &RequestId) -> Option<oneshot::Sender<ToolOutput>> {
        let mut waiting = lock(&self.waiting);
        match waiting.remove(id)? {
            (_, Waiter::External(answer)) => Some(answer),
            other => {
                waiting.insert(id.clone(), other);
                None
            }
        }
    }

    fn open(&self) -> Vec<OpenRequest> {
        let mut open: Vec<_> = lock(&self.waiting)
            .values()
            .map(|(request, _)| request.clone())
            .collect();
        open.sort_by(|a, b| a.id.cmp(&b.id));
        open
    }
}

fn gone(id: &RequestId) -> Error {
    Error::new(
        ErrorKind::NotFound,
        "nothing waits for this answer: it came late, or twice",
    )
    .context("request", id)
}

fn request_id(kind: &str, call: &CallId) -> Result<RequestId> {
    RequestId::new(format!("{kind}.{call}"))
}

impl Inner {
    /// Asks whether a call may run, and waits for the answer.
    pub(super) async fn ask(
        self: &Arc<Self>,
        turn: &TurnId,
        call: &ToolCall,
        reason: String,
    ) -> Result<bool> {
        let id = request_id("approval", &call.id)?;
        let (answer, answered) = oneshot::channel();
        let request = OpenRequest {
            id: id.clone(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.get().to_owned(),
            reason: Some(reason.clone()),
        };
        let asked = self.desk.put(request, Waiter::Approval(answer));
        let text = CallText {
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        let record = ThreadRecord::ApprovalRequested {
            request_id: id.clone(),
            call_id: call.id.clone(),
            reason,
            call: text,
        };
        let (turn, request) = (turn.clone(), id.clone());
        let told = self.undisturbed(|thread| async move {
            thread.tell_of_request(&turn, &request, record).await
        });
        // Answered since it was asked, before a restart.
        if let Some(approved) = told.await? {
            return Ok(approved);
        }
        let approved = answered.await.map_err(|_| gone(&id));
        drop(asked);
        approved
    }

    /// Writes a question down, unless an earlier process did; its answer, if
    /// there is one already.
    async fn tell_of_request(
        &self,
        turn: &TurnId,
        id: &RequestId,
        record: ThreadRecord,
    ) -> Result<Option<bool>> {
        let mut log = self.log.lock().await;
        let earlier = log
            .folded
            .unfinished
            .as_ref()
            .and_then(|u| u.approvals.get(id));
        match earlier {
            Some(Approval {
                approved: Some(approved),
                ..
            }) => return Ok(Some(*approved)),
            // The record stands; its event is told anew.
            Some(_) => record
                .events()
                .into_iter()
                .for_each(|body| self.hub.publish(Some(turn.clone()), body)),
            None => {
                self.append(&mut log, Some(turn), &[record], Durability::Barrier)
                    .await?;
            }
        }
        Ok(None)
    }

    /// Has a call answered from outside.
    pub(super) async fn answer_outside(
        &self,
        turn: &TurnId,
        call: &ToolCall,
    ) -> Result<ToolOutput> {
        let id = request_id("external", &call.id)?;
        let (answer, answered) = oneshot::channel();
        let request = OpenRequest {
            id: id.clone(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.get().to_owned(),
            reason: None,
        };
        let asked = self.desk.put(request, Waiter::External(answer));
        let body = EventBody::ExternalCallRequested {
            request_id: id.clone(),
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        self.hub.publish(Some(turn.clone()), body);
        let output = answered.await.map_err(|_| gone(&id));
        drop(asked);
        output
    }

    async fn answer(&self, id: &RequestId, approved: bool) -> Result<()> {
        let mut log = self.log.lock().await;
        let unfinished = log.folded.unfinished.as_ref().ok_or_else(|| gone(id))?;
        let open = unfinished
            .approvals
            .get(id)
            .is_some_and(|known| known.approved.is_none());
        if !open {
            return Err(gone(id));
        }
        let turn = unfinished.turn.clone();
        let record = ThreadRecord::ApprovalResolved {
            request_id: id.clone(),
            approved,
        };
        self.append(&mut log, Some(&turn), &[record], Durability::Barrier)
            .await?;
        if let Some(answer) = self.desk.take_approval(id) {
            // Whoever asked may have been interrupted meanwhile.
            answer.send(approved).ok();
        }
        Ok(())
    }

    pub(super) async fn open_requests(&self) -> Vec<OpenRequest> {
        let open = self.desk.open();
        if lock(&self.active).is_some() {
            return open;
        }
        let log = self.log.lock().await;
        let left = log
            .folded
            .unfinished
            .iter()
            .flat_map(|unfinished| &unfinished.approvals);
        left.filter(|(_, approval)| approval.approved.is_none())
            .map(|(id, approval)| OpenRequest {
                id: id.clone(),
                call_id: approval.call_id.clone(),
                name: approval.call.name.clone(),
                arguments: approval.call.arguments.get().to_owned(),
                reason: Some(approval.reason.clone()),
            })
            .collect()
    }
}

impl Thread {
    /// Answers an approval. The answer is durable when this returns, and holds
    /// also for a turn that an earlier process left waiting; see
    /// [`resume_turn`](Self::resume_turn).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if nothing waits for it (any more).
    pub async fn answer_approval(&self, id: &RequestId, approved: bool) -> Result<()> {
        let id = id.clone();
        let answer = |thread: Arc<Inner>| async move { thread.answer(&id, approved).await };
        self.inner.undisturbed(answer).await
    }

    /// Answers an external tool call.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if nothing waits for it (any more): a second or
    /// late answer changes nothing.
    pub fn answer_external(&self, id: &RequestId, output: ToolOutput) -> Result<()> {
        let answer = self.inner.desk.take_external(id).ok_or_else(|| gone(id))?;
        answer.send(output).map_err(|_| gone(id))
    }
}
