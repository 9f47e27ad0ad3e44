//! Every library and binary says what it is, at the top of its root file.

use super::Finding;
use super::source::Source;

/// Checks the root file of one crate.
pub(super) fn check(path: &str, source: Option<&Source>) -> Option<Finding> {
    let Some(source) = source else {
        return Some(Finding::new(path, 1, "the crate's root file can't be read"));
    };
    // Inner attributes may stand in any order before the first item.
    let mut i = 0;
    while source.reads(i, &["#", "!", "["]) {
        if source.reads(i + 3, &["doc", "="]) {
            return None;
        }
        i = source.closing(i + 2) + 1;
    }
    Some(Finding::new(path, 1, "no crate docs (`//!`) at the top"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_are_comments_or_attributes_at_the_top() {
        let check = |text: &str| check("a.rs", Some(&Source::new("a.rs", text)));
        assert_eq!(check("//! What it is.\nfn main() {}"), None);
        assert_eq!(
            check("// Licence.\n#![forbid(unsafe_code)]\n//! What it is."),
            None
        );
        assert_eq!(check("#![doc = include_str!(\"../README.md\")]"), None);
        for bad in [
            "",
            "// What it is.",
            "/// Of main.\nfn main() {}",
            "mod a { //! Of a.\n }",
        ] {
            assert!(check(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_missing_root_is_a_finding() {
        assert!(check("a.rs", None).is_some());
    }
}
