//! Event sinks and policy contributors.

use std::sync::Arc;

use crate::boundary::event::read_event;
use crate::boundary::message::Message;
use crate::boundary::server::{Reply, Request, Served};
use crate::boundary::wire::{PublishArgs, ReviewArgs};
use crate::error::Result;
use crate::event::EventSink;
use crate::policy::PolicyContributor;

pub(super) struct ServedEventSink(pub(super) Arc<dyn EventSink>);

impl Served for ServedEventSink {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        if request.method != "publish" {
            return Ok(Reply::Unimplemented);
        }
        let arguments: PublishArgs = request.read()?;
        if let Some(event) = read_event(&arguments, request.blob())? {
            self.0.publish(&event);
        }
        Ok(Reply::nothing())
    }
}

pub(super) struct ServedPolicy(pub(super) Arc<dyn PolicyContributor>);

impl Served for ServedPolicy {
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply> {
        if request.method != "review" {
            return Ok(Reply::Unimplemented);
        }
        let ReviewArgs { request } = request.read()?;
        Ok(Reply::later(async move {
            Message::json(&self.0.review(request).await?)
        }))
    }
}
