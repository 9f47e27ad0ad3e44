//! Reads sessions of other agents.
//!
//! [`read`] takes the JSON lines of a Codex rollout, of a Claude Code session or
//! of a pi session, and gives the conversation as an [`Imported`]: pieces in
//! order for [`import_thread`](haft_core::Runtime::import_thread), and a [`Loss`] for everything that could not be carried. A file that
//! was cut off, or damaged in the middle, costs the damaged lines.
//!
//! ```
//! let file = r#"{"type":"session","id":"s1","cwd":"/w/p"}
//! {"type":"message","message":{"role":"user","content":"Hello"}}
//! {"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Hi!"}]}}
//! {"type":"mess"#;
//!
//! let session = haft_import::read(file.as_bytes(), None)?;
//! assert_eq!(session.format, haft_import::Format::Pi);
//! assert_eq!(session.pieces.len(), 2);
//! assert_eq!(session.title.as_deref(), Some("Hello"));
//! assert_eq!(session.losses[0].line, Some(4));
//! # Ok::<(), haft_api::Error>(())
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod branch;
mod claude_code;
mod codex;
mod lines;
mod losses;
mod pi;

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use haft_api::{Error, ErrorKind, Part, Result};
use haft_core::Piece;
use serde_json::Value;

use losses::Losses;

/// Whose session file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A rollout of OpenAI's Codex.
    Codex,
    /// A session of Anthropic's Claude Code.
    ClaudeCode,
    /// A session of pi.
    Pi,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Codex, Self::ClaudeCode, Self::Pi];

    /// Its name, as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::ClaudeCode => "claude-code",
            Self::Pi => "pi",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|f| f.as_str() == name);
        found.ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "there is no such session format")
                .context("format", name)
                .context("formats", Self::ALL.map(Self::as_str).join(", "))
        })
    }
}

/// A session of another agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Imported {
    /// Whose it is.
    pub format: Format,
    /// Its id there.
    pub id: Option<String>,
    /// Its title there; of a session without one, the first line of the user's
    /// first message that has text, cut to 80 characters.
    pub title: Option<String>,
    /// The folder it worked in.
    pub workspace: Option<String>,
    /// What was said and done, in order.
    pub pieces: Vec<Piece>,
    /// What of the file isn't in the conversation.
    pub losses: Vec<Loss>,
}

/// Something that could not be carried over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The first line it concerns, from 1; `None` for the file as a whole.
    pub line: Option<usize>,
    /// What, in words for people.
    pub what: String,
    /// How often.
    pub count: usize,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match (self.line, self.count) {
            (Some(line), 1) => write!(f, " (line {line})"),
            (Some(line), count) => write!(f, " ({count} times, first in line {line})"),
            (None, 1) => Ok(()),
            (None, count) => write!(f, " ({count} times)"),
        }
    }
}

/// Reads a session file; without a format it is told from the file's lines.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if no line tells what format it is, or the file
/// has nothing to import; [`ErrorKind::Unavailable`] if it can't be read.
pub fn read(file: impl BufRead, format: Option<Format>) -> Result<Imported> {
    let mut losses = Losses::default();
    let lines = lines::read(file, &mut losses)?;
    let format = match format.or_else(|| lines.iter().find_map(|line| told_by(&line.value))) {
        Some(format) => format,
        None => {
            let names = Format::ALL.map(Format::as_str).join(", ");
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("this is no session file of a known agent ({names})"),
            ));
        }
    };
    let mut imported = match format {
        Format::Codex => codex::read(lines, &mut losses),
        Format::ClaudeCode => claude_code::read(lines, &mut losses),
        Format::Pi => pi::read(lines, &mut losses),
    };
    let spoken = |piece: &Piece| matches!(piece, Piece::User(_) | Piece::Assistant(_));
    if !imported.pieces.iter().any(spoken) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("there is no message in this {format} session"),
        ));
    }
    imported.title = imported.title.or_else(|| first_words(&imported.pieces));
    imported.losses = losses.into_vec();
    Ok(imported)
}

/// The first line of what the user said first, shortened to a title.
fn first_words(pieces: &[Piece]) -> Option<String> {
    /// Most characters of a title.
    const TITLE: usize = 80;
    let parts = pieces.iter().filter_map(|piece| match piece {
        Piece::User(parts) => Some(parts),
        _ => None,
    });
    let mut lines = parts
        .flatten()
        .filter_map(Part::as_text)
        .flat_map(str::lines);
    let line = lines.find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(TITLE).collect())
}

impl Imported {
    fn new(format: Format) -> Self {
        Self {
            format,
            id: None,
            title: None,
            workspace: None,
            pieces: Vec::new(),
            losses: Vec::new(),
        }
    }
}

/// The format that a line can only be of.
fn told_by(value: &Value) -> Option<Format> {
    let has = |name: &str| value.get(name).is_some();
    match value.get("type").and_then(Value::as_str)? {
        "session_meta" | "response_item" | "event_msg" | "turn_context" => Some(Format::Codex),
        "session" if has("cwd") => Some(Format::Pi),
        "user" | "assistant" if has("message") && has("uuid") => Some(Format::ClaudeCode),
        "summary" if has("leafUuid") => Some(Format::ClaudeCode),
        "message" if has("message") => Some(Format::Pi),
        // A rollout of the first kind: items without an envelope.
        "message" | "function_call" | "function_call_output" | "reasoning"
            if has("role") || has("call_id") || has("summary") =>
        {
            Some(Format::Codex)
        }
        _ => None,
    }
}

/// A line's text field.
fn text_of<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn owned(value: &Value, name: &str) -> Option<String> {
    text_of(value, name).map(str::to_owned)
}
