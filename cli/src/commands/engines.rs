//! `haft engines`: which engine could serve, and why the others couldn't.

use std::io::Write as _;
use std::time::Duration;

use haft::Registry;
use haft_api::{ExtensionId, InferenceEngine, ModelInfo, Readiness};
use serde::Serialize;

use super::{block_on, opening, print};
use crate::args::{EnginesArgs, PlaceArgs};
use crate::assembly;
use crate::config::Environment;
use crate::console::Console;
use crate::engine_choice;
use crate::failure::{DONE, Outcome};
use crate::render::{Style, visible, write_line};

/// How long an engine may take to say what it can do.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of an engine.
#[derive(Serialize)]
pub(super) struct EngineLine {
    pub(super) id: ExtensionId,
    /// Whether it would serve a turn that names none.
    pub(super) default: bool,
    #[serde(flatten)]
    pub(super) readiness: Readiness,
    models: Vec<ModelInfo>,
    /// Why there is no list of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    models_error: Option<String>,
}

pub(super) fn run(args: &EnginesArgs, place: &PlaceArgs, console: &Console) -> Outcome {
    block_on(async {
        let mut settings = opening::settings(place)?;
        let environment = Environment::of_process();
        let chosen = engine_choice::choose(&mut settings, &environment)
            .await
            .ok();
        let registry = assembly::registry(&settings)?;
        let engines = look(&registry, chosen.as_deref()).await;
        let style = Style::new(console.colour && console.shows_answers);
        print(|out| {
            engines.iter().try_for_each(|engine| match args.json {
                true => write_line(out, engine),
                false => write!(out, "{}", describe(engine, style)),
            })
        })?;
        Ok(DONE)
    })
}

/// Asks all engines at once.
pub(super) async fn look(registry: &Registry, chosen: Option<&str>) -> Vec<EngineLine> {
    let asked: Vec<_> = registry
        .engines()
        .iter()
        .map(|engine| {
            let engine = std::sync::Arc::clone(&engine.part);
            let default = chosen.is_some_and(|chosen| *engine.id() == *chosen);
            let id = engine.id().clone();
            (
                id,
                default,
                tokio::spawn(async move { ask(&*engine).await }),
            )
        })
        .collect();
    let mut lines = Vec::new();
    for (id, default, answer) in asked {
        let (readiness, models, models_error) = answer.await.unwrap_or_else(|error| {
            (
                Readiness::Unavailable {
                    reason: error.to_string(),
                },
                Vec::new(),
                None,
            )
        });
        lines.push(EngineLine {
            id,
            default,
            readiness,
            models,
            models_error,
        });
    }
    lines
}

async fn ask(engine: &dyn InferenceEngine) -> (Readiness, Vec<ModelInfo>, Option<String>) {
    let readiness = tokio::time::timeout(PATIENCE, engine.readiness()).await;
    let late = || Readiness::Unavailable {
        reason: "it doesn't answer".to_owned(),
    };
    let readiness = readiness.unwrap_or_else(|_| late());
    if let Readiness::Unavailable { .. } = readiness {
        return (readiness, Vec::new(), None);
    }
    match tokio::time::timeout(PATIENCE, engine.models()).await {
        Ok(Ok(models)) => (readiness, models, None),
        Ok(Err(error)) => (readiness, Vec::new(), Some(error.to_string())),
        Err(_) => (readiness, Vec::new(), Some("it doesn't answer".to_owned())),
    }
}

fn describe(engine: &EngineLine, style: Style) -> String {
    let mark = if engine.default { "*" } else { " " };
    let id = style.bold(&engine.id);
    let readiness = describe_readiness(&engine.readiness, style);
    let mut text = format!("{mark} {id}  {readiness}\n");
    for model in &engine.models {
        let context = model.context_tokens.map_or_else(String::new, |tokens| {
            format!("  {} tokens", crate::render::count(tokens))
        });
        text.push_str(&format!("    {}{context}\n", visible(&model.name)));
    }
    if let Some(error) = &engine.models_error {
        text.push_str(&format!("    no list of models: {error}\n"));
    }
    text
}

/// Whether something could be used, in words.
pub(super) fn describe_readiness(readiness: &Readiness, style: Style) -> String {
    match readiness {
        Readiness::Ready => style.good("ready"),
        Readiness::NeedsSetup { reason, .. } => {
            format!("{}: {reason}", style.warning("needs setup"))
        }
        Readiness::Unavailable { reason } => format!("{}: {reason}", style.bad("not ready")),
    }
}
