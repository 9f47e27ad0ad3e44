//! The checks.

use std::path::PathBuf;

use haft::Registry;
use haft_api::{NewThread, Readiness, Result, RunnerCapabilities, ThreadId, ThreadStore};

use super::{Finding, Health};
use crate::assembly;
use crate::commands::engines::{describe_readiness, look};
use crate::config::{Environment, Settings};
use crate::engine_choice::local_servers;
use crate::render::Style;

pub(super) fn configuration(file: Option<(PathBuf, bool)>) -> Finding {
    let text = match file {
        Some((path, _)) if path.exists() => format!("{}", path.display()),
        Some((path, _)) => format!("none; it would be {}", path.display()),
        None => "none; no folder for it is known".to_owned(),
    };
    Finding::new("configuration", Health::Good, text)
}

/// Creates a thread and deletes it.
pub(super) async fn store(settings: &Settings, registry: &Registry) -> Finding {
    let subject = format!("store {}", settings.store);
    let store = match assembly::store(settings, registry).await {
        Ok(store) => store,
        Err(failure) => {
            return Finding::new(subject, Health::Bad, failure.message().unwrap_or_default());
        }
    };
    match write_and_delete(&*store).await {
        Ok(()) => {
            let can = store.capabilities();
            let power = match can.survives_power_loss {
                true => "survives a power cut",
                false => "may lose its last words in a power cut",
            };
            let place = match settings.store.as_str() {
                "jsonl" => format!("writes to {}", settings.home.display()),
                _ => "a thread was written and deleted".to_owned(),
            };
            let leases = match can.cross_process_lease {
                true => "",
                false => "; don't use it from two processes",
            };
            let text = format!("{place}; what it keeps {power}{leases}");
            Finding::new(subject, Health::Good, text)
        }
        Err(error) => Finding::new(subject, Health::Bad, error.to_string()),
    }
}

async fn write_and_delete(store: &dyn ThreadStore) -> Result<()> {
    let now = haft_api::unix_ms_now();
    let id = ThreadId::new(format!("doctor-{}-{now}", std::process::id()))?;
    store
        .create(NewThread::new(id.clone()))
        .await?
        .close()
        .await?;
    store.delete(&id).await
}

pub(super) async fn runner(settings: &Settings, registry: &Registry) -> Finding {
    let subject = format!("runner {}", settings.runner);
    let runner = match assembly::runner(settings, registry) {
        Ok(runner) => runner,
        Err(failure) => {
            return Finding::new(subject, Health::Bad, failure.message().unwrap_or_default());
        }
    };
    let can = runner.capabilities();
    let mut capabilities = describe_capabilities(can);
    if let Some(how) = runner.explain().await {
        capabilities = format!("{capabilities}; {how}");
    }
    let confined = can.confines_writes && can.confines_reads;
    let good = match can.processes && confined {
        true => Health::Good,
        false => Health::Limited,
    };
    match runner.readiness().await {
        Readiness::Ready => Finding::new(subject, good, capabilities),
        other => {
            let why = describe_readiness(&other, Style::default());
            Finding::new(subject, Health::Limited, format!("{why}; {capabilities}"))
        }
    }
}

/// What commands may do, in words.
fn describe_capabilities(can: RunnerCapabilities) -> String {
    if !can.processes {
        return "reads and writes files, can't run commands".to_owned();
    }
    let word = |confined: bool, yes: &str, no: &str| if confined { yes } else { no }.to_owned();
    [
        word(
            can.confines_writes,
            "writes stay in the workspace",
            "commands may write anywhere",
        ),
        word(
            can.confines_reads,
            "reads stay in what is allowed",
            "commands may read anything",
        ),
        word(
            can.confines_network,
            "the network is off",
            "the network is open",
        ),
        word(
            can.kills_process_trees,
            "nothing outlives a command",
            "processes may outlive theirs",
        ),
    ]
    .join("; ")
}

pub(super) async fn tools(settings: &Settings, registry: &Registry) -> Finding {
    let outcome = async {
        let store = assembly::store(settings, registry).await?;
        assembly::runtime(settings, registry.clone(), store)
    };
    let runtime = match outcome.await {
        Ok(runtime) => runtime,
        Err(failure) => {
            return Finding::new("tools", Health::Bad, failure.message().unwrap_or_default());
        }
    };
    let (tools, mut problems) = runtime.tools().await;
    let mut all: Vec<_> = runtime.problems().iter().map(ToString::to_string).collect();
    all.extend(problems.drain(..).map(|problem| problem.to_string()));
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    match all.is_empty() {
        true => Finding::new("tools", Health::Good, names.join(", ")),
        false => {
            let text = format!("{}; left out: {}", names.join(", "), all.join("; "));
            Finding::new("tools", Health::Limited, text)
        }
    }
}

/// The engines, and whether one of them could serve.
pub(super) async fn engines(
    registry: &Registry,
    chosen: Option<&str>,
    environment: &Environment,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for engine in look(registry, chosen).await {
        let why = describe_readiness(&engine.readiness, Style::default());
        let (health, why) = match (&engine.readiness, engine.default) {
            (Readiness::Unavailable { .. }, true) => (Health::Bad, why),
            (Readiness::Unavailable { .. }, false) => (Health::Limited, why),
            (_, true) => (
                Health::Good,
                format!("{why}; it serves where none is named"),
            ),
            (_, false) => (Health::Good, why),
        };
        findings.push(Finding::new(format!("engine {}", engine.id), health, why));
    }
    if chosen.is_none() {
        let text = "none is chosen, and none is ready: set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
                    OPENAI_BASE_URL";
        findings.push(Finding::new("engines", Health::Bad, text));
    }
    for server in local_servers().await {
        let text = format!("{} answers (usually {})", server.base_url(), server.name);
        findings.push(Finding::new("local server", Health::Good, text));
    }
    if environment.has("ANTHROPIC_API_KEY") && cfg!(not(feature = "engine-anthropic")) {
        let text = "ANTHROPIC_API_KEY is set, but this program has no engine for it";
        findings.push(Finding::new("engine anthropic", Health::Limited, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_told_either_way() {
        let mut can = RunnerCapabilities::default();
        assert!(describe_capabilities(can).contains("can't run commands"));
        can.processes = true;
        assert!(describe_capabilities(can).contains("commands may write anywhere"));
        can.confines_writes = true;
        assert!(describe_capabilities(can).contains("writes stay in the workspace"));
    }
}
