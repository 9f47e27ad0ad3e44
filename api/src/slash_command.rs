//! Slash commands: what people type where a program lets them talk to an agent.

use serde::{Deserialize, Serialize};

use crate::id::ThreadId;

/// A command that is typed after a slash. It is for people: no model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SlashCommand {
    /// What is typed after the slash: letters, digits, `-`, `_`, `:` and `.`.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
}

impl SlashCommand {
    /// A command of this name.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
        }
    }
}

/// One use of a slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SlashCommandCall {
    /// The command's name, without the slash.
    pub name: String,
    /// The rest of the line, as it was typed.
    #[serde(default)]
    pub text: String,
    /// The thread it was typed in, if there is one yet.
    #[serde(default)]
    pub thread: Option<ThreadId>,
}

impl SlashCommandCall {
    /// A command with the rest of its line.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            thread: None,
        }
    }

    /// Says which thread it was typed in.
    #[must_use]
    pub fn thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }
}

/// What a slash command has to show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SlashCommandOutput {
    /// Text for people; `None` shows nothing.
    #[serde(default)]
    pub text: Option<String>,
}

impl SlashCommandOutput {
    /// Text to show.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
        }
    }
}
