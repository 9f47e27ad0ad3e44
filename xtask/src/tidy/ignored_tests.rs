//! A test runs. One that can't run here says so itself, with a line that begins
//! with `skipped: ` and the reason; `cargo xtask test` counts and lists it.

use super::Finding;
use super::source::Source;

/// Checks one file, its documentation's examples too.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: usize, what: &str| {
        let message = format!("{what}: a test that can't run here prints `skipped: ` and why");
        findings.push(Finding::new(&source.path, line, message));
    };
    for (i, token) in source.tokens.iter().enumerate() {
        let line = *token.lines.start();
        let plain = source.reads(i, &["#", "[", "ignore"])
            && (source.reads(i + 3, &["]"]) || source.reads(i + 3, &["="]));
        let conditional = source.reads(i, &["#", "[", "cfg_attr"]) && {
            let inside = &source.tokens[i..source.closing(i + 1)];
            inside.iter().any(|token| token.text == "ignore")
        };
        if plain || conditional {
            report(line, "`ignore`");
        }
    }
    for (line, doc) in source.docs() {
        // A block comment's lines share one text.
        for (index, doc) in doc.split("\\n").flat_map(str::lines).enumerate() {
            let doc = doc.trim_matches(['"', ' ', '*']);
            let info = doc.strip_prefix("```").unwrap_or_default();
            if info.split(',').any(|word| word.trim() == "ignore") {
                report(line + index, "an `ignore`d example");
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new("a.rs", text))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn tests_that_run_are_fine() {
        let text = "/// ```no_run\n/// ```\n#[test]\nfn ignore() { ignore(); } // #[ignore]\n\
            /// ignore\n#[derive(ignore)]\nstruct S;\nuse ignore::Walk;";
        assert_eq!(lines(text), [0; 0]);
    }

    #[test]
    fn ignored_ones_are_found() {
        assert_eq!(lines("#[test]\n#[ignore]\nfn f() {}"), [2]);
        assert_eq!(lines("#[test]\n#[ignore = \"slow\"]\nfn f() {}"), [2]);
        assert_eq!(lines("#[cfg_attr(unix, ignore)]\nfn f() {}"), [1]);
        assert_eq!(lines("//! Docs.\n//! ```ignore\n//! ```"), [2]);
        assert_eq!(lines("/// ```rust,ignore\n/// ```\nfn f() {}"), [1]);
        assert_eq!(lines("/** A.\n```ignore\n``` */\nfn f() {}"), [2]);
    }
}
