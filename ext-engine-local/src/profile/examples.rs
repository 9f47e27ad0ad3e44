//! Worked examples: they teach a very small model the form of a call and of an
//! answer. They stand in the prompt, never in the thread.

use super::tools::{Kind, SmallTool};
use super::words;

/// So many examples of calls are shown. With four, a model of 135M parameters
/// picked the right tool in four cases of seven; with six in all of them; more
/// made it worse again.
const SHOWN: usize = 6;

/// A request, the call it leads to, and what is said about the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) tool: String,
    pub(crate) request: String,
    /// The arguments as JSON, in the order of the tool's parameters.
    pub(crate) arguments: Vec<String>,
    pub(crate) result: String,
    pub(crate) answer: String,
}

struct Known {
    tool: &'static str,
    request: &'static str,
    arguments: &'static [&'static str],
    result: &'static str,
    answer: &'static str,
}

const fn known(
    tool: &'static str,
    request: &'static str,
    arguments: &'static [&'static str],
    result: &'static str,
    answer: &'static str,
) -> Known {
    Known {
        tool,
        request,
        arguments,
        result,
        answer,
    }
}

/// Examples for tools as coding agents usually have them. The order counts: the
/// model leans towards what it saw last, and the first six are mixed.
const KNOWN: &[Known] = &[
    known(
        "read",
        "What does readme.txt say?",
        &["readme.txt"],
        "Welcome to the garden.\nIt opens at nine.",
        "readme.txt says: Welcome to the garden. It opens at nine.",
    ),
    known(
        "list",
        "Which files are here?",
        &[],
        "plan.md\ndata.csv",
        "There are 2 files: plan.md and data.csv.",
    ),
    known(
        "write",
        "Write good morning to day.txt",
        &["day.txt", "good morning"],
        "Wrote 12 bytes to day.txt.",
        "I wrote good morning to day.txt.",
    ),
    known(
        "read",
        "Show me plan.md",
        &["plan.md"],
        "# Plan\n- dig a hole\n- plant a tree",
        "plan.md says: Plan: dig a hole, plant a tree.",
    ),
    known(
        "search",
        "Find apple in the files",
        &["apple"],
        "plan.md:2: buy an apple",
        "I found apple in plan.md, line 2: buy an apple.",
    ),
    known(
        "write",
        "Create a file named answer.txt with the text 42",
        &["answer.txt", "42"],
        "Wrote 2 bytes to answer.txt.",
        "I wrote 42 to answer.txt.",
    ),
    known(
        "run",
        "Run date",
        &["date"],
        "Mon Jan 5 10:00:00",
        "It printed: Mon Jan 5 10:00:00.",
    ),
    known(
        "list",
        "What is in this folder?",
        &[],
        "Cargo.lock\nnames.json\nlib/",
        "There are 3 files: Cargo.lock, names.json and lib/.",
    ),
    known(
        "search",
        "Look for the word price",
        &["price"],
        "shop.md:7: the price is 3",
        "I found price in shop.md, line 7: the price is 3.",
    ),
    known(
        "run",
        "Run echo good night",
        &["echo good night"],
        "good night",
        "It printed: good night.",
    ),
];

/// Whatever tool failed: what is said about it.
const FAILURES: &[(&str, &str, &str)] = &[
    (
        "Show me lost.txt",
        "error: no such file: lost.txt",
        "That did not work: no such file: lost.txt.",
    ),
    (
        "Read gone.md",
        "error: permission denied: gone.md",
        "That did not work: permission denied: gone.md.",
    ),
];

impl Known {
    /// The example for this tool, if the tool has the parameters it fills.
    fn for_tool(&self, tool: &SmallTool) -> Option<Example> {
        let fits = self.tool == tool.name
            && self.arguments.len() == tool.parameters.len()
            && self
                .arguments
                .iter()
                .zip(&tool.parameters)
                .all(|(argument, parameter)| match parameter.kind {
                    Kind::Path => words::looks_like_a_name(argument),
                    Kind::Text => !words::looks_like_a_name(argument),
                    Kind::Number | Kind::OneOf(_) => false,
                });
        fits.then(|| Example {
            tool: tool.name.clone(),
            request: self.request.to_owned(),
            arguments: self
                .arguments
                .iter()
                .map(|text| json_string(text))
                .collect(),
            result: self.result.to_owned(),
            answer: self.answer.to_owned(),
        })
    }
}

/// An example made from nothing but a tool's parameters.
fn plain(tool: &SmallTool, result: &str) -> Example {
    let sample = |kind: &Kind| match kind {
        Kind::Path => json_string("sample.txt"),
        Kind::Text => json_string("apple"),
        Kind::Number => "7".to_owned(),
        Kind::OneOf(values) => values.first().cloned().unwrap_or_else(|| "null".to_owned()),
    };
    let arguments: Vec<_> = tool.parameters.iter().map(|p| sample(&p.kind)).collect();
    let said = arguments
        .iter()
        .map(|json| json.trim_matches('"'))
        .collect::<Vec<_>>()
        .join(" and ");
    let request = if said.is_empty() {
        format!("Use {}", tool.name)
    } else {
        format!("Use {} with {said}", tool.name)
    };
    Example {
        tool: tool.name.clone(),
        request,
        arguments,
        result: result.to_owned(),
        answer: format!("The result is: {result}."),
    }
}

/// Examples of calls of these tools, at least one of each.
pub(crate) fn of_calls(tools: &[SmallTool]) -> Vec<Example> {
    let mut examples: Vec<_> = KNOWN
        .iter()
        .filter_map(|known| tools.iter().find_map(|tool| known.for_tool(tool)))
        .collect();
    let unknown: Vec<_> = tools
        .iter()
        .filter(|tool| examples.iter().all(|example| example.tool != tool.name))
        .map(|tool| plain(tool, "blue"))
        .collect();
    examples.truncate(SHOWN.saturating_sub(unknown.len()));
    examples.extend(unknown);
    examples
}

/// Examples of what is said about a result: the request, the result, the answer.
pub(crate) fn of_answers(tool: &SmallTool, failed: bool) -> Vec<(String, String, String)> {
    if failed {
        let own = |&(a, b, c): &(&str, &str, &str)| (a.to_owned(), b.to_owned(), c.to_owned());
        return FAILURES.iter().map(own).collect();
    }
    let mut examples: Vec<_> = KNOWN
        .iter()
        .filter_map(|known| known.for_tool(tool))
        .collect();
    if examples.is_empty() {
        examples = vec![plain(tool, "blue"), plain(tool, "12 and 13")];
    }
    examples
        .into_iter()
        .map(|e| (e.request, e.result, e.answer))
        .collect()
}

/// A text as JSON.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tools::Parameter;
    use super::*;

    fn tool(name: &str, kinds: &[Kind]) -> SmallTool {
        let parameters = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| Parameter {
                name: format!("p{at}"),
                kind: kind.clone(),
            })
            .collect();
        SmallTool {
            name: name.to_owned(),
            description: String::new(),
            parameters,
        }
    }

    #[test]
    fn six_mixed_examples_cover_every_tool() {
        let check = |tools: &[SmallTool], expected: &[&str]| {
            let examples = of_calls(tools);
            let names: Vec<_> = examples
                .iter()
                .map(|example| example.tool.as_str())
                .collect();
            assert_eq!(names, expected);
        };
        let list = tool("list", &[]);
        let read = tool("read", &[Kind::Path]);
        let search = tool("search", &[Kind::Text]);
        let write = tool("write", &[Kind::Path, Kind::Text]);
        let run = tool("run", &[Kind::Text]);
        check(
            &[list.clone(), read.clone(), search.clone(), write],
            &["read", "list", "write", "read", "search", "write"],
        );
        check(
            &[list, read.clone(), search, run],
            &["read", "list", "read", "search", "run", "list"],
        );
        check(
            &[read, tool("weather", &[Kind::Text])],
            &["read", "read", "weather"],
        );
        // The name alone isn't enough: the parameters must be those of the example.
        check(&[tool("read", &[Kind::Number])], &["read"]);
        assert_eq!(
            of_calls(&[tool("read", &[Kind::Number])])[0].request,
            "Use read with 7"
        );
    }
}
