//! From parts to a runtime.

use std::sync::{Arc, Weak};

use haft_api::{Error, ErrorKind, Registry, Result, ThreadStore, ToolSpec};

use super::{Runtime, Shared};
use crate::dispatch::ToolSet;
use crate::options::RuntimeOptions;

/// Collects what a runtime needs besides its registry.
pub struct RuntimeBuilder {
    registry: Registry,
    options: RuntimeOptions,
    external_tools: Vec<ToolSpec>,
}

impl RuntimeBuilder {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            options: RuntimeOptions::default(),
            external_tools: Vec::new(),
        }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: RuntimeOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a tool whose calls are answered from outside, by
    /// [`Thread::answer_external`](crate::Thread::answer_external).
    #[must_use]
    pub fn external_tool(mut self, spec: ToolSpec) -> Self {
        self.external_tools.push(spec);
        self
    }

    /// Makes the runtime. `store` keeps its threads: open one with a factory of
    /// the registry, or bring your own.
    ///
    /// # Errors
    /// If two tools have one name; if an engine of
    /// [`fallbacks`](RuntimeOptions::fallbacks) isn't there. A tool or a contributor that is no good is
    /// left out and named by [`Runtime::problems`].
    pub fn build(self, store: Arc<dyn ThreadStore>) -> Result<Runtime> {
        let Self {
            registry,
            options,
            external_tools,
        } = self;
        for fallback in &options.fallbacks {
            let id = &fallback.engine;
            if registry.engine(id.as_str()).is_none() {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "there is no such engine to fall back on",
                )
                .context("engine", id));
            }
        }
        let (tools, problems) = ToolSet::registered(&registry, &external_tools)?;
        // The engines' retry layers tell threads of what they do, and threads
        // hold what the layers are part of: hence the weak end.
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| {
            Shared::new(registry, options, store, tools, problems, shared)
        });
        Ok(Runtime { shared })
    }
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
