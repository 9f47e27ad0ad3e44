//! What every package's manifest says.

use super::Finding;
use crate::workspace::Package;

const LICENSE: &str = "MIT OR Apache-2.0";

/// Checks one package, given its manifest's text.
pub(super) fn check(package: &Package, manifest: &str) -> Vec<Finding> {
    let mut messages = Vec::new();
    if package.license.as_deref() != Some(LICENSE) {
        messages.push("no `license.workspace = true`".to_owned());
    }
    if package
        .description
        .as_deref()
        .unwrap_or_default()
        .trim()
        .is_empty()
    {
        messages.push("no `description`".to_owned());
    }
    if package.readme.as_deref() != Some("README.md") {
        messages.push(format!("no README.md in `{}`", package.folder()));
    }
    let has_lints = toml::from_str::<toml::Table>(manifest).is_ok_and(|manifest| {
        let lints = manifest.get("lints").and_then(toml::Value::as_table);
        lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true)
    });
    if !has_lints {
        messages.push("no `[lints]` with `workspace = true`".to_owned());
    }
    messages
        .into_iter()
        .map(|message| Finding::new(&package.manifest, 1, format!("{}: {message}", package.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Package {
        Package {
            name: "haft-x".to_owned(),
            manifest: "x/Cargo.toml".to_owned(),
            description: Some("What it is".to_owned()),
            license: Some(LICENSE.to_owned()),
            readme: Some("README.md".to_owned()),
            ..Package::default()
        }
    }

    const LINTS: &str = "[lints]\nworkspace = true";

    #[test]
    fn a_whole_manifest_is_fine() {
        assert_eq!(check(&good(), LINTS), []);
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |package: Package, manifest: &str, word: &str| {
            let findings = check(&package, manifest);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(
                findings[0]
                    .to_string()
                    .starts_with("x/Cargo.toml:1: haft-x: ")
            );
            assert!(findings[0].message.contains(word), "{findings:?}");
        };
        missing(
            Package {
                license: None,
                ..good()
            },
            LINTS,
            "license",
        );
        missing(
            Package {
                license: Some("MIT".to_owned()),
                ..good()
            },
            LINTS,
            "license",
        );
        missing(
            Package {
                description: Some(" ".to_owned()),
                ..good()
            },
            LINTS,
            "description",
        );
        missing(
            Package {
                readme: None,
                ..good()
            },
            LINTS,
            "no README.md in `x`",
        );
        missing(good(), "", "[lints]");
        missing(good(), "[lints]\nworkspace = false", "[lints]");
        missing(good(), "[lints.rust]\nmissing_docs = \"deny\"", "[lints]");
    }
}
