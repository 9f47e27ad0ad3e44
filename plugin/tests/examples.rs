//! What third parties are shown is loaded, and works.
#![allow(clippy::print_stderr, reason = "a test that can't run says so")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use haft_api::{
    Binding, Destination, DestinationId, ErrorKind, ExtensionId, StoreOptions, raw_json,
};
use haft_testkit::RunnerFixture;

mod support;

use support::{Kept, Loaded, context, extension_crate, folder, root};

/// The example in C, made by its own makefile with this compiler, and the folder
/// of its own that it is in.
fn made_in_c(compiler: &str) -> (PathBuf, PathBuf) {
    let example = root().join("examples/c-plugin");
    let place = folder().join(format!("c-plugin-{compiler}-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    for file in ["Makefile", "rot13.c", "json.c", "json.h"] {
        std::fs::copy(example.join(file), place.join(file)).unwrap();
    }
    let include = root().join("api/include").canonicalize().unwrap();
    let output = Command::new("make")
        .arg("--directory")
        .arg(&place)
        .arg(format!("CC={compiler}"))
        .arg(format!("HAFT_INCLUDE={}", include.display()))
        .output()
        .expect("make can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {said}");
    let object = place.join("librot13.so");
    (place, object)
}

/// One header is all it needs, and every warning is an error.
#[tokio::test]
async fn the_plug_in_in_c_is_made_by_every_compiler() {
    let makefile = std::fs::read_to_string(root().join("examples/c-plugin/Makefile")).unwrap();
    for warnings in ["-Wall", "-Wextra", "-Werror"] {
        assert!(makefile.contains(warnings), "{warnings}");
    }
    for compiler in ["gcc", "clang"] {
        let version = Command::new(compiler).arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: {compiler} isn't installed");
            continue;
        }
        let (place, object) = made_in_c(compiler);
        let loaded = Loaded::new(&object);
        let text = loaded.text("rot13", r#"{"text":"Haft"}"#).await;
        assert_eq!(text, "Unsg", "{compiler}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}

#[tokio::test]
async fn the_plug_in_in_c() {
    let (place, object) = made_in_c("cc");
    let loaded = Loaded::new(&object);
    let output = Arc::new(Kept::default());
    let with = || context().with_output(Arc::clone(&output) as _);
    let text = loaded
        .text_in(with(), "rot13", r#"{"text":"Hello, \u00e4 \"nop\"\n"}"#)
        .await;
    assert_eq!(text, "Uryyb, ä \"abc\"\n");
    assert_eq!(output.text(), "turning\n");
    for arguments in [
        "{}",
        r#"{"text":7}"#,
        r#"{"other":"text","deep":{"text":"x"}}"#,
    ] {
        let error = loaded.call("rot13", arguments).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{arguments}");
    }
    let many = (0..1000).map(|_| loaded.call("rot13", r#"{"text":"a"}"#));
    for call in futures::future::join_all(many).await {
        assert_eq!(haft_api::join_text(&call.unwrap().parts), "n");
    }
    assert_eq!(loaded.plugin.stats().host.objects, 0);
    assert_eq!(Arc::strong_count(&output), 1);
    loaded.plugin.close();
    let closed = loaded.call("rot13", r#"{"text":"a"}"#).await.unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Unavailable);
    std::fs::remove_dir_all(&place).unwrap();
}

/// The same suites that the example's own tests run when it is linked in.
#[tokio::test]
async fn the_extension_crate() {
    if std::env::var_os("HAFT_PLUGIN_BUILDS").is_none_or(|builds| builds != "all") {
        eprintln!("skipped: the example is built if HAFT_PLUGIN_BUILDS is `all`");
        return;
    }
    let workspace = root().join("examples/extension-crate");
    let loaded = Arc::new(Loaded::new(&extension_crate(&workspace, "extension-crate")));
    let text = loaded.text("word_count", r#"{"text":"one two"}"#).await;
    assert_eq!(text, "2 words");

    let store = Arc::clone(loaded.registry.store("ephemeral").unwrap());
    let suite = haft_testkit::store_suite(move || {
        let store = Arc::clone(&store);
        move || {
            let store = Arc::clone(&store);
            async move { store.open(StoreOptions::new("/nowhere")).await }
        }
    });
    haft_testkit::run_all(suite).await.assert_kept();

    let provider = Arc::clone(loaded.registry.runner("scratch").unwrap());
    let suite = haft_testkit::runner_suite(move || {
        let binding = Binding {
            destination: Destination {
                id: DestinationId::new("here").unwrap(),
                provider_id: ExtensionId::new("scratch").unwrap(),
                config: raw_json("{}").unwrap(),
                manifest: None,
            },
            workspace: "/scratch".to_owned(),
            read_roots: Vec::new(),
        };
        RunnerFixture::new(Arc::clone(&provider), binding)
    });
    haft_testkit::run_all(suite).await.assert_kept();
    loaded.at_rest().await;
}
