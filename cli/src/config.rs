//! Settings, from everywhere they may come from, later over earlier: built in,
//! the user's file, the workspace's file, the environment, flags.

mod environment;
mod file;
mod layer;
mod paths;
mod runner;
mod settings;
mod workspace_file;

pub(crate) use environment::Environment;
pub(crate) use file::explain;
pub(crate) use layer::Layer;
pub(crate) use paths::{extensions_folder, user_file, workspace};
pub(crate) use runner::{EXTENSION as RUNNER_EXTENSION, Runner};
pub(crate) use settings::{Settings, Sources};

/// The nearest of some names, if one is near.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
