//! The suites for extensions, policies and event sinks: what they pass, and
//! what they find.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft_api::*;
use haft_testkit::{
    Case, EchoTool, ExtensionFixture, Journal, ScriptedEngine, Tools, event_sink_suite,
    extension_suite, policy_suite, run_all,
};

/// Runs a suite; exactly these cases must be broken.
async fn check(what: &str, cases: Vec<Case>, expected: &[&str]) {
    let report = run_all(cases).await;
    assert_eq!(report.broken(), expected, "{what}\n{report}");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ExtensionFlaw {
    None,
    ChangesItsVersion,
    HasNoVersion,
    HasNoDescription,
    BringsNothing,
    BringsOthersEachTime,
    StartsATask,
    TakesItsTime,
    BringsToolsTwice,
    IgnoresUnknownSettings,
}

struct Broken(ExtensionFlaw, AtomicUsize);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {}

impl Extension for Broken {
    fn manifest(&self) -> Result<Manifest> {
        let version = match self.0 {
            ExtensionFlaw::ChangesItsVersion => {
                format!("1.0.{}", self.1.fetch_add(1, Ordering::SeqCst))
            }
            ExtensionFlaw::HasNoVersion => String::new(),
            _ => "1.0.0".to_owned(),
        };
        let description = match self.0 {
            ExtensionFlaw::HasNoDescription => " ",
            _ => "An extension",
        };
        Manifest::new("broken", version, description)
    }

    fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        if self.0 != ExtensionFlaw::IgnoresUnknownSettings {
            config.parse::<Settings>()?;
        }
        let echo = || Arc::new(Tools::new().with(EchoTool::new("echo")));
        match self.0 {
            ExtensionFlaw::BringsNothing => return Ok(()),
            ExtensionFlaw::BringsOthersEachTime => {
                let number = self.1.fetch_add(1, Ordering::SeqCst);
                to.engine(Arc::new(
                    ScriptedEngine::new().with_id(&format!("engine-{number}")),
                ));
            }
            ExtensionFlaw::StartsATask => drop(tokio::spawn(async {})),
            ExtensionFlaw::TakesItsTime => std::thread::sleep(Duration::from_millis(2100)),
            ExtensionFlaw::BringsToolsTwice => drop(to.tools(echo())),
            _ => {}
        }
        to.tools(echo());
        Ok(())
    }
}

#[tokio::test]
async fn extensions() {
    use ExtensionFlaw::*;
    let check = async |flaw: ExtensionFlaw, expected: &[&str]| {
        let make = move || ExtensionFixture::new(Broken(flaw, AtomicUsize::new(0)));
        check(&format!("{flaw:?}"), extension_suite(make), expected).await;
    };
    check(None, &[]).await;
    check(ChangesItsVersion, &["the_manifest_is_constant"]).await;
    check(HasNoVersion, &["the_manifest_says_what_it_must"]).await;
    check(HasNoDescription, &["the_manifest_says_what_it_must"]).await;
    check(BringsNothing, &["it_brings_something"]).await;
    check(BringsOthersEachTime, &["registering_again_gives_the_same"]).await;
    check(StartsATask, &["registering_starts_nothing"]).await;
    check(TakesItsTime, &["registering_starts_nothing"]).await;
    let of_tools = [
        "it_brings_something",
        "registering_again_gives_the_same",
        "its_tools_can_be_contributed",
    ];
    check(BringsToolsTwice, &of_tools).await;
    check(IgnoresUnknownSettings, &["an_unknown_setting_is_refused"]).await;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PolicyFlaw {
    None,
    PanicsAtOddArguments,
    GivesNoReason,
    ChangesItsMind,
    DecidesOneAtATime,
}

struct BrokenPolicy {
    id: ExtensionId,
    flaw: PolicyFlaw,
    reviews: AtomicUsize,
    running: AtomicUsize,
}

#[async_trait]
impl PolicyContributor for BrokenPolicy {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn review(&self, request: PolicyRequest) -> Result<Decision> {
        let reviews = self.reviews.fetch_add(1, Ordering::SeqCst);
        let deny = |reason: &str| Decision::Deny {
            reason: reason.to_owned(),
        };
        Ok(match self.flaw {
            PolicyFlaw::PanicsAtOddArguments if request.call.arguments.get().contains("null") => {
                panic!("what an odd command")
            }
            PolicyFlaw::GivesNoReason => deny(""),
            PolicyFlaw::ChangesItsMind if reviews % 2 == 1 => deny("not this time"),
            PolicyFlaw::DecidesOneAtATime => {
                let others = self.running.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                if others > 0 {
                    deny("too busy")
                } else {
                    Decision::Allow
                }
            }
            _ if request.effects.runs_commands => deny("no commands here"),
            _ => Decision::Allow,
        })
    }
}

#[tokio::test]
async fn policies() {
    use PolicyFlaw::*;
    let check = async |flaw: PolicyFlaw, expected: &[&str]| {
        let make = move || {
            Arc::new(BrokenPolicy {
                id: ExtensionId::new("broken").unwrap(),
                flaw,
                reviews: AtomicUsize::new(0),
                running: AtomicUsize::new(0),
            }) as Arc<dyn PolicyContributor>
        };
        check(&format!("{flaw:?}"), policy_suite(make), expected).await;
    };
    let all_but_the_id = [
        "every_call_is_decided",
        "reasons_say_something",
        "decisions_are_stable",
        "reviews_run_side_by_side",
        "a_dropped_review_harms_nothing",
    ];
    check(None, &[]).await;
    check(PanicsAtOddArguments, &all_but_the_id).await;
    check(GivesNoReason, &["reasons_say_something"]).await;
    check(ChangesItsMind, &["decisions_are_stable"]).await;
    check(
        DecidesOneAtATime,
        &["reviews_run_side_by_side", "a_dropped_review_harms_nothing"],
    )
    .await;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SinkFlaw {
    PanicsAtLags,
    PanicsAtControlCharacters,
    Sleeps,
}

struct BrokenSink(SinkFlaw);

impl EventSink for BrokenSink {
    fn publish(&self, event: &Event) {
        match (self.0, &event.body) {
            (SinkFlaw::PanicsAtLags, EventBody::Lagged { .. }) => panic!("too late"),
            (SinkFlaw::PanicsAtControlCharacters, EventBody::MessageDelta { text }) => {
                assert!(!text.contains('\0'));
            }
            (SinkFlaw::Sleeps, _) => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
}

#[tokio::test]
async fn event_sinks() {
    let honest = || Arc::new(Journal::new()) as Arc<dyn EventSink>;
    check("honest", event_sink_suite(honest), &[]).await;
    let check = async |flaw: SinkFlaw, expected: &[&str]| {
        let make = move || Arc::new(BrokenSink(flaw)) as Arc<dyn EventSink>;
        check(&format!("{flaw:?}"), event_sink_suite(make), expected).await;
    };
    let of_every_kind = [
        "every_event_is_taken",
        "any_content_is_taken",
        "threads_may_be_mixed",
    ];
    check(SinkFlaw::PanicsAtLags, &of_every_kind).await;
    check(
        SinkFlaw::PanicsAtControlCharacters,
        &["any_content_is_taken"],
    )
    .await;
    check(SinkFlaw::Sleeps, &["publishing_returns_at_once"]).await;
}
