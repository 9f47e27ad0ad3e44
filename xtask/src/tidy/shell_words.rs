//! As much of a shell's grammar as command lines in documents use.

/// Splits a line into its commands, each into its words: quotes and backslashes
/// resolved; `&&`, `||`, `|`, `;` and `&` between commands; `#` begins a comment.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '\t' | ';' | '&' | '|') => {
                let command = commands.last_mut().expect("there is always a last command");
                command.extend(word.take());
                if !c.is_whitespace() {
                    commands.push(Vec::new());
                }
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    commands
        .last_mut()
        .expect("there is always a last command")
        .extend(word);
    commands.retain(|command| !command.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_into_commands_and_words() {
        let check =
            |line: &str, expected: &[&[&str]]| assert_eq!(commands(line), expected, "{line}");
        check("", &[]);
        check("# only a comment", &[]);
        check("a  b\tc # d", &[&["a", "b", "c"]]);
        check(
            "a \"b 'c' | d\" 'e \"f\"' ''",
            &[&["a", "b 'c' | d", "e \"f\"", ""]],
        );
        check(
            "cd x && make; ls|wc || true &",
            &[&["cd", "x"], &["make"], &["ls"], &["wc"], &["true"]],
        );
        check(r#"a\ b "c\"d" 'e\' x#y"#, &[&["a b", "c\"d", "e\\", "x#y"]]);
    }
}
