//! Slash commands of scripts, from outside of the state's thread.

use haft_api::{Result, SlashCommandCall, SlashCommandOutput};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::host::{LuaHost, Running, lost};
use crate::worker::{CommandCall, Message};

impl LuaHost {
    /// Runs a command to its end. Dropping the future ends it.
    ///
    /// # Errors
    /// What the script raised, with a traceback; if there is no such command.
    pub(crate) async fn command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        let (worker, _) = self.ready().await?;
        let number = self.next_number();
        let name = call.name.clone();
        let (done, outcome) = oneshot::channel();
        worker.say(Message::Command(CommandCall { number, call, done }));
        let mut running = Running::new(self, &worker, vec![number]);
        let limit = self.settings().limits.call();
        let ended = tokio::select! {
            biased;
            outcome = outcome => match outcome {
                Ok(outcome) => outcome.map_err(Failure::into_error),
                Err(_) => Err(lost()),
            },
            () = worker.lost.cancelled() => Err(lost()),
            () = self.stuck(&worker, limit) => {
                self.give_up(&worker);
                Err(lost())
            }
        };
        running.finish();
        let mut output = SlashCommandOutput::default();
        output.text = ended.map_err(|e| e.context("command", name))?;
        Ok(output)
    }
}
