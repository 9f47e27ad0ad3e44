//! `haft ext`: extensions.

use std::io::Write as _;

use crate::args::ExtCommand;
use crate::commands::print;
use crate::failure::{DONE, Outcome};
use crate::render::write_line;

pub(super) fn run(command: &ExtCommand) -> Outcome {
    let ExtCommand::List { json } = command;
    let manifests = haft::builder().manifests()?;
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
