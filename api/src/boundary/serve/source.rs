//! Tools and tool sources.

use std::sync::Arc;

use crate::boundary::message::Message;
use crate::boundary::output::OutcomesProxy;
use crate::boundary::server::{Reply, Request, Served};
use crate::boundary::wire::{BatchArgs, ExecuteArgs, OutputData};
use crate::error::{Error, Result};
use crate::source::{BatchCall, ToolSource};
use crate::tool::Tool;

pub(super) struct ServedTool(pub(super) Arc<dyn Tool>);

impl Served for ServedTool {
    fn call(self: Arc<Self>, mut request: Request<'_>) -> Result<Reply> {
        if request.method != "execute" {
            return Ok(Reply::Unimplemented);
        }
        let ExecuteArgs { call, context } = request.read()?;
        let context = context.into_context(&mut request)?;
        Ok(Reply::later(async move {
            let output = self.0.execute(call, context).await?;
            let mut blob = Vec::new();
            let data = OutputData::new(output, &mut blob);
            Message::with_blob(&data, blob)
        }))
    }
}

pub(super) struct ServedSource(pub(super) Arc<dyn ToolSource>);

impl Served for ServedSource {
    fn call(self: Arc<Self>, mut request: Request<'_>) -> Result<Reply> {
        Ok(match request.method {
            "tools" => Reply::later(async move { Message::json(&self.0.tools().await?) }),
            "problems" => Reply::later(async move {
                let problems = self.0.problems().await;
                Message::json(&problems.iter().map(Error::to_data).collect::<Vec<_>>())
            }),
            "commands" => Reply::later(async move { Message::json(&self.0.commands().await?) }),
            "run_command" => {
                let call = request.read()?;
                Reply::later(async move { Message::json(&self.0.run_command(call).await?) })
            }
            "call_batch" => {
                let BatchArgs { calls, outcomes } = request.read()?;
                let calls = calls
                    .into_iter()
                    .map(|ExecuteArgs { call, context }| {
                        let context = context.into_context(&mut request)?;
                        Ok(BatchCall { call, context })
                    })
                    .collect::<Result<Vec<_>>>()?;
                let outcomes = Arc::new(OutcomesProxy(request.lent(outcomes)?));
                Reply::later(async move {
                    self.0.call_batch(calls, outcomes).await?;
                    Ok(Message::empty())
                })
            }
            _ => Reply::Unimplemented,
        })
    }
}
