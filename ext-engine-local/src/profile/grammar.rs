//! The grammar that holds a small model's call to one of the possible ones.
//!
//! It is written in GBNF, which every build of llama.cpp reads. A grammar of
//! our own rather than `tool_choice: required`: with that, the server allows any
//! amount of text before the call, and a small model never gets to the call.

use std::fmt::Write as _;

use super::examples::json_string;
use super::tools::{SmallTool, TOOL_KEY};

/// A tool that may be called now, and for each of its parameters the values
/// that it may have, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOption<'a> {
    pub(crate) tool: &'a SmallTool,
    pub(crate) values: Vec<Vec<String>>,
}

/// A call as the model writes it.
pub(crate) fn call_text(tool: &SmallTool, arguments: &[String]) -> String {
    let mut text = format!("{{\"{TOOL_KEY}\": {}", json_string(&tool.name));
    for (parameter, argument) in tool.parameters.iter().zip(arguments) {
        let _ = write!(text, ", {}: {argument}", json_string(&parameter.name));
    }
    text.push('}');
    text
}

/// The grammar of exactly these calls.
pub(crate) fn of_calls(options: &[CallOption<'_>]) -> String {
    let roots: Vec<_> = (0..options.len()).map(|at| format!("call{at}")).collect();
    let mut grammar = format!("root ::= {}\n", roots.join(" | "));
    for (at, option) in options.iter().enumerate() {
        let mut rule = format!(
            "call{at} ::= {}",
            literal(&format!(
                "{{\"{TOOL_KEY}\": {}",
                json_string(&option.tool.name)
            ))
        );
        let mut values = String::new();
        for (n, (parameter, allowed)) in option
            .tool
            .parameters
            .iter()
            .zip(&option.values)
            .enumerate()
        {
            let name = literal(&format!(", {}: ", json_string(&parameter.name)));
            let _ = write!(rule, " {name} call{at}v{n}");
            let allowed: Vec<_> = allowed.iter().map(|value| literal(value)).collect();
            let _ = writeln!(values, "call{at}v{n} ::= {}", allowed.join(" | "));
        }
        let _ = writeln!(grammar, "{rule} \"}}\"");
        grammar.push_str(&values);
    }
    grammar
}

/// A text as a GBNF literal.
fn literal(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::tools::{Kind, Parameter};
    use super::*;

    #[test]
    fn a_grammar_has_a_rule_per_tool_and_parameter() {
        let list = SmallTool {
            name: "list".into(),
            description: String::new(),
            parameters: vec![],
        };
        let read = SmallTool {
            name: "read".into(),
            description: String::new(),
            parameters: vec![Parameter {
                name: "path".into(),
                kind: Kind::Path,
            }],
        };
        let options = [
            CallOption {
                tool: &list,
                values: vec![],
            },
            CallOption {
                tool: &read,
                values: vec![vec![json_string("a\"b.txt"), json_string("ü")]],
            },
        ];
        let expected = r#"root ::= call0 | call1
call0 ::= "{\"tool\": \"list\"" "}"
call1 ::= "{\"tool\": \"read\"" ", \"path\": " call1v0 "}"
call1v0 ::= "\"a\\\"b.txt\"" | "\"ü\""
"#;
        assert_eq!(of_calls(&options), expected);
        assert_eq!(call_text(&list, &[]), r#"{"tool": "list"}"#);
        assert_eq!(
            call_text(&read, &[json_string("x")]),
            r#"{"tool": "read", "path": "x"}"#
        );
    }
}
