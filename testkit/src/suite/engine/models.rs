//! What an engine says of itself and its models.

use std::collections::BTreeSet;
use std::time::Duration;

use haft_api::{ModelInfo, Readiness};

use super::subject::Subject;
use crate::suite::expect::{ensure, ok, same, soon};
use crate::suite::{Checked, Unmet};

/// "About a second", on a busy machine.
const SOON: Duration = Duration::from_secs(5);

pub(in crate::suite) async fn the_id_is_constant(subject: Subject) -> Checked {
    let id = subject.engine().id().clone();
    subject.play(subject.request()).await?;
    same("the id after a round", &id, subject.engine().id())
}

pub(in crate::suite) async fn readiness_is_told_soon(subject: Subject) -> Checked {
    for _ in 0..3 {
        let told = soon("a word on readiness", SOON, subject.engine().readiness()).await?;
        same("the readiness", &Readiness::Ready, &told)?;
    }
    Ok(())
}

async fn models(subject: &Subject) -> Result<Vec<ModelInfo>, Unmet> {
    ok("listing the models", subject.engine().models().await)
}

pub(in crate::suite) async fn models_are_listed(subject: Subject) -> Checked {
    let first = models(&subject).await?;
    ensure!(!first.is_empty(), "expected at least one model, got none");
    let names: BTreeSet<_> = first.iter().map(|model| model.name.trim()).collect();
    ensure!(
        !names.contains(""),
        "expected every model to have a name, got {first:?}"
    );
    same("different names", &first.len(), &names.len())?;
    same("the models, asked again", &first, &models(&subject).await?)
}

pub(in crate::suite) async fn the_default_model_is_the_first(subject: Subject) -> Checked {
    let default = ok("the default model", subject.engine().model(None).await)?;
    let first = models(&subject).await?.into_iter().next();
    same("the default model", &first, &Some(default))
}

pub(in crate::suite) async fn a_listed_model_is_known(subject: Subject) -> Checked {
    for model in models(&subject).await? {
        let known = subject.engine().model(Some(&model.name)).await;
        same("a model by its name", &model, &ok("a listed model", known)?)?;
    }
    Ok(())
}

pub(in crate::suite) async fn an_unlisted_model_is_named_or_refused(subject: Subject) -> Checked {
    let name = "haft-conformance-unknown-model";
    if let Ok(model) = subject.engine().model(Some(name)).await {
        same("its name", name, &model.name)?;
    }
    Ok(())
}
