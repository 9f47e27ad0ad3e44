//! The tool and tool source suites fail on tools that break a promise.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use haft_api::*;
use haft_testkit::{
    BatchSource, Case, Outcome, SourceFixture, ToolFixture, Verdict, tool_source_suite, tool_suite,
};

/// Runs single cases, each of which must be broken.
async fn all_broken(cases: Vec<(String, Vec<Case>, &'static str)>) {
    let checks = cases.iter().map(|(flaw, cases, name)| async move {
        let case = cases.iter().find(|case| case.name() == *name);
        match case.unwrap_or_else(|| panic!("no case {name}")).run().await {
            Verdict::Broken { .. } => None,
            other => Some(format!("{flaw}: {name}: {other:?}")),
        }
    });
    let missed: Vec<_> = join_all(checks).await.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// How a tool is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ToolFlaw {
    None,
    SaysNothingOfItself,
    TakesAnArray,
    HasABrokenSchema,
    RefersElsewhere,
    HasNoTime,
    ChangesWithEachContribution,
    ChangesWhenUsed,
    PanicsAtGarbage,
    HangsAtGarbage,
    MakesDoWithGarbage,
    FailsAlways,
    ReturnsEmptyText,
    ReturnsABrokenImage,
    NeedsAnUndeclaredWorkspace,
    NeedsNoDeclaredWorkspace,
    PanicsWithoutItsWorkspace,
    NeverRecoversFromADrop,
    RunsOneAtATime,
}

struct BrokenTool {
    specs: [ToolSpec; 2],
    used: AtomicUsize,
    running: AtomicUsize,
    flaw: ToolFlaw,
}

impl BrokenTool {
    fn new(flaw: ToolFlaw, contribution: usize) -> Self {
        let schema = match flaw {
            ToolFlaw::TakesAnArray => r#"{"type":"array"}"#,
            ToolFlaw::HasABrokenSchema => r#"{"type":"object","properties":[]}"#,
            ToolFlaw::RefersElsewhere => {
                r#"{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}"#
            }
            _ => r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}"#,
        };
        let description = match flaw {
            ToolFlaw::SaysNothingOfItself => " ".to_owned(),
            ToolFlaw::ChangesWithEachContribution => format!("Contribution {contribution}."),
            _ => "A tool.".to_owned(),
        };
        let effects = match flaw {
            ToolFlaw::NeedsNoDeclaredWorkspace | ToolFlaw::PanicsWithoutItsWorkspace => {
                Effects::READS
            }
            _ => Effects::PURE,
        };
        let mut spec = ToolSpec::new(ToolName::new("broken").unwrap(), description)
            .schema(schema)
            .unwrap()
            .effects(effects);
        if flaw == ToolFlaw::HasNoTime {
            spec.timeout_ms = Some(0);
        }
        let mut later = spec.clone();
        later.description = "Another description.".to_owned();
        Self {
            specs: [spec, later],
            used: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            flaw,
        }
    }
}

#[async_trait]
impl Tool for BrokenTool {
    fn spec(&self) -> &ToolSpec {
        let used = self.used.load(Ordering::SeqCst) > 0;
        &self.specs[usize::from(used && self.flaw == ToolFlaw::ChangesWhenUsed)]
    }

    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutput> {
        self.used.fetch_add(1, Ordering::SeqCst);
        #[derive(serde::Deserialize)]
        struct Arguments {
            a: i64,
        }
        let parsed = call.parse::<Arguments>();
        match self.flaw {
            ToolFlaw::PanicsAtGarbage => drop(parsed.as_ref().unwrap()),
            ToolFlaw::HangsAtGarbage if parsed.is_err() => std::future::pending().await,
            ToolFlaw::MakesDoWithGarbage if parsed.is_err() => return Ok(ToolOutput::text("fine")),
            _ => {}
        }
        let a = parsed?.a.to_string();
        Ok(match self.flaw {
            ToolFlaw::FailsAlways => ToolOutput::error("no"),
            ToolFlaw::ReturnsEmptyText => ToolOutput::text(""),
            ToolFlaw::ReturnsABrokenImage => ToolOutput::parts(vec![Part::Image {
                media_type: "image/png".to_owned(),
                data: "not base64!".to_owned(),
            }]),
            ToolFlaw::NeedsAnUndeclaredWorkspace => {
                ToolOutput::text(context.workspace()?.workspace())
            }
            ToolFlaw::PanicsWithoutItsWorkspace => {
                ToolOutput::text(context.workspace().unwrap().workspace())
            }
            ToolFlaw::NeverRecoversFromADrop | ToolFlaw::RunsOneAtATime => {
                if self.running.fetch_add(1, Ordering::SeqCst) > 0 {
                    return Ok(ToolOutput::error("one at a time"));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                ToolOutput::text(a)
            }
            _ => ToolOutput::text(a),
        })
    }
}

/// Contributes a tool; the same one each time unless the flaw wants another.
struct Contributor {
    flaw: ToolFlaw,
    contributions: AtomicUsize,
    tool: Arc<BrokenTool>,
}

impl ToolContributor for Contributor {
    fn contribute(&self, tools: &mut ToolRegistry) -> Result<()> {
        let number = self.contributions.fetch_add(1, Ordering::SeqCst);
        tools.add(match self.flaw {
            ToolFlaw::ChangesWithEachContribution => Arc::new(BrokenTool::new(self.flaw, number)),
            _ => Arc::clone(&self.tool) as Arc<dyn Tool>,
        })
    }
}

fn tools(flaw: ToolFlaw) -> Vec<Case> {
    tool_suite(move || {
        let contributor = Contributor {
            flaw,
            contributions: AtomicUsize::new(0),
            tool: Arc::new(BrokenTool::new(flaw, 0)),
        };
        ToolFixture::new(Arc::new(contributor)).example("broken", r#"{"a":1}"#)
    })
}

#[tokio::test]
async fn broken_tools_are_found() {
    use ToolFlaw::*;
    haft_testkit::run_all(tools(None)).await.assert_kept();
    let found = [
        (SaysNothingOfItself, "tools_describe_themselves"),
        (TakesAnArray, "tools_describe_themselves"),
        (HasABrokenSchema, "tools_describe_themselves"),
        (RefersElsewhere, "tools_describe_themselves"),
        (HasNoTime, "tools_describe_themselves"),
        (TakesAnArray, "examples_name_tools"),
        (
            ChangesWithEachContribution,
            "contributing_again_gives_the_same",
        ),
        (ChangesWhenUsed, "specs_stay_as_they_are"),
        (PanicsAtGarbage, "any_garbage_comes_to_an_end"),
        (HangsAtGarbage, "any_garbage_comes_to_an_end"),
        (MakesDoWithGarbage, "arguments_that_do_not_fit_are_an_error"),
        (FailsAlways, "examples_succeed"),
        (ReturnsEmptyText, "results_are_fit_for_models"),
        (ReturnsABrokenImage, "results_are_fit_for_models"),
        (
            NeedsAnUndeclaredWorkspace,
            "an_undeclared_workspace_is_not_needed",
        ),
        (NeedsNoDeclaredWorkspace, "a_missing_workspace_is_an_error"),
        (PanicsWithoutItsWorkspace, "a_missing_workspace_is_an_error"),
        (NeverRecoversFromADrop, "a_dropped_call_harms_nothing"),
        (RunsOneAtATime, "reading_calls_run_side_by_side"),
    ];
    let cases = found.map(|(flaw, name)| (format!("{flaw:?}"), tools(flaw), name));
    all_broken(cases.into()).await;
}

/// How a source is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SourceFlaw {
    None,
    ListsToolsInAnyOrder,
    HasOneToolTwice,
    LeavesSlotsEmpty,
    AnswersTwice,
    AnswersOthers,
    ForgetsEqualCalls,
    TakesTenCallsOnly,
    FailsWithoutCalls,
    FailsAtUnknownTools,
    FailsWithOneCall,
    StopsAtARefusal,
    AnswersAllAtTheEnd,
    GoesOnWhenDropped,
    IsNeverReadyAgain,
}

struct BrokenSource {
    inner: Arc<BatchSource>,
    flaw: SourceFlaw,
    asked: AtomicUsize,
    busy: Mutex<bool>,
}

/// Changes what reaches the board of a batch.
struct Meddler {
    inner: Arc<dyn BatchOutcomes>,
    flaw: SourceFlaw,
    held: Mutex<Vec<(CallId, Result<ToolOutput>)>>,
    refused: Mutex<bool>,
}

impl BatchOutcomes for Meddler {
    fn complete(&self, call: &CallId, outcome: Result<ToolOutput>) -> bool {
        match self.flaw {
            SourceFlaw::LeavesSlotsEmpty if *call == "call-1" => return true,
            SourceFlaw::AnswersTwice => {
                self.inner.complete(call, Ok(ToolOutput::text("first")));
            }
            SourceFlaw::AnswersOthers => {
                let other = CallId::new("somebody-else").unwrap();
                self.inner.complete(&other, Ok(ToolOutput::text("astray")));
            }
            SourceFlaw::AnswersAllAtTheEnd => {
                self.held.lock().unwrap().push((call.clone(), outcome));
                return true;
            }
            SourceFlaw::StopsAtARefusal if *self.refused.lock().unwrap() => return false,
            _ => {}
        }
        let accepted = self.inner.complete(call, outcome);
        *self.refused.lock().unwrap() |= !accepted;
        accepted
    }
}

#[async_trait]
impl ToolSource for BrokenSource {
    fn id(&self) -> &ExtensionId {
        self.inner.id()
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        let mut tools = self.inner.tools().await?;
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        match self.flaw {
            SourceFlaw::ListsToolsInAnyOrder => tools.rotate_left(asked % 2),
            SourceFlaw::HasOneToolTwice => tools.push(tools[0].clone()),
            _ => {}
        }
        Ok(tools)
    }

    async fn call_batch(
        &self,
        mut calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()> {
        let no = || Error::new(ErrorKind::Unexpected, "no");
        let known: Vec<_> = self
            .inner
            .tools()
            .await?
            .into_iter()
            .map(|t| t.name)
            .collect();
        let is_known = |call: &BatchCall| known.iter().any(|name| *name == *call.call.name);
        match self.flaw {
            SourceFlaw::ForgetsEqualCalls => calls.dedup_by(|a, b| a.call.name == b.call.name),
            SourceFlaw::TakesTenCallsOnly => calls.truncate(10),
            SourceFlaw::FailsWithoutCalls if calls.is_empty() => return Err(no()),
            SourceFlaw::FailsAtUnknownTools if !calls.iter().all(is_known) => return Err(no()),
            SourceFlaw::FailsWithOneCall if calls.iter().any(|c| c.call.name == "fail") => {
                for call in &calls {
                    outcomes.complete(&call.call.id, Err(no()));
                }
                return Ok(());
            }
            SourceFlaw::IsNeverReadyAgain
                if std::mem::replace(&mut *self.busy.lock().unwrap(), true) =>
            {
                return Err(no());
            }
            _ => {}
        }
        let meddler = Arc::new(Meddler {
            inner: Arc::clone(&outcomes),
            flaw: self.flaw,
            held: Mutex::default(),
            refused: Mutex::default(),
        });
        let board = Arc::clone(&meddler) as Arc<dyn BatchOutcomes>;
        let inner = Arc::clone(&self.inner);
        let run: BoxFuture<'static, Result<()>> =
            Box::pin(async move { inner.call_batch(calls, board).await });
        match self.flaw {
            SourceFlaw::GoesOnWhenDropped => tokio::spawn(run).await.map_err(|_| no())??,
            _ => run.await?,
        }
        *self.busy.lock().unwrap() = false;
        for (call, outcome) in meddler.held.lock().unwrap().drain(..) {
            outcomes.complete(&call, outcome);
        }
        Ok(())
    }
}

fn sources(flaw: SourceFlaw) -> Vec<Case> {
    tool_source_suite(move || {
        let slow = match flaw {
            SourceFlaw::GoesOnWhenDropped => {
                Outcome::text("slow").after(Duration::from_millis(700))
            }
            _ => Outcome::text("slow").after(Duration::from_secs(30)),
        };
        let inner = BatchSource::new("broken")
            .tool("a", Outcome::text("a"))
            .tool("b", Outcome::text("b"))
            .tool("fail", Outcome::error(&Error::new(ErrorKind::Denied, "no")))
            .tool("slow", slow);
        let source = BrokenSource {
            inner: Arc::new(inner),
            flaw,
            asked: AtomicUsize::new(0),
            busy: Mutex::new(false),
        };
        SourceFixture::new(Arc::new(source))
            .example("a", "{}")
            .example("b", r#"{"x":1}"#)
            .failing("fail", "{}")
            .slow("slow", "{}")
    })
}

#[tokio::test]
async fn broken_sources_are_found() {
    use SourceFlaw::*;
    haft_testkit::run_all(sources(None)).await.assert_kept();
    let found = [
        (ListsToolsInAnyOrder, "tools_are_listed_alike"),
        (HasOneToolTwice, "tools_describe_themselves"),
        (LeavesSlotsEmpty, "every_slot_is_filled"),
        (AnswersTwice, "every_slot_is_filled"),
        (AnswersOthers, "every_slot_is_filled"),
        (ForgetsEqualCalls, "one_call_twice_is_two_calls"),
        (TakesTenCallsOnly, "a_large_batch_is_filled"),
        (FailsWithoutCalls, "an_empty_batch_ends"),
        (FailsAtUnknownTools, "an_unknown_tool_fails_alone"),
        (FailsWithOneCall, "a_failing_call_fails_alone"),
        (StopsAtARefusal, "a_refused_answer_is_no_matter"),
        (AnswersAllAtTheEnd, "answers_come_as_soon_as_they_are_known"),
        (GoesOnWhenDropped, "a_dropped_batch_is_over"),
        (IsNeverReadyAgain, "a_dropped_batch_is_over"),
    ];
    let cases = found.map(|(flaw, name)| (format!("{flaw:?}"), sources(flaw), name));
    all_broken(cases.into()).await;
}
