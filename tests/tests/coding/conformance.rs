//! The suite that all tools keep, over local sessions.

use std::sync::Arc;

use haft_api::{
    Binding, Destination, Error, ErrorKind, RemoteRunnerProvider as _, RemoteRunnerSession, Result,
    raw_json,
};
use haft_ext_runner_local::{LocalConfig, LocalRunner, Sandbox};
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

/// With workspaces that are folders of a folder, which goes with the fixture.
fn in_folders() -> ToolFixture {
    let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
    let parent = Arc::clone(&folder);
    fixture()
        .workspace(move || local(Arc::clone(&parent)))
        .keeping(folder)
}

async fn local(parent: Arc<tempfile::TempDir>) -> Result<Arc<dyn RemoteRunnerSession>> {
    let failed = |e| Error::io(e, "no folder for a workspace");
    let folder = tempfile::tempdir_in(parent.path()).map_err(failed)?.keep();
    let workspace = folder.canonicalize().map_err(failed)?;
    let workspace = workspace.to_str().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the temporary folder's path isn't UTF-8",
        )
    })?;
    let binding = Binding {
        destination: Destination {
            id: "conformance".try_into()?,
            provider_id: "local".try_into()?,
            config: raw_json("{}")?,
            manifest: None,
        },
        workspace: workspace.to_owned(),
        read_roots: Vec::new(),
    };
    // This program can't look after commands; how they are confined is the
    // runner's own tests' business.
    let mut config = LocalConfig::default();
    config.sandbox = Sandbox::Off;
    LocalRunner::new(config)?.create(binding).await
}

haft_testkit::tool_conformance!(in_folders);
