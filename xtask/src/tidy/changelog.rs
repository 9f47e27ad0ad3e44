//! The changelog tells of what comes next, or of what is.

use super::Finding;
use crate::workspace::Package;

const FILE: &str = "CHANGELOG.md";

/// Checks the changelog against the version of the facade.
pub(super) fn check(changelog: Option<&str>, packages: &[Package]) -> Option<Finding> {
    let Some(changelog) = changelog else {
        return Some(Finding::new(FILE, 1, "there is no changelog"));
    };
    let version = packages.iter().find(|package| package.name == "haft");
    let version = version.map_or("", |package| package.version.as_str());
    let has = |heading: &str| {
        let mut titles = changelog
            .lines()
            .filter_map(|line| line.strip_prefix("## "));
        titles.any(|title| {
            let first = title.split_whitespace().next().unwrap_or_default();
            first
                .trim_matches(['[', ']', ',', ':'])
                .eq_ignore_ascii_case(heading)
        })
    };
    let found = has("Unreleased") || (!version.is_empty() && has(version));
    (!found).then(|| {
        let message =
            format!("no section `## Unreleased` and none for the current version {version}");
        Finding::new(FILE, 1, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_a_section_for_now() {
        let package = |name: &str, version: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            ..Package::default()
        };
        let packages = [package("haft-api", "3.0.0"), package("haft", "0.2.0")];
        let check = |text: &str| check(Some(text), &packages).is_none();
        assert!(check("# Changelog\n\n## Unreleased\n"));
        assert!(check("## [Unreleased]\n"));
        assert!(check("## [0.2.0] - 2026-01-01\n"));
        assert!(check("## 0.2.0, 2026-01-01\n"));
        assert!(!check("# Unreleased\n"));
        assert!(!check("## 0.1.0\n\nUnreleased 0.2.0\n"));
        assert!(!check("## 3.0.0\n"));
        assert!(super::check(None, &packages).is_some());
    }
}
