//! What keeps a value from being JSON, and where in it that stands.

use std::fmt::Write as _;

use super::DEPTH;
use super::stack::NoRoom;

/// Steps of a path that are shown.
const SHOWN: usize = 12;

/// Why nothing is written.
pub(super) enum Stop {
    /// Something at one place of the value.
    At(Box<Refusal>),
    /// The value as a whole.
    Whole(String),
}

/// What JSON can't say. The path to it is put together on the way out.
pub(super) struct Refusal {
    what: String,
    /// Innermost first.
    path: Vec<Step>,
}

pub(super) enum Step {
    Key(String),
    Index(i64),
}

impl Stop {
    pub(super) fn at(what: impl Into<String>) -> Self {
        Self::At(Box::new(Refusal {
            what: what.into(),
            path: Vec::new(),
        }))
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::Whole(format!("larger than {limit} bytes as JSON"))
    }

    pub(super) fn too_deep() -> Self {
        Self::Whole(format!("not JSON: nested deeper than {DEPTH}"))
    }

    pub(super) fn to_text(&self) -> String {
        match self {
            Self::At(refusal) => refusal.to_text(),
            Self::Whole(what) => what.clone(),
        }
    }
}

impl From<NoRoom> for Stop {
    fn from(_: NoRoom) -> Self {
        Self::Whole("not enough memory to read the value".to_owned())
    }
}

impl Refusal {
    /// The same thing, seen from the table around it.
    pub(super) fn within(mut self: Box<Self>, step: Step) -> Stop {
        self.path.push(step);
        Stop::At(self)
    }

    fn to_text(&self) -> String {
        let mut text = String::from("not JSON: ");
        if self.path.is_empty() {
            text.push_str("the value");
        } else {
            text.push('`');
            for (index, step) in self.path.iter().rev().take(SHOWN).enumerate() {
                match step {
                    Step::Key(key) if index == 0 => text.push_str(key),
                    Step::Key(key) => write!(text, ".{key}").unwrap_or_default(),
                    Step::Index(at) => write!(text, "[{at}]").unwrap_or_default(),
                }
            }
            if self.path.len() > SHOWN {
                text.push('…');
            }
            text.push('`');
        }
        write!(text, " {}", self.what).unwrap_or_default();
        text
    }
}
