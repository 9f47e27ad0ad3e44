//! The suite for [`PolicyContributor`]s.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{Decision, Effects, PolicyContributor, PolicyMode, PolicyRequest, Result};

use super::declare::collect_cases;
use super::expect::soon;
use super::{Case, Unmet};
use crate::fixture::{thread_id, tool_call, turn_id};

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __policy_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            the_policy_id_is_constant: "the id is the same at every call",
            every_call_is_decided: "a decision, or an error, comes for calls of every kind, in time and without a panic",
            reasons_say_something: "whoever is asked, or denied, is told why",
            decisions_are_stable: "the same call is decided in the same way",
            reviews_run_side_by_side: "50 calls at once are decided as one after another",
            a_dropped_review_harms_nothing: "after reviews that were dropped half-way, calls are decided as before",
        }
    };
}

/// All cases for a say in policy.
///
/// For one test per case use [`policy_conformance!`](crate::policy_conformance).
pub fn policy_suite(
    make: impl Fn() -> Arc<dyn PolicyContributor> + Send + Sync + 'static,
) -> Vec<Case> {
    crate::__policy_cases! { collect_cases [make] }
}

/// Declares one test for each promise of a [`PolicyContributor`]. The argument
/// makes one.
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
///
/// struct NoNetwork(ExtensionId);
///
/// #[async_trait]
/// impl PolicyContributor for NoNetwork {
///     fn id(&self) -> &ExtensionId {
///         &self.0
///     }
///     async fn review(&self, request: PolicyRequest) -> Result<Decision> {
///         Ok(if request.effects.network {
///             Decision::Deny { reason: "there is no network here".to_owned() }
///         } else {
///             Decision::Allow
///         })
///     }
/// }
///
/// haft_testkit::policy_conformance!(|| {
///     let id = ExtensionId::new("no-network").unwrap();
///     Arc::new(NoNetwork(id)) as Arc<dyn PolicyContributor>
/// });
/// # #[tokio::main]
/// # async fn main() {
/// # haft_testkit::run_all(policy_conformance::cases()).await.assert_kept();
/// # }
/// ```
#[macro_export]
macro_rules! policy_conformance {
    ($make:expr) => {
        $crate::__policy_cases! {
            $crate::__declare_tests [policy_conformance, $crate::policy_suite, $make]
        }
    };
}

/// Calls of every kind: names, arguments, effects and modes.
fn requests() -> Vec<PolicyRequest> {
    let effects = [
        Effects::PURE,
        Effects::READS,
        Effects::WRITES,
        Effects::COMMANDS,
        Effects::NETWORK,
        Effects::UNDECLARED,
    ];
    let modes = [
        PolicyMode::Ask,
        PolicyMode::AcceptEdits,
        PolicyMode::Plan,
        PolicyMode::Bypass,
    ];
    let arguments = [
        "{}",
        r#"{"path":"../../etc/passwd","command":"rm -rf /"}"#,
        r#"{"command":["sh","-c",null],"path":7}"#,
        r#"{"":{"\u0000":[1e300,"ä 中 😀"]}}"#,
    ];
    let mut requests = Vec::new();
    for effects in effects {
        for mode in modes {
            for arguments in arguments {
                for name in ["run", "fs.write", "no such tool", ""] {
                    let call = tool_call("c1", name, arguments);
                    let (thread, turn) = (thread_id("thread"), turn_id("turn"));
                    let mut request = PolicyRequest::new(thread, turn, call, effects);
                    request.mode = mode;
                    requests.push(request);
                }
            }
        }
    }
    requests
}

/// How long a decision may take that nobody is asked for.
const SOON: Duration = Duration::from_secs(10);

async fn review(
    policy: &Arc<dyn PolicyContributor>,
    request: &PolicyRequest,
) -> Result<Result<Decision>, Unmet> {
    let what = format!("a decision on {request:?}");
    soon(&what, SOON, policy.review(request.clone())).await
}

/// A decision in a word; an error is a denial.
fn word(decision: &Result<Decision>) -> &'static str {
    match decision {
        Ok(Decision::Allow) => "allow",
        Ok(Decision::Ask { .. }) => "ask",
        Ok(Decision::Deny { .. }) => "deny",
        Err(_) => "error",
    }
}

/// The functions behind the names of the list.
mod cases {
    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;
    use crate::suite::Checked;
    use crate::suite::expect::{ensure, same};

    type Policy = Arc<dyn PolicyContributor>;

    pub(super) async fn the_policy_id_is_constant(policy: Policy) -> Checked {
        let id = policy.id().clone();
        drop(review(&policy, &requests()[0]).await?);
        same("the id after a review", &id, policy.id())
    }

    pub(super) async fn every_call_is_decided(policy: Policy) -> Checked {
        for request in requests() {
            drop(review(&policy, &request).await?);
        }
        Ok(())
    }

    pub(super) async fn reasons_say_something(policy: Policy) -> Checked {
        for request in requests() {
            let decision = review(&policy, &request).await?;
            if let Ok(Decision::Ask { reason } | Decision::Deny { reason }) = &decision {
                ensure!(
                    reason.trim().len() >= 3,
                    "expected a reason, got {decision:?} for {request:?}"
                );
            }
        }
        Ok(())
    }

    pub(super) async fn decisions_are_stable(policy: Policy) -> Checked {
        for request in requests() {
            let first = review(&policy, &request).await?;
            let again = review(&policy, &request).await?;
            let what = format!("the decision on {request:?}, asked again");
            same(&what, word(&first), word(&again))?;
        }
        Ok(())
    }

    pub(super) async fn reviews_run_side_by_side(policy: Policy) -> Checked {
        let requests: Vec<_> = requests().into_iter().step_by(7).take(50).collect();
        let mut expected = Vec::new();
        for request in &requests {
            expected.push(word(&review(&policy, request).await?));
        }
        let reviews = requests.into_iter().map(|request| {
            let policy = Arc::clone(&policy);
            tokio::spawn(async move { Ok::<_, Unmet>(word(&review(&policy, &request).await?)) })
        });
        let mut got = Vec::new();
        for review in join_all(reviews).await {
            got.push(review.map_err(|e| format!("expected a decision, got: {e}"))??);
        }
        same("the decisions, side by side", &expected, &got)
    }

    pub(super) async fn a_dropped_review_harms_nothing(policy: Policy) -> Checked {
        let requests = requests();
        let mut before = Vec::new();
        for request in &requests {
            before.push(word(&review(&policy, request).await?));
        }
        for request in &requests {
            drop(policy.review(request.clone()).now_or_never());
        }
        for (request, before) in requests.iter().zip(before) {
            let after = word(&review(&policy, request).await?);
            same(
                &format!("the decision on {request:?}, after dropped ones"),
                before,
                after,
            )?;
        }
        Ok(())
    }
}
