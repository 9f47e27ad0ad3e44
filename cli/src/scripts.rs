//! Where script extensions come from: `--ext`, and the user's own folder.

use std::path::{Path, PathBuf};

use crate::args::PlaceArgs;
use crate::config::{self, Environment, Settings};
use crate::failure::{Failure, Outcome};
use crate::plugins::{self, PluginFile};

/// The extension that runs Lua.
const LUA: &str = "lua";
/// The extension that runs skills.
pub(crate) const QUICKJS: &str = "quickjs";

/// Tells the script hosts what there is to load. A workspace brings no scripts
/// of its own: they run where they are named by a flag or lie in the user's own
/// folder.
pub(crate) fn equip(
    settings: &mut Settings,
    place: &PlaceArgs,
    environment: &Environment,
    named: &[PathBuf],
) -> Outcome<()> {
    for path in named {
        if plugins::is_shared_object(path) {
            // As it was written: a shared object is loaded by its absolute path
            // or not at all.
            settings.plugins.push(PluginFile::by_flag(path.clone()));
            continue;
        }
        let path = std::fs::canonicalize(path)
            .map_err(|e| Failure::usage(format!("--ext {}: {e}", path.display())))?;
        let host = host_of(&path)?;
        settings.push(host, "paths", path.to_string_lossy().into_owned());
    }
    let hosts = [
        (cfg!(feature = "lua"), LUA, "state_dir"),
        (cfg!(feature = "quickjs"), QUICKJS, "data_dir"),
    ];
    let folder = config::extensions_folder(place, environment).filter(|folder| folder.is_dir());
    for (_, host, key) in hosts.into_iter().filter(|(linked, ..)| *linked) {
        if let Some(folder) = &folder {
            settings.push(host, "folders", folder.to_string_lossy().into_owned());
        }
        let state = settings.home.join("state").join(host);
        settings.set_default(host, key, state.to_string_lossy().into_owned());
    }
    Ok(())
}

/// Whether a path is a skill's folder.
pub(crate) fn is_skill(path: &Path) -> bool {
    path.join("manifest.json").is_file()
}

/// The extension that can load a path.
fn host_of(path: &Path) -> Outcome<&'static str> {
    let lua = path.extension().is_some_and(|ending| ending == "lua")
        || (path.is_dir() && path.join("init.lua").is_file());
    let (host, linked, language) = match (lua, is_skill(path)) {
        (true, _) => (LUA, cfg!(feature = "lua"), "Lua (feature `lua`)"),
        (_, true) => (
            QUICKJS,
            cfg!(feature = "quickjs"),
            "JavaScript (feature `quickjs`)",
        ),
        _ => {
            return Err(Failure::usage(format!(
                "--ext {}: neither a .lua file, nor a folder with an init.lua or a manifest.json, \
                 nor a shared object",
                path.display()
            )));
        }
    };
    match linked {
        true => Ok(host),
        false => Err(Failure::usage(format!(
            "--ext {}: this program was built without {language}",
            path.display()
        ))),
    }
}
