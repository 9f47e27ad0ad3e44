//! Nothing half done.

use super::Finding;
use super::source::Source;

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Checks one file, its tests too.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, token) in source.tokens.iter().enumerate() {
        if MACROS.contains(&token.text.as_str()) && source.reads(i + 1, &["!"]) {
            // `dbg != x` is no macro.
            let called = ["(", "[", "{"]
                .iter()
                .any(|open| source.reads(i + 2, &[open]));
            if called {
                let message = format!("`{}!` is not for committed code", token.text);
                findings.push(Finding::new(&source.path, *token.lines.start(), message));
            }
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        if let Some(mark) = marks().find(|mark| has_word(line, mark)) {
            let message = format!("`{mark}`: do it, or file it");
            findings.push(Finding::new(&source.path, index + 1, message));
        }
    }
    findings
}

/// In two parts, so that this file doesn't find itself.
fn marks() -> impl Iterator<Item = String> {
    [("FIX", "ME"), ("X", "XX")]
        .into_iter()
        .map(|(a, b)| format!("{a}{b}"))
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        check(&Source::new("a.rs", text))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn finished_code_is_fine() {
        let text = "// todo!() in a comment\nfn f() {\n    let todo = \"todo!()\";\n    todo != x;\n}\n\
            fn dbg() {}\n// AXXX, XXXX\nlet prefix_XXX = 1;";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn marks_and_macros_are_found_with_their_line() {
        let check = |text: &str, expected: &str| {
            let findings = findings(text);
            assert_eq!(findings.len(), 1, "{text}: {findings:?}");
            assert!(findings[0].starts_with(expected), "{findings:?}");
        };
        check("fn f() {\n    todo!()\n}", "a.rs:2: `todo!`");
        check(
            "fn f() {\n    unimplemented![\"x\"]\n}",
            "a.rs:2: `unimplemented!`",
        );
        check("fn f() {\n    std::dbg!(1);\n}", "a.rs:2: `dbg!`");
        check(
            "#[cfg(test)]\nmod t {\n    fn f() { todo!() }\n}",
            "a.rs:3: `todo!`",
        );
        for mark in marks() {
            check(&format!("\n// {mark}: later"), &format!("a.rs:2: `{mark}`"));
        }
    }
}
