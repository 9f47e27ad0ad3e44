//! A file has one reason to exist, and a reader can hold it.

use super::Finding;
use super::source::Source;

/// The most lines of code that a file may have, without its tests.
const LIMIT: usize = 500;

/// A file that may be longer, and why.
pub(super) struct Exception {
    path: &'static str,
    /// For the reader; a rule can't check it.
    #[allow(dead_code, reason = "read by people")]
    why: &'static str,
}

pub(super) const EXCEPTIONS: &[Exception] = &[];

/// Checks all files.
pub(super) fn check(sources: &[Source], exceptions: &[Exception]) -> Vec<Finding> {
    let size = |source: &Source| {
        let lines = source.code_lines();
        lines
            .iter()
            .filter(|line| !source.is_test_line(**line))
            .count()
    };
    let long: Vec<_> = sources
        .iter()
        .map(|source| (source.path.as_str(), size(source)))
        .filter(|(_, lines)| *lines > LIMIT)
        .collect();
    let unlisted = long
        .iter()
        .filter(|(path, _)| !exceptions.iter().any(|exception| exception.path == *path))
        .map(|(path, lines)| {
            let message =
                format!("{lines} lines of code without tests, more than {LIMIT}: split it");
            Finding::new(path, 1, message)
        });
    let unused = exceptions
        .iter()
        .filter(|exception| !long.iter().any(|(path, _)| *path == exception.path))
        .map(|exception| {
            let message = format!(
                "the exception for {} is not needed any more",
                exception.path
            );
            Finding::new("xtask/src/tidy/size.rs", 1, message)
        });
    unlisted.chain(unused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str, exceptions: &[Exception]) -> Vec<String> {
        let sources = [Source::new(path, text)];
        check(&sources, exceptions)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn code(lines: usize) -> String {
        "fn f() {}\n".repeat(lines)
    }

    #[test]
    fn only_code_counts() {
        let comments = "/// Docs.\n// Comment.\n\n".repeat(LIMIT);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", code(LIMIT));
        assert_eq!(
            findings("a.rs", &(comments + &code(LIMIT) + &tests), &[]),
            [""; 0]
        );
        assert_eq!(findings("x/tests/a.rs", &code(LIMIT + 1), &[]), [""; 0]);
        assert_eq!(
            findings("a.rs", &code(LIMIT + 1), &[]),
            ["a.rs:1: 501 lines of code without tests, more than 500: split it",]
        );
    }

    #[test]
    fn an_exception_holds_while_it_is_needed() {
        let exceptions = [Exception {
            path: "a.rs",
            why: "sample",
        }];
        assert_eq!(findings("a.rs", &code(LIMIT + 1), &exceptions), [""; 0]);
        assert_eq!(
            findings("a.rs", &code(1), &exceptions),
            ["xtask/src/tidy/size.rs:1: the exception for a.rs is not needed any more",]
        );
    }
}
