//! The suite for [`Tool`](haft_api::Tool)s and their
//! [`ToolContributor`]s.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use haft_api::{RemoteRunnerProvider, RemoteRunnerSession, Result, ToolContributor};

use super::Case;
use super::declare::collect_cases;
use crate::runner::MemoryRunner;

mod arguments;
mod examples;
mod specs;
mod subject;

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __tool_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            tools_describe_themselves: "each tool has a description and an object schema that compiles and is whole in itself",
            contributing_again_gives_the_same: "the contributor gives the same tools, to the byte, each time",
            specs_stay_as_they_are: "a tool's spec is the same after it was used",
            examples_name_tools: "each example names a tool, and its arguments fit the tool's schema",
            examples_succeed: "each example succeeds",
            results_are_fit_for_models: "the examples' results have no empty text, no broken image, no broken JSON",
            arguments_that_do_not_fit_are_an_error: "arguments without what the tool requires are an error, never a panic",
            any_garbage_comes_to_an_end: "arguments of every wrong kind come to an end in time, without a panic",
            a_missing_workspace_is_an_error: "a tool that needs the workspace fails without one, and doesn't panic",
            an_undeclared_workspace_is_not_needed: "a tool that declares no workspace succeeds without one",
            a_dropped_call_harms_nothing: "after calls that were dropped half-way, the examples succeed",
            reading_calls_run_side_by_side: "examples that change nothing succeed all at once",
        }
    };
}

type MakeWorkspace =
    dyn Fn() -> BoxFuture<'static, Result<Arc<dyn RemoteRunnerSession>>> + Send + Sync;

/// A contributor to be tested, and calls that its tools must manage.
pub struct ToolFixture {
    contributor: Arc<dyn ToolContributor>,
    examples: Vec<(String, String)>,
    workspace: Arc<MakeWorkspace>,
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl ToolFixture {
    /// A contributor whose tools have a fresh workspace in memory, if they need
    /// one.
    pub fn new(contributor: Arc<dyn ToolContributor>) -> Self {
        Self {
            contributor,
            examples: Vec::new(),
            workspace: in_memory(MemoryRunner::new),
            _keep: None,
        }
    }

    /// A call that succeeds. Examples run in their order, in a fresh workspace:
    /// a later one may build on an earlier one.
    #[must_use]
    pub fn example(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.examples.push((name.into(), arguments.into()));
        self
    }

    /// Gives the tools a workspace of such a runner, with the files and
    /// programs that it has.
    #[must_use]
    pub fn in_memory(mut self, runner: impl Fn() -> MemoryRunner + Send + Sync + 'static) -> Self {
        self.workspace = in_memory(runner);
        self
    }

    /// Gives the tools a workspace of any other kind; a fresh one each time.
    #[must_use]
    pub fn workspace<R>(mut self, make: impl Fn() -> R + Send + Sync + 'static) -> Self
    where
        R: Future<Output = Result<Arc<dyn RemoteRunnerSession>>> + Send + 'static,
    {
        self.workspace = Arc::new(move || Box::pin(make()));
        self
    }

    /// Keeps something until the case is over.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self._keep = Some(Box::new(guard));
        self
    }
}

fn in_memory(runner: impl Fn() -> MemoryRunner + Send + Sync + 'static) -> Arc<MakeWorkspace> {
    Arc::new(move || {
        let runner = runner();
        Box::pin(async move { runner.create(runner.binding("conformance")).await })
    })
}

impl fmt::Debug for ToolFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFixture")
            .field("examples", &self.examples)
            .finish_non_exhaustive()
    }
}

/// All cases for a contributor's tools.
///
/// For one test per case use [`tool_conformance!`](crate::tool_conformance).
pub fn tool_suite(make: impl Fn() -> ToolFixture + Send + Sync + 'static) -> Vec<Case> {
    let make = move || subject::Subject::new(make());
    crate::__tool_cases! { collect_cases [make] }
}

/// Declares one test for each promise of a contributor's tools. The argument
/// makes a [`ToolFixture`].
///
/// ```
/// use std::sync::Arc;
/// use haft_testkit::{EchoTool, ToolFixture, Tools};
///
/// haft_testkit::tool_conformance!(|| {
///     let tools = Tools::new().with(EchoTool::new("echo"));
///     ToolFixture::new(Arc::new(tools)).example("echo", r#"{"text":"hello"}"#)
/// });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! tool_conformance {
    ($make:expr) => {
        $crate::__tool_cases! {
            $crate::__declare_tests [tool_conformance, $crate::tool_suite, $make]
        }
    };
}

/// The functions behind the names of the list.
mod cases {
    pub(super) use super::arguments::*;
    pub(super) use super::examples::*;
    pub(super) use super::specs::*;
}
