//! Tool sources: many tools behind one door.

use std::sync::Arc;

use async_trait::async_trait;

use crate::context::ToolContext;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{CallId, ExtensionId};
use crate::item::ToolCall;
use crate::slash_command::{SlashCommand, SlashCommandCall, SlashCommandOutput};
use crate::tool::{ToolOutput, ToolSpec};

/// One call of a batch.
#[derive(Debug, Clone)]
pub struct BatchCall {
    /// The call; its name is one of the source's.
    pub call: ToolCall,
    /// Its own context, with its own deadline and output.
    pub context: ToolContext,
}

/// Takes the outcomes of a batch, each as soon as it is known.
///
/// The runtime implements this. A source holds it for one batch only.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
/// use haft_api::*;
///
/// #[derive(Default)]
/// struct Slots(Mutex<BTreeMap<CallId, Result<ToolOutput>>>);
///
/// impl BatchOutcomes for Slots {
///     fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
///         let mut slots = self.0.lock().unwrap();
///         let first = !slots.contains_key(call);
///         if first {
///             slots.insert(call.clone(), outcome);
///         }
///         first
///     }
/// }
///
/// let (slots, call) = (Slots::default(), CallId::new("c1")?);
/// assert!(slots.complete(&call, Ok(ToolOutput::text("first"))));
/// assert!(!slots.complete(&call, Ok(ToolOutput::text("late"))));
/// # Ok::<(), Error>(())
/// ```
pub trait BatchOutcomes: Send + Sync + 'static {
    /// Fills a call's slot. Returns false, and drops the outcome, if the slot
    /// is filled already, if the call's time is over, or if there is no such
    /// call in this batch.
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool;
}

/// Many tools behind one door: a script host, a server of another process.
///
/// # For implementers
/// - All calls of a round that target the source come as one batch, in call
///   order; the next batch begins when this one has ended.
/// - Fill each call's slot through `outcomes` as soon as its outcome is known.
///   A call's failure touches no sibling. A slot that is still empty when
///   [`call_batch`](Self::call_batch) returns is reported to the model as
///   dropped by the source; an `Err` from it fills all empty slots.
/// - Each call has its own deadline in its context. The runtime fills an
///   overdue slot itself and goes on; the batch's future is dropped when no
///   slot is left empty, or on interrupt. Dropping it cancels what still runs.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// struct Clock(ExtensionId);
///
/// #[async_trait]
/// impl ToolSource for Clock {
///     fn id(&self) -> &ExtensionId {
///         &self.0
///     }
///
///     async fn tools(&self) -> Result<Vec<ToolSpec>> {
///         Ok(vec![ToolSpec::new(ToolName::new("now")?, "The time").effects(Effects::PURE)])
///     }
///
///     async fn call_batch(
///         &self,
///         calls: Vec<BatchCall>,
///         outcomes: Arc<dyn BatchOutcomes>,
///     ) -> Result<()> {
///         for BatchCall { call, .. } in calls {
///             let now = unix_ms_now().to_string();
///             outcomes.complete(&call.id, Ok(ToolOutput::text(now)));
///         }
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't a tool source",
    note = "implement `haft_api::ToolSource` (with `#[haft_api::async_trait]`) and hand it to `ExtensionRegistryBuilder::tool_source`"
)]
pub trait ToolSource: Send + Sync + 'static {
    /// The source's id. Constant.
    fn id(&self) -> &ExtensionId;

    /// The tools it has now. Asked when a turn starts; a change takes effect
    /// with the next turn.
    ///
    /// # Errors
    /// If the list can't be had. The turn runs without the source's tools, and
    /// a notice says so.
    async fn tools(&self) -> Result<Vec<ToolSpec>>;

    /// What kept tools out of the list that [`tools`](Self::tools) gave last: an
    /// extension of a script host that didn't load, a tool that was left out.
    /// The runtime tells of them as notices.
    async fn problems(&self) -> Vec<Error> {
        Vec::new()
    }

    /// Runs a round's calls.
    ///
    /// # Errors
    /// What befell the source as a whole; see the trait's description.
    async fn call_batch(
        &self,
        calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()>;

    /// The slash commands it has now, for programs in which people type. Their
    /// names differ from each other; they are no tools.
    ///
    /// # Errors
    /// If the list can't be had.
    async fn commands(&self) -> Result<Vec<SlashCommand>> {
        Ok(Vec::new())
    }

    /// Runs a slash command. It may take its time; dropping the future ends it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such command; what it failed with.
    async fn run_command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        Err(Error::new(ErrorKind::NotFound, "there is no such command")
            .context("command", call.name))
    }
}
