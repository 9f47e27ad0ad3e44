//! The versions of dependencies, of the compiler and of the language stand in the
//! workspace's manifest and nowhere else.

use toml::de::{DeTable, DeValue};

use super::Finding;

const SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Package fields that the workspace states once. A package may have a version of
/// its own.
const FIELDS: &[&str] = &["edition", "rust-version", "license", "authors"];

/// Checks a member's manifest.
pub(super) fn check(path: &str, manifest: &str) -> Vec<Finding> {
    let table = match DeTable::parse(manifest) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let line = error.span().map_or(1, |span| line_at(manifest, span.start));
            return vec![Finding::new(path, line, error.message())];
        }
    };
    let mut findings = Vec::new();
    let mut report = |offset: usize, message: String| {
        findings.push(Finding::new(path, line_at(manifest, offset), message));
    };

    let package = child(&table, "package");
    for (key, value) in package.into_iter().flatten() {
        if FIELDS.contains(&key.as_ref().as_ref()) && !inherits(value.as_ref()) {
            let key_text = key.as_ref();
            report(
                key.span().start,
                format!("`{key_text}` belongs to the workspace: `{key_text}.workspace = true`"),
            );
        }
    }

    let targets = child(&table, "target").into_iter().flatten();
    let targets = targets.filter_map(|(_, target)| target.as_ref().as_table());
    for owner in std::iter::once(&table).chain(targets) {
        for dependencies in SECTIONS.iter().filter_map(|section| child(owner, section)) {
            for (name, value) in dependencies {
                if !inherits(value.as_ref()) {
                    let name_text = name.as_ref();
                    report(
                        name.span().start,
                        format!(
                            "`{name_text}` takes its version from the workspace: `{name_text}.workspace = true`"
                        ),
                    );
                }
            }
        }
    }
    findings
}

fn child<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
    table.get(name)?.as_ref().as_table()
}

/// True for a table with `workspace = true`.
fn inherits(value: &DeValue<'_>) -> bool {
    let flag = value.as_table().and_then(|table| table.get("workspace"));
    flag.is_some_and(|flag| flag.as_ref().as_bool() == Some(true))
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inherited_is_fine() {
        let manifest = "[package]\nname = \"x\"\nversion = \"1.0.0\"\n\
             [dependencies]\nserde.workspace = true\n\
             tokio = { workspace = true, features = [\"rt\"], optional = true }\n\
             [dependencies.toml]\nworkspace = true\n\
             [features]\nversion = []";
        assert_eq!(check("x/Cargo.toml", manifest), []);
    }

    #[test]
    fn what_is_not_is_found_in_every_section() {
        let check = |manifest: &str, expected: &str| {
            let findings = check("x/Cargo.toml", manifest);
            assert_eq!(findings.len(), 1, "{findings:?}");
            let text = findings[0].to_string();
            assert!(text.starts_with(expected), "{text}");
        };
        check(
            "[dependencies]\n\nserde = \"1\"",
            "x/Cargo.toml:3: `serde` takes",
        );
        check(
            "[dev-dependencies]\nserde = { path = \"../serde\" }",
            "x/Cargo.toml:2: `serde`",
        );
        check(
            "[build-dependencies]\ncc = { git = \"x\" }",
            "x/Cargo.toml:2: `cc`",
        );
        check(
            "[target.'cfg(unix)'.dependencies]\nnix = { version = \"1\" }",
            "x/Cargo.toml:2: `nix`",
        );
        check(
            "[dependencies]\na = { workspace = false }",
            "x/Cargo.toml:2: `a`",
        );
        check(
            "[package]\nedition = \"2024\"",
            "x/Cargo.toml:2: `edition` belongs",
        );
        check("[dependencies\n", "x/Cargo.toml:1: ");
    }
}
