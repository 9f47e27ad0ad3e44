//! What a source says of itself.

use super::subject::Subject;
use crate::suite::Checked;
use crate::suite::expect::same;
use crate::suite::outcome::well_formed;
use crate::suite::schema::{check_specs, same_specs};

pub(in crate::suite) async fn the_source_id_is_constant(subject: Subject) -> Checked {
    let id = subject.source().id().clone();
    subject.all_succeed(&subject.examples()?).await?;
    same("the id after a batch", &id, subject.source().id())
}

pub(in crate::suite) async fn tools_describe_themselves(subject: Subject) -> Checked {
    check_specs(&subject.tools().await?)
}

pub(in crate::suite) async fn tools_are_listed_alike(subject: Subject) -> Checked {
    let first = subject.tools().await?;
    same_specs("the tools, listed again", &first, &subject.tools().await?)?;
    subject.all_succeed(&subject.examples()?).await?;
    same_specs(
        "the tools, listed after a batch",
        &first,
        &subject.tools().await?,
    )
}

pub(in crate::suite) async fn results_are_fit_for_models(subject: Subject) -> Checked {
    let examples = subject.examples()?;
    let outcomes = subject.run(&examples).await?;
    for (outcome, (name, arguments)) in outcomes.iter().zip(examples) {
        if let Ok(output) = outcome {
            well_formed(&format!("{name}({arguments})"), output)?;
        }
    }
    Ok(())
}
