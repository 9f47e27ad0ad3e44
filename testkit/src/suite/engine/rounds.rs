//! Rounds, from request to end.

use futures::future::join_all;
use haft_api::{FinishReason, ToolChoice};

use super::subject::Subject;
use crate::suite::expect::{ensure, ok, same};
use crate::suite::{Checked, Unmet};

pub(in crate::suite) async fn text_is_produced(subject: Subject) -> Checked {
    subject.answered(subject.request()).await.map(drop)
}

pub(in crate::suite) async fn a_round_ends_once(subject: Subject) -> Checked {
    let played = subject.play(subject.request()).await?;
    let plain = matches!(played.reason, FinishReason::End | FinishReason::Length);
    ensure!(
        plain,
        "expected a plain answer to be said to its end, got {:?}",
        played.reason
    );
    Ok(())
}

pub(in crate::suite) async fn a_named_model_answers(subject: Subject) -> Checked {
    let default = ok("the default model", subject.engine().model(None).await)?;
    let mut request = subject.request();
    request.model.get_or_insert(default.name);
    subject.answered(request).await.map(drop)
}

pub(in crate::suite) async fn usage_adds_up(subject: Subject) -> Checked {
    let played = subject.play(subject.request()).await?;
    let Some(usage) = played.usage else {
        return Err(Unmet::NotClaimed(
            "the engine says nothing of tokens".to_owned(),
        ));
    };
    for (part, whole, what) in [
        (
            usage.cached,
            usage.input,
            "cached tokens to be among those read",
        ),
        (
            usage.cache_write,
            usage.input,
            "tokens written to a cache to be among those read",
        ),
        (
            usage.reasoning,
            usage.output,
            "reasoning tokens to be among those written",
        ),
    ] {
        ensure!(
            part <= whole || part.is_none(),
            "expected {what}, got {usage:?}"
        );
    }
    Ok(())
}

pub(in crate::suite) async fn rounds_follow_one_another(subject: Subject) -> Checked {
    let request = subject.request();
    for _ in 0..3 {
        subject.answered(request.clone()).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn rounds_run_side_by_side(subject: Subject) -> Checked {
    let rounds = (0..8).map(|_| {
        let subject = subject.clone();
        tokio::spawn(async move { subject.answered(subject.request()).await })
    });
    for round in join_all(rounds).await {
        round.map_err(|e| format!("expected a round to end, got: {e}"))??;
    }
    Ok(())
}

pub(in crate::suite) async fn calls_are_whole(subject: Subject) -> Checked {
    let Some((prompt, tool)) = &subject.fixture.calling else {
        return Err(Unmet::NotClaimed(
            "the fixture has no prompt for a call".to_owned(),
        ));
    };
    let mut request = subject.fixture.request(vec![haft_api::Item::user(prompt)]);
    request.tools = [tool.clone()].into();
    request.tool_choice = ToolChoice::Auto;
    let played = subject.play(request).await?;
    ensure!(
        !played.calls.is_empty(),
        "expected a call of {}, got {played:?}",
        tool.name
    );
    for call in &played.calls {
        same("the tool that is called", tool.name.as_str(), &*call.name)?;
        let arguments = call.arguments.trim();
        let parsed = serde_json::from_str::<serde_json::Value>(arguments);
        ensure!(
            arguments.is_empty() || parsed.is_ok(),
            "expected a call's arguments to be whole, got {arguments:?}"
        );
    }
    same(
        "why the round ended",
        &FinishReason::ToolCalls,
        &played.reason,
    )
}
