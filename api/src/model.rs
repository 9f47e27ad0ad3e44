//! A tool's way to the runtime's model.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::engine::{FinishReason, ModelOptions, Usage};
use crate::error::Result;
use crate::id::ExtensionId;
use crate::item::Part;

/// What a tool asks a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelRequest {
    /// What the model is told before everything else.
    #[serde(default)]
    pub instructions: String,
    /// What it is asked; not empty. It sees nothing of the thread.
    pub input: Vec<Part>,
    /// How to go about it.
    #[serde(default)]
    pub options: ModelOptions,
    /// A JSON schema that the answer must follow, where the model can do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
}

impl ModelRequest {
    /// A question in words, with every default.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![Part::text(text)])
    }

    /// A question of these parts, with every default.
    pub fn new(input: Vec<Part>) -> Self {
        Self {
            instructions: String::new(),
            input,
            options: ModelOptions::default(),
            output_schema: None,
        }
    }

    /// Sets what the model is told before everything else.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }
}

/// What a model answered to a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelAnswer {
    /// The text; empty if it said nothing.
    pub text: String,
    /// Why it stopped. An answer that was cut off is an answer.
    pub reason: FinishReason,
    /// The tokens it took; they are added to the turn's already.
    #[serde(default)]
    pub usage: Usage,
    /// The engine that answered.
    pub engine: ExtensionId,
    /// The model that answered, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ModelAnswer {
    /// An answer of that engine.
    pub fn new(engine: ExtensionId, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            reason: FinishReason::End,
            usage: Usage::default(),
            engine,
            model: None,
        }
    }
}

/// Asks the model of the turn, on behalf of one tool call: the same engine and
/// model, with the same retries and fallbacks.
///
/// A call has it in its [`ToolContext`](crate::ToolContext::model). Policy is
/// asked first, as for a call of a tool named [`MODEL_CALL`]; tokens count as
/// the turn's, whatever becomes of the answer.
///
/// # For implementers
/// The runtime implements this. Whoever stands in for it (a test, another
/// runtime) answers each request once; dropping the future ends the request at
/// the model, too.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// /// A tool that has a text shortened.
/// async fn shorten(text: &str, context: &ToolContext) -> Result<ToolOutput> {
///     let request = ModelRequest::text(text).instructions("Say it in one sentence.");
///     let answer = context.model()?.generate(request).await?;
///     Ok(ToolOutput::text(answer.text))
/// }
///
/// /// Stands in for a model.
/// struct Shouting(ExtensionId);
///
/// #[async_trait]
/// impl ModelService for Shouting {
///     async fn generate(&self, request: ModelRequest) -> Result<ModelAnswer> {
///         let text = join_text(&request.input).to_uppercase();
///         Ok(ModelAnswer::new(self.0.clone(), text))
///     }
/// }
///
/// # async fn example() -> Result<()> {
/// let context = ToolContext::new(ThreadId::new("thread")?, TurnId::new("turn")?);
/// // Outside of a turn there is no model.
/// let refused = shorten("a long text", &context).await;
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
///
/// let model = Arc::new(Shouting(ExtensionId::new("shouting")?));
/// let context = context.with_model(model);
/// let output = shorten("a long text", &context).await?;
/// assert_eq!(output.parts[0].as_text(), Some("A LONG TEXT"));
/// # Ok(())
/// # }
/// # let mut example = std::pin::pin!(example());
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # match example.as_mut().poll(&mut context) {
/// #     std::task::Poll::Ready(outcome) => outcome,
/// #     std::task::Poll::Pending => panic!("nothing here waits"),
/// # }
/// # .unwrap();
/// ```
#[async_trait]
pub trait ModelService: Send + Sync + 'static {
    /// Asks, and waits for the whole answer. No tools are offered to the model.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) if policy or the user
    /// says no; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) once the
    /// tool call has ended; [`ErrorKind::Timeout`](crate::ErrorKind::Timeout)
    /// when its time is over;
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for an empty
    /// input; what the engine fails with.
    async fn generate(&self, request: ModelRequest) -> Result<ModelAnswer>;
}

/// The tool's name under which policy is asked about a [`ModelService`]'s
/// requests. No tool can have it.
pub const MODEL_CALL: &str = "model.generate";
