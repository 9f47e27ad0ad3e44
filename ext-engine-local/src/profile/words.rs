//! What a request's text offers as arguments: file names, numbers, phrases.
//!
//! A very small model garbles what it copies (`todos.md` for `todo.md`), so its
//! arguments are never free text: they are picked from these lists.

/// Only so much of a long request is taken apart; the lists grow with its square.
const MOST_WORDS: usize = 60;
/// The longest phrase that is offered as an argument, in words.
const LONGEST_PHRASE: usize = 12;

/// Words that never begin or end a phrase that someone wants written, searched
/// or run: they are the request's own grammar.
const CONNECTING: &[&str] = &[
    "a", "an", "and", "as", "at", "called", "file", "files", "for", "from", "in", "into", "named",
    "of", "on", "saying", "says", "text", "that", "the", "to", "with", "word",
];

/// Words that point back at something said before.
const POINTING: &[&str] = &[
    "again", "it", "one", "same", "that", "them", "this", "those",
];

/// The words of a text without the punctuation around them.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .map(|word| {
            word.trim_start_matches(|c: char| !(c.is_alphanumeric() || "_./~-".contains(c)))
                .trim_end_matches(|c: char| !(c.is_alphanumeric() || "_/".contains(c)))
        })
        .filter(|word| word.contains(char::is_alphanumeric))
        .collect()
}

/// Whether a word looks like the name of a file or folder.
pub(crate) fn looks_like_a_name(word: &str) -> bool {
    if word.parse::<f64>().is_ok() {
        return false;
    }
    let dotted = word.char_indices().any(|(at, c)| {
        c == '.'
            && word[at + 1..].starts_with(|c: char| c.is_alphanumeric())
            && (at == 0 || word[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    });
    dotted || word.contains('/')
}

/// The names of files in a text, each once, in their order. A word without dot
/// or slash counts if it is among `known`.
pub(crate) fn names(text: &str, known: &[String]) -> Vec<String> {
    unique(
        words(text)
            .into_iter()
            .filter(|word| looks_like_a_name(word) || known.iter().any(|name| name == word)),
    )
}

/// The names of files that a tool's result mentions: words that look like one,
/// and lines of a single word, as listings have them.
pub(crate) fn mentioned_names(result: &str) -> Vec<String> {
    let alone = result.lines().filter_map(|line| match words(line)[..] {
        [word] if word == line.trim() => Some(word),
        _ => None,
    });
    let looking = words(result)
        .into_iter()
        .filter(|word| looks_like_a_name(word));
    unique(alone.chain(looking))
}

/// The numbers in a text, as they are written in JSON.
pub(crate) fn numbers(text: &str) -> Vec<String> {
    let numbers = words(text)
        .into_iter()
        .filter_map(|word| serde_json::from_str::<serde_json::Number>(word).ok())
        .map(|number| number.to_string())
        .collect::<Vec<_>>();
    unique(numbers.iter().map(String::as_str))
}

/// The phrases of a text: what stands in quotation marks if anything does, else
/// every run of words that may be meant, not crossing the name of a file.
pub(crate) fn phrases(text: &str) -> Vec<String> {
    let quoted = quoted(text);
    if !quoted.is_empty() {
        return unique(quoted.into_iter());
    }
    let mut all = words(text);
    all.truncate(MOST_WORDS);
    // The first word is the verb or the question.
    let rest = if all.len() > 1 { &all[1..] } else { &all[..] };
    let mut phrases = Vec::new();
    for run in rest.split(|word| looks_like_a_name(word)) {
        for start in 0..run.len() {
            for end in start + 1..=run.len().min(start + LONGEST_PHRASE) {
                if !connects(run[start]) && !connects(run[end - 1]) {
                    phrases.push(run[start..end].join(" "));
                }
            }
        }
    }
    unique(phrases.iter().map(String::as_str))
}

/// Whether a request points back at what was said before it.
pub(crate) fn points_back(text: &str) -> bool {
    words(text)
        .into_iter()
        .any(|word| POINTING.contains(&word.to_lowercase().as_str()))
}

fn connects(word: &str) -> bool {
    let word = word.to_lowercase();
    CONNECTING.contains(&word.as_str()) || POINTING.contains(&word.as_str())
}

/// What stands in quotation marks. An apostrophe within a word is none.
fn quoted(text: &str) -> Vec<&str> {
    const PAIRS: &[(char, char)] = &[('"', '"'), ('`', '`'), ('“', '”'), ('\'', '\'')];
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let inside = &rest[c.len_utf8()..];
        let close = PAIRS
            .iter()
            .find(|(open, _)| *open == c && !before.is_alphanumeric())
            .and_then(|(_, close)| closing(inside, *close));
        if let Some((end, after)) = close {
            if !inside[..end].trim().is_empty() {
                found.push(&inside[..end]);
            }
            rest = &inside[after..];
            before = ' ';
        } else {
            rest = inside;
            before = c;
        }
    }
    found
}

/// Where a quotation ends: before the mark, and after it.
fn closing(inside: &str, mark: char) -> Option<(usize, usize)> {
    inside.match_indices(mark).find_map(|(at, found)| {
        let after = at + found.len();
        let ends = !inside[after..].starts_with(|c: char| c.is_alphanumeric());
        ends.then_some((at, after))
    })
}

fn unique<'a>(items: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    items
        .filter(|item| seen.insert(*item))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_punctuation_but_names_keep_theirs() {
        let check = |text, expected: &[&str]| assert_eq!(words(text), expected);
        check(
            "What does notes.txt say?",
            &["What", "does", "notes.txt", "say"],
        );
        check(
            "(see .gitignore, src/ and ./a-b.c)",
            &["see", ".gitignore", "src/", "and", "./a-b.c"],
        );
        check("Run ls -la!", &["Run", "ls", "-la"]);
        check("… — !", &[]);
    }

    #[test]
    fn names_are_told_from_words_and_numbers() {
        let check = |word, expected| assert_eq!(looks_like_a_name(word), expected, "{word}");
        check("notes.txt", true);
        check(".gitignore", true);
        check("src/main.rs", true);
        check("docs/", true);
        check("3.5", false);
        check("hello", false);
        check("end.", false);
        check("..", false);
    }

    #[test]
    fn a_word_without_a_dot_is_a_name_once_it_was_listed() {
        let known = mentioned_names("Makefile\nsrc/\nbuild: ok\n");
        assert_eq!(known, ["Makefile", "src/"]);
        assert_eq!(names("Show me the Makefile", &known), ["Makefile"]);
        assert_eq!(names("Show me the Makefile", &[]), Vec::<String>::new());
    }

    #[test]
    fn phrases_are_what_may_be_meant() {
        let check = |text, has: &[&str], hasnt: &[&str]| {
            let phrases = phrases(text);
            for phrase in has {
                assert!(phrases.iter().any(|p| p == phrase), "{phrase}: {phrases:?}");
            }
            for phrase in hasnt {
                assert!(
                    !phrases.iter().any(|p| p == phrase),
                    "{phrase}: {phrases:?}"
                );
            }
        };
        check(
            "Write hello to greeting.txt",
            &["hello"],
            &["Write", "hello to", "greeting.txt"],
        );
        check(
            "Create hi.txt with the text hello world",
            &["hello world", "hello"],
            &["the text"],
        );
        check("Write \"buy milk\" into todo.md", &["buy milk"], &["buy"]);
        check("Write 'it's late' into a.txt", &["it's late"], &["it"]);
        check("What's the matter", &["matter"], &["s the matter"]);
        check("Hello", &["Hello"], &[]);
        check("Copy a.txt to b.txt", &[], &["to", "Copy"]);
        check("Do it again", &[], &["it", "again", "it again"]);
        check("Search „älter“ and naïve", &["naïve"], &[]);
    }

    #[test]
    fn a_long_request_stays_cheap() {
        let text = "word ".repeat(20_000) + &(0..500).map(|n| format!("w{n} ")).collect::<String>();
        assert!(phrases(&text).len() <= MOST_WORDS * LONGEST_PHRASE);
    }

    #[test]
    fn numbers_are_json_numbers() {
        assert_eq!(
            numbers("What is 2 plus 3.5 and -4, 2 again, 007?"),
            ["2", "3.5", "-4"]
        );
    }
}
