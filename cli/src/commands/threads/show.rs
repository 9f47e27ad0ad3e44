//! `haft threads show`.

use std::io::Write as _;

use haft_api::{Item, TurnId};
use haft_core::prices::PriceTable;
use haft_core::{ModelUsage, ThreadItem};
use serde::Serialize;

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
    let title = thread.metadata().await.title;
    Ok(Stored {
        title: title.unwrap_or_else(|| id.to_string()),
        items: items.items,
        models: items.models,
        prices,
    })
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
    for used in models {
        let Some(tokens) = tokens(&used.usage) else {
            continue;
        };
        let model = used.model.as_deref().unwrap_or(used.engine.as_str());
        let cost = prices.cost(model, &used.usage);
        total += cost.unwrap_or(0.0);
        let cost = cost.map_or(String::new(), |cost| format!(", about {}", dollars(cost)));
        lines.push(one_line(&format!("{model}: {tokens}{cost}")));
    }
    if lines.len() > 1 && total > 0.0 {
        lines.push(format!("together about {}", dollars(total)));
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
            ],
        );
    }
}
