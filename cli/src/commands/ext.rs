//! `haft ext`: extensions.

use std::io::Write as _;

use super::opening;
use crate::args::{ExtCommand, Language, PlaceArgs};
use crate::commands::print;
use crate::failure::{DONE, Outcome};
use crate::plugins;
use crate::render::write_line;

#[cfg(feature = "lua")]
mod lua;
mod rust;

pub(super) fn run(command: &ExtCommand, place: &PlaceArgs) -> Outcome {
    match command {
        ExtCommand::List { json } => list(place, *json),
        ExtCommand::New { language, name } => new(language, name),
        #[cfg(feature = "plugins")]
        ExtCommand::Check { path } if plugins::is_shared_object(path) => {
            let lines = plugins::check(path)?;
            print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
            Ok(DONE)
        }
        #[cfg(feature = "lua")]
        ExtCommand::Check { path } => super::block_on(lua::check(path)),
        #[cfg(not(feature = "lua"))]
        ExtCommand::Check { path } => Err(crate::failure::Failure::usage(format!(
            "{}: this program has no host for it",
            path.display()
        ))),
    }
}

fn new(language: &Language, name: &str) -> Outcome {
    #[cfg(feature = "lua")]
    if language.lua {
        return lua::new(name);
    }
    debug_assert!(language.rust, "the command line names one language");
    rust::new(name)
}

/// What is linked, and what the user's configuration loads.
fn list(place: &PlaceArgs, json: bool) -> Outcome {
    let mut manifests = haft::builder().manifests()?;
    for extension in plugins::load(&opening::settings(place)?.plugins)? {
        manifests.push(extension.manifest()?);
    }
    manifests.sort_by(|a, b| a.id.cmp(&b.id));
    let width = manifests
        .iter()
        .map(|manifest| manifest.id.as_str().len())
        .max()
        .unwrap_or(0);
    print(|out| {
        manifests.iter().try_for_each(|manifest| match json {
            true => write_line(out, manifest),
            false => writeln!(
                out,
                "{:width$}  {}  {}",
                manifest.id, manifest.version, manifest.description
            ),
        })
    })?;
    Ok(DONE)
}
