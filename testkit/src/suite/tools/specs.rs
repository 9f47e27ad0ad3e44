//! What tools say of themselves.

use super::subject::{Subject, context, run};
use crate::suite::Checked;
use crate::suite::expect::ensure;
use crate::suite::schema::{check_specs, same_specs, schema};

pub(in crate::suite) async fn tools_describe_themselves(subject: Subject) -> Checked {
    let tools = subject.tools()?;
    check_specs(tools.iter().map(|tool| tool.spec()))
}

pub(in crate::suite) async fn contributing_again_gives_the_same(subject: Subject) -> Checked {
    let first = subject.tools()?;
    for _ in 0..3 {
        let again = subject.tools()?;
        let (first, again) = (
            first.iter().map(|t| t.spec()),
            again.iter().map(|t| t.spec()),
        );
        same_specs("the tools, contributed again", first, again)?;
    }
    Ok(())
}

pub(in crate::suite) async fn specs_stay_as_they_are(subject: Subject) -> Checked {
    let workspace = subject.workspace().await?;
    for (tool, arguments) in subject.examples()? {
        let before = tool.spec().clone();
        drop(run(&*tool, arguments, context(&*tool, &workspace)).await?);
        same_specs("the spec after a call", [&before], [tool.spec()])?;
    }
    Ok(())
}

pub(in crate::suite) async fn examples_name_tools(subject: Subject) -> Checked {
    for (tool, arguments) in subject.examples()? {
        let schema = schema(tool.spec())?;
        let value: serde_json::Value = serde_json::from_str(arguments)
            .map_err(|e| format!("expected an example's arguments to be JSON, got: {e}"))?;
        let problem = schema
            .validator
            .validate(&value)
            .err()
            .map(|e| e.to_string());
        ensure!(
            problem.is_none(),
            "expected {arguments} to fit the schema of {}, got: {}",
            tool.spec().name,
            problem.unwrap_or_default()
        );
    }
    Ok(())
}
