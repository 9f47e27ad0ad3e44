//! Slash commands: those of the extensions, and our own.

use std::fmt::Write as _;

use haft_api::{SlashCommand, SlashCommandCall};

use crate::config::nearest;
use crate::conversation::Conversation;
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;

const HELP: &str = "help";
const COMPACT: &str = "compact";

/// A line that is a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed<'l> {
    name: &'l str,
    text: &'l str,
}

impl<'l> Typed<'l> {
    /// Reads a line: `/name` and the rest. A path isn't one, and neither is a
    /// line that begins with a space.
    pub(super) fn read(line: &'l str) -> Option<Self> {
        let line = line.strip_prefix('/')?;
        let (name, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
        (!name.is_empty() && name.chars().all(plain)).then_some(Self { name, text })
    }

    /// Whether it summarises the conversation: a turn, more or less, and the
    /// conversation's own affair.
    pub(super) fn is_compact(&self) -> bool {
        self.name == COMPACT
    }

    /// Runs it, and shows what it has to show. Ctrl-C ends it.
    ///
    /// # Errors
    /// [`Failure::Failed`] if it failed, if there is no such command, or if it
    /// was interrupted: the talk goes on.
    pub(super) async fn run(
        &self,
        conversation: &mut Conversation,
        signals: &Signals,
    ) -> Outcome<()> {
        let interruptible = signals.interruptible();
        let shown = tokio::select! {
            shown = self.output(conversation) => shown?,
            () = interruptible.token().cancelled() => {
                return Err(Failure::failed(format!("/{} was interrupted", self.name)));
            }
        };
        match shown {
            Some(text) => conversation.tell(&text).await,
            None => Ok(()),
        }
    }

    async fn output(&self, conversation: &Conversation) -> Outcome<Option<String>> {
        let runtime = conversation.runtime();
        let (commands, problems) = runtime.commands().await;
        if self.name == HELP {
            let mut text = help(&commands);
            for problem in problems {
                writeln!(text, "left out: {problem}").map_err(Failure::failed)?;
            }
            return Ok(Some(text));
        }
        if !commands.iter().any(|command| command.name == self.name) {
            let names = commands.iter().map(|command| command.name.as_str());
            let hint = match nearest(self.name, names.chain([COMPACT, HELP])) {
                Some(near) => format!("did you mean `/{near}`?"),
                None => "`/help` lists those there are.".to_owned(),
            };
            return Err(Failure::failed(format!(
                "there is no command `/{}`; {hint} A space before the slash says it to the model.",
                self.name
            )));
        }
        let mut call = SlashCommandCall::new(self.name, self.text);
        call.thread = conversation.thread().cloned();
        Ok(runtime.run_command(call).await?.text)
    }
}

fn help(commands: &[SlashCommand]) -> String {
    let own = [
        SlashCommand::new(COMPACT, "Summarises the conversation so far."),
        SlashCommand::new(HELP, "Lists the commands."),
    ];
    let all: Vec<_> = commands.iter().chain(&own).collect();
    let width = all.iter().map(|command| command.name.len()).max();
    let width = width.unwrap_or(0) + 1;
    let lines = all.iter().map(|command| {
        let name = format!("/{}", command.name);
        format!("{name:width$}  {}\n", command.description)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_slash_and_a_name() {
        let check = |line: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(name, text)| Typed { name, text });
            assert_eq!(Typed::read(line), expected, "{line:?}");
        };
        check("/help", Some(("help", "")));
        check("/say  a b ", Some(("say", " a b ")));
        check("/git:log-1 x", Some(("git:log-1", "x")));
        check("/usr/bin/env is a path", None);
        check("/", None);
        check("/ x", None);
        check(" /help", None);
        check("help", None);
        check("/é", None);
    }

    #[test]
    fn help_lists_every_command_and_itself() {
        let commands = [SlashCommand::new("say", "Says it.")];
        assert_eq!(
            help(&commands),
            "/say      Says it.\n\
             /compact  Summarises the conversation so far.\n\
             /help     Lists the commands.\n"
        );
    }
}
