//! A turn for people: the answer on standard output, everything else, tersely,
//! on standard error.

use std::collections::HashMap;
use std::io::{self, Write};

use haft_api::{CallId, Error, Event, EventBody, Item, NoticeLevel, TurnId, Usage};

use super::answer::Answer;
use super::call::call_line;
use super::{Style, count, result_summary, tokens, visible};
use crate::failure::one_line;

/// What the two ends can show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    /// Standard output is a terminal.
    pub(crate) answers: bool,
    /// Standard error is a terminal, so many columns wide.
    pub(crate) progress: Option<usize>,
    /// Standard error may be coloured.
    pub(crate) colour: bool,
}

/// See the module's description.
pub(crate) struct TextView<O, E> {
    answer: Answer<O>,
    err: E,
    style: Style,
    progress: Option<usize>,
    /// A line of progress stands on the terminal, to be overwritten.
    status_shown: bool,
    calls: HashMap<CallId, Called>,
    running: usize,
    /// The turn that is shown; what is left of an earlier one is told apart.
    turn: Option<TurnId>,
}

struct Called {
    line: String,
    started: bool,
}

impl<O: Write, E: Write> TextView<O, E> {
    /// A view that writes the answer to `out` and everything else to `err`.
    pub(crate) fn new(out: O, err: E, looks: Looks) -> Self {
        Self {
            answer: Answer::new(out, looks.answers),
            err,
            style: Style::new(looks.colour),
            progress: looks.progress,
            status_shown: false,
            calls: HashMap::new(),
            running: 0,
            turn: None,
        }
    }

    /// The turn that is shown from now on.
    pub(crate) fn begin(&mut self, turn: TurnId) {
        self.turn = Some(turn);
        self.calls.clear();
        self.running = 0;
    }

    /// Shows an event.
    ///
    /// # Errors
    /// What standard output fails with.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.body {
            EventBody::MessageDelta { text } => {
                self.clear_status();
                self.answer.piece(text)
            }
            EventBody::Lagged { .. } => {
                self.answer.missed();
                Ok(())
            }
            EventBody::ItemAppended { item } => self.item(item),
            EventBody::ToolStarted { call_id, .. } => self.started(call_id),
            EventBody::ToolProgress { text, .. } => {
                self.status(text);
                Ok(())
            }
            EventBody::ToolCompleted {
                call_id,
                name,
                is_error,
                parts,
            } => {
                let summary = result_summary(parts, *is_error);
                self.completed(call_id, name, *is_error, &summary)
            }
            EventBody::EngineRetry {
                delay_ms, error, ..
            } => {
                let seconds = *delay_ms as f64 / 1_000.0;
                let error = one_line(&Error::from(error.clone()).to_string());
                self.aside(
                    &self
                        .style
                        .warning(format!("trying again in {seconds:.1} s: {error}")),
                )
            }
            EventBody::CompactionStarted { tokens, .. } => {
                let size = tokens.map_or(String::new(), |t| format!(" of {} tokens", count(t)));
                self.aside(
                    &self
                        .style
                        .dim(format!("summarising the conversation{size} so far …")),
                )
            }
            EventBody::TurnInterrupted { .. } if event.turn != self.turn => self.aside(
                &self
                    .style
                    .warning("the thread's last turn was cut off; what it left open is closed"),
            ),
            EventBody::TurnCompleted { usage } => self.ended(None, usage),
            EventBody::TurnInterrupted { usage } => {
                self.ended(Some(self.style.warning("interrupted")), usage)
            }
            EventBody::TurnFailed { error, usage } => {
                let error = one_line(&Error::from(error.clone()).to_string());
                self.ended(Some(format!("{} {error}", self.style.bad("error:"))), usage)
            }
            _ => Ok(()),
        }
    }

    /// Says something beside the answer, on a line of its own.
    ///
    /// # Errors
    /// What standard output fails with.
    pub(crate) fn aside(&mut self, line: &str) -> io::Result<()> {
        self.answer.end_line()?;
        self.clear_status();
        // Nowhere else to say it.
        writeln!(self.err, "{line}").ok();
        Ok(())
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::AssistantMessage { text, .. } => {
                self.clear_status();
                self.answer.message(text)
            }
            Item::ToolCall(call) => {
                let called = Called {
                    line: call_line(call),
                    started: false,
                };
                self.calls.insert(call.id.clone(), called);
                Ok(())
            }
            Item::Notice { level, text, .. } => {
                let text = one_line(text);
                let line = match level {
                    NoticeLevel::Info => self.style.dim(text),
                    NoticeLevel::Warning => self.style.warning(text),
                    NoticeLevel::Error => self.style.bad(text),
                };
                self.aside(&line)
            }
            _ => Ok(()),
        }
    }

    fn started(&mut self, id: &CallId) -> io::Result<()> {
        self.running += 1;
        let Some(called) = self.calls.get_mut(id) else {
            return Ok(());
        };
        called.started = true;
        let line = format!("{} {}", self.style.dim("•"), called.line);
        self.aside(&line)
    }

    fn completed(
        &mut self,
        id: &CallId,
        name: &str,
        is_error: bool,
        summary: &str,
    ) -> io::Result<()> {
        self.answer.between_messages();
        let called = self.calls.remove(id);
        let started = called.as_ref().is_some_and(|called| called.started);
        let line = called.map_or_else(|| one_line(name), |called| called.line);
        let alone = started && self.running == 1;
        if started {
            self.running = self.running.saturating_sub(1);
        }
        let summary = match is_error {
            true => format!("{} {summary}", self.style.bad("✗")),
            false => self.style.dim(summary),
        };
        match (started, alone) {
            (true, true) => self.aside(&format!("  {summary}")),
            (true, false) => self.aside(&format!("  {}: {summary}", self.style.dim(line))),
            (false, _) => {
                let bullet = self.style.dim("•");
                self.aside(&format!("{bullet} {line}\n  {summary}"))
            }
        }
    }

    fn ended(&mut self, why: Option<String>, usage: &Usage) -> io::Result<()> {
        if let Some(used) = tokens(usage) {
            self.aside(&self.style.dim(used))?;
        }
        match why {
            Some(why) => self.aside(&why),
            None => {
                self.clear_status();
                self.answer.end_line()
            }
        }
    }

    /// Shows the last line of a tool's output, to be overwritten by whatever
    /// comes next.
    fn status(&mut self, output: &str) {
        let last = output.lines().rev().find(|line| !line.trim().is_empty());
        let (Some(last), Some(width)) = (last, self.progress) else {
            return;
        };
        // A line that goes on in the next row couldn't be overwritten. Half of
        // the width is room for characters that are two columns wide.
        let line: String = one_line(&visible(last)).chars().take(width / 2).collect();
        // Progress that can't be shown is no loss.
        write!(self.err, "\r\x1b[K  {}", self.style.dim(line)).ok();
        self.status_shown = true;
    }

    fn clear_status(&mut self) {
        if std::mem::take(&mut self.status_shown) {
            write!(self.err, "\r\x1b[K").ok();
        }
    }
}

#[cfg(test)]
mod tests;
