//! Runner providers and leases.

use std::sync::Arc;

use crate::boundary::message::Message;
use crate::boundary::server::{Giver, Reply, Request, Served};
use crate::boundary::session::ServedSession;
use crate::boundary::wire::{
    CreateArgs, DestinationArgs, LeaseArgs, LeaseData, LostData, ResumeArgs, ResumedData,
    SessionData,
};
use crate::error::Result;
use crate::runner::{Lease, RemoteRunnerProvider, RemoteRunnerSession, Resumed};

pub(super) struct ServedProvider(pub(super) Arc<dyn RemoteRunnerProvider>);

fn give_session(giver: &Giver, session: Arc<dyn RemoteRunnerSession>) -> SessionData {
    let mut data = ServedSession::describe(&*session, 0);
    data.object = giver.give(Arc::new(ServedSession(session)));
    data
}

impl Served for ServedProvider {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        let giver = request.giver();
        Ok(match request.method {
            "readiness" => Reply::later(async move { Message::json(&self.0.readiness().await) }),
            "explain" => Reply::later(async move { Message::json(&self.0.explain().await) }),
            "validate" => {
                let DestinationArgs { destination } = request.read()?;
                self.0.validate(&destination)?;
                Reply::nothing()
            }
            "create" => {
                let CreateArgs { binding } = request.read()?;
                Reply::later(async move {
                    let session = self.0.create(binding).await?;
                    Message::json(&give_session(&giver, session))
                })
            }
            "resume" => {
                let ResumeArgs { binding, state } = request.read()?;
                Reply::later(async move {
                    let (session, gone) = match self.0.resume(binding, state).await? {
                        Resumed::Session(session) => (Some(give_session(&giver, session)), None),
                        Resumed::Gone { reason } => (None, Some(reason)),
                    };
                    Message::json(&ResumedData { session, gone })
                })
            }
            "acquire_lease" => {
                let LeaseArgs { state, request } = request.read()?;
                Reply::later(async move {
                    let lease = self.0.acquire_lease(state, request).await?;
                    let lease = lease.map(|lease| giver.give(Arc::new(ServedLease(lease))));
                    Message::json(&LeaseData { lease })
                })
            }
            _ => Reply::Unimplemented,
        })
    }
}

struct ServedLease(Arc<dyn Lease>);

impl Served for ServedLease {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        Ok(match request.method {
            "lost" => Reply::later(async move {
                let reason = self.0.lost().await;
                Message::json(&LostData { reason })
            }),
            "release" => Reply::later(async move { Message::json(&self.0.release().await?) }),
            _ => Reply::Unimplemented,
        })
    }
}
