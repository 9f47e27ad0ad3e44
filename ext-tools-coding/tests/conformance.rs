//! The suite that all tools keep.

use std::sync::Arc;

use haft_ext_tools_coding::CodingTools;
use haft_testkit::ToolFixture;

fn fixture() -> ToolFixture {
    let mut fixture = ToolFixture::new(Arc::new(CodingTools::default()));
    for (name, arguments) in [
        (
            "write_file",
            r#"{"path":"src/a.rs","content":"fn a() {}\n"}"#,
        ),
        ("read_file", r#"{"path":"src/a.rs"}"#),
        ("list_files", r#"{"depth":2}"#),
        ("glob", r#"{"pattern":"**/*.rs"}"#),
        ("grep", r#"{"pattern":"fn","context":1}"#),
        ("write_file", r#"{"path":"b","content":"one two"}"#),
        ("edit", r#"{"path":"b","old":"one","new":"1"}"#),
        ("shell", r#"{"command":"echo hi","timeout":30}"#),
    ] {
        fixture = fixture.example(name, arguments);
    }
    fixture
}

haft_testkit::tool_conformance!(fixture);
