//! One object a line.

use std::io::{self, Write};

use haft_api::Event;
use serde::Serialize;

/// Writes a value as a line.
///
/// # Errors
/// What the writer fails with.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Writes events as they come.
pub(crate) struct EventLines<W> {
    out: W,
}

impl<W: Write> EventLines<W> {
    /// Lines to there.
    pub(crate) fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes an event.
    ///
    /// # Errors
    /// What the writer fails with.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        write_line(&mut self.out, event)
    }
}
