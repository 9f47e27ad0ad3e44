//! Where script extensions come from: `--ext`, and the user's own folder.

use std::path::{Path, PathBuf};

use crate::args::PlaceArgs;
use crate::config::{self, Environment, Settings};
use crate::failure::{Failure, Outcome};
use crate::plugins::{self, PluginFile};

/// The extension that runs Lua.
const LUA: &str = "lua";

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
    if cfg!(feature = "lua") {
        let folder = config::extensions_folder(place, environment).filter(|folder| folder.is_dir());
        if let Some(folder) = folder {
            settings.push(LUA, "folders", folder.to_string_lossy().into_owned());
        }
        let state = settings.home.join("state").join(LUA);
        settings.set_default(LUA, "state_dir", state.to_string_lossy().into_owned());
    }
    Ok(())
}

/// The extension that can load a path.
fn host_of(path: &Path) -> Outcome<&'static str> {
    let lua = path.extension().is_some_and(|ending| ending == "lua")
        || (path.is_dir() && path.join("init.lua").is_file());
    if !lua {
        return Err(Failure::usage(format!(
            "--ext {}: neither a .lua file, nor a folder with an init.lua, nor a shared object",
            path.display()
        )));
    }
    if !cfg!(feature = "lua") {
        return Err(Failure::usage(format!(
            "--ext {}: this program was built without Lua (feature `lua`)",
            path.display()
        )));
    }
    Ok(LUA)
}
