//! `cargo xtask dylib PACKAGE`: an extension crate as a shared object, and the
//! lines of configuration that load it.
//!
//! Nothing in the crate says that it is a plug-in: the feature `dylib` of
//! haft-api gives it its entry symbol, and the crate type is given here.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::workspace::cargo;

const USAGE: &str = "\
Usage: cargo xtask dylib PACKAGE [OPTIONS]

Builds an extension crate as a shared object, and prints the configuration that
loads it.

Options:
  --out DIR             where to put it; default: plugins/ in cargo's target folder
  --profile NAME        as cargo's; default: release
  --manifest-path PATH  of a package outside of this workspace
  --features LIST       features of the package, besides";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) package: String,
    /// Where the shared object is put.
    pub(crate) out: Option<PathBuf>,
    pub(crate) profile: String,
    /// Of a package outside of this workspace.
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) features: Option<String>,
}

/// Runs the task.
pub(crate) fn main(arguments: lexopt::Parser) -> Result<ExitCode> {
    let Some(options) = parse(arguments)? else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    let mut command = build_command(&options);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run {command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed").into());
    }
    let kept = kept(&options, &String::from_utf8_lossy(&output.stdout))?;
    print!("{}", config_entry(&kept, &sha256(&kept)?));
    Ok(ExitCode::SUCCESS)
}

/// Puts what a [`build_command`] said that it made to where it stays, and
/// returns the path.
pub(crate) fn kept(options: &Options, messages: &str) -> Result<PathBuf> {
    let built = shared_object(messages, &options.package)?;
    keep(&built, options.out.as_deref())
}

fn parse(mut arguments: lexopt::Parser) -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let (mut package, mut out, mut manifest, mut features) = (None, None, None, None);
    let mut profile = "release".to_owned();
    while let Some(argument) = arguments.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("out") => out = Some(PathBuf::from(arguments.value()?)),
            Long("profile") => profile = arguments.value()?.string()?,
            Long("manifest-path") => manifest = Some(PathBuf::from(arguments.value()?)),
            Long("features") => features = Some(arguments.value()?.string()?),
            Value(name) if package.is_none() => package = Some(name.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let package = package.ok_or_else(|| format!("which package?\n\n{USAGE}"))?;
    Ok(Some(Options {
        package,
        out,
        profile,
        manifest,
        features,
    }))
}

/// The command that builds it, and tells of it in JSON on its standard output.
pub(crate) fn build_command(options: &Options) -> Command {
    let mut command = cargo();
    command.args(["rustc", "--lib", "--crate-type", "cdylib"]);
    command.args(["--package", &options.package]);
    command.args(["--features", "haft-api/dylib"]);
    if let Some(features) = &options.features {
        command.args(["--features", features]);
    }
    command.args(["--profile", &options.profile]);
    if let Some(manifest) = &options.manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    command.arg("--message-format=json-render-diagnostics");
    command
}

/// The shared object that cargo's messages say was made of this package.
fn shared_object(messages: &str, package: &str) -> Result<PathBuf> {
    let made = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| is_of(message["package_id"].as_str().unwrap_or_default(), package))
        .filter_map(|message| {
            let files = message["filenames"].as_array()?;
            let mut files = files.iter().filter_map(Value::as_str);
            files
                .find(|file| file.ends_with(std::env::consts::DLL_SUFFIX))
                .map(PathBuf::from)
        })
        .next_back();
    made.ok_or_else(|| format!("cargo made no shared object of {package}").into())
}

/// `path+file:///x/my-ext#0.1.0`, `path+file:///x#my-ext@0.1.0`,
/// `registry+…#my-ext@0.1.0`.
fn is_of(id: &str, package: &str) -> bool {
    let Some((place, fragment)) = id.rsplit_once('#') else {
        return false;
    };
    match fragment.rsplit_once('@') {
        Some((name, _)) => name == package,
        None => place.rsplit('/').next() == Some(package),
    }
}

/// Copies the file to where it stays, with the permissions that a host wants:
/// nobody but its owner may write to it or its folder.
fn keep(built: &Path, out: Option<&Path>) -> Result<PathBuf> {
    let name = built.file_name().ok_or("a file without a name")?;
    let folder = match (out, built.ancestors().nth(2)) {
        (Some(out), _) => out.to_owned(),
        (None, Some(target)) => target.join("plugins"),
        (None, None) => return Err("cargo's target folder can't be found".into()),
    };
    let at = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(&folder).map_err(|e| at(&folder, e))?;
    let folder = folder.canonicalize().map_err(|e| at(&folder, e))?;
    let kept = folder.join(name);
    // Beside the old one and then in its place: that may be loaded somewhere.
    let fresh = folder.join(format!(".{}.new", name.display()));
    std::fs::copy(built, &fresh).map_err(|e| at(&fresh, e))?;
    for path in [&folder, &fresh] {
        forbid_others_to_write(path).map_err(|e| at(path, e))?;
    }
    std::fs::rename(&fresh, &kept).map_err(|e| at(&kept, e))?;
    Ok(kept)
}

#[cfg(unix)]
fn forbid_others_to_write(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let mut permissions = std::fs::metadata(path)?.permissions();
    permissions.set_mode(permissions.mode() & !0o022);
    std::fs::set_permissions(path, permissions)
}

#[cfg(not(unix))]
fn forbid_others_to_write(_: &Path) -> std::io::Result<()> {
    Ok(())
}

pub(crate) fn sha256(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut text = String::new();
    for byte in Sha256::digest(&bytes) {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

pub(crate) fn config_entry(path: &Path, sha256: &str) -> String {
    let path = toml::Value::from(path.display().to_string());
    format!("[[plugin]]\npath = {path}\nsha256 = \"{sha256}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Option<Options>> {
        parse(lexopt::Parser::from_args(arguments))
    }

    #[test]
    fn the_package_is_needed_and_the_rest_has_defaults() {
        let options = parsed(&["my-ext"]).unwrap().unwrap();
        assert_eq!(
            (&*options.package, &*options.profile),
            ("my-ext", "release")
        );
        let options = parsed(&["my-ext", "--profile=dev", "--out", "x"]).unwrap();
        let options = options.unwrap();
        assert_eq!(options.profile, "dev");
        assert_eq!(options.out.as_deref(), Some(Path::new("x")));
        assert!(parsed(&["--help"]).unwrap().is_none());
        for bad in [&[][..], &["a", "b"], &["a", "--what"]] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_shared_object_is_found_among_cargos_messages() {
        let artifact = |id: &str, file: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","filenames":["{file}"]}}"#
            )
        };
        let suffix = std::env::consts::DLL_SUFFIX;
        let file = |name: &str| format!("/t/release/lib{name}{suffix}");
        let lines = [
            "not JSON at all".to_owned(),
            artifact("registry+x#serde_derive@1.0.0", &file("serde_derive")),
            artifact("path+file:///x/my-ext#0.1.0", "/t/release/libmy_ext.rlib"),
            artifact("path+file:///x/my-ext#0.1.0", &file("my_ext")),
            artifact("path+file:///x/folder#other@0.1.0", &file("other")),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ]
        .join("\n");
        let found = |package| shared_object(&lines, package).map_err(|e| e.to_string());
        assert_eq!(found("my-ext"), Ok(PathBuf::from(file("my_ext"))));
        assert_eq!(found("other"), Ok(PathBuf::from(file("other"))));
        assert!(found("folder").is_err());
        assert!(found("ext").unwrap_err().contains("ext"));
    }

    #[test]
    fn what_is_kept_is_nobodys_to_change() {
        let place = tempfile::tempdir().unwrap();
        let built = place.path().join("release/libx.so");
        std::fs::create_dir(place.path().join("release")).unwrap();
        std::fs::write(&built, "abc").unwrap();
        for out in [None, Some(place.path().join("out"))] {
            let kept = keep(&built, out.as_deref()).unwrap();
            assert!(kept.is_absolute());
            assert_eq!(std::fs::read(&kept).unwrap(), b"abc");
            let expected = out.unwrap_or_else(|| place.path().join("plugins"));
            assert_eq!(kept.parent().unwrap(), expected.canonicalize().unwrap());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let open = place.path().join("open");
            std::fs::create_dir(&open).unwrap();
            std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
            std::fs::set_permissions(&built, PermissionsExt::from_mode(0o666)).unwrap();
            let kept = keep(&built, Some(&open)).unwrap();
            for path in [&*open, &*kept] {
                assert_eq!(path.metadata().unwrap().permissions().mode() & 0o022, 0);
            }
        }
    }

    #[test]
    fn the_entry_is_toml_with_the_files_digest() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a \"quoted\" name.so");
        std::fs::write(&file, "abc").unwrap();
        let entry = config_entry(&file, &sha256(&file).unwrap());
        let entry: toml::Table = toml::from_str(&entry).unwrap();
        let plugin = &entry["plugin"][0];
        assert_eq!(plugin["path"].as_str(), file.to_str());
        assert_eq!(
            plugin["sha256"].as_str(),
            Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
    }
}
