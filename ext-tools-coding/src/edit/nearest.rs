//! Where a text that isn't in a file most likely should have been.

use std::fmt::Write as _;

/// Lines of a file that are compared, and of the text.
const FILE_LINES: usize = 20_000;
const TEXT_LINES: usize = 100;
/// Lines that are compared letter by letter, which takes its time.
const CLOSELY_COMPARED: usize = 3000;
/// Characters of such a line.
const COMPARED_CHARS: usize = 160;
/// Less alike than this is nothing like it.
const LEAST_LIKENESS: f64 = 0.6;
/// Most lines that are shown, and most characters of each.
const SHOWN_LINES: usize = 12;
const SHOWN_CHARS: usize = 200;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nearest {
    /// The lines with their numbers, as `read_file` shows them.
    pub(super) lines: String,
    /// The text is there but for spaces, tabs and empty lines.
    pub(super) only_space_differs: bool,
}

/// Finds the lines of a file that are most like a text. `None` if none are.
pub(super) fn nearest(file: &str, text: &str) -> Option<Nearest> {
    let lines: Vec<&str> = file.lines().take(FILE_LINES).collect();
    let wanted: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(TEXT_LINES)
        .collect();
    // What isn't empty, with its index.
    let filled: Vec<(usize, &str)> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (index, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    if let Some((start, equal)) = best_window(&filled, &wanted) {
        let end = (start + wanted.len()).min(filled.len()) - 1;
        return Some(Nearest {
            lines: show(&lines, filled[start].0, filled[end].0),
            only_space_differs: equal == wanted.len(),
        });
    }
    let index = most_alike(&filled, &wanted)?;
    Some(Nearest {
        lines: show(&lines, index.saturating_sub(2), index + 2),
        only_space_differs: same_but_for_space(lines[index], text),
    })
}

/// Where the most lines are equal one for one, and how many.
fn best_window(filled: &[(usize, &str)], wanted: &[&str]) -> Option<(usize, usize)> {
    let mut best = None;
    for start in 0..filled.len() {
        let pairs = filled[start..].iter().zip(0..wanted.len());
        let equal = pairs
            .filter(|((_, line), index)| fits(line, wanted, *index))
            .count();
        if equal > best.map_or(0, |(_, equal)| equal) {
            best = Some((start, equal));
        }
    }
    best
}

/// Whether a line is the one that is wanted at this index. A text may begin and
/// end in the middle of a line.
fn fits(line: &str, wanted: &[&str], index: usize) -> bool {
    let text = wanted[index];
    match (index == 0, index + 1 == wanted.len()) {
        (true, true) | (false, false) => line == text,
        (true, false) => line.ends_with(text),
        (false, true) => line.starts_with(text),
    }
}

/// The line that is most like the longest line of the text.
fn most_alike(filled: &[(usize, &str)], wanted: &[&str]) -> Option<usize> {
    let wanted = wanted.iter().max_by_key(|line| line.len())?;
    let cut = |line: &str| line.chars().take(COMPARED_CHARS).collect::<String>();
    let wanted = cut(wanted);
    let likeness = |line: &str| {
        let line = cut(line);
        match line.contains(&wanted) {
            true => 1.0,
            false => strsim::normalized_levenshtein(&line, &wanted),
        }
    };
    filled
        .iter()
        .take(CLOSELY_COMPARED)
        .map(|&(index, line)| (likeness(line), index))
        .filter(|&(likeness, _)| likeness >= LEAST_LIKENESS)
        // The first of the best.
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        .map(|(_, index)| index)
}

fn same_but_for_space(line: &str, text: &str) -> bool {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    bare(line) == bare(text)
}

fn show(lines: &[&str], first: usize, last: usize) -> String {
    let last = last.min(lines.len().saturating_sub(1));
    let shown_last = last.min(first + SHOWN_LINES - 1);
    let mut text = String::new();
    let shown = lines.iter().enumerate().take(shown_last + 1).skip(first);
    for (index, line) in shown {
        let kept: String = line.chars().take(SHOWN_CHARS).collect();
        let cut = if kept.len() < line.len() { "…" } else { "" };
        // A `String` takes whatever is written to it.
        let _ = writeln!(text, "{:>6}\t{kept}{cut}", index + 1);
    }
    if last > shown_last {
        let _ = writeln!(text, "[and on to line {}]", last + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "fn main() {\n    let first = 1;\n\n    let second = 2;\n    print(first);\n}\n";

    #[test]
    fn the_nearest_lines_are_shown_with_their_numbers() {
        let check = |text: &str, expected: Option<(&str, bool)>| {
            let found = nearest(FILE, text);
            let found = found
                .as_ref()
                .map(|n| (n.lines.as_str(), n.only_space_differs));
            assert_eq!(found, expected, "{text:?}");
        };
        // Other indentation, and an empty line too few.
        check(
            "let first = 1;\nlet second = 2;\n",
            Some((
                "     2\t    let first = 1;\n     3\t\n     4\t    let second = 2;\n",
                true,
            )),
        );
        // One of two lines is right.
        check(
            "    let first = 1;\n    let other = 5;\n",
            Some((
                "     2\t    let first = 1;\n     3\t\n     4\t    let second = 2;\n",
                false,
            )),
        );
        // A slip of the pen.
        check(
            "print(frist);",
            Some((
                "     3\t\n     4\t    let second = 2;\n     5\t    print(first);\n     6\t}\n",
                false,
            )),
        );
        check(
            "print( first );",
            Some((
                "     3\t\n     4\t    let second = 2;\n     5\t    print(first);\n     6\t}\n",
                true,
            )),
        );
        check("nothing like this at all", None);
        check("\n\n", None);
        assert_eq!(nearest("", "x"), None);
    }

    #[test]
    fn a_large_file_is_searched_in_bounded_time() {
        let file = "some line of some text that is rather usual\n".repeat(200_000);
        let text = "another text altogether, of quite some length, and many lines\n".repeat(200);
        let start = std::time::Instant::now();
        nearest(&file, &text);
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
    }
}
