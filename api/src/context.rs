//! What a tool call is given besides its arguments.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deadline::{Deadline, command_timeout};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{ThreadId, TurnId};
use crate::model::ModelService;
use crate::runner::RemoteRunnerSession;

/// Which of a tool's streams some output belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputChannel {
    /// The output proper.
    Stdout,
    /// What it says on the side.
    Stderr,
}

/// Takes what a tool produces while it runs.
///
/// The host shows it live, keeps its head and tail for the model, and writes
/// all of it to a spill file once it is long. It survives the tool's end by
/// timeout, interrupt or panic, as the partial output of the call.
///
/// ```
/// use std::sync::Mutex;
/// use haft_api::{OutputChannel, OutputSink};
///
/// #[derive(Default)]
/// struct Kept(Mutex<Vec<u8>>);
///
/// impl OutputSink for Kept {
///     fn write(&self, _: OutputChannel, bytes: &[u8]) {
///         self.0.lock().unwrap().extend_from_slice(bytes);
///     }
/// }
///
/// let sink = Kept::default();
/// sink.write(OutputChannel::Stdout, b"half ");
/// sink.write(OutputChannel::Stdout, b"a line");
/// assert_eq!(*sink.0.lock().unwrap(), b"half a line");
/// ```
pub trait OutputSink: Send + Sync + 'static {
    /// Takes some bytes, in any encoding and cut anywhere. Returns at once; it
    /// never fails, and what can't be kept is counted.
    fn write(&self, channel: OutputChannel, bytes: &[u8]);
}

/// Drops everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOutput;

impl OutputSink for NoOutput {
    fn write(&self, _: OutputChannel, _: &[u8]) {}
}

/// What a tool call is given besides its arguments. Built anew for every call,
/// from data and objects only, so that it can be rebuilt across a boundary.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The thread the call belongs to.
    pub thread: ThreadId,
    /// The turn the call belongs to.
    pub turn: TurnId,
    /// When the call will be cut off.
    pub deadline: Option<Deadline>,
    /// When the turn ends; a command's time is reckoned from it.
    pub turn_deadline: Option<Deadline>,
    /// Where output goes as it arises.
    pub output: Arc<dyn OutputSink>,
    pub(crate) workspace: Option<Arc<dyn RemoteRunnerSession>>,
    pub(crate) model: Option<Arc<dyn ModelService>>,
}

impl ToolContext {
    /// A context without workspace, model, deadline and output.
    pub fn new(thread: ThreadId, turn: TurnId) -> Self {
        Self {
            thread,
            turn,
            deadline: None,
            turn_deadline: None,
            output: Arc::new(NoOutput),
            workspace: None,
            model: None,
        }
    }

    /// Gives the call a workspace.
    #[must_use]
    pub fn with_workspace(mut self, session: Arc<dyn RemoteRunnerSession>) -> Self {
        self.workspace = Some(session);
        self
    }

    /// Gives the call a model.
    #[must_use]
    pub fn with_model(mut self, model: Arc<dyn ModelService>) -> Self {
        self.model = Some(model);
        self
    }

    /// Sends the output there.
    #[must_use]
    pub fn with_output(mut self, output: Arc<dyn OutputSink>) -> Self {
        self.output = output;
        self
    }

    /// The session in which the thread's side effects happen.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the tool's effects don't say that it needs
    /// the workspace.
    pub fn workspace(&self) -> Result<&Arc<dyn RemoteRunnerSession>> {
        self.workspace.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "this call has no workspace: the tool's declared effects don't include one",
            )
        })
    }

    /// The way to the turn's model; see [`ModelService`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there is none: the call isn't part of a
    /// turn, or the host is older than this service.
    pub fn model(&self) -> Result<&Arc<dyn ModelService>> {
        self.model.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "this call has no model: it isn't part of a turn",
            )
        })
    }

    /// How long a command may run that is issued now; see [`command_timeout`].
    pub fn command_timeout(&self, asked: Option<Duration>) -> Option<Duration> {
        command_timeout(self.turn_deadline.map(Deadline::remaining), asked)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("thread", &self.thread)
            .field("turn", &self.turn)
            .field("deadline", &self.deadline)
            .field("workspace", &self.workspace.is_some())
            .field("model", &self.model.is_some())
            .finish_non_exhaustive()
    }
}
