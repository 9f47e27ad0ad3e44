//! No path of one machine: nobody else has it.
//!
//! The folders themselves (`/tmp` as a place to mount, `/home` as a place to
//! hide) are the same on every system and so are fine; a path below them is not.

use super::Finding;
use super::files::Text;
use super::source::Source;

/// Where machines differ.
const FOLDERS: &[&str] = &["root", "home", "tmp", "Users"];

/// Checks one text file but for its tests; `source` are its tokens if it is Rust.
pub(super) fn check(file: &Text, source: Option<&Source>) -> Vec<Finding> {
    let in_tests = |line: usize| match source {
        Some(source) => source.is_test_line(line),
        None => Text::in_test_folder(&file.path),
    };
    let lines = file
        .text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    lines
        .filter(|(line, _)| !in_tests(*line))
        .filter_map(|(line, text)| {
            let path = machine_path(text)?;
            Some(Finding::new(
                &file.path,
                line,
                format!("`{path}` is a path of one machine"),
            ))
        })
        .collect()
}

/// The first such path in a line.
fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(start, _)| {
        let is_part = |c: char| c.is_alphanumeric() || "_-.~/\\}>)$*".contains(c);
        if line[..start].ends_with(is_part) {
            return None;
        }
        let rest = &line[start..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)));
        let path = &rest[..end.unwrap_or(rest.len())];
        let (folder, below) = path[1..].split_once('/')?;
        let named = below.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        (FOLDERS.contains(&folder) && named).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_a_machines_own_folders_are_found() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(machine_path(line), expected);
        check("let a = \"/root/haft/x\";", Some("/root/haft/x"));
        check("see `/home/ann/.cargo`, please", Some("/home/ann/.cargo"));
        check("cd /tmp/build && make", Some("/tmp/build"));
        check("a /usr/lib and /Users/ann/x", Some("/Users/ann/x"));
        check("--bind / / --tmpfs /tmp", None);
        check("hides /home and /root/", None);
        check("/home/<you>/x, /home/$USER/x, /tmp/{id}", None);
        check(
            "$HOME/tmp/x, ~/tmp/x, ./tmp/x, src/tmp/x, {root}/tmp/x",
            None,
        );
        check("https://example.org/home/x", None);
        check("/usr/lib/x, /path/to/x, a / b", None);
    }

    #[test]
    fn tests_may_have_them() {
        let lines = |path: &str, text: &str| {
            let source = path.ends_with(".rs").then(|| Source::new(path, text));
            let file = Text {
                path: path.to_owned(),
                text: text.to_owned(),
            };
            check(&file, source.as_ref())
                .iter()
                .map(|f| f.line)
                .collect::<Vec<_>>()
        };
        let text = "// /tmp/a\n#[cfg(test)]\nmod t {\n    // /tmp/b\n}\n";
        assert_eq!(lines("x/src/a.rs", text), [1]);
        assert_eq!(lines("x/tests/a.rs", text), [0; 0]);
        assert_eq!(lines("x/tests/a.toml", "\n/tmp/a"), [0; 0]);
        assert_eq!(lines("x/README.md", "\n/tmp/a"), [2]);
    }
}
