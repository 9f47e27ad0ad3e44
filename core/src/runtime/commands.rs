//! Slash commands of the tool sources.

use std::collections::BTreeMap;

use haft_api::{Error, ErrorKind, Result, SlashCommand, SlashCommandCall, SlashCommandOutput};

use super::Runtime;
use crate::guard;

impl Runtime {
    /// The slash commands there are now, by name, and what kept others out. Of
    /// two with one name the one of the source that comes first is taken.
    pub async fn commands(&self) -> (Vec<SlashCommand>, Vec<Error>) {
        let (mut taken, mut problems) = (BTreeMap::new(), Vec::new());
        for source in self.registry().tool_sources() {
            let id = source.part.id();
            let told = guard::future(id.as_str(), source.part.commands()).await;
            let told = told.unwrap_or_else(|error| {
                problems.push(error.operation("commands").context("source", id));
                Vec::new()
            });
            for command in told {
                match taken.get(&command.name) {
                    None => {
                        taken.insert(command.name.clone(), (command, id.clone()));
                    }
                    Some((_, first)) => {
                        let words = "another source has a command of this name";
                        let error = Error::new(ErrorKind::AlreadyExists, words)
                            .context("command", &command.name)
                            .context("source", id)
                            .context("other", first);
                        problems.push(error);
                    }
                }
            }
        }
        let commands = taken.into_values().map(|(command, _)| command);
        (commands.collect(), problems)
    }

    /// Runs a slash command. Dropping the future ends it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no source has the command; what the command
    /// failed with, a panic too.
    pub async fn run_command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        for source in self.registry().tool_sources() {
            let id = source.part.id();
            // A source whose list can't be had has no command to run.
            let told = guard::future(id.as_str(), source.part.commands()).await;
            let has = told.is_ok_and(|all| all.iter().any(|command| command.name == call.name));
            if has {
                let name = call.name.clone();
                return guard::future(id.as_str(), source.part.run_command(call))
                    .await
                    .map_err(|error| error.context("command", name));
            }
        }
        Err(Error::new(ErrorKind::NotFound, "there is no such command")
            .context("command", call.name))
    }
}
