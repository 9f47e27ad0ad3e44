//! `haft threads rename` and `haft threads archive`.

use std::io::Write as _;

use haft_api::MetadataPatch;

use super::{opening, runtime};
use crate::args::PlaceArgs;
use crate::commands::print;
use crate::failure::{DONE, Outcome, one_line};
use crate::render::write_line;

pub(super) async fn rename(place: &PlaceArgs, name: &str, title: &str, json: bool) -> Outcome {
    let patch = MetadataPatch::default().title(one_line(title));
    change(place, name, patch, json).await
}

/// Puts a thread away, or takes it back.
pub(super) async fn archive(place: &PlaceArgs, name: &str, undo: bool, json: bool) -> Outcome {
    let mut patch = MetadataPatch::default();
    patch.archived = Some(!undo);
    change(place, name, patch, json).await
}

/// Prints the thread's id, or its metadata.
async fn change(place: &PlaceArgs, name: &str, patch: MetadataPatch, json: bool) -> Outcome {
    let (runtime, store, _) = runtime(place).await?;
    let id = opening::find_thread(&*store, name).await?.id;
    let thread = runtime.open_thread(&id).await?;
    let metadata = thread.patch_metadata(patch).await?;
    print(|out| match json {
        true => write_line(out, &metadata),
        false => writeln!(out, "{id}"),
    })?;
    Ok(DONE)
}
