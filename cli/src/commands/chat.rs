//! `haft chat`: turn after turn.

use std::io::{self, Write as _};

use super::{block_on, opening};
use crate::args::{ChatArgs, PlaceArgs};
use crate::console::Console;
use crate::conversation::Conversation;
use crate::failure::{DONE, Failure, Outcome};
use crate::render::Style;
use crate::signals::Signals;

/// Summarises the conversation so far instead of asking anything.
const COMPACT: &str = "/compact";

/// Each line of standard input is a turn, until its end. Ctrl-C interrupts a
/// turn; between turns it leaves.
pub(super) fn run(args: &ChatArgs, place: &PlaceArgs, console: &Console) -> Outcome {
    block_on(async {
        let signals = Signals::listen();
        let parts = {
            let interruptible = signals.interruptible();
            tokio::select! {
                parts = opening::open(&args.turn, place, console) => parts?,
                () = interruptible.token().cancelled() => return Err(Failure::Interrupted),
            }
        };
        let style = Style::new(console.colour);
        if console.can_ask {
            let engine = parts.engine.as_str();
            console.say(&style.dim(format!(
                "engine {engine}; /compact summarises, Ctrl-D leaves"
            )));
        }
        let mut conversation = Conversation::new(parts, args.turn.json, console, &signals);
        loop {
            if console.can_ask {
                let mut stderr = io::stderr();
                write!(stderr, "{} ", style.bold("›"))
                    .and_then(|()| stderr.flush())
                    .ok();
            }
            let Some(line) = console.line().await else {
                break;
            };
            if line.trim().is_empty() {
                continue;
            }
            let ended = match line.trim() {
                COMPACT => conversation.compact().await,
                _ => conversation.turn(line).await,
            };
            match ended {
                // A turn that failed or was interrupted ends the turn, not the
                // talk.
                Ok(_) => {}
                Err(Failure::Failed(message)) => {
                    console.say(&crate::render::failure_line(&message, console.colour));
                }
                Err(other) => return Err(other),
            }
        }
        if let Some(thread) = conversation.thread().filter(|_| console.can_ask) {
            console.say(&style.dim(format!("\nhaft chat --thread {thread} continues")));
        }
        Ok(DONE)
    })
}
