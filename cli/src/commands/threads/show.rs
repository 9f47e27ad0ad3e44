//! `haft threads show`.

use std::collections::BTreeMap;
use std::io::Write as _;

use haft_api::{Binding, Item, SessionState, TurnId};
use haft_core::prices::{AS_OF, PriceTable};
use haft_core::{ModelUsage, ThreadItem};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{opening, runtime};
use crate::args::PlaceArgs;
use crate::commands::print;
use crate::console::Console;
use crate::failure::{DONE, Outcome, one_line};
use crate::render::{Style, dollars, tokens, transcript, write_line};

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

/// A thread as it is stored.
pub(super) struct Stored {
    pub(super) title: String,
    pub(super) items: Vec<ThreadItem>,
    /// Tokens, by who answered.
    models: Vec<ModelUsage>,
    prices: PriceTable,
}

/// Reads a thread; what is amiss with it goes to standard error.
pub(super) async fn read(place: &PlaceArgs, console: &Console, name: &str) -> Outcome<Stored> {
    let (runtime, store, prices) = runtime(place).await?;
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
    Ok(Stored {
        title: metadata.title.unwrap_or_else(|| id.to_string()),
        items: items.items,
        models: items.models,
        prices,
    })
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
    let Stored {
        items,
        models,
        prices,
        ..
    } = read(place, console, name).await?;
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
    if !json {
        let style = Style::new(console.colour);
        for line in spent(&models, &prices) {
            console.say(&style.dim(line));
        }
    }
    Ok(DONE)
}

/// What each model was used for, and what all of it cost as far as that is
/// known.
fn spent(models: &[ModelUsage], prices: &PriceTable) -> Vec<String> {
    let mut lines = Vec::new();
    let mut total = 0.0;
    let mut priced = 0;
    for used in models {
        let Some(tokens) = tokens(&used.usage) else {
            continue;
        };
        let model = used.model.as_deref().unwrap_or(used.engine.as_str());
        let cost = prices.cost(model, &used.usage);
        total += cost.unwrap_or(0.0);
        priced += usize::from(cost.is_some());
        let cost = cost.map_or(String::new(), |cost| format!(", about {}", dollars(cost)));
        lines.push(one_line(&format!("{model}: {tokens}{cost}")));
    }
    if lines.len() > 1 && total > 0.0 {
        lines.push(format!("together about {}", dollars(total)));
    }
    if priced > 0 {
        lines.push(format!(
            "by list prices of {AS_OF}, unless [prices] in the configuration says otherwise"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use haft_api::{ExtensionId, Usage};

    use super::*;

    #[test]
    fn what_was_spent_is_told_by_model() {
        let used = |model: Option<&str>, input, output| {
            let mut used = ModelUsage::new(ExtensionId::new("openai").unwrap());
            used.model = model.map(str::to_owned);
            used.usage = Usage {
                input,
                output,
                ..Usage::default()
            };
            used
        };
        let check = |models: &[ModelUsage], expected: &[&str]| {
            assert_eq!(spent(models, &PriceTable::known()), expected);
        };
        check(&[used(None, None, None)], &[]);
        check(&[used(None, Some(3), None)], &["openai: 3 tokens in"]);
        check(
            &[used(Some("my-own"), Some(3), Some(1))],
            &["my-own: 3 tokens in, 1 out"],
        );
        check(
            &[
                used(Some("gpt-5"), Some(100_000), Some(1_000)),
                used(Some("gpt-5-mini"), Some(1_000), Some(10)),
            ],
            &[
                "gpt-5: 100,000 tokens in, 1,000 out, about $0.135",
                "gpt-5-mini: 1,000 tokens in, 10 out, about $0.00027",
                "together about $0.135",
                &format!(
                    "by list prices of {AS_OF}, unless [prices] in the configuration says otherwise"
                ),
            ],
        );
    }

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
