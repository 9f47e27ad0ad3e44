//! Paths as tools and models write them.

/// Most bytes of one tool's text. A runtime cuts long results in the middle;
/// what is paged or counted here never gets so long.
pub(crate) const PAGE_BYTES: usize = 24_000;

/// A path relative to the workspace where it lies within, without `./` and
/// separators at its end; the workspace itself is `.`.
pub(crate) fn relative(workspace: &str, path: &str) -> String {
    let inside = path
        .strip_prefix(workspace.trim_end_matches('/'))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut path = inside.map_or(path, |rest| rest.trim_start_matches('/'));
    while let Some(rest) = path.strip_prefix("./") {
        path = rest.trim_start_matches('/');
    }
    let trimmed = path.trim_end_matches('/');
    match trimmed {
        "" if path.starts_with('/') => "/".to_owned(),
        "" => ".".to_owned(),
        path => path.to_owned(),
    }
}

/// A name beneath a folder as [`relative`] writes it.
pub(crate) fn join(folder: &str, name: &str) -> String {
    match folder {
        "." => name.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{name}"),
        folder => format!("{folder}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_one_spelling() {
        let check = |path: &str, expected: &str| {
            assert_eq!(relative("/home/w", path), expected, "{path}");
        };
        check(".", ".");
        check("./", ".");
        check("", ".");
        check("/home/w", ".");
        check("/home/w/", ".");
        check("/home/w/src/", "src");
        check(".//src/a.rs", "src/a.rs");
        check("././src", "src");
        check("/home/work", "/home/work");
        check("/", "/");
        check("../x", "../x");
        assert_eq!(join(".", "a"), "a");
        assert_eq!(join("src", "a"), "src/a");
        assert_eq!(join("/", "a"), "/a");
    }
}
