//! `haft threads show`.

use std::collections::BTreeMap;
use std::io::Write as _;

use haft_api::{Binding, Item, SessionState, TurnId};
use haft_core::ThreadItem;
use serde::Serialize;
use serde_json::value::RawValue;

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
    let metadata = thread.metadata().await;
    if let Some(place) = bound_to(&metadata.extra) {
        console.say(&style.dim(&place));
    }
    let title = metadata.title;
    Ok((title.unwrap_or_else(|| id.to_string()), items.items))
}

/// Where a bound thread's commands run, and whether anything runs there yet.
fn bound_to(extra: &BTreeMap<String, Box<RawValue>>) -> Option<String> {
    let binding: Binding = serde_json::from_str(extra.get("binding")?.get()).ok()?;
    let state = extra.get("session_state");
    let state = state.and_then(|raw| serde_json::from_str::<SessionState>(raw.get()).ok());
    let session = match state {
        Some(state) => format!("session {}", state.session_id),
        None => "no session yet".to_owned(),
    };
    let (runner, workspace) = (binding.destination.provider_id, binding.workspace);
    Some(format!("bound to {runner}: {workspace}, {session}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_says_where_it_runs() {
        let check = |all: &[(&str, &str)], expected: Option<&str>| {
            let extra = all
                .iter()
                .map(|(key, json)| ((*key).to_owned(), haft_api::raw_json(*json).unwrap()))
                .collect();
            assert_eq!(bound_to(&extra).as_deref(), expected, "{all:?}");
        };
        let binding = r#"{"destination": {"id": "thread-1", "provider_id": "ssh", "config": {}}, "workspace": "/w"}"#;
        let state = r#"{"provider_id": "ssh", "session_id": "s-1", "destination_id": "thread-1"}"#;
        check(&[("workspace", "\"/w\"")], None);
        check(
            &[("binding", binding)],
            Some("bound to ssh: /w, no session yet"),
        );
        check(
            &[("binding", binding), ("session_state", state)],
            Some("bound to ssh: /w, session s-1"),
        );
    }
}
