//! The conformance suite for tool sources.

use std::sync::Arc;

use haft_ext_lua::{LuaHost, Settings};
use haft_testkit::SourceFixture;

const SCRIPT: &str = r#"
haft.register_tool { name = "add", description = "Adds two numbers.", effects = "pure",
  schema = { type = "object", required = { "a", "b" },
    properties = { a = { type = "number" }, b = { type = "number" } } },
  handler = function(args) return args.a + args.b end }
haft.register_tool { name = "nap", description = "Sleeps a little.", effects = "pure",
  handler = function() haft.sleep(5) return "rested" end }
haft.register_tool { name = "parts", description = "Returns parts.", effects = "pure",
  handler = function() return { haft.text("a"), haft.json_part({ b = {} }) } end }
haft.register_tool { name = "fail", description = "Fails.", effects = "pure",
  handler = function() error({ code = 7 }) end }
haft.register_tool { name = "slow", description = "Takes long.", effects = "pure",
  handler = function() haft.sleep(30000) return "late" end }
"#;

haft_testkit::tool_source_conformance!(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conformance.lua");
    std::fs::write(&path, SCRIPT).unwrap();
    let mut settings = Settings::default();
    settings.paths.push(path);
    settings.reload = Some(false);
    SourceFixture::new(Arc::new(LuaHost::new(settings).unwrap()))
        .example("add", r#"{"a":1,"b":2}"#)
        .example("nap", "{}")
        .example("parts", "{}")
        .failing("fail", "{}")
        .slow("slow", "{}")
        .keeping(folder)
});
