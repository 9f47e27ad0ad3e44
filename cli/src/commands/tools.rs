//! `haft tools`: tools without a model.

mod call;
mod list;

use haft_core::Runtime;

use crate::args::{PlaceArgs, ToolPlaceArgs, ToolsCommand};
use crate::assembly;
use crate::config::{self, Environment, Layer, Runner, Settings, Sources};
use crate::console::Console;
use crate::engine_choice;
use crate::failure::Outcome;
use crate::scripts;

pub(super) fn run(command: ToolsCommand, place: &PlaceArgs, console: &Console) -> Outcome {
    match command {
        ToolsCommand::List { json, place: at } => {
            super::block_on(list::list(place, console, &at, json))
        }
        ToolsCommand::Call(args) => {
            let calls = call::read(&args)?;
            super::block_on(call::call(place, console, &args, calls))
        }
    }
}

/// A runtime and the folder its tools work in.
async fn runtime(place: &PlaceArgs, at: &ToolPlaceArgs) -> Outcome<(Runtime, String)> {
    let environment = Environment::of_process();
    let workspace = config::workspace(at.workspace.as_deref())?;
    let flags = Layer {
        runner: Runner::named(at.runner.clone()),
        ..Layer::default()
    };
    let sources = Sources {
        place,
        environment: &environment,
        workspace: Some(&workspace),
        flags,
    };
    let mut settings = Settings::load(sources)?;
    engine_choice::equip(&mut settings, &environment)?;
    scripts::equip(&mut settings, place, &environment, &at.ext)?;
    let registry = assembly::registry(&settings)?;
    let store = assembly::store(&settings, &registry).await?;
    let workspace = workspace.to_string_lossy().into_owned();
    let bound = assembly::bound_workspace(&settings, &registry, Some(&workspace))?;
    let runtime = assembly::runtime(&settings, registry, store)?;
    Ok((runtime, bound.unwrap_or(workspace)))
}
