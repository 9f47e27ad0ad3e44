//! Who may know whom.

use super::Finding;
use crate::workspace::Package;

/// A dependency that the table below forbids, and why it is right all the same.
pub(super) struct Exception {
    from: &'static str,
    to: &'static str,
    /// For the reader; a rule can't check it.
    #[allow(dead_code, reason = "read by people")]
    why: &'static str,
}

pub(super) const EXCEPTIONS: &[Exception] = &[Exception {
    from: "haft-ext-engine-local",
    to: "haft-ext-engine-openai",
    why: "the embedded model's server speaks the OpenAI wire; a second client for it would be a copy",
}];

/// What a package is, in the order from the ground up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Api,
    Testkit,
    Plugin,
    Core,
    /// What engines over one kind of connection share.
    Engines,
    /// What hosts of scripts share, whatever the language.
    Scripts,
    Import,
    Extension,
    Cli,
    Tests,
    Bench,
    Xtask,
}

impl Role {
    fn of(package: &str) -> Option<Self> {
        Some(match package {
            "haft-api" => Self::Api,
            "haft-testkit" => Self::Testkit,
            "haft-plugin" => Self::Plugin,
            "haft-core" => Self::Core,
            "haft-engine-http" => Self::Engines,
            "haft-script-host" => Self::Scripts,
            "haft-import" => Self::Import,
            "haft" => Self::Cli,
            "haft-tests" => Self::Tests,
            "haft-bench" => Self::Bench,
            "xtask" => Self::Xtask,
            // What haft-plugin's tests load.
            "haft-plugin-fixture" => Self::Extension,
            name if name.starts_with("haft-ext-") => Self::Extension,
            _ => return None,
        })
    }

    /// What it may use; what only its tests may use, besides.
    fn may_know(self) -> (&'static [Self], &'static [Self]) {
        use Role::{Api, Cli, Core, Engines, Extension, Import, Plugin, Scripts, Testkit};
        match self {
            Self::Api => (&[], &[Testkit]),
            Self::Testkit => (&[Api], &[Core]),
            Self::Plugin => (&[Api], &[Testkit, Extension]),
            Self::Core => (&[Api, Plugin], &[Testkit]),
            Self::Engines | Self::Scripts => (&[Api], &[Testkit]),
            Self::Import => (&[Api, Core], &[Testkit]),
            Self::Extension => (&[Api, Engines, Scripts], &[Testkit]),
            Self::Cli => (&[Api, Plugin, Core, Import, Extension], &[Testkit]),
            // They measure and test what engines share, wire beside wire.
            Self::Tests | Self::Bench => (
                &[Api, Testkit, Plugin, Core, Engines, Import, Extension, Cli],
                &[],
            ),
            Self::Xtask => (&[], &[]),
        }
    }
}

/// Checks every dependency between members of the workspace, optional ones too.
pub(super) fn check<'t>(
    packages: &[Package],
    exceptions: &[Exception],
    manifest: impl Fn(&str) -> &'t str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(role) = Role::of(&package.name) else {
            let message = format!(
                "{} has no place in the table of who may know whom (xtask/src/tidy/layers.rs)",
                package.name
            );
            findings.push(Finding::new(&package.manifest, 1, message));
            continue;
        };
        let (always, in_tests) = role.may_know();
        for dependency in &package.dependencies {
            let ours = packages
                .iter()
                .any(|package| package.name == dependency.name);
            let Some(other) = Role::of(&dependency.name).filter(|_| ours) else {
                continue;
            };
            let allowed = always.contains(&other)
                || (dependency.dev && in_tests.contains(&other))
                || exceptions
                    .iter()
                    .any(|e| e.from == package.name && e.to == dependency.name);
            if !allowed {
                let line = line_of(manifest(&package.manifest), &dependency.name);
                let tests = if dependency.dev {
                    ", not even in its tests"
                } else {
                    ""
                };
                let message = format!("{} may not know {}{tests}", package.name, dependency.name);
                findings.push(Finding::new(&package.manifest, line, message));
            }
        }
    }
    findings.extend(unused(packages, exceptions));
    findings
}

/// Exceptions that no manifest needs any more.
fn unused(packages: &[Package], exceptions: &[Exception]) -> Vec<Finding> {
    let needed = |exception: &Exception| {
        packages.iter().any(|package| {
            package.name == exception.from
                && package.dependencies.iter().any(|d| d.name == exception.to)
        })
    };
    exceptions
        .iter()
        .filter(|exception| !needed(exception))
        .map(|Exception { from, to, .. }| {
            let message = format!("the exception for {from} and {to} is not needed any more");
            Finding::new("xtask/src/tidy/layers.rs", 1, message)
        })
        .collect()
}

/// The line of a manifest that names a dependency first.
fn line_of(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    manifest
        .lines()
        .position(names)
        .map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    const API: &str = "haft-api";
    const CORE: &str = "haft-core";
    const LUA: &str = "haft-ext-lua";
    const TESTKIT: &str = "haft-testkit";

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: "x/Cargo.toml".to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, dev)| Dependency {
                    name: (*name).to_owned(),
                    dev: *dev,
                })
                .collect(),
            ..Package::default()
        }
    }

    /// A workspace in which `name` depends on `dependency`.
    fn findings(name: &str, dependency: &str, dev: bool, exceptions: &[Exception]) -> Vec<String> {
        let packages = [
            package(name, &[(dependency, dev), ("serde", false)]),
            package(dependency, &[]),
        ];
        check(
            &packages,
            exceptions,
            |_| "[dependencies]\nhaft-apiary = 1\nhaft-core.workspace = true",
        )
        .iter()
        .map(ToString::to_string)
        .collect()
    }

    #[test]
    fn the_table_decides() {
        let good = |name, dependency, dev| {
            assert_eq!(
                findings(name, dependency, dev, &[]),
                [""; 0],
                "{name} → {dependency}"
            );
        };
        good(LUA, API, false);
        good(CORE, API, false);
        good(TESTKIT, API, false);
        good("haft", CORE, false);
        good("haft", LUA, false);
        good("haft-tests", "haft", false);
        good("haft-bench", CORE, false);
        good("haft-engine-http", API, false);
        good("haft-ext-engine-openai", "haft-engine-http", false);
        good("haft-script-host", API, false);
        good(LUA, "haft-script-host", false);
        good(LUA, TESTKIT, true);
        good(CORE, TESTKIT, true);
        good(API, TESTKIT, true);

        let bad = |name, dependency, dev| {
            let findings = findings(name, dependency, dev, &[]);
            assert_eq!(findings.len(), 1, "{name} → {dependency}: {findings:?}");
            assert!(findings[0].contains(&format!("{name} may not know {dependency}")));
        };
        bad(LUA, CORE, false);
        bad(LUA, CORE, true);
        bad(LUA, "haft-ext-mcp", false);
        bad(LUA, TESTKIT, false);
        bad(CORE, LUA, false);
        bad(CORE, "haft-engine-http", false);
        bad("haft-engine-http", LUA, false);
        bad(CORE, "haft-script-host", false);
        bad("haft-script-host", LUA, false);
        bad(CORE, LUA, true);
        bad(CORE, TESTKIT, false);
        bad(TESTKIT, CORE, false);
        bad(API, CORE, true);
        bad("haft", TESTKIT, false);
        bad("xtask", API, false);
    }

    #[test]
    fn the_line_is_that_of_the_dependency() {
        assert_eq!(
            findings(LUA, CORE, false, &[]),
            ["x/Cargo.toml:3: haft-ext-lua may not know haft-core",]
        );
    }

    #[test]
    fn an_exception_holds_for_its_pair_and_is_reported_when_unused() {
        let exceptions = [Exception {
            from: LUA,
            to: "haft-ext-mcp",
            why: "sample",
        }];
        assert_eq!(findings(LUA, "haft-ext-mcp", false, &exceptions), [""; 0]);
        assert_eq!(
            findings(LUA, API, false, &exceptions),
            [
                "xtask/src/tidy/layers.rs:1: the exception for haft-ext-lua and haft-ext-mcp is not \
             needed any more",
            ]
        );
    }

    #[test]
    fn an_unknown_package_is_reported() {
        let findings = check(&[package("haft-odd", &[])], &[], |_| "");
        assert!(findings[0].message.contains("haft-odd has no place"));
    }
}
