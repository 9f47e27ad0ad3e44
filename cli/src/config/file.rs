//! Reading a configuration file.

use std::path::Path;

use super::{Layer, nearest};
use crate::failure::{Failure, Outcome};

/// Reads a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::usage(format!(
            "can't read the configuration {}: {e}",
            path.display()
        ))),
    }
}

/// A file's settings.
pub(super) fn parse(path: &Path, text: &str) -> Outcome<Layer> {
    toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = match line {
            Some(line) => format!("{}:{line}", path.display()),
            None => path.display().to_string(),
        };
        Failure::usage(format!("{place}: {}", explain(error.message())))
    })
}

/// What serde says of a wrong key, with the nearest right one.
pub(crate) fn explain(message: &str) -> String {
    let Some(rest) = find_after(message, "unknown field `") else {
        return message.to_owned();
    };
    let Some((key, known)) = rest.split_once('`') else {
        return message.to_owned();
    };
    let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
        None if known.is_empty() => format!("unknown key `{key}`; there are no keys here"),
        None => format!("unknown key `{key}`; known are {}", known.join(", ")),
    }
}

fn find_after<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    text.find(start).map(|at| &text[at + start.len()..])
}
