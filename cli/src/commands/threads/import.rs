//! `haft threads import`.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::Path;

use haft_api::{ExtensionId, MetadataPatch, ThreadId, raw_json};
use haft_core::ThreadOptions;
use haft_import::{Format, Imported};
use serde::Serialize;

use super::runtime;
use crate::args::PlaceArgs;
use crate::commands::print;
use crate::console::Console;
use crate::failure::{DONE, Failure, Outcome, one_line};
use crate::render::{Style, write_line};

/// The name under which a thread keeps where it came from.
const IMPORTED_FROM: &str = "imported_from";

#[derive(Serialize)]
struct Line<'a> {
    thread: &'a ThreadId,
    format: &'a str,
    items: usize,
    /// What the thread doesn't have.
    losses: Vec<String>,
}

/// Prints the new thread's id, and on standard error what could not be carried.
pub(super) async fn import(
    place: &PlaceArgs,
    console: &Console,
    path: &Path,
    format: Option<Format>,
    json: bool,
) -> Outcome {
    let name = path.display();
    let file = File::open(path).map_err(|e| Failure::usage(format!("can't read {name}: {e}")))?;
    let imported = haft_import::read(BufReader::new(file), format);
    let imported = imported.map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    let mut options = ThreadOptions::default();
    options.title = imported.title.as_deref().map(one_line);
    options.workspace = workspace(&imported);
    let engine = ExtensionId::new(imported.format.as_str())?;
    let origin = origin(&imported)?;
    let mut losses: Vec<_> = imported.losses.iter().map(ToString::to_string).collect();
    let (runtime, _, _) = runtime(place).await?;
    let (thread, report) = runtime
        .import_thread(options, &engine, imported.pieces)
        .await?;
    let patch = MetadataPatch::default().set(IMPORTED_FROM, origin);
    thread.patch_metadata(patch).await?;
    let made_up = [
        (
            report.calls_without_result,
            "a call had no result and got one that says so",
        ),
        (
            report.results_without_call,
            "a result without a call was left out",
        ),
    ];
    for (count, what) in made_up.into_iter().filter(|(count, _)| *count > 0) {
        losses.push(format!("{what} ({count} times)"));
    }
    let items = thread.items(None, usize::MAX).await.items.len();
    let format = imported.format.as_str();
    if json {
        let thread = thread.id();
        print(|out| {
            write_line(
                out,
                &Line {
                    thread,
                    format,
                    items,
                    losses,
                },
            )
        })?;
        return Ok(DONE);
    }
    for loss in &losses {
        console.say(&Style::new(console.colour).warning(one_line(loss)));
    }
    console.say(&format!(
        "{items} items of a {format} session; `haft chat --thread {}` goes on",
        thread.id()
    ));
    print(|out| writeln!(out, "{}", thread.id()))?;
    Ok(DONE)
}

/// The session's folder, if it is one here: a thread from another machine has
/// none until it is told.
fn workspace(imported: &Imported) -> Option<String> {
    let folder = imported.workspace.as_deref()?;
    let path = Path::new(folder);
    (path.is_absolute() && path.is_dir()).then(|| folder.to_owned())
}

#[derive(Serialize)]
struct Origin<'a> {
    format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<&'a str>,
}

fn origin(imported: &Imported) -> Outcome<Box<serde_json::value::RawValue>> {
    let origin = Origin {
        format: imported.format.as_str(),
        id: imported.id.as_deref(),
        workspace: imported.workspace.as_deref(),
    };
    let text = serde_json::to_string(&origin).map_err(Failure::failed)?;
    Ok(raw_json(text)?)
}
