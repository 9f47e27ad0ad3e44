//! A new extension to start from.

use std::path::{Path, PathBuf};

use haft_api::{Error, ErrorKind, Result};

use crate::annotations::annotations;

const INIT: &str = r#"-- An extension for Haft. What it may reach on this machine is declared in this
-- head, for instance:  --@grants network process=git env=HOME
-- So is what it needs beyond the host's limits:  --@limits call_ms=600000

local greeting = require("greeting")

haft.register_tool {
  name = "NAME",
  description = "Greets somebody by name.",
  effects = "pure",
  schema = {
    type = "object",
    properties = { who = { type = "string", description = "Whom to greet" } },
    required = { "who" },
  },
  ---@param args { who: string }
  ---@param ctx haft.Context
  handler = function(args, ctx)
    return greeting.to(args.who)
  end,
}
"#;

const MODULE: &str = r#"local greeting = {}

function greeting.to(who)
  return "Hello, " .. who .. "!"
end

return greeting
"#;

const TESTS: &str = r#"{"name":"NAME","arguments":{"who":"world"},"expect":"Hello, world!"}
"#;

const LUARC: &str = r#"{
  "runtime.version": "Lua 5.4",
  "workspace.library": [".types"],
  "diagnostics.globals": ["haft"]
}
"#;

/// Makes a folder of this name with a working extension: a tool, a module, a
/// test that [`check`](crate::check) runs, and the types of `haft` for editors.
/// Returns the files.
///
/// # Errors
/// If the name can't be a tool's, or the folder is there already.
pub fn scaffold(within: &Path, name: &str) -> Result<Vec<PathBuf>> {
    haft_api::ToolName::new(name)?;
    let folder = within.join(name);
    std::fs::create_dir(&folder).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::new(ErrorKind::AlreadyExists, "the folder is there already")
                .context("folder", folder.display())
        }
        _ => Error::io(e, "the folder can't be made").context("folder", folder.display()),
    })?;
    let mut made = Vec::new();
    for (file, text) in [
        ("init.lua", INIT.replace("NAME", name)),
        ("greeting.lua", MODULE.to_owned()),
        ("tests.jsonl", TESTS.replace("NAME", name)),
        (".luarc.json", LUARC.to_owned()),
        (".types/haft.lua", annotations()),
    ] {
        let path = folder.join(file);
        let write = || {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, text)
        };
        write().map_err(|e| Error::io(e, "can't be written").context("file", path.display()))?;
        made.push(path);
    }
    Ok(made)
}
