//! Calls that fail, and their siblings.

use std::sync::Arc;

use super::board::Board;
use super::subject::{Subject, ids};
use crate::suite::expect::{claimed, same};
use crate::suite::schema::{misfits, schema};
use crate::suite::{Checked, Unmet};

pub(in crate::suite) async fn an_unknown_tool_fails_alone(subject: Subject) -> Checked {
    for name in ["haft_conformance_unknown", "", "a b", "../x"] {
        subject.fails_alone((name, "{}")).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn garbage_fails_alone(subject: Subject) -> Checked {
    let mut tried = 0;
    for spec in subject.tools().await? {
        for misfit in misfits(&schema(&spec)?) {
            if misfit.must_fail {
                tried += 1;
                subject
                    .fails_alone((spec.name.as_str(), &misfit.arguments))
                    .await?;
            }
        }
    }
    claimed(tried > 0, "no tool requires anything")
}

pub(in crate::suite) async fn a_failing_call_fails_alone(subject: Subject) -> Checked {
    let failing = &subject.fixture.failing;
    claimed(!failing.is_empty(), "the fixture has no failing call")?;
    for (name, arguments) in failing {
        subject.fails_alone((name, arguments)).await?;
    }
    Ok(())
}

pub(in crate::suite) async fn a_refused_answer_is_no_matter(subject: Subject) -> Checked {
    let example = subject.examples()?[0];
    let batch = subject.batch(&[example; 3]);
    let ids = ids(&batch);
    for refused in &ids {
        let board = Arc::new(Board::new(ids.iter().cloned()).refusing(refused));
        subject.call(batch.clone(), &board).await?;
        board.check()?;
        let filled: Vec<_> = board.take().into_keys().collect();
        let others: Vec<_> = ids.iter().filter(|id| *id != refused).cloned().collect();
        same("the slots that were filled", &others, &filled)?;
    }
    Ok::<_, Unmet>(())
}
