//! `haft threads export`.

use std::io::Write as _;

use haft_core::ThreadItem;

use super::show::{ItemLine, Stored, read};
use crate::args::{ExportFormat, PlaceArgs};
use crate::commands::print;
use crate::console::Console;
use crate::failure::{DONE, Outcome};
use crate::render::{markdown, write_line};

pub(super) async fn export(
    place: &PlaceArgs,
    console: &Console,
    name: &str,
    format: ExportFormat,
) -> Outcome {
    let Stored { title, items, .. } = read(place, console, name).await?;
    match format {
        ExportFormat::Markdown => print(|out| out.write_all(markdown(&title, &items).as_bytes()))?,
        ExportFormat::Jsonl => print(|out| {
            items
                .iter()
                .try_for_each(|item| write_line(out, &ItemLine::new(item)))
        })?,
        ExportFormat::Replay => {
            let script = script(&items)?;
            print(|out| out.write_all(script.as_bytes()))?;
        }
    }
    Ok(DONE)
}

#[cfg(feature = "engine-replay")]
fn script(items: &[ThreadItem]) -> Outcome<String> {
    let items = items.iter().map(|item| &*item.item);
    Ok(haft_ext_engine_replay::script_from_items(items))
}

#[cfg(not(feature = "engine-replay"))]
fn script(_: &[ThreadItem]) -> Outcome<String> {
    let message = "this program was built without the engine `replay`";
    Err(crate::failure::Failure::usage(message))
}
