//! New extensions in Rust.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::commands::print;
use crate::failure::{DONE, Failure, Outcome};

/// The files of a new package, and what is in them.
const FILES: [(&str, &str); 5] = [
    (
        "Cargo.toml",
        include_str!("../../../templates/rust/Cargo.toml.in"),
    ),
    (
        "README.md",
        include_str!("../../../templates/rust/README.md.in"),
    ),
    (
        ".gitignore",
        include_str!("../../../templates/rust/gitignore.in"),
    ),
    (
        "src/lib.rs",
        include_str!("../../../templates/rust/lib.rs.in"),
    ),
    (
        "tests/conformance.rs",
        include_str!("../../../templates/rust/conformance.rs.in"),
    ),
];

/// Names that would be taken for something else: Rust's keywords and own
/// crates, and what the package itself depends on.
const TAKEN: &str = "abstract alloc as async await become box break const continue core crate do \
    dyn else enum extern false final fn for gen haft haft_api haft_testkit if impl in let loop \
    macro match mod move mut override priv proc_macro pub ref return self serde static std struct \
    super test trait true try type typeof unsafe unsized use virtual where while yield";

pub(super) fn new(name: &str) -> Outcome {
    let files = write(Path::new("."), name)?;
    print(|out| {
        files
            .iter()
            .try_for_each(|file| writeln!(out, "{}", file.display()))
    })?;
    Ok(DONE)
}

/// Makes a folder of this name with a package that builds as it is: a tool, its
/// tests, and how it is used. Returns the files.
fn write(within: &Path, name: &str) -> Outcome<Vec<PathBuf>> {
    check_name(name)?;
    let folder = within.join(name);
    let failed = |path: &Path, e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} is there already; choose another name",
            path.display()
        )),
        _ => Failure::usage(format!("{} can't be made: {e}", path.display())),
    };
    std::fs::create_dir(&folder).map_err(|e| failed(&folder, e))?;
    let mut made = Vec::new();
    for (file, template) in FILES {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        }
        std::fs::write(&path, fill(template, name)).map_err(|e| failed(&path, e))?;
        made.push(path);
    }
    Ok(made)
}

/// What is a package's name, an extension's id and a tool's name alike.
fn check_name(name: &str) -> Outcome<()> {
    let refuse = |why: &str| Err(Failure::usage(format!("the name `{name}` {why}")));
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(fits) {
        return refuse("must begin with a letter, and have lower-case letters, digits and `-`");
    }
    if name.ends_with('-') || name.contains("--") {
        return refuse("must have something after each `-`");
    }
    if TAKEN
        .split(' ')
        .any(|taken| taken == name.replace('-', "_"))
    {
        return refuse("means something else to Rust");
    }
    haft_api::ExtensionId::new(name).map_err(Failure::usage)?;
    haft_api::ToolName::new(tool_name(name)).map_err(Failure::usage)?;
    Ok(())
}

fn tool_name(name: &str) -> String {
    name.replace('-', "_")
}

fn type_name(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.chain(["Extension".to_owned()]).collect()
}

fn fill(template: &str, name: &str) -> String {
    let (crate_name, library) = (
        tool_name(name),
        format!(
            "{}{}{}",
            std::env::consts::DLL_PREFIX,
            tool_name(name),
            std::env::consts::DLL_SUFFIX
        ),
    );
    template
        .replace("{{name}}", name)
        .replace("{{crate}}", &crate_name)
        .replace("{{tool}}", &crate_name)
        .replace("{{type}}", &type_name(name))
        .replace("{{library}}", &library)
        .replace("{{version}}", haft_api::API_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_all_that_is_named_after_them() {
        for good in ["greet", "my-tool", "x2", "a-1"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "", "2x", "-x", "x-", "x--y", "Greet", "a_b", "a/b", "../x", "fn", "std", "haft-api",
            "grüße",
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert_eq!(type_name("my-2nd-tool"), "My2ndToolExtension");
    }

    #[test]
    fn every_placeholder_is_filled() {
        for (file, template) in FILES {
            let text = fill(template, "my-tool");
            assert!(!text.contains("{{"), "{file}");
        }
    }

    #[test]
    fn nothing_that_is_there_is_written_over() {
        let place = tempfile::tempdir().unwrap();
        let files = write(place.path(), "greet").unwrap();
        assert!(files.iter().all(|file| file.is_file()));
        let failure = write(place.path(), "greet").unwrap_err();
        let message = failure.message().unwrap();
        assert!(message.contains("there already"), "{message}");
    }
}
