//! The engine suite fails on engines that break a promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use haft_api::*;
use haft_testkit::{EngineFixture, Round, ScriptedEngine, Verdict, engine_suite};

/// How an engine is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    NeverFinishes,
    FinishesTwice,
    GoesOnAfterTheEnd,
    SaysNothing,
    EndsWithAnError,
    IsNeverReady,
    ThinksLongOfReadiness,
    HasNoModels,
    HasOneModelTwice,
    ListsModelsInAnyOrder,
    HasAnotherDefault,
    RenamesModels,
    RefusesNamedModels,
    CountsWrong,
    AnswersOnce,
    AnswersOneAtATime,
    NeverGivesUpAPlace,
    RefusesResults,
    ReadsForeignState,
    TrustsItsMemo,
    RefusesLongNames,
    CutsCalls,
    EndsCallsPlainly,
}

struct Broken {
    id: ExtensionId,
    inner: ScriptedEngine,
    flaw: Flaw,
    asked: AtomicUsize,
    busy: Arc<AtomicUsize>,
}

/// Gives a place back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn refuse(message: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[async_trait]
impl InferenceEngine for Broken {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn readiness(&self) -> Readiness {
        match self.flaw {
            Flaw::IsNeverReady => Readiness::Unavailable {
                reason: "no".to_owned(),
            },
            Flaw::ThinksLongOfReadiness => {
                tokio::time::sleep(Duration::from_secs(30)).await;
                Readiness::Ready
            }
            _ => Readiness::Ready,
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let names: &[&str] = match self.flaw {
            Flaw::HasNoModels => &[],
            Flaw::HasOneModelTwice => &["a", "b", "a"],
            Flaw::ListsModelsInAnyOrder if asked % 2 == 1 => &["b", "a"],
            _ => &["a", "b"],
        };
        Ok(names.iter().copied().map(ModelInfo::new).collect())
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        Ok(match (self.flaw, name) {
            (Flaw::HasAnotherDefault, None) => ModelInfo::new("b"),
            (Flaw::RenamesModels, Some(_)) => ModelInfo::new("a"),
            (_, name) => ModelInfo::new(name.unwrap_or("a")),
        })
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let items = request.history.items();
        let has = |test: fn(&Item) -> bool| items.iter().any(|item| test(item));
        match self.flaw {
            Flaw::AnswersOnce if asked > 0 => return Err(refuse("once is enough")),
            Flaw::RefusesNamedModels if request.model.is_some() => {
                return Err(refuse("no such model"));
            }
            Flaw::RefusesResults if has(|item| matches!(item, Item::ToolResult(_))) => {
                return Err(refuse("no results here"));
            }
            Flaw::ReadsForeignState
                if has(|item| matches!(item, Item::Reasoning { state: Some(_), .. })) =>
            {
                return Err(refuse("what a strange signature"));
            }
            Flaw::RefusesLongNames if request.tools.iter().any(|t| t.name.as_str().len() > 64) => {
                return Err(refuse("that name is too long"));
            }
            Flaw::TrustsItsMemo => {
                let known = request.memo.take::<u64>();
                request.memo.put(Box::new(request.history.generation()));
                if known.is_some_and(|known| *known != request.history.generation()) {
                    return Err(refuse("this isn't the history I know"));
                }
            }
            _ => {}
        }
        let limit = match self.flaw {
            Flaw::AnswersOneAtATime => 1,
            Flaw::NeverGivesUpAPlace => 10,
            _ => usize::MAX,
        };
        if self.busy.fetch_add(1, Ordering::SeqCst) >= limit {
            self.busy.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::Busy, "no place is free"));
        }
        let place = Place(Arc::clone(&self.busy));
        let calls = !request.tools.is_empty() && request.tools[0].name == "some.tool";
        let flaw = self.flaw;
        self.inner.push(match flaw {
            Flaw::NeverFinishes => Round::new().text("Hello.").cut(),
            Flaw::FinishesTwice => Round::new()
                .text("Hello.")
                .finish(FinishReason::End)
                .finish(FinishReason::End),
            Flaw::GoesOnAfterTheEnd => Round::new()
                .text("Hello.")
                .finish(FinishReason::End)
                .text("And"),
            Flaw::SaysNothing => Round::new(),
            Flaw::EndsWithAnError => Round::new().text("Hello.").error(refuse("oh")),
            Flaw::CutsCalls if calls => Round::new().call("c", "some.tool", r#"{"a":"#),
            Flaw::EndsCallsPlainly if calls => Round::new()
                .call("c", "some.tool", "{}")
                .finish(FinishReason::End),
            _ if calls => Round::new().call("c", "some.tool", "{}"),
            Flaw::CountsWrong => Round::new().text("Hello.").event(EngineEvent::Usage(Usage {
                input: Some(10),
                cached: Some(20),
                ..Usage::default()
            })),
            _ => Round::new().text("Hello.").usage(10, 2),
        });
        let stream = self.inner.stream_turn(request).await?;
        let last =
            move |event: &Result<EngineEvent>| matches!(event, Ok(EngineEvent::Finished { .. }));
        let mut place = Some(place);
        Ok(Box::pin(stream.inspect(move |event| match flaw {
            // Only a stream that is read to its end gives its place back.
            Flaw::NeverGivesUpAPlace if last(event) => drop(place.take()),
            Flaw::NeverGivesUpAPlace => {
                if let Some(place) = place.take() {
                    std::mem::forget(place);
                }
            }
            _ => {}
        })))
    }
}

fn fixture(flaw: Flaw) -> EngineFixture {
    let engine = Broken {
        id: ExtensionId::new("broken").unwrap(),
        inner: ScriptedEngine::new().lenient(),
        flaw,
        asked: AtomicUsize::new(0),
        busy: Arc::default(),
    };
    let tool = ToolSpec::new(ToolName::new("some.tool").unwrap(), "A tool.");
    EngineFixture::new(Arc::new(engine)).calling("Call it.", tool)
}

#[tokio::test]
async fn an_honest_wrapper_passes() {
    haft_testkit::run_all(engine_suite(|| fixture(Flaw::None)))
        .await
        .assert_kept();
}

/// Each flaw, and a case that it must break.
const FOUND: &[(Flaw, &str)] = &[
    (Flaw::NeverFinishes, "a_round_ends_once"),
    (Flaw::FinishesTwice, "a_round_ends_once"),
    (Flaw::GoesOnAfterTheEnd, "a_round_ends_once"),
    (Flaw::SaysNothing, "text_is_produced"),
    (Flaw::EndsWithAnError, "a_round_ends_once"),
    (Flaw::IsNeverReady, "readiness_is_told_soon"),
    (Flaw::ThinksLongOfReadiness, "readiness_is_told_soon"),
    (Flaw::HasNoModels, "models_are_listed"),
    (Flaw::HasOneModelTwice, "models_are_listed"),
    (Flaw::ListsModelsInAnyOrder, "models_are_listed"),
    (Flaw::HasAnotherDefault, "the_default_model_is_the_first"),
    (Flaw::RenamesModels, "a_listed_model_is_known"),
    (Flaw::RenamesModels, "an_unlisted_model_is_named_or_refused"),
    (Flaw::RefusesNamedModels, "a_named_model_answers"),
    (Flaw::CountsWrong, "usage_adds_up"),
    (Flaw::AnswersOnce, "rounds_follow_one_another"),
    (Flaw::AnswersOnce, "a_growing_history_is_answered"),
    (Flaw::AnswersOneAtATime, "rounds_run_side_by_side"),
    (Flaw::NeverGivesUpAPlace, "a_dropped_stream_harms_nothing"),
    (Flaw::RefusesResults, "every_kind_of_item_is_taken"),
    (Flaw::ReadsForeignState, "a_foreign_state_is_left_out"),
    (Flaw::TrustsItsMemo, "a_memo_may_be_anything"),
    (Flaw::RefusesLongNames, "tools_of_any_name_are_taken"),
    (Flaw::CutsCalls, "calls_are_whole"),
    (Flaw::EndsCallsPlainly, "calls_are_whole"),
];

#[tokio::test]
async fn broken_engines_are_found() {
    let checks = FOUND.iter().map(|&(flaw, name)| async move {
        let cases = engine_suite(move || fixture(flaw));
        let case = cases.iter().find(|case| case.name() == name);
        match case.unwrap_or_else(|| panic!("no case {name}")).run().await {
            Verdict::Broken { .. } => None,
            other => Some(format!("{flaw:?}: {name}: {other:?}")),
        }
    });
    let missed: Vec<_> = join_all(checks).await.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
