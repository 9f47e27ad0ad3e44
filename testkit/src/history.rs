//! A strict check of histories, after the rules of the providers' wires.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use haft_api::Item;

mod check;
pub(crate) mod content;
mod rule;

#[cfg(test)]
mod tests;

pub use rule::{Rule, Violation, Wire};

use check::Check;

/// Checks that every provider would take this history with a next message of
/// the user's after it.
///
/// Takes `&[Item]` as well as `&[Arc<Item>]`. Notices are skipped: models don't
/// see them.
///
/// # Errors
/// All violations, in the order of the items.
///
/// ```
/// use haft_api::Item;
/// use haft_testkit::{Rule, fixture, validate_history};
///
/// let mut items = vec![
///     Item::user("add 1 and 2"),
///     Item::ToolCall(fixture::tool_call("c1", "add", r#"{"a":1,"b":2}"#)),
/// ];
/// let violations = validate_history(&items).unwrap_err();
/// assert_eq!(violations[0].rule, Rule::MissingResult);
///
/// items.push(Item::ToolResult(fixture::tool_result("c1", "add", "3")));
/// assert_eq!(validate_history(&items), Ok(()));
/// ```
pub fn validate_history<I: Borrow<Item>>(items: &[I]) -> Result<(), Vec<Violation>> {
    let mut all: Vec<Violation> = Vec::new();
    for wire in Wire::ALL {
        let Err(violations) = validate_history_for(wire, items) else {
            continue;
        };
        for violation in violations {
            let same = |other: &&mut Violation| {
                other.item == violation.item
                    && other.rule == violation.rule
                    && other.message == violation.message
            };
            match all.iter_mut().find(same) {
                Some(known) => known.wires.push(wire),
                None => all.push(violation),
            }
        }
    }
    all.sort_by_key(|violation| violation.item);
    if all.is_empty() { Ok(()) } else { Err(all) }
}

/// As [`validate_history`], by the rules of one wire alone.
///
/// # Errors
/// All violations, in the order of the items.
pub fn validate_history_for<I: Borrow<Item>>(
    wire: Wire,
    items: &[I],
) -> Result<(), Vec<Violation>> {
    let mut last_result = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Item::ToolResult(result) = item.borrow() {
            last_result.insert(result.call_id.clone(), index);
        }
    }
    let mut check = Check::new(wire, last_result);
    for (index, item) in items.iter().enumerate() {
        check.item(index, item.borrow());
    }
    let violations = check.end(items.len());
    if violations.is_empty() {
        Ok(())
    } else {
        Err(violations)
    }
}
