//! Calls that can't succeed.

use super::subject::{Subject, context, run};
use crate::fixture::tool_context;
use crate::suite::Checked;
use crate::suite::expect::{claimed, ensure};
use crate::suite::outcome::{describe, failed};
use crate::suite::schema::{misfits, schema};

pub(in crate::suite) async fn arguments_that_do_not_fit_are_an_error(subject: Subject) -> Checked {
    let workspace = subject.workspace().await?;
    let mut tried = 0;
    for tool in subject.tools()?.iter() {
        let mut misfits = misfits(&schema(tool.spec())?);
        misfits.retain(|misfit| misfit.must_fail);
        for misfit in misfits {
            tried += 1;
            let outcome = run(&**tool, &misfit.arguments, context(&**tool, &workspace)).await?;
            ensure!(
                failed(&outcome),
                "expected {}({}) to be an error, got {}",
                tool.spec().name,
                misfit.arguments,
                describe(&outcome)
            );
        }
    }
    claimed(tried > 0, "no tool requires anything")
}

pub(in crate::suite) async fn any_garbage_comes_to_an_end(subject: Subject) -> Checked {
    let workspace = subject.workspace().await?;
    for tool in subject.tools()?.iter() {
        for misfit in misfits(&schema(tool.spec())?) {
            drop(run(&**tool, &misfit.arguments, context(&**tool, &workspace)).await?);
        }
    }
    Ok(())
}

pub(in crate::suite) async fn a_missing_workspace_is_an_error(subject: Subject) -> Checked {
    let mut examples = subject.examples()?;
    examples.retain(|(tool, _)| tool.spec().effects.needs_workspace());
    claimed(
        !examples.is_empty(),
        "no tool with an example declares the workspace",
    )?;
    for (tool, arguments) in examples {
        let outcome = run(&*tool, arguments, tool_context()).await?;
        ensure!(
            failed(&outcome),
            "expected {}({arguments}) to fail without its workspace, got {}",
            tool.spec().name,
            describe(&outcome)
        );
    }
    Ok(())
}
