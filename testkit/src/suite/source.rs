//! The suite for [`ToolSource`]s.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use haft_api::{ToolContext, ToolSource};

use super::Case;
use super::declare::collect_cases;
use crate::fixture::tool_context;

mod batches;
mod board;
mod failures;
mod specs;
mod subject;

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __source_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            the_source_id_is_constant: "the id is the same at every call",
            tools_describe_themselves: "each tool has a description and an object schema that compiles and is whole in itself",
            tools_are_listed_alike: "the list of tools is the same, to the byte, while nothing changes",
            every_slot_is_filled: "each call of a batch gets an outcome, exactly once, and the examples succeed",
            results_are_fit_for_models: "the examples' results have no empty text, no broken image, no broken JSON",
            order_makes_no_difference: "calls succeed in any order",
            one_call_twice_is_two_calls: "the same call under two ids gets two outcomes",
            a_large_batch_is_filled: "a batch of 100 calls gets 100 outcomes",
            batches_follow_one_another: "10 batches one after another are all filled",
            an_empty_batch_ends: "a batch of no calls ends, and fills nothing",
            an_unknown_tool_fails_alone: "a call to a tool that isn't there is an error, and its siblings succeed",
            garbage_fails_alone: "arguments that don't fit are an error of their own call, and its siblings succeed",
            a_failing_call_fails_alone: "a call that fails is an error of its own, and its siblings succeed",
            a_refused_answer_is_no_matter: "a slot that takes no answer any more costs no sibling",
            answers_come_as_soon_as_they_are_known: "a fast call's answer doesn't wait for a slow sibling",
            a_dropped_batch_is_over: "after a batch was dropped nothing is answered any more, and the next batch works",
        }
    };
}

type MakeContext = dyn Fn() -> ToolContext + Send + Sync;

/// A tool source to be tested, and calls that it must manage.
pub struct SourceFixture {
    source: Arc<dyn ToolSource>,
    examples: Vec<(String, String)>,
    failing: Vec<(String, String)>,
    slow: Option<(String, String)>,
    context: Arc<MakeContext>,
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl SourceFixture {
    /// A source whose calls get a context without a workspace.
    pub fn new(source: Arc<dyn ToolSource>) -> Self {
        Self {
            source,
            examples: Vec::new(),
            failing: Vec::new(),
            slow: None,
            context: Arc::new(tool_context),
            _keep: None,
        }
    }

    /// A call that succeeds, whatever was called before it.
    #[must_use]
    pub fn example(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.examples.push((name.into(), arguments.into()));
        self
    }

    /// A call that fits its tool's schema and fails all the same.
    #[must_use]
    pub fn failing(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.failing.push((name.into(), arguments.into()));
        self
    }

    /// A call that takes some seconds at least.
    #[must_use]
    pub fn slow(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.slow = Some((name.into(), arguments.into()));
        self
    }

    /// Gives every call such a context.
    #[must_use]
    pub fn context(mut self, make: impl Fn() -> ToolContext + Send + Sync + 'static) -> Self {
        self.context = Arc::new(make);
        self
    }

    /// Keeps something until the case is over, such as a server's handle.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self._keep = Some(Box::new(guard));
        self
    }
}

impl fmt::Debug for SourceFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFixture")
            .field("source", self.source.id())
            .field("examples", &self.examples)
            .finish_non_exhaustive()
    }
}

/// All cases for a tool source.
///
/// For one test per case use
/// [`tool_source_conformance!`](crate::tool_source_conformance).
pub fn tool_source_suite(make: impl Fn() -> SourceFixture + Send + Sync + 'static) -> Vec<Case> {
    let make = move || subject::Subject::new(make());
    crate::__source_cases! { collect_cases [make] }
}

/// Declares one test for each promise of a [`ToolSource`]. The argument makes a
/// [`SourceFixture`].
///
/// ```
/// use std::sync::Arc;
/// use haft_testkit::{BatchSource, Outcome, SourceFixture};
///
/// haft_testkit::tool_source_conformance!(|| {
///     let source = BatchSource::new("search")
///         .tool("find", Outcome::text("found it"))
///         .tool("hang", Outcome::Stalled);
///     SourceFixture::new(Arc::new(source))
///         .example("find", r#"{"what":"it"}"#)
///         .slow("hang", "{}")
/// });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! tool_source_conformance {
    ($make:expr) => {
        $crate::__source_cases! {
            $crate::__declare_tests [tool_source_conformance, $crate::tool_source_suite, $make]
        }
    };
}

/// The functions behind the names of the list.
mod cases {
    pub(super) use super::batches::*;
    pub(super) use super::failures::*;
    pub(super) use super::specs::*;
}
