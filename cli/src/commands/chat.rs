//! `haft chat`: turn after turn.

mod slash;

use std::io::{self, Write as _};

use super::{block_on, opening};
use crate::args::{ChatArgs, PlaceArgs};
use crate::console::Console;
use crate::conversation::Conversation;
use crate::failure::{DONE, Failure, Outcome};
use crate::render::Style;
use crate::signals::Signals;
use slash::Typed;

/// Each line of standard input is a turn or a slash command, until its end.
/// Ctrl-C interrupts one; between them it leaves.
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
            let words = format!("engine {engine}; /help lists commands, Ctrl-D leaves");
            console.say(&style.dim(words));
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
            let ended = match Typed::read(&line) {
                Some(command) if command.is_compact() => conversation.compact().await.map(drop),
                Some(command) => command.run(&mut conversation, &signals).await,
                None => conversation.turn(line).await.map(drop),
            };
            match ended {
                // A turn that failed or was interrupted ends the turn, not the
                // talk; so does a command.
                Ok(()) => {}
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
