//! What the comment lines at the head of a main file declare.

/// The words after a tag in a script's head, each with its line: `name` or
/// `name=value`.
pub(crate) fn declarations<'s>(
    source: &'s str,
    tag: &'s str,
) -> impl Iterator<Item = (usize, &'s str, Option<&'s str>)> {
    source
        .lines()
        .zip(1..)
        .take_while(|(line, _)| line.trim().is_empty() || line.trim_start().starts_with("--"))
        .filter_map(move |(line, at)| {
            let line = line.trim_start().trim_start_matches('-').trim_start();
            Some((line.strip_prefix(tag)?, at))
        })
        .flat_map(|(words, at)| {
            let words = words.split([' ', ',', '\t']);
            words
                .filter(|word| !word.is_empty())
                .map(move |word| match word.split_once('=') {
                    Some((name, value)) => (at, name, Some(value)),
                    None => (at, word, None),
                })
        })
}
