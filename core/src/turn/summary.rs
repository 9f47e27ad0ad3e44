//! What is summarised, what is kept as it is, and the words around both.

use std::fmt::Write as _;
use std::sync::Arc;

use haft_api::{Item, Part};

/// What the model that summarises is told.
pub(super) const INSTRUCTIONS: &str = "You write the notes by which an assistant goes on with a \
    task after the transcript of its work is gone. Be exact and complete, and invent nothing.";

/// What an image takes of a window, in bytes of text.
const IMAGE_BYTES: usize = 4_000;
/// The most of a user's own words that is carried over as it is.
const REQUEST_BYTES: usize = 8_000;
/// The most of one tool result, and the least, that goes into a transcript.
const ENTRY_BYTES: std::ops::Range<usize> = 64..4_000;

/// How a history is to be divided.
pub(super) struct Cut {
    /// The position of the first item that is kept.
    pub(super) keep: usize,
    /// The last thing the user said, if it isn't among what is kept.
    pub(super) request: Option<String>,
    /// What is to be summarised, as text.
    pub(super) transcript: String,
}

/// Divides a history: the latest items of up to `keep_bytes` are kept, whole
/// rounds only, and a transcript of the others of up to `transcript_bytes` is
/// made. `None` if there is nothing to summarise.
pub(super) fn cut(items: &[Arc<Item>], keep_bytes: usize, transcript_bytes: usize) -> Option<Cut> {
    let keep = first_kept(items, keep_bytes);
    let (old, kept) = items.split_at(keep);
    let is_user = |item: &Arc<Item>| matches!(**item, Item::UserMessage { .. });
    if !old.iter().any(is_spoken) {
        return None;
    }
    let asked = old.iter().rev().find(|item| is_user(item));
    let request = match kept.iter().any(is_user) {
        true => None,
        false => asked.map(|item| match &**item {
            Item::UserMessage { parts } => clipped(&parts_text(parts), REQUEST_BYTES),
            _ => String::new(),
        }),
    };
    Some(Cut {
        keep,
        request,
        transcript: transcript(old, transcript_bytes),
    })
}

fn is_spoken(item: &Arc<Item>) -> bool {
    !matches!(**item, Item::Notice { .. })
}

/// The earliest place where a round begins and behind which there are no more
/// bytes than that. What the user has just asked is kept at any size: it isn't
/// put into other words before anything was done about it.
fn first_kept(items: &[Arc<Item>], keep_bytes: usize) -> usize {
    let mut bytes = 0;
    let last = items.iter().rposition(is_spoken);
    let asked = last.filter(|last| matches!(*items[*last], Item::UserMessage { .. }));
    let mut keep = asked.unwrap_or(items.len());
    for at in (0..items.len()).rev() {
        bytes += item_bytes(&items[at]);
        if bytes > keep_bytes {
            break;
        }
        if at < keep && begins_round(items, at) {
            keep = at;
        }
    }
    keep
}

/// Whether no call is parted from its result, and nothing from the reasoning
/// before it, if a history is cut before this item.
fn begins_round(items: &[Arc<Item>], at: usize) -> bool {
    let before = items[..at].iter().rev().find(|item| is_spoken(item));
    match (&*items[at], before.map(|item| &**item)) {
        (Item::UserMessage { .. }, _) => true,
        (Item::ToolResult(_) | Item::Notice { .. }, _) => false,
        (_, Some(Item::ToolResult(_))) => true,
        _ => false,
    }
}

/// About how many bytes of text an item is for a model.
pub(super) fn item_bytes(item: &Item) -> usize {
    match item {
        Item::UserMessage { parts } => parts.iter().map(part_bytes).sum(),
        Item::AssistantMessage { text, .. } | Item::Reasoning { text, .. } => text.len(),
        Item::ToolCall(call) => call.name.len() + call.arguments.get().len(),
        Item::ToolResult(result) => result.parts.iter().map(part_bytes).sum(),
        _ => 0,
    }
}

fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.len(),
        Part::Json { value } => value.get().len(),
        _ => IMAGE_BYTES,
    }
}

fn parts_text(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Json { value } => value.get().to_owned(),
        Part::Image { media_type, .. } => format!("[an image, {media_type}]"),
        _ => "[something that isn't text]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Items as text, each shortened until all of them fit; if they don't even
/// then, the middle is left out.
fn transcript(items: &[Arc<Item>], bytes: usize) -> String {
    let mut entry = ENTRY_BYTES.end;
    loop {
        let mut text = String::new();
        for item in items {
            write_item(&mut text, item, entry);
        }
        if text.len() <= bytes {
            return text;
        }
        if entry <= ENTRY_BYTES.start {
            return clipped(&text, bytes);
        }
        entry /= 2;
    }
}

fn write_item(text: &mut String, item: &Item, entry: usize) {
    // Writing to a string can't fail.
    let _ = match item {
        // People's own words, and the model's to them, matter most.
        Item::UserMessage { parts } => {
            writeln!(text, "USER: {}\n", clipped(&parts_text(parts), entry * 4))
        }
        Item::AssistantMessage { text: said, .. } => {
            writeln!(text, "ASSISTANT: {}\n", clipped(said, entry * 2))
        }
        Item::ToolCall(call) => {
            let arguments = clipped(call.arguments.get(), entry);
            writeln!(text, "CALL {} {arguments}\n", call.name)
        }
        Item::ToolResult(result) => {
            let word = if result.is_error { "ERROR" } else { "RESULT" };
            let shown = clipped(&parts_text(&result.parts), entry);
            writeln!(text, "{word} of {}: {shown}\n", result.name)
        }
        _ => Ok(()),
    };
}

/// A text of at most so many bytes, its middle left out if need be.
pub(super) fn clipped(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(bytes / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes / 2);
    let left_out = tail - head;
    format!("{} […{left_out} bytes…] {}", &text[..head], &text[tail..])
}

/// What the model is asked for.
pub(super) fn question(transcript: &str, words: u64) -> String {
    format!(
        "Below is the transcript of an assistant's work so far. Write notes of at most {words} \
         words from which the work can go on without it: what the user wants, with all \
         constraints; what was done and found out, with names of files, commands, values and \
         errors as they are; what was decided and why; what is left to do. Write the notes \
         only.\n\n<transcript>\n{transcript}</transcript>"
    )
}

/// What stands in the history in place of what was summarised.
pub(super) fn message(notes: &str, request: Option<&str>) -> String {
    let mut text = format!(
        "What came before this in the conversation has been replaced by these notes on it:\n\n{}",
        notes.trim()
    );
    if let Some(request) = request {
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "\n\nThe user's last request, word for word:\n\n{request}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use haft_api::{CallId, ToolCall, ToolResult};

    use super::*;

    fn call(id: &str) -> Arc<Item> {
        Arc::new(Item::ToolCall(ToolCall {
            id: CallId::new(id).unwrap(),
            name: "f".to_owned(),
            arguments: haft_api::raw_json("{}").unwrap(),
            state: None,
        }))
    }

    fn result(id: &str, text: &str) -> Arc<Item> {
        Arc::new(Item::ToolResult(ToolResult {
            call_id: CallId::new(id).unwrap(),
            name: "f".to_owned(),
            is_error: false,
            parts: vec![Part::text(text)],
        }))
    }

    /// A history of letters: user, assistant, reasoning, call, result, notice.
    fn history(letters: &str) -> Vec<Arc<Item>> {
        let item = |letter| match letter {
            'u' => Arc::new(Item::user("asked..........")),
            'a' => Arc::new(Item::assistant("said...........")),
            'r' => Arc::new(Item::Reasoning {
                text: "thought........".to_owned(),
                state: None,
            }),
            'c' => call("c"),
            's' => result("c", "found.........."),
            _ => Arc::new(Item::Notice {
                level: haft_api::NoticeLevel::Info,
                code: "x".to_owned(),
                text: "x".to_owned(),
            }),
        };
        letters.chars().map(item).collect()
    }

    #[test]
    fn only_whole_rounds_are_kept_and_the_request_is_carried_over() {
        let check = |letters: &str, keep_bytes: usize, expected: Option<(usize, bool)>| {
            let cut = cut(&history(letters), keep_bytes, 10_000);
            let found = cut.map(|cut| (cut.keep, cut.request.is_some()));
            assert_eq!(found, expected, "{letters} {keep_bytes}");
        };
        // Behind the last user message, which is kept itself.
        check("uaua", 40, Some((2, false)));
        // Rounds of one long turn: a call goes with its result and its thought.
        check("urcsrcs", 40, Some((4, true)));
        check("urcscs", 20, Some((4, true)));
        check("urccssrccss", 40, Some((11, true)));
        check("urcsnrcs", 40, Some((5, true)));
        // Nothing fits.
        check("uacs", 1, Some((4, true)));
        check("uaua", 0, Some((4, true)));
        // All fits, or there is only what the user asks now.
        check("uaua", 10_000, None);
        check("u", 0, None);
        check("n", 0, None);
        check("", 0, None);
        // What is asked now is kept, however long.
        check("uu", 0, Some((1, false)));
        check("uaun", 0, Some((2, false)));
    }

    #[test]
    fn a_transcript_fits_whatever_it_is_of() {
        let mut items = history("ua");
        for at in 0..50 {
            items.push(call(&format!("c{at}")));
            items.push(result(
                &format!("c{at}"),
                &format!("{at}{}", "é".repeat(5_000)),
            ));
        }
        let check = |bytes: usize, words: &[&str]| {
            let text = transcript(&items, bytes);
            assert!(text.len() <= bytes + 40, "{} of {bytes}", text.len());
            for word in words {
                assert!(text.contains(word), "{word} in {bytes}");
            }
        };
        check(
            1_000_000,
            &["USER: asked", "RESULT of f: 0", "RESULT of f: 49é"],
        );
        check(
            20_000,
            &["USER: asked", "RESULT of f: 0", "RESULT of f: 49é"],
        );
        check(500, &["USER: asked", "bytes…]"]);
        check(10, &[]);
    }
}
