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
///
/// Two measures, since each is blind to something: the first weighs a shared
/// beginning but finds nothing alike in two swapped letters of a short name, the
/// second counts such a slip as one.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    known
        .into_iter()
        .filter_map(|candidate| {
            let alike = strsim::jaro_winkler(name, candidate);
            let slips = strsim::normalized_damerau_levenshtein(name, candidate);
            (alike > 0.7 || slips > 0.6).then_some((alike.max(slips), candidate))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
