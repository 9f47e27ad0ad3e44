//! `haft run`: one turn.

use std::io::Read as _;

use super::{block_on, opening};
use crate::args::{PlaceArgs, RunArgs};
use crate::console::Console;
use crate::conversation::Conversation;
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;

pub(super) fn run(args: &RunArgs, place: &PlaceArgs, console: &Console) -> Outcome {
    let prompt = prompt(&args.prompt)?;
    block_on(async {
        let signals = Signals::listen();
        let parts = {
            let interruptible = signals.interruptible();
            tokio::select! {
                parts = opening::open(&args.turn, place, console) => parts?,
                () = interruptible.token().cancelled() => return Err(Failure::Interrupted),
            }
        };
        let mut conversation = Conversation::new(parts, args.turn.json, console, &signals);
        conversation.turn(prompt).await
    })
}

fn prompt(argument: &str) -> Outcome<String> {
    let prompt = if argument == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|e| Failure::failed(format!("can't read standard input: {e}")))?;
        String::from_utf8(bytes)
            .map_err(|_| Failure::usage("the prompt on standard input isn't UTF-8"))?
    } else {
        argument.to_owned()
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage(
            "the prompt is empty; say what is to be done",
        ));
    }
    Ok(prompt)
}
