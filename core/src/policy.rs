//! What may run: the mode's word and all contributors', the tightest of them.

use haft_api::{Decision, Effects, ExtensionId, PolicyRequest, ToolCall};

use crate::dispatch::Round;
use crate::guard;

/// The tightest of all words on a call of that extension's with these effects.
/// A contributor that fails or panics counts as a denial that names it.
pub(crate) async fn decide(
    round: &Round,
    call: &ToolCall,
    effects: Effects,
    extension: Option<&ExtensionId>,
) -> Decision {
    let mut decision = round.mode.decide(effects);
    for policy in round.policies.iter() {
        let mut request = PolicyRequest::new(
            round.thread.clone(),
            round.turn.clone(),
            call.clone(),
            effects,
        );
        request.extension = extension.cloned();
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
