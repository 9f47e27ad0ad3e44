//! Words of the POSIX shell.

/// A word that stands for just this text, without a line break in it: a request
/// is one line, and `NL` is a line break on the far side.
pub(crate) fn quote(text: &str) -> String {
    let text = text.replace('\'', r"'\''").replace('\n', "'\"$NL\"'");
    format!("'{text}'")
}

/// A word for a script, where line breaks are fine.
pub(crate) fn quote_lines(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Whether the shell can export a variable of this name.
pub(crate) fn is_variable(name: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    name.bytes().all(word) && name.bytes().next().is_some_and(|c| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_line_and_one_word() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("a\nb"), "'a'\"$NL\"'b'");
        assert_eq!(quote("$(x)`y`"), "'$(x)`y`'");
    }

    #[test]
    fn only_a_shells_names_are_variables() {
        for (name, expected) in [
            ("A", true),
            ("_x1", true),
            ("1A", false),
            ("", false),
            ("A-B", false),
            ("A=B", false),
        ] {
            assert_eq!(is_variable(name), expected, "{name:?}");
        }
    }
}
