//! Where things are.

use std::path::{Path, PathBuf};

use super::Environment;
use crate::args::PlaceArgs;
use crate::failure::{Failure, Outcome};

/// The folder of Haft's own data: the flag's, the environment's, or the usual
/// one. Absolute; it need not be there.
pub(crate) fn home(flags: &PlaceArgs, environment: &Environment) -> Outcome<PathBuf> {
    let named = flags
        .home
        .clone()
        .or_else(|| environment.path("HAFT_HOME").map(PathBuf::from));
    let usual = || {
        usual_folder(environment, "XDG_DATA_HOME", "LOCALAPPDATA", ".local/share").ok_or_else(
            || Failure::usage("no home folder is known; name a place with --home or HAFT_HOME"),
        )
    };
    let home = named.map_or_else(usual, Ok)?;
    if home.as_os_str().is_empty() {
        return Err(Failure::usage("--home is empty; name a folder"));
    }
    let home = std::path::absolute(&home)
        .map_err(|e| Failure::usage(format!("--home {}: {e}", home.display())))?;
    match home.to_str() {
        Some(_) => Ok(home),
        None => Err(Failure::usage(format!(
            "the home {} isn't UTF-8",
            home.display()
        ))),
    }
}

/// The user's configuration, and whether it has to be there.
pub(crate) fn user_file(flags: &PlaceArgs, environment: &Environment) -> Option<(PathBuf, bool)> {
    match &flags.config {
        Some(file) => Some((file.clone(), true)),
        None => usual_folder(environment, "XDG_CONFIG_HOME", "APPDATA", ".config")
            .map(|folder| (folder.join("config.toml"), false)),
    }
}

/// The user's own folder of script extensions. A configuration that is named by
/// a flag stands for all that is the user's own.
pub(crate) fn extensions_folder(flags: &PlaceArgs, environment: &Environment) -> Option<PathBuf> {
    if flags.config.is_some() {
        return None;
    }
    usual_folder(environment, "XDG_CONFIG_HOME", "APPDATA", ".config")
        .map(|folder| folder.join("extensions"))
}

/// Haft's folder in one of the user's folders.
fn usual_folder(
    environment: &Environment,
    variable: &str,
    on_windows: &str,
    below_home: &str,
) -> Option<PathBuf> {
    let set = |name: &str| environment.path(name).map(PathBuf::from);
    // The XDG specification has relative paths ignored.
    let chosen = set(variable).filter(|path| path.is_absolute());
    let usual = || match cfg!(windows) {
        true => set(on_windows),
        false => set("HOME").map(|home| home.join(below_home)),
    };
    chosen.or_else(usual).map(|folder| folder.join("haft"))
}

/// The workspace that a flag names, or the current folder: absolute, without
/// links, and there.
pub(crate) fn workspace(named: Option<&Path>) -> Outcome<PathBuf> {
    let path = named.unwrap_or(Path::new("."));
    let fail = |why: &str| Failure::usage(format!("the workspace {} {why}", path.display()));
    let canonical = std::fs::canonicalize(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => fail("isn't there; name a folder that is"),
        _ => fail(&format!("can't be used: {e}")),
    })?;
    if !canonical.is_dir() {
        return Err(fail("is no folder"));
    }
    match canonical.to_str() {
        Some(_) => Ok(canonical),
        None => Err(fail("has a path that isn't UTF-8")),
    }
}
