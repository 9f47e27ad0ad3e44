//! A stored thread for people.

use std::fmt::Write as _;

use haft_api::{Item, NoticeLevel, Part};
use haft_core::ThreadItem;

use super::call::call_line;
use super::{Style, result_summary, visible};
use crate::failure::one_line;

/// A thread as a conversation: messages whole, tool calls and their results in
/// a line each.
pub(crate) fn transcript(items: &[ThreadItem], style: Style, guard: bool) -> String {
    let shown = |text: &str| {
        if guard {
            visible(text).into_owned()
        } else {
            text.to_owned()
        }
    };
    let mut text = String::new();
    for ThreadItem { item, .. } in items {
        // Writing to a string can't fail.
        let _ = match &**item {
            Item::UserMessage { parts } => {
                writeln!(
                    text,
                    "{} {}",
                    style.bold("›"),
                    shown(&parts_text(parts)).trim_end()
                )
            }
            Item::AssistantMessage { text: said, .. } => {
                writeln!(text, "{}", shown(said).trim_end())
            }
            Item::Reasoning { text: thought, .. } if thought.trim().is_empty() => Ok(()),
            Item::Reasoning { text: thought, .. } => {
                writeln!(text, "{}", style.dim(shown(thought).trim_end()))
            }
            Item::ToolCall(call) => writeln!(text, "{} {}", style.dim("•"), call_line(call)),
            Item::ToolResult(result) => {
                let summary = result_summary(&result.parts, result.is_error);
                match result.is_error {
                    true => writeln!(text, "  {} {summary}", style.bad("✗")),
                    false => writeln!(text, "  {}", style.dim(summary)),
                }
            }
            Item::Notice {
                level,
                text: notice,
                ..
            } => {
                let notice = one_line(notice);
                match level {
                    NoticeLevel::Info => writeln!(text, "{}", style.dim(notice)),
                    _ => writeln!(text, "{}", style.warning(notice)),
                }
            }
            _ => Ok(()),
        };
    }
    text
}

/// A thread as a Markdown document.
pub(crate) fn markdown(title: &str, items: &[ThreadItem]) -> String {
    let mut text = format!("# {}\n", one_line(title));
    for ThreadItem { item, .. } in items {
        // Writing to a string can't fail.
        let _ = match &**item {
            Item::UserMessage { parts } => {
                write!(text, "\n## User\n\n{}\n", parts_text(parts).trim_end())
            }
            Item::AssistantMessage { text: said, .. } => {
                write!(text, "\n## Assistant\n\n{}\n", said.trim_end())
            }
            Item::Reasoning { text: thought, .. } if thought.trim().is_empty() => Ok(()),
            Item::Reasoning { text: thought, .. } => {
                let quoted: Vec<_> = thought
                    .trim_end()
                    .lines()
                    .map(|l| format!("> {l}"))
                    .collect();
                write!(text, "\n{}\n", quoted.join("\n"))
            }
            Item::ToolCall(call) => {
                let arguments = fenced("json", call.arguments.get());
                write!(text, "\n**{}**\n\n{arguments}", one_line(&call.name))
            }
            Item::ToolResult(result) => {
                let word = if result.is_error {
                    "failed"
                } else {
                    "returned"
                };
                let body = fenced("text", &parts_text(&result.parts));
                write!(text, "\n{} {word}:\n\n{body}", one_line(&result.name))
            }
            Item::Notice { text: notice, .. } => write!(text, "\n*{}*\n", one_line(notice)),
            _ => Ok(()),
        };
    }
    text
}

fn parts_text(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Image { media_type, .. } => format!("[{media_type}]"),
        Part::Json { value } => value.get().to_owned(),
        _ => "[…]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A fence that is longer than any in the text.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_holds_whatever_is_in_it() {
        assert_eq!(fenced("text", "a\n"), "```text\na\n```\n");
        assert_eq!(
            fenced("text", "```\nx\n```"),
            "````text\n```\nx\n```\n````\n"
        );
    }
}
