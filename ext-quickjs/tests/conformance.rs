//! The conformance suite for tool sources.

use std::sync::Arc;

use haft_ext_quickjs::{QuickJsHost, Settings};
use haft_testkit::SourceFixture;

const SCRIPT: &str = r#"
const tools = [
  { name: "add", description: "Adds two numbers.", effects: "pure",
    inputSchema: { type: "object", required: ["a", "b"],
      properties: { a: { type: "number" }, b: { type: "number" } } },
    execute({ a, b }) {
      if (typeof a !== "number" || typeof b !== "number") throw new TypeError("two numbers");
      return a + b;
    } },
  { name: "nap", description: "Sleeps a little.", effects: "pure",
    async execute() { await new Promise((done) => setTimeout(done, 5)); return "rested"; } },
  { name: "parts", description: "Returns parts.", effects: "pure",
    execute() { return [{ type: "text", text: "a" }, { type: "json", value: { b: {} } }]; } },
  { name: "fail", description: "Fails.", effects: "pure",
    execute() { throw { code: 7 }; } },
  { name: "slow", description: "Takes long.", effects: "pure",
    async execute() { await new Promise((done) => setTimeout(done, 30000)); return "late"; } },
];
"#;

haft_testkit::tool_source_conformance!(|| {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("conformance");
    std::fs::create_dir(&skill).unwrap();
    let manifest = r#"{"id":"conformance","name":"Conformance","runtime":"quickjs"}"#;
    std::fs::write(skill.join("manifest.json"), manifest).unwrap();
    std::fs::write(skill.join("index.js"), SCRIPT).unwrap();
    let mut settings = Settings::default();
    settings.paths.push(skill);
    settings.reload = Some(false);
    SourceFixture::new(Arc::new(QuickJsHost::new(settings).unwrap()))
        .example("conformance__add", r#"{"a":1,"b":2}"#)
        .example("conformance__nap", "{}")
        .example("conformance__parts", "{}")
        .failing("conformance__fail", "{}")
        .slow("conformance__slow", "{}")
        .keeping(folder)
});
