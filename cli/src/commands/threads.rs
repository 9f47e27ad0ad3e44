//! `haft threads`: what is stored.

mod change;
mod check;
mod delete;
mod export;
mod fork;
mod import;
mod list;
mod search;
mod show;

use std::sync::Arc;

use haft_api::{ListThreads, ThreadStore};
use haft_core::Runtime;
use haft_core::prices::PriceTable;

use super::opening;
use crate::args::{ExportFormat, PlaceArgs, ThreadsCommand};
use crate::assembly;
use crate::console::Console;
use crate::failure::Outcome;

pub(super) fn run(command: ThreadsCommand, place: &PlaceArgs, console: &Console) -> Outcome {
    super::block_on(async {
        match command {
            ThreadsCommand::List {
                limit,
                cursor,
                archived,
                json,
            } => {
                let mut request = ListThreads::default();
                request.limit = limit;
                request.cursor = cursor;
                request.archived = archived;
                list::list(place, console, request, json).await
            }
            ThreadsCommand::Search {
                text,
                archived,
                json,
            } => search::search(place, console, &text, archived, json).await,
            ThreadsCommand::Import { file, format, json } => {
                import::import(place, console, &file, format, json).await
            }
            ThreadsCommand::Rename { id, title, json } => {
                change::rename(place, &id, &title, json).await
            }
            ThreadsCommand::Archive { id, undo, json } => {
                change::archive(place, &id, undo, json).await
            }
            ThreadsCommand::Show { id, json } => show::show(place, console, &id, json).await,
            ThreadsCommand::Export { id, format, replay } => {
                let format = if replay {
                    ExportFormat::Replay
                } else {
                    format.unwrap_or_default()
                };
                export::export(place, console, &id, format).await
            }
            ThreadsCommand::Fork { id, at, json } => fork::fork(place, &id, at, json).await,
            ThreadsCommand::Check { id, json } => check::check(place, id.as_deref(), json).await,
            ThreadsCommand::Delete { id, json } => delete::delete(place, console, &id, json).await,
        }
    })
}

/// A runtime to look at threads with, the store it looks into, and what models
/// cost.
async fn runtime(place: &PlaceArgs) -> Outcome<(Runtime, Arc<dyn ThreadStore>, PriceTable)> {
    let (settings, store) = opening::open_store(place).await?;
    let runtime = Runtime::builder(assembly::registry(&settings)?).build(Arc::clone(&store))?;
    Ok((runtime, store, settings.prices))
}
