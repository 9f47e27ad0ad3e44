//! What one sees while a step runs: on a terminal one line that changes, else a
//! line every minute, so that a log shows that it lives.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_secs(60);
const WIDTH: usize = 76;

/// The live line of one step. Dropped, it is gone from the terminal.
pub(crate) struct Progress {
    terminal: bool,
    start: Instant,
    shown: Instant,
    now: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        Self {
            terminal: stdout().is_terminal(),
            start,
            shown: start,
            now: String::new(),
        }
    }

    /// Shows what goes on now. What a program says for programs, in JSON, is
    /// nothing to show: the line before it stays.
    pub(crate) fn show(&mut self, what: &str) {
        let seconds = self.start.elapsed().as_secs();
        if !what.starts_with('{') {
            what.trim().clone_into(&mut self.now);
        }
        let what = &self.now;
        if self.terminal {
            let line: String = format!("   {seconds} s: {what}")
                .chars()
                .take(WIDTH)
                .collect();
            print!("\r\x1b[K{line}");
            // A closed output shows at the next line that matters.
            let _ = stdout().flush();
        } else if self.shown.elapsed() >= QUIET {
            self.shown = Instant::now();
            println!("   … {seconds} s: {what}");
        }
    }

    /// Prints a line that stays.
    pub(crate) fn print(&mut self, line: &str) {
        self.clear();
        println!("   {line}");
        self.shown = Instant::now();
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
