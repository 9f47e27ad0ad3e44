//! The newest branch of a session whose lines are a tree.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::lines::Line;
use crate::losses::Losses;

/// How the lines of a format name themselves and what they follow.
pub(crate) struct Links {
    /// The field with a line's own id.
    pub(crate) id: &'static str,
    /// The fields with the id of the line before it, in order of preference.
    pub(crate) parents: &'static [&'static str],
}

/// Leaves those lines that lead to the last one, in the order of the file.
/// Lines without an id belong to every branch.
pub(crate) fn newest(
    lines: Vec<Line>,
    links: &Links,
    ends: impl Fn(&Value) -> bool,
    losses: &mut Losses,
) -> Vec<Line> {
    let id = |line: &Line| crate::owned(&line.value, links.id);
    let by_id: HashMap<String, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((id(line)?, at)))
        .collect();
    let parent = |at: usize| {
        let value = &lines[at].value;
        let named = links
            .parents
            .iter()
            .find_map(|name| crate::text_of(value, name));
        named.and_then(|id| by_id.get(id).copied())
    };
    let leaf = (0..lines.len())
        .rev()
        .find(|at| id(&lines[*at]).is_some() && ends(&lines[*at].value));
    let mut kept = HashSet::new();
    let mut next = leaf;
    // A line that leads back to itself ends the branch.
    while let Some(at) = next.filter(|at| kept.insert(*at)) {
        next = parent(at);
    }
    let mut left_out = 0;
    let mut first = None;
    let mut branch = Vec::with_capacity(lines.len());
    for (at, line) in lines.into_iter().enumerate() {
        if kept.contains(&at) || crate::text_of(&line.value, links.id).is_none() {
            branch.push(line);
        } else if ends(&line.value) {
            left_out += 1;
            first.get_or_insert(line.number);
        }
    }
    losses.add_many(
        first,
        "a message of an abandoned branch was left out",
        left_out,
    );
    branch
}
