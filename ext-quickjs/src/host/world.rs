//! What skills reach outside of their runtimes, and what is told of them.

use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt as _};
use haft_api::{Part, ToolOutput};
use serde_json::value::RawValue;

use super::Inner;
use crate::credentials::Credentials;
use crate::worker::{CallFacts, Outside, Raised, Settled};
use haft_script_host::{Level, LogSink};

/// What a skill reaches outside of its runtime.
pub(super) struct World {
    pub(super) host: Weak<Inner>,
    pub(super) skill: String,
}

impl Outside for World {
    fn published(&self, state: Arc<str>) {
        if let Some(host) = self.host.upgrade()
            && let Ok(skill) = host.skill(&self.skill)
        {
            skill.set_published(state);
        }
    }

    fn call_tool(
        &self,
        skill: String,
        tool: String,
        arguments: Box<RawValue>,
        within: Option<Arc<CallFacts>>,
    ) -> BoxFuture<'static, Result<Settled, Raised>> {
        let host = Weak::clone(&self.host);
        async move {
            let host = host
                .upgrade()
                .ok_or_else(|| Raised::error("the host is gone"))?;
            let output = host
                .call_tool(&skill, &tool, arguments, None, within.as_deref())
                .await
                .map_err(|failure| Raised::error(failure.to_string()))?;
            let json = said(&output).map_err(Raised::error)?;
            match output.is_error {
                true => Err(Raised::error(
                    serde_json::from_str::<String>(&json).unwrap_or(json),
                )),
                false => Ok(Settled::Json(json)),
            }
        }
        .boxed()
    }

    fn skills(&self) -> String {
        let skills = self
            .host
            .upgrade()
            .map(|host| host.all())
            .unwrap_or_default();
        let list: Vec<_> = skills
            .iter()
            .map(|skill| {
                let snapshot = skill.snapshot();
                serde_json::json!({
                    "id": snapshot.id,
                    "name": snapshot.name,
                    "status": snapshot.status,
                    "tools": skill.lists().tools.iter().map(|t| t.name.clone()).collect::<Vec<_>>(),
                })
            })
            .collect();
        serde_json::Value::from(list).to_string()
    }
}

/// What another skill is told a tool said: its one value, or all its parts.
fn said(output: &ToolOutput) -> Result<String, String> {
    match &*output.parts {
        [] => Ok("null".to_owned()),
        [Part::Text { text }] => serde_json::to_string(text).map_err(|e| e.to_string()),
        [Part::Json { value }] => Ok(value.get().to_owned()),
        parts => serde_json::to_string(parts).map_err(|e| e.to_string()),
    }
}

/// Keeps a skill's secrets out of its messages.
pub(super) struct Redacting {
    pub(super) log: Arc<dyn LogSink>,
    pub(super) credentials: Arc<Credentials>,
}

impl LogSink for Redacting {
    fn log(&self, skill: &str, level: Level, message: &str) {
        let message = self.credentials.redact(message);
        self.log.log(skill, level, &message);
    }
}
