//! The author's API as types for editors. The table here is the one place that
//! says what there is; a test compares it with a live state.

/// A function of the API: its name, parameters, results, and what it does.
pub(crate) type Entry = (&'static str, &'static str, &'static str, &'static str);

/// All functions, by name.
pub(crate) const FUNCTIONS: &[Entry] = &[
    (
        "base64.decode",
        "text: string",
        "string",
        "Bytes from standard base64.",
    ),
    (
        "base64.encode",
        "bytes: string",
        "string",
        "Bytes as standard base64.",
    ),
    (
        "fs.list",
        "path: string",
        "haft.Entry[]",
        "Lists a folder, by name. Waits.",
    ),
    (
        "fs.make_dir",
        "path: string",
        "",
        "Makes a folder and those above it. Waits.",
    ),
    (
        "fs.read",
        "path: string, options?: haft.ReadOptions",
        "string",
        "Reads a file. Waits.",
    ),
    (
        "fs.remove",
        "path: string",
        "",
        "Removes a file or an empty folder. Waits.",
    ),
    (
        "fs.stat",
        "path: string",
        "haft.Stat?",
        "What is known of a file; nil if it isn't there. Waits.",
    ),
    (
        "fs.write",
        "path: string, text: string, options?: haft.WriteOptions",
        "",
        "Writes a whole file. Waits.",
    ),
    (
        "http.get",
        "url: string|haft.Request, options?: haft.Request",
        "haft.Response",
        "Makes a GET request. Waits.",
    ),
    (
        "http.post",
        "url: string|haft.Request, options?: haft.Request",
        "haft.Response",
        "Makes a POST request. Waits.",
    ),
    (
        "http.request",
        "url: string|haft.Request, options?: haft.Request",
        "haft.Response",
        "Makes a request. Waits.",
    ),
    (
        "image",
        "image: { media_type: string, data?: string, bytes?: string }",
        "haft.Part",
        "A picture as a part of a result.",
    ),
    (
        "json.array",
        "table?: table, n?: integer",
        "table",
        "Marks a table as an array of `n` places; holes become null.",
    ),
    ("json.decode", "text: string", "any", "Reads JSON."),
    (
        "json.encode",
        "value: any",
        "string",
        "Writes JSON, keys sorted.",
    ),
    (
        "json.object",
        "table?: table",
        "table",
        "Marks a table as an object; numbers as keys become strings.",
    ),
    (
        "json_part",
        "value: any",
        "haft.Part",
        "A value as a part of a result.",
    ),
    ("log.debug", "...: any", "", "A message for the author."),
    ("log.error", "...: any", "", "A message: something failed."),
    ("log.info", "...: any", "", "A message."),
    (
        "log.warn",
        "...: any",
        "",
        "A message: something isn't as it should be.",
    ),
    (
        "now",
        "",
        "number",
        "Milliseconds since the extension was loaded.",
    ),
    (
        "on",
        "event: haft.Event, listener: fun(event: table)",
        "",
        "Listens to an event of the runtime.",
    ),
    (
        "process.output",
        "command: string|haft.Command",
        "haft.Output",
        "Runs a program to its end. Waits.",
    ),
    (
        "process.run",
        "command: string|haft.Command",
        "haft.Output",
        "The same as `process.output`. Waits.",
    ),
    (
        "process.spawn",
        "command: string|haft.Command",
        "haft.Process",
        "Starts a program. Waits for its start.",
    ),
    (
        "register_command",
        "command: haft.CommandSpec",
        "",
        "Registers a slash command. Only while the extension loads.",
    ),
    (
        "register_tool",
        "tool: haft.ToolSpec",
        "",
        "Registers a tool. Only while the extension loads.",
    ),
    ("sleep", "ms: number", "", "Waits so many milliseconds."),
    (
        "state.get",
        "key: string",
        "any",
        "A value that was kept, or nil.",
    ),
    ("state.keys", "", "string[]", "The keys of what is kept."),
    (
        "state.set",
        "key: string, value: any",
        "",
        "Keeps a value beyond the host's life; nil forgets it. Waits.",
    ),
    (
        "text",
        "text: string",
        "haft.Part",
        "A text as a part of a result.",
    ),
    (
        "tool",
        "tool: haft.ToolSpec",
        "haft.ToolSpec",
        "The table of a tool, for a file that returns it.",
    ),
];

const CLASSES: &str = r#"---@meta
-- Types of the global `haft` for LuaLS. Functions that wait suspend their caller
-- alone; others run meanwhile.

---@class haft
---@field version string
---@field extension string the extension's name
haft = {}
panto = haft
haft.base64, haft.fs, haft.http, haft.json, haft.log, haft.process, haft.state = {}, {}, {}, {}, {}, {}, {}
---@type userdata JSON's null
haft.json.null = nil

---@alias haft.Effects "pure"|"reads"|"writes"|"commands"|"network"|{ workspace?: "none"|"read"|"write", runs_commands?: boolean, network?: boolean, destructive?: boolean, idempotent?: boolean }

---@class haft.ToolSpec
---@field name string
---@field description string
---@field schema? table|string JSON Schema of the arguments
---@field effects? haft.Effects what it does to the world; the most dangerous kind if left out
---@field timeout_ms? integer
---@field handler fun(args: table, ctx: haft.Context): any, string?

---@class haft.CommandSpec
---@field name string
---@field description string
---@field handler fun(text: string, ctx: haft.Context): string?

---@class haft.Context
---@field call_id? string
---@field tool string
---@field thread? string
---@field turn? string
---@field workspace? string
---@field deadline? integer milliseconds since the Unix epoch
---@field cancelled boolean
---@field progress fun(text: string)

---@class haft.Part
---@field type "text"|"image"|"json"

---@class haft.Entry
---@field name string
---@field kind "file"|"dir"|"symlink"|"other"
---@field size integer

---@class haft.Stat
---@field kind "file"|"dir"|"symlink"|"other"
---@field size integer
---@field modified_ms? integer

---@class haft.ReadOptions
---@field offset? integer
---@field limit? integer

---@class haft.WriteOptions
---@field create_parents? boolean
---@field create_new? boolean

---@class haft.Command
---@field argv? string[]
---@field shell? string
---@field cwd? string
---@field env? table<string, string>
---@field stdin? string
---@field open_stdin? boolean
---@field timeout_ms? number

---@class haft.Ending
---@field ok boolean
---@field code? integer
---@field signal? integer
---@field timed_out? boolean

---@class haft.Output: haft.Ending
---@field stdout string
---@field stderr string
---@field truncated boolean

---@class haft.Process
---@field read fun(self): string?, "stdout"|"stderr"
---@field write fun(self, text: string)
---@field close_stdin fun(self)
---@field wait fun(self): haft.Ending
---@field kill fun(self, signal?: "kill"|"term"|"int")

---@class haft.Request
---@field url? string
---@field method? string
---@field headers? table<string, string>
---@field body? string
---@field timeout_ms? number

---@class haft.Response
---@field status integer
---@field ok boolean
---@field url string
---@field headers table<string, string>
---@field body string
"#;

/// The text of the annotation file for LuaLS.
pub fn annotations() -> String {
    let mut text = CLASSES.to_owned();
    let events: Vec<_> = crate::source::EVENTS
        .iter()
        .map(|event| format!("\"{event}\""))
        .collect();
    text.push_str(&format!("\n---@alias haft.Event {}\n", events.join("|")));
    for (name, parameters, result, what) in FUNCTIONS {
        text.push_str(&format!("\n---{what}\n"));
        let mut names = Vec::new();
        for parameter in split(parameters) {
            let (name, kind) = parameter.split_once(": ").unwrap_or((parameter, "any"));
            text.push_str(&format!("---@param {name} {kind}\n"));
            names.push(name.trim_end_matches('?'));
        }
        if !result.is_empty() {
            text.push_str(&format!("---@return {result}\n"));
        }
        text.push_str(&format!("function haft.{name}({}) end\n", names.join(", ")));
    }
    text
}

/// Splits at commas that stand in no bracket.
fn split(parameters: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in parameters.char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(parameters[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    let last = parameters[from..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_lua() {
        let lua = mlua::Lua::new();
        lua.load(annotations()).exec().unwrap();
        let declared: mlua::Table = lua.globals().get("haft").unwrap();
        assert!(
            declared
                .get::<mlua::Table>("fs")
                .unwrap()
                .contains_key("read")
                .unwrap()
        );
    }
}
