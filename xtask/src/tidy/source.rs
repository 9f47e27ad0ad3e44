//! A Rust file as tokens: so that a rule sees code, and not what a comment or a
//! text says.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::files::Text;

/// One Rust file.
pub(crate) struct Source {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    /// True if the whole file serves tests only.
    pub(crate) is_test: bool,
    /// Why there are no tokens, if it is not Rust.
    pub(crate) error: Option<Finding>,
    test_ranges: Vec<RangeInclusive<usize>>,
    test_modules: Vec<String>,
}

/// One token. Groups are flat: an opening bracket, what's inside, a closing one.
/// Doc comments are the attributes they stand for; other comments are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// As written. Brackets of groups too.
    pub(crate) text: String,
    /// The first and the last line, from 1.
    pub(crate) lines: RangeInclusive<usize>,
}

impl Source {
    /// Reads a file's tokens.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut error = None;
        match text.parse::<TokenStream>() {
            Ok(stream) => flatten(stream, &mut tokens),
            Err(e) => {
                let line = e.span().start().line;
                error = Some(Finding::new(path, line, format!("this is not Rust: {e}")));
            }
        }
        let (test_ranges, test_modules) = test_items(&tokens);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            is_test: Text::in_test_folder(path),
            tokens,
            error,
            test_ranges,
            test_modules,
        }
    }

    /// True if the line belongs to tests only.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_ranges.iter().any(|range| range.contains(&line))
    }

    /// The lines that hold code: not blank, not only a comment or docs.
    pub(crate) fn code_lines(&self) -> BTreeSet<usize> {
        let mut lines = BTreeSet::new();
        let mut i = 0;
        while i < self.tokens.len() {
            if let Some(length) = self.doc_at(i) {
                i += length;
            } else {
                lines.extend(self.tokens[i].lines.clone());
                i += 1;
            }
        }
        lines
    }

    /// Every piece of documentation with its first line: a text as written, in
    /// its quotes.
    pub(crate) fn docs(&self) -> impl Iterator<Item = (usize, &str)> {
        (0..self.tokens.len()).filter_map(|i| {
            let length = self.doc_at(i)?;
            let text = &self.tokens[i + length - 2];
            Some((*text.lines.start(), text.text.as_str()))
        })
    }

    /// True if the tokens at `i` read as `words`.
    pub(crate) fn reads(&self, i: usize, words: &[&str]) -> bool {
        let tokens = self.tokens.get(i..i + words.len());
        tokens.is_some_and(|tokens| {
            tokens
                .iter()
                .map(|t| t.text.as_str())
                .eq(words.iter().copied())
        })
    }

    /// The index of the bracket that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> usize {
        closing(&self.tokens, open)
    }

    /// The number of tokens of the documentation that starts at `i`.
    fn doc_at(&self, i: usize) -> Option<usize> {
        let inner = usize::from(self.reads(i, &["#", "!"]));
        let start = i + 1 + inner;
        let is_doc = self.reads(i, &["#"])
            && self.reads(start, &["[", "doc", "="])
            && self.reads(start + 4, &["]"]);
        is_doc.then_some(inner + 6)
    }

    /// Marks the files of modules that are declared for tests only, with all
    /// below them.
    pub(crate) fn mark_test_modules(sources: &mut [Self]) {
        let mut files = BTreeSet::new();
        let mut folders = Vec::new();
        for source in &*sources {
            for module in &source.test_modules {
                let stem = format!("{}{module}", submodule_prefix(&source.path));
                files.extend([format!("{stem}.rs"), format!("{stem}/mod.rs")]);
                folders.push(format!("{stem}/"));
            }
        }
        for source in sources {
            source.is_test |= files.contains(&source.path)
                || folders.iter().any(|folder| source.path.starts_with(folder));
        }
    }
}

/// The folder of a file's submodules, with a slash at the end.
fn submodule_prefix(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(f, n)| (f, n));
    let folder = if folder.is_empty() {
        String::new()
    } else {
        format!("{folder}/")
    };
    match name.trim_end_matches(".rs") {
        "lib" | "main" | "mod" => folder,
        stem => format!("{folder}{stem}/"),
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let span = tree.span();
        let lines = span.start().line..=span.end().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let bracket = |text: &str, line: usize| Token {
                    text: text.to_owned(),
                    lines: line..=line,
                };
                tokens.push(bracket(open, group.span_open().start().line));
                flatten(group.stream(), tokens);
                tokens.push(bracket(close, group.span_close().end().line));
            }
            other => tokens.push(Token {
                text: other.to_string(),
                lines,
            }),
        }
    }
}

fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len().saturating_sub(1)
}

/// The lines of items under a `#[cfg(test)]` and the names of such modules that
/// have a file of their own.
fn test_items(tokens: &[Token]) -> (Vec<RangeInclusive<usize>>, Vec<String>) {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let (mut ranges, mut modules) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        let attribute = text(i) == "#" && text(i + 1) == "[" && text(i + 2) == "cfg";
        if !attribute {
            i += 1;
            continue;
        }
        let end = closing(tokens, i + 1);
        let needs_test = match text(i + 4) {
            "test" => text(i + 5) == ")",
            "all" => tokens[i + 5..end].iter().any(|token| token.text == "test"),
            _ => false,
        };
        if !needs_test {
            i = end;
            continue;
        }
        let last = item_end(tokens, end + 1);
        if text(last) == ";" && last >= 2 && text(last - 2) == "mod" {
            modules.push(text(last - 1).to_owned());
        }
        ranges.push(*tokens[i].lines.start()..=*tokens[last].lines.end());
        i = last + 1;
    }
    (ranges, modules)
}

/// The index of the last token of the item, field or variant that starts at
/// `start`: its block, its semicolon, or its comma.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut angles = 0_usize;
    let mut i = start;
    while let Some(token) = tokens.get(i) {
        match token.text.as_str() {
            "{" => return closing(tokens, i),
            "}" | ")" => return i - 1,
            ";" => return i,
            "," if angles == 0 => return i,
            "<" => angles += 1,
            ">" if tokens[i - 1].text != "-" => angles = angles.saturating_sub(1),
            "(" | "[" => i = closing(tokens, i),
            _ => {}
        }
        i += 1;
    }
    tokens.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_lines_leave_out_comments_docs_and_blanks() {
        let source = Source::new(
            "a.rs",
            "//! Docs.\n\n// A comment.\n/// Docs\n/// of f.\nfn f() {\n    let text = \"\n    // inside\n\";\n}\n/* x\n y */\n",
        );
        assert_eq!(
            source.code_lines().into_iter().collect::<Vec<_>>(),
            [6, 7, 8, 9, 10]
        );
        let docs: Vec<_> = source.docs().collect();
        assert_eq!(
            docs,
            [(1, "\" Docs.\""), (4, "\" Docs\""), (5, "\" of f.\"")]
        );
    }

    #[test]
    fn test_lines_are_those_of_items_for_tests() {
        let check = |text: &str, expected: &[usize]| {
            let source = Source::new("a.rs", text);
            let lines: Vec<_> = (1..=text.lines().count())
                .filter(|line| source.is_test_line(*line))
                .collect();
            assert_eq!(lines, expected, "{text}");
        };
        check(
            "fn f() {}\n#[cfg(test)]\nmod tests {\n}\nfn g() {}",
            &[2, 3, 4],
        );
        check(
            "#[cfg(test)]\nuse a::{\n    b,\n};\nfn g() {}",
            &[1, 2, 3, 4],
        );
        check(
            "#[cfg(test)]\n#[allow(x)]\nfn f(a: [u8; 3]) -> u8 {\n}\nfn g() {}",
            &[1, 2, 3, 4],
        );
        check("#[cfg(all(unix, test))]\nmod t;\nfn g() {}", &[1, 2]);
        check(
            "#[cfg(test)]\nfn f<A, B>(a: A) -> B {\n}\nfn g() {}",
            &[1, 2, 3],
        );
        check(
            "struct S {\n#[cfg(test)]\na: u8,\nb: u8,\n}\nfn g() {}",
            &[2, 3],
        );
        check("struct S {\n#[cfg(test)]\na: u8\n}\nfn g() {}", &[2, 3]);
        check("#[cfg(not(test))]\nfn f() {}", &[]);
        check("#[cfg(any(test, unix))]\nfn f() {}", &[]);
        check("#[cfg(feature = \"test\")]\nfn f() {}", &[]);
    }

    #[test]
    fn files_of_test_modules_are_tests() {
        let mut sources = [
            Source::new("a/src/lib.rs", "#[cfg(test)]\nmod proofs;\nmod x;"),
            Source::new("a/src/proofs.rs", ""),
            Source::new("a/src/proofs/more.rs", ""),
            Source::new("a/src/x.rs", "#[cfg(test)]\nmod tests;"),
            Source::new("a/src/x/tests.rs", ""),
            Source::new("a/src/x/other.rs", ""),
            Source::new("a/tests/whole.rs", ""),
        ];
        Source::mark_test_modules(&mut sources);
        let tests: Vec<_> = sources
            .iter()
            .filter(|s| s.is_test)
            .map(|s| s.path.as_str())
            .collect();
        let expected = [
            "a/src/proofs.rs",
            "a/src/proofs/more.rs",
            "a/src/x/tests.rs",
            "a/tests/whole.rs",
        ];
        assert_eq!(tests, expected);
    }

    #[test]
    fn what_is_not_rust_is_a_finding_with_its_line() {
        let error = Source::new("a.rs", "fn f() {\n\n  (]\n}").error.unwrap();
        assert!(
            error.to_string().starts_with("a.rs:3: this is not Rust"),
            "{error}"
        );
    }
}
