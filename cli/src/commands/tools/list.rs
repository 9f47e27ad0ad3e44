//! `haft tools list`.

use std::io::Write as _;

use haft_api::{Effects, WorkspaceAccess};

use crate::args::{PlaceArgs, ToolPlaceArgs};
use crate::commands::print;
use crate::console::Console;
use crate::failure::{DONE, Outcome};
use crate::render::{Style, write_line};

pub(super) async fn list(
    place: &PlaceArgs,
    console: &Console,
    at: &ToolPlaceArgs,
    json: bool,
) -> Outcome {
    let (runtime, _) = super::runtime(place, at).await?;
    let (tools, problems) = runtime.tools().await;
    let style = Style::new(console.colour);
    for problem in runtime.problems().iter().chain(&problems) {
        console.say(&style.warning(format!("left out: {problem}")));
    }
    let width = tools
        .iter()
        .map(|tool| tool.name.as_str().len())
        .max()
        .unwrap_or(0);
    print(|out| {
        tools.iter().try_for_each(|tool| match json {
            true => write_line(out, tool),
            false => {
                let (name, effects) = (&tool.name, effects(tool.effects));
                let first = tool
                    .description
                    .split(['.', '\n'])
                    .next()
                    .unwrap_or_default();
                writeln!(out, "{name:width$}  [{effects}] {}", first.trim())
            }
        })
    })?;
    Ok(DONE)
}

/// What a tool does to the world, in words.
fn effects(effects: Effects) -> String {
    let mut words = Vec::new();
    match effects.workspace {
        WorkspaceAccess::Write => words.push("writes"),
        WorkspaceAccess::Read => words.push("reads"),
        WorkspaceAccess::None => {}
    }
    let others = [
        (effects.runs_commands, "runs commands"),
        (effects.network, "network"),
        (effects.destructive, "destructive"),
    ];
    words.extend(others.iter().filter(|(is, _)| *is).map(|(_, word)| *word));
    match words.is_empty() {
        true => "pure".to_owned(),
        false => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_told_in_words() {
        let check = |of: Effects, expected: &str| assert_eq!(effects(of), expected);
        check(Effects::PURE, "pure");
        check(Effects::READS, "reads");
        check(Effects::WRITES, "writes");
        check(Effects::NETWORK, "network");
        check(
            Effects::UNDECLARED,
            "writes, runs commands, network, destructive",
        );
    }
}
