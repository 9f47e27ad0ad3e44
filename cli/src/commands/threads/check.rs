//! `haft threads check`.

use std::io::Write as _;

use haft_api::{Diagnostic, ListThreads, ThreadId};
use haft_core::Runtime;
use serde::Serialize;

use super::{opening, runtime};
use crate::args::PlaceArgs;
use crate::commands::print;
use crate::failure::{DONE, FAILED, Outcome};
use crate::render::write_line;

/// A finding as programs get it.
#[derive(Serialize)]
struct Finding<'a> {
    thread: &'a ThreadId,
    #[serde(flatten)]
    diagnostic: &'a Diagnostic,
}

/// Checks one thread, or all.
pub(super) async fn check(place: &PlaceArgs, name: Option<&str>, json: bool) -> Outcome {
    let (runtime, store, _) = runtime(place).await?;
    let mut lost = false;
    match name {
        Some(name) => {
            let id = opening::find_thread(&*store, name).await?.id;
            lost |= check_one(&runtime, &id, json).await?;
        }
        None => {
            let mut request = ListThreads::default();
            request.archived = true;
            loop {
                let page = runtime.list_threads(request.clone()).await?;
                for thread in &page.threads {
                    lost |= check_one(&runtime, &thread.id, json).await?;
                }
                // A thread that can't even be listed is lost until it is mended.
                lost |= page.diagnostics.iter().any(|diagnostic| diagnostic.lost);
                print(|out| {
                    page.diagnostics
                        .iter()
                        .try_for_each(|diagnostic| match json {
                            true => write_line(out, diagnostic),
                            false => writeln!(out, "{}", diagnostic.message),
                        })
                })?;
                match page.next {
                    Some(next) => request = request.after(next),
                    None => break,
                }
            }
        }
    }
    Ok(if lost { FAILED } else { DONE })
}

/// Returns whether something was lost.
async fn check_one(runtime: &Runtime, thread: &ThreadId, json: bool) -> Outcome<bool> {
    let found = runtime.check_thread(thread).await?;
    print(|out| {
        found.iter().try_for_each(|diagnostic| match json {
            true => write_line(out, &Finding { thread, diagnostic }),
            false => {
                let word = if diagnostic.lost { "lost: " } else { "" };
                let place = diagnostic
                    .place
                    .as_deref()
                    .map(|place| format!(" ({place})"));
                let place = place.unwrap_or_default();
                writeln!(out, "{thread}: {word}{}{place}", diagnostic.message)
            }
        })?;
        match found.is_empty() && !json {
            true => writeln!(out, "{thread}: nothing is amiss"),
            false => Ok(()),
        }
    })?;
    Ok(found.iter().any(|diagnostic| diagnostic.lost))
}
