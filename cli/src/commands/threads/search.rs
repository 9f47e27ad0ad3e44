//! `haft threads search`.

use std::io::Write as _;

use haft_api::{Item, ListThreads, ReadRange, Record, ThreadMetadata, ThreadStore, join_text};
use serde::{Deserialize, Serialize};

use crate::args::PlaceArgs;
use crate::commands::{opening, print};
use crate::console::Console;
use crate::failure::{DONE, FAILED, Outcome, one_line};
use crate::render::{Style, visible, write_line};

/// Characters that are shown around what was found.
const AROUND: usize = 40;

#[derive(Serialize)]
struct Found<'a> {
    thread: &'a ThreadMetadata,
    /// The record, unless it is the title that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    text: String,
}

/// The threads whose title or items have this text, the one changed last first,
/// each as soon as it is found. Status 1 if there is none.
pub(super) async fn search(
    place: &PlaceArgs,
    console: &Console,
    text: &str,
    archived: bool,
    json: bool,
) -> Outcome {
    let (_, store) = opening::open_store(place).await?;
    let needle = Needle::new(text);
    let mut request = ListThreads::default();
    request.archived = archived;
    let mut any = false;
    loop {
        let page = store.list(request.clone()).await?;
        for thread in &page.threads {
            let found = match thread.title.as_deref().and_then(|title| needle.find(title)) {
                Some(text) => Some((None, text)),
                None => in_items(&*store, thread, &needle, console).await,
            };
            let Some((seq, text)) = found else { continue };
            any = true;
            print(|out| match json {
                true => write_line(out, &Found { thread, seq, text }),
                false => {
                    let title = thread.title.as_deref().unwrap_or("(no title)");
                    let (title, text) = (visible(title), one_line(&visible(&text)));
                    writeln!(out, "{}  {title}\n    {text}", thread.id)
                }
            })?;
        }
        match page.next {
            Some(next) => request = request.after(next),
            None if any => return Ok(DONE),
            None => {
                console.say("no thread has this text");
                return Ok(FAILED);
            }
        }
    }
}

/// The first record of a thread with the text.
async fn in_items(
    store: &dyn ThreadStore,
    thread: &ThreadMetadata,
    needle: &Needle,
    console: &Console,
) -> Option<(Option<u64>, String)> {
    let mut seq = 0;
    loop {
        let range = ReadRange::Forward { seq, limit: None };
        let page = match store.read(&thread.id, range).await {
            Ok(page) => page,
            Err(error) => {
                // The others are searched all the same.
                console.say(&Style::new(console.colour).warning(one_line(&error.to_string())));
                return None;
            }
        };
        let found = page
            .records
            .iter()
            .find_map(|record| needle.in_record(record));
        match (found, page.next) {
            (Some((seq, text)), _) => return Some((Some(seq), text)),
            (None, Some(next)) if next > seq => seq = next,
            (None, _) => return None,
        }
    }
}

/// What is looked for, whatever its case.
struct Needle {
    lower: String,
    /// As it stands in a record.
    escaped: String,
}

#[derive(Deserialize)]
struct ItemRecord {
    item: Item,
}

impl Needle {
    fn new(text: &str) -> Self {
        let lower = text.to_lowercase();
        // A string is valid JSON.
        let quoted = serde_json::to_string(&lower).unwrap_or_default();
        Self {
            escaped: quoted.trim_matches('"').to_owned(),
            lower,
        }
    }

    /// The text with what is around it.
    fn find(&self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        let at = lower.find(&self.lower)?;
        // Lower case may be longer or shorter: places agree by characters, not
        // quite by bytes.
        let before = lower[..at].chars().count();
        let length = self.lower.chars().count();
        let skipped = before.saturating_sub(AROUND);
        let shown: String = text
            .chars()
            .skip(skipped)
            .take(before - skipped + length + AROUND)
            .collect();
        Some(shown)
    }

    fn in_record(&self, record: &Record) -> Option<(u64, String)> {
        if record.kind != "item" {
            return None;
        }
        let raw = record.data.get();
        // Most records are told apart without being read.
        if !self.escaped.is_ascii() || !raw.is_ascii() {
            if !raw.to_lowercase().contains(&self.escaped) {
                return None;
            }
        } else if !raw.to_ascii_lowercase().contains(&self.escaped) {
            return None;
        }
        let ItemRecord { item } = record.parse().ok()?;
        let text = match item {
            Item::UserMessage { parts } => join_text(&parts),
            Item::AssistantMessage { text, .. } | Item::Reasoning { text, .. } => text,
            Item::ToolCall(call) => format!("{} {}", call.name, call.arguments.get()),
            Item::ToolResult(result) => result.text(),
            _ => return None,
        };
        self.find(&text).map(|text| (record.seq, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_any_case_with_what_is_around_it() {
        let check = |needle: &str, text: &str, expected: Option<&str>| {
            assert_eq!(
                Needle::new(needle).find(text).as_deref(),
                expected,
                "{needle}"
            );
        };
        check(
            "KEY",
            "The spare key is here",
            Some("The spare key is here"),
        );
        check(
            "straße",
            "In der STRASSE, Straße",
            Some("In der STRASSE, Straße"),
        );
        check("lock", "The spare key", None);
        let long = format!("{}needle{}", "a".repeat(100), "b".repeat(100));
        let around = format!("{}needle{}", "a".repeat(40), "b".repeat(40));
        check("Needle", &long, Some(&around));
    }
}
