//! Calls that succeed.

use futures::FutureExt;
use futures::future::join_all;

use super::subject::{Subject, context, run};
use crate::fixture::{tool_call, tool_context};
use crate::suite::expect::{claimed, ensure};
use crate::suite::outcome::{describe, failed, well_formed};
use crate::suite::{Checked, Unmet};

/// Runs every example in one fresh workspace; each must succeed.
async fn all_succeed(subject: &Subject) -> Checked {
    let workspace = subject.workspace().await?;
    for (tool, arguments) in subject.examples()? {
        let outcome = run(&*tool, arguments, context(&*tool, &workspace)).await?;
        ensure!(
            !failed(&outcome),
            "expected {}({arguments}) to succeed, got {}",
            tool.spec().name,
            describe(&outcome)
        );
    }
    Ok(())
}

pub(in crate::suite) async fn examples_succeed(subject: Subject) -> Checked {
    all_succeed(&subject).await
}

pub(in crate::suite) async fn results_are_fit_for_models(subject: Subject) -> Checked {
    let workspace = subject.workspace().await?;
    for (tool, arguments) in subject.examples()? {
        if let Ok(output) = run(&*tool, arguments, context(&*tool, &workspace)).await? {
            well_formed(&format!("{}({arguments})", tool.spec().name), &output)?;
        }
    }
    Ok(())
}

pub(in crate::suite) async fn an_undeclared_workspace_is_not_needed(subject: Subject) -> Checked {
    let mut examples = subject.examples()?;
    examples.retain(|(tool, _)| !tool.spec().effects.needs_workspace());
    claimed(
        !examples.is_empty(),
        "every tool with an example declares the workspace",
    )?;
    for (tool, arguments) in examples {
        let outcome = run(&*tool, arguments, tool_context()).await?;
        ensure!(
            !failed(&outcome),
            "expected {}({arguments}) to succeed without a workspace, got {}",
            tool.spec().name,
            describe(&outcome)
        );
    }
    Ok(())
}

pub(in crate::suite) async fn a_dropped_call_harms_nothing(subject: Subject) -> Checked {
    let examples = subject.examples()?;
    // In a workspace of their own: half of an example may have happened.
    let workspace = subject.workspace().await?;
    for polls in 0..4 {
        for (tool, arguments) in &examples {
            let call = tool_call("dropped", tool.spec().name.as_str(), arguments);
            let mut running = tool.execute(call, context(&**tool, &workspace));
            for _ in 0..polls {
                if (&mut running).now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
    all_succeed(&subject).await
}

pub(in crate::suite) async fn reading_calls_run_side_by_side(subject: Subject) -> Checked {
    let workspace = subject.workspace().await?;
    let mut readers = Vec::new();
    for (tool, arguments) in subject.examples()? {
        if tool.spec().effects.is_read_only() {
            readers.push((tool, arguments.to_owned()));
        } else {
            // A reader may build on what an earlier example has written.
            drop(run(&*tool, arguments, context(&*tool, &workspace)).await?);
        }
    }
    claimed(!readers.is_empty(), "no tool with an example is read-only")?;
    let calls = (0..4).flat_map(|_| &readers).map(|(tool, arguments)| {
        let (tool, arguments) = (tool.clone(), arguments.clone());
        let context = context(&*tool, &workspace);
        tokio::spawn(async move {
            let outcome = run(&*tool, &arguments, context).await?;
            ensure!(
                !failed(&outcome),
                "expected {}({arguments}) to succeed beside others, got {}",
                tool.spec().name,
                describe(&outcome)
            );
            Ok::<_, Unmet>(())
        })
    });
    for outcome in join_all(calls).await {
        outcome.map_err(|e| format!("expected a call to end, got: {e}"))??;
    }
    Ok(())
}
