//! A new skill to start from.

use std::path::{Path, PathBuf};

use haft_api::{Error, ErrorKind, Result};

use crate::types::declarations;

/// The language of a new skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// JavaScript.
    JavaScript,
    /// TypeScript.
    TypeScript,
}

const MANIFEST: &str = r#"{
  "id": "NAME",
  "name": "NAME",
  "runtime": "quickjs",
  "entry": "ENTRY",
  "version": "0.1.0",
  "description": "Greets somebody by name.",
  "auto_start": true,
  "grants": {}
}
"#;

const JAVASCRIPT: &str = r#"/// <reference path="./haft.d.ts" />
import { greeting } from "./greeting.js";

/** @type {Skill} */
const skill = {
  tools: [
    {
      name: "greet",
      description: "Greets somebody by name.",
      effects: "pure",
      inputSchema: {
        type: "object",
        properties: { who: { type: "string", description: "Whom to greet" } },
        required: ["who"],
      },
      async execute({ who }) {
        state.set("greeted", (state.get("greeted") ?? 0) + 1);
        return greeting(who);
      },
    },
  ],
};

export default skill;
"#;

const JAVASCRIPT_MODULE: &str = r#"/** @param {string} who */
export function greeting(who) {
  return `Hello, ${who}!`;
}
"#;

const TYPESCRIPT: &str = r#"/// <reference path="./haft.d.ts" />
import { greeting } from "./greeting.ts";

const skill: Skill = {
  tools: [
    {
      name: "greet",
      description: "Greets somebody by name.",
      effects: "pure",
      inputSchema: {
        type: "object",
        properties: { who: { type: "string", description: "Whom to greet" } },
        required: ["who"],
      },
      async execute({ who }: { who: string }): Promise<string> {
        state.set("greeted", ((state.get("greeted") as number) ?? 0) + 1);
        return greeting(who);
      },
    },
  ],
};

export default skill;
"#;

const TYPESCRIPT_MODULE: &str = r#"export function greeting(who: string): string {
  return `Hello, ${who}!`;
}
"#;

const TESTS: &str = r#"{"name":"greet","arguments":{"who":"world"},"expect":"Hello, world!"}
"#;

const CONFIG: &str = r#"{
  "compilerOptions": {
    "target": "ES2023",
    "module": "ESNext",
    "moduleResolution": "Bundler",
    "allowImportingTsExtensions": true,
    "lib": ["ES2023"],
    "types": [],
    "strict": true,
    "checkJs": true,
    "noEmit": true
  }
}
"#;

/// Makes a folder of this name with a working skill: a tool, a module, a test
/// that [`check`](crate::check) runs, and the types for editors. Returns the
/// files.
///
/// # Errors
/// If the name can't be a skill's, or the folder is there already.
pub fn scaffold(within: &Path, name: &str, language: Language) -> Result<Vec<PathBuf>> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) || name.contains("__") {
        let words = "not a valid skill's id: 1 to 64 letters, digits, `-` and single `_`";
        return Err(Error::new(ErrorKind::InvalidInput, words).context("id", name));
    }
    let folder = within.join(name);
    std::fs::create_dir(&folder).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Error::new(
            ErrorKind::AlreadyExists,
            "there is something of this name already",
        )
        .context("folder", folder.display()),
        _ => Error::io(e, "the folder can't be made").context("folder", folder.display()),
    })?;
    let (ending, entry, module, config) = match language {
        Language::JavaScript => ("js", JAVASCRIPT, JAVASCRIPT_MODULE, "jsconfig.json"),
        Language::TypeScript => ("ts", TYPESCRIPT, TYPESCRIPT_MODULE, "tsconfig.json"),
    };
    let index = format!("index.{ending}");
    let files = [
        (
            "manifest.json".to_owned(),
            MANIFEST.replace("NAME", name).replace("ENTRY", &index),
        ),
        (index, entry.to_owned()),
        (format!("greeting.{ending}"), module.to_owned()),
        ("tests.jsonl".to_owned(), TESTS.to_owned()),
        (config.to_owned(), CONFIG.to_owned()),
        ("haft.d.ts".to_owned(), declarations()),
    ];
    let mut made = Vec::with_capacity(files.len());
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::write(&path, text)
            .map_err(|e| Error::io(e, "can't be written").context("file", path.display()))?;
        made.push(path);
    }
    Ok(made)
}
