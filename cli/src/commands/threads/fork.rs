//! `haft threads fork`.

use std::io::Write as _;

use haft_api::ErrorKind;

use super::{opening, runtime};
use crate::args::PlaceArgs;
use crate::commands::print;
use crate::failure::{DONE, Failure, Outcome};
use crate::render::write_line;

/// Prints the fork's id, or its metadata.
pub(super) async fn fork(place: &PlaceArgs, name: &str, at: Option<u64>, json: bool) -> Outcome {
    let (runtime, store, _) = runtime(place).await?;
    let parent = opening::find_thread(&*store, name).await?.id;
    let fork = runtime.fork_thread(&parent, at, None).await;
    let fork = fork.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error),
        _ => error.into(),
    })?;
    let metadata = fork.metadata().await;
    print(|out| match json {
        true => write_line(out, &metadata),
        false => writeln!(out, "{}", metadata.id),
    })?;
    Ok(DONE)
}
