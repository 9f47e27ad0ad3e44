//! Fetching, and asking before it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;

use haft::Registry;
use haft_api::{ErrorKind, ExtensionId, Readiness};
use haft_ext_engine_local::{
    ENGINE_ID, LocalModels, LocalSettings, ModelStatus, ServerChoice, SetupProgress,
};
use serde::Serialize;

use crate::args::{ModelsCommand, PlaceArgs, TurnArgs};
use crate::commands::{block_on, opening, print};
use crate::config::Settings;
use crate::console::Console;
use crate::failure::{DONE, Failure, Outcome};
use crate::render::{Style, bytes, write_line};
use crate::signals::Signals;

pub(in crate::commands) fn run(
    command: &ModelsCommand,
    place: &PlaceArgs,
    console: &Console,
) -> Outcome {
    let settings = opening::settings(place)?;
    let models = models(&settings)?;
    match command {
        ModelsCommand::List { json } => list(&models, *json),
        ModelsCommand::Get { name, yes } => block_on(async {
            let signals = Signals::listen();
            let interruptible = signals.interruptible();
            tokio::select! {
                outcome = get(&models, name, *yes, console) => outcome,
                () = interruptible.token().cancelled() => Err(Failure::Interrupted),
            }
        }),
    }
}

/// The models as the engine sees them.
fn models(settings: &Settings) -> Outcome<LocalModels> {
    let config = settings.extension("engine-local")?;
    let local: LocalSettings = config.parse().map_err(|error| {
        let why = crate::config::explain(&error.to_string());
        Failure::usage(format!("the configuration's `ext.engine-local`: {why}"))
    })?;
    let home = local.home.clone().unwrap_or_else(|| settings.home.clone());
    let mut models = LocalModels::new(home);
    if let Some(python) = local.python {
        models = models.with_python(python);
    }
    Ok(match local.server {
        ServerChoice::Auto => models,
        ServerChoice::Fetched => models.without_native_server(),
        ServerChoice::Program(program) => models.with_native_server(program),
    })
}

#[derive(Serialize)]
struct ModelLine<'a> {
    name: &'a str,
    description: &'a str,
    licence: &'a str,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    missing_bytes: u64,
}

fn list(models: &LocalModels, json: bool) -> Outcome {
    print(|out| {
        models.list().iter().try_for_each(|model| {
            if json {
                return write_line(
                    out,
                    &ModelLine {
                        name: model.name,
                        description: model.description,
                        licence: model.licence,
                        bytes: model.bytes,
                        path: model.path.as_ref().map(|path| path.display().to_string()),
                        missing_bytes: model.missing_bytes,
                    },
                );
            }
            let ModelStatus {
                name,
                description,
                licence,
                ..
            } = model;
            writeln!(
                out,
                "{name}  {}  {licence}  {description}",
                bytes(model.bytes)
            )?;
            if let Some(path) = &model.path {
                writeln!(out, "  at {}", path.display())?;
            }
            match model.missing_bytes {
                0 => Ok(()),
                missing => writeln!(
                    out,
                    "  {} to download, server included: haft models get {name}",
                    bytes(missing)
                ),
            }
        })
    })?;
    Ok(DONE)
}

async fn get(models: &LocalModels, name: &str, yes: bool, console: &Console) -> Outcome {
    let status = models.find(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::usage(error),
        _ => error.into(),
    })?;
    if status.missing_bytes > 0 && !yes {
        let question = format!("Download {} for {name}?", bytes(status.missing_bytes));
        ask(&question, console).await?;
    }
    let progress = Progress::new(console);
    let path = models.get(name, &|report| progress.report(report)).await;
    progress.end();
    let path = path?;
    print(|out| writeln!(out, "{}", path.display()))?;
    Ok(DONE)
}

/// Asks if there is anybody; without a terminal it goes ahead.
async fn ask(question: &str, console: &Console) -> Outcome<()> {
    if !console.can_ask || console.confirm(question).await {
        Ok(())
    } else {
        Err(Failure::failed(
            "nothing was downloaded; for another engine set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
             OPENAI_BASE_URL, or see `haft engines`",
        ))
    }
}

/// Fetches what the embedded engine lacks before its turn, where it can be
/// asked for and seen.
pub(in crate::commands) async fn prepare(
    registry: &Registry,
    engine: &ExtensionId,
    settings: &Settings,
    args: &TurnArgs,
    console: &Console,
) -> Outcome<()> {
    if *engine != ENGINE_ID {
        return Ok(());
    }
    let engine = registry
        .engine(ENGINE_ID)
        .ok_or_else(|| Failure::failed("the embedded engine isn't there"))?;
    let style = Style::new(console.colour);
    let model = engine
        .model(settings.model.as_deref())
        .await
        .map_err(Failure::usage)?;
    match engine.readiness().await {
        Readiness::Ready => {}
        Readiness::Unavailable { reason } => {
            return Err(Failure::failed(format!(
                "the embedded model can't run: {reason}; for another engine set \
                 ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL"
            )));
        }
        Readiness::NeedsSetup { .. } => {
            let models = models(settings)?;
            // A file of the user's own needs the server alone.
            let in_catalog = models.find(&model.name).ok();
            let missing = in_catalog.as_ref().map_or_else(
                || models.missing_server_bytes(),
                |status| status.missing_bytes,
            );
            if missing > 0 && !args.yes && !args.json {
                let question = format!("Download {} to run {}?", bytes(missing), model.name);
                ask(&question, console).await?;
            }
            let progress = Progress::new(console);
            let report = |report| progress.report(report);
            let fetched = match in_catalog {
                Some(status) => models.get(status.name, &report).await.map(drop),
                None => models.get_server(&report).await,
            };
            progress.end();
            fetched?;
        }
    }
    if let Some(hint) = model.hint {
        console.say(&style.dim(format!("{}: {hint}", model.name)));
    }
    Ok(())
}

/// Shows how far it has come: a line that changes on a terminal, elsewhere a
/// line for each phase.
struct Progress {
    style: Style,
    live: bool,
    last: Mutex<Option<SetupProgress>>,
}

impl Progress {
    fn new(console: &Console) -> Self {
        Self {
            style: Style::new(console.colour),
            live: std::io::stderr().is_terminal(),
            last: Mutex::default(),
        }
    }

    fn report(&self, report: SetupProgress) {
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let new_phase = last.is_none_or(|last| last.phase != report.phase);
        let began = last.is_some();
        *last = Some(report);
        drop(last);
        let mut stderr = std::io::stderr().lock();
        // Progress that can't be shown is no loss.
        let _ = match (self.live, report.total) {
            (false, _) if !new_phase => Ok(()),
            (false, Some(total)) => writeln!(stderr, "{} ({})", report.phase, bytes(total)),
            (false, None) => writeln!(stderr, "{}", report.phase),
            (true, total) => {
                let before = if new_phase && began { "\n" } else { "\r\x1b[K" };
                let bar = total.map_or_else(String::new, |total| bar(report.done, total));
                write!(stderr, "{before}{}{bar}", self.style.dim(report.phase))
                    .and_then(|()| stderr.flush())
            }
        };
    }

    fn end(&self) {
        let last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.live && last.is_some() {
            writeln!(std::io::stderr().lock()).ok();
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    const WIDTH: u64 = 24;
    let filled = (done.min(total) * WIDTH)
        .checked_div(total)
        .unwrap_or(WIDTH);
    let bar: String = (0..WIDTH)
        .map(|at| if at < filled { '█' } else { '░' })
        .collect();
    format!(" {bar} {} of {}", bytes(done), bytes(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_it_should_be() {
        let filled = |done, total| bar(done, total).matches('█').count();
        assert_eq!(filled(0, 100), 0);
        assert_eq!(filled(50, 100), 12);
        assert_eq!(filled(100, 100), 24);
        assert_eq!(filled(101, 100), 24);
        assert_eq!(filled(0, 0), 24);
    }
}
