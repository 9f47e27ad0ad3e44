//! Tools: what a model may call.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::context::ToolContext;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{ExtensionId, ToolName};
use crate::item::{Part, ToolCall};

/// How far a tool goes into the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// It doesn't touch it.
    None,
    /// It only reads.
    Read,
    /// It changes things.
    Write,
}

/// What a tool does to the world, declared by the tool and never guessed from
/// its name. Provisioning, leases, parallelism and approval follow from it.
///
/// The fields follow the tool annotations of the Model Context Protocol where
/// it has one (`readOnlyHint`, `destructiveHint`, `idempotentHint`,
/// `openWorldHint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Effects {
    /// How far it goes into the workspace. Anything but `None` makes the
    /// runtime provision the thread's workspace and hand its session over.
    pub workspace: WorkspaceAccess,
    /// Whether it runs commands.
    pub runs_commands: bool,
    /// Whether it reaches the network or another system.
    pub network: bool,
    /// Whether it may destroy what can't be had back.
    pub destructive: bool,
    /// Whether the same call twice has the effect of one. Only such a call may
    /// be run again after a crash left its outcome unknown.
    pub idempotent: bool,
}

impl Effects {
    /// A tool that says nothing of itself counts as the most dangerous kind.
    pub const UNDECLARED: Self = Self {
        workspace: WorkspaceAccess::Write,
        runs_commands: true,
        network: true,
        destructive: true,
        idempotent: false,
    };
    /// A function of its arguments alone.
    pub const PURE: Self = Self {
        workspace: WorkspaceAccess::None,
        runs_commands: false,
        network: false,
        destructive: false,
        idempotent: true,
    };
    /// Reads the workspace and does nothing else.
    pub const READS: Self = Self {
        workspace: WorkspaceAccess::Read,
        ..Self::PURE
    };
    /// Changes files of the workspace and does nothing else.
    pub const WRITES: Self = Self {
        workspace: WorkspaceAccess::Write,
        idempotent: false,
        ..Self::PURE
    };
    /// Runs commands in the workspace.
    pub const COMMANDS: Self = Self {
        workspace: WorkspaceAccess::Write,
        network: true,
        ..Self::UNDECLARED
    };
    /// Reaches another system and leaves the workspace alone.
    pub const NETWORK: Self = Self {
        workspace: WorkspaceAccess::None,
        network: true,
        idempotent: false,
        ..Self::PURE
    };

    /// Whether the workspace must be there.
    pub fn needs_workspace(self) -> bool {
        self.workspace != WorkspaceAccess::None || self.runs_commands
    }

    /// Whether it changes nothing anywhere: such calls of a round run together.
    pub fn is_read_only(self) -> bool {
        self.workspace != WorkspaceAccess::Write
            && !self.runs_commands
            && !self.network
            && !self.destructive
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self::UNDECLARED
    }
}

/// What a model and the runtime are told about a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name it is called by.
    pub name: ToolName,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema (2020-12) of its arguments; an object schema.
    pub input_schema: Box<RawValue>,
    /// What it does to the world.
    #[serde(default)]
    pub effects: Effects,
    /// Its time limit in milliseconds where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl ToolSpec {
    /// A tool without parameters and with undeclared effects.
    pub fn new(name: ToolName, description: impl Into<String>) -> Self {
        let empty = RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned());
        Self {
            name,
            description: description.into(),
            input_schema: empty.expect("the empty object schema is valid JSON"),
            effects: Effects::UNDECLARED,
            timeout_ms: None,
        }
    }

    /// Sets the schema of the arguments, as JSON text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the text is no JSON object.
    pub fn schema(mut self, schema: impl Into<String>) -> Result<Self> {
        let schema = crate::item::raw_json(schema)
            .map_err(|e| e.operation("schema").context("tool", &self.name))?;
        if !schema.get().trim_start().starts_with('{') {
            return Err(
                Error::new(ErrorKind::InvalidInput, "a tool's schema must be an object")
                    .context("tool", &self.name),
            );
        }
        self.input_schema = schema;
        Ok(self)
    }

    /// Declares the effects.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Sets the tool's own time limit, in milliseconds.
    #[must_use]
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        self.timeout_ms = Some(timeout);
        self
    }
}

/// What a tool tells the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The content. Together with what the tool wrote to
    /// [`ToolContext::output`](crate::ToolContext::output), which goes before
    /// it, this is what the model reads.
    pub parts: Vec<Part>,
    /// True if the model should take it as a failure.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolOutput {
    /// A success with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            parts: vec![Part::text(text)],
            is_error: false,
        }
    }

    /// A failure that the model is told about.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            parts: vec![Part::text(text)],
            is_error: true,
        }
    }

    /// A success with these parts.
    pub fn parts(parts: Vec<Part>) -> Self {
        Self {
            parts,
            is_error: false,
        }
    }

    /// A success with a JSON value.
    ///
    /// # Errors
    /// If the value can't be written as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        let value = serde_json::value::to_raw_value(value).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the result isn't JSON: {e}"),
            )
            .source(e)
        })?;
        Ok(Self::parts(vec![Part::Json { value }]))
    }
}

/// One tool.
///
/// # For implementers
/// - By the time [`execute`](Self::execute) is called the arguments are a JSON
///   object that was checked against the schema, and policy has agreed.
/// - A failure the model should read is a [`ToolOutput::error`]; an `Err` is
///   for what broke in the tool itself, and reaches the model as an error
///   result too.
/// - Dropping the future cancels. What must be kept of unfinished work goes to
///   [`ToolContext::output`](crate::ToolContext::output) as it arises.
/// - Panics are caught and cost this call alone.
///
/// ```
/// use haft_api::*;
///
/// struct Add(ToolSpec);
///
/// impl Add {
///     fn new() -> Result<Self> {
///         let schema = r#"{"type":"object","required":["a","b"],
///             "properties":{"a":{"type":"number"},"b":{"type":"number"}}}"#;
///         let name = ToolName::new("add")?;
///         Ok(Self(ToolSpec::new(name, "Adds two numbers").schema(schema)?.effects(Effects::PURE)))
///     }
/// }
///
/// #[async_trait]
/// impl Tool for Add {
///     fn spec(&self) -> &ToolSpec {
///         &self.0
///     }
///
///     async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutput> {
///         #[derive(serde::Deserialize)]
///         struct Arguments {
///             a: f64,
///             b: f64,
///         }
///         let Arguments { a, b } = call.parse()?;
///         Ok(ToolOutput::text((a + b).to_string()))
///     }
/// }
///
/// assert_eq!(Add::new()?.spec().name, "add");
/// # Ok::<(), Error>(())
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` isn't a tool",
    note = "implement `haft_api::Tool` (with `#[haft_api::async_trait]`) and add it in a `ToolContributor`"
)]
pub trait Tool: Send + Sync + 'static {
    /// What the tool is. Constant while it is registered.
    fn spec(&self) -> &ToolSpec;

    /// Runs one call.
    ///
    /// # Errors
    /// What broke in the tool itself; see the trait's description.
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput>;
}

/// Brings a set of tools.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// # struct Add(ToolSpec);
/// # #[async_trait]
/// # impl Tool for Add {
/// #     fn spec(&self) -> &ToolSpec { &self.0 }
/// #     async fn execute(&self, _: ToolCall, _: ToolContext) -> Result<ToolOutput> {
/// #         Ok(ToolOutput::text("3"))
/// #     }
/// # }
/// struct Arithmetic;
///
/// impl ToolContributor for Arithmetic {
///     fn contribute(&self, tools: &mut ToolRegistry) -> Result<()> {
///         tools.add(Arc::new(Add(ToolSpec::new(ToolName::new("add")?, "Adds two numbers"))))
///     }
/// }
///
/// let mut tools = ToolRegistry::new();
/// Arithmetic.contribute(&mut tools)?;
/// assert_eq!(tools.iter().count(), 1);
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't contribute tools",
    note = "implement `haft_api::ToolContributor`; a single tool implements `haft_api::Tool`"
)]
pub trait ToolContributor: Send + Sync + 'static {
    /// Adds the tools. Called once, while the runtime is built; does no I/O.
    ///
    /// # Errors
    /// What [`ToolRegistry::add`] refuses, or that a tool can't be made.
    fn contribute(&self, tools: &mut ToolRegistry) -> Result<()>;
}

/// The tools of a runtime by name, in the order of their names: the same set
/// is the same list of bytes to a model, whatever order it was registered in.
#[derive(Default, Clone)]
pub struct ToolRegistry {
    tools: BTreeMap<ToolName, (Arc<dyn Tool>, Option<ExtensionId>)>,
    owner: Option<ExtensionId>,
}

impl ToolRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says who adds what is added from now on, for errors and diagnostics.
    pub fn set_owner(&mut self, owner: Option<ExtensionId>) {
        self.owner = owner;
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if there is one of that name; it names both
    /// owners.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<()> {
        let name = tool.spec().name.clone();
        if let Some((_, earlier)) = self.tools.get(&name) {
            let show = |o: &Option<ExtensionId>| {
                o.as_ref()
                    .map_or("the host".to_owned(), ToString::to_string)
            };
            return Err(
                Error::new(ErrorKind::AlreadyExists, "two tools of one name")
                    .operation("register")
                    .context("tool", &name)
                    .context("first", show(earlier))
                    .context("second", show(&self.owner)),
            );
        }
        self.tools.insert(name, (tool, self.owner.clone()));
        Ok(())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|(tool, _)| tool)
    }

    /// The extension that brought a tool, if it was one.
    pub fn owner(&self, name: &str) -> Option<&ExtensionId> {
        self.tools.get(name).and_then(|(_, owner)| owner.as_ref())
    }

    /// All tools, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values().map(|(tool, _)| tool)
    }
}
