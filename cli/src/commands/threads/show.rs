//! `haft threads show`.

use std::io::Write as _;

use haft_api::{Item, TurnId};
use haft_core::ThreadItem;
use serde::Serialize;

use super::{opening, runtime};
use crate::args::PlaceArgs;
use crate::commands::print;
use crate::console::Console;
use crate::failure::{DONE, Outcome};
use crate::render::{Style, transcript, write_line};

/// An item as programs get it.
#[derive(Serialize)]
pub(super) struct ItemLine<'a> {
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<&'a TurnId>,
    #[serde(flatten)]
    item: &'a Item,
}

impl<'a> ItemLine<'a> {
    pub(super) fn new(item: &'a ThreadItem) -> Self {
        Self {
            seq: item.seq,
            turn: item.turn.as_ref(),
            item: &item.item,
        }
    }
}

/// A thread's title and items; what is amiss with it goes to standard error.
pub(super) async fn read(
    place: &PlaceArgs,
    console: &Console,
    name: &str,
) -> Outcome<(String, Vec<ThreadItem>)> {
    let (runtime, store) = runtime(place).await?;
    let id = opening::find_thread(&*store, name).await?.id;
    let thread = runtime.open_thread(&id).await?;
    let items = thread.items(None, usize::MAX).await;
    let style = Style::new(console.colour);
    for diagnostic in items
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.lost)
    {
        console.say(&style.warning(&diagnostic.message));
    }
    let title = thread.metadata().await.title;
    Ok((title.unwrap_or_else(|| id.to_string()), items.items))
}

pub(super) async fn show(place: &PlaceArgs, console: &Console, name: &str, json: bool) -> Outcome {
    let (_, items) = read(place, console, name).await?;
    print(|out| match json {
        true => items
            .iter()
            .try_for_each(|item| write_line(out, &ItemLine::new(item))),
        false => {
            let colour = console.shows_answers && console.colour;
            let text = transcript(&items, Style::new(colour), console.shows_answers);
            out.write_all(text.as_bytes())
        }
    })?;
    Ok(DONE)
}
