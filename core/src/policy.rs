//! What may run: the mode's word and all contributors', the tightest of them.

use haft_api::{Decision, PolicyRequest};

use crate::dispatch::Planned;
use crate::dispatch::Round;
use crate::guard;

/// The tightest of all words on a call. A contributor that fails or panics
/// counts as a denial that names it.
pub(crate) async fn decide(round: &Round, planned: &Planned) -> Decision {
    let effects = planned.entry.effects();
    let mut decision = round.mode.decide(effects);
    for policy in round.policies.iter() {
        let mut request = PolicyRequest::new(
            round.thread.clone(),
            round.turn.clone(),
            planned.call.clone(),
            effects,
        );
        request.extension = planned.entry.extension.clone();
        request.mode = round.mode;
        let id = policy.id();
        let word = guard::future(id.as_str(), policy.review(request)).await;
        let word = word.unwrap_or_else(|error| Decision::Deny {
            reason: format!("the policy `{id}` failed: {error}"),
        });
        decision = decision.max(word);
    }
    decision
}
