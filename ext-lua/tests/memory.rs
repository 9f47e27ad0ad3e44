//! Memory is bounded for the state and for each extension in it.

mod support;

use support::{World, call, tool};

const HOARDER: &str = "local kept = {}\n";

fn hoarder() -> String {
    HOARDER.to_owned()
        + &tool(
            "hoard",
            "for i = 1, args.mib do kept[#kept + 1] = ('x'):rep(1024 * 1024 - 64) .. #kept end return #kept",
        )
        + &tool("forget", "kept = {} collectgarbage() return 'gone'")
}

#[tokio::test]
async fn an_extension_that_hoards_runs_out_before_the_others_do() {
    let world = World::new()
        .file("hoarder.lua", &hoarder())
        .file(
            "good.lua",
            &tool("work", "return #('y'):rep(4 * 1024 * 1024)"),
        )
        .limits(|limits| {
            limits.memory_mib = 64;
            limits.extension_memory_mib = 40;
        });
    let host = world.start();
    assert_eq!(call(&host, "hoard", r#"{"mib":24}"#).await.text, "24");
    let held = host.memory().await.unwrap();
    assert!(held.state > 24 << 20, "{held:?}");
    assert!(held.extensions["hoarder"] > 20 << 20, "{held:?}");
    assert!(held.extensions["good"] < 1 << 20, "{held:?}");

    let more = call(&host, "hoard", r#"{"mib":40}"#).await;
    assert!(more.is_error, "{more:?}");
    for words in ["not enough memory", "`hoarder` held about"] {
        assert!(more.text.contains(words), "{more:?}");
    }
    // The state has room left for the other one.
    for _ in 0..5 {
        assert_eq!(call(&host, "work", "{}").await.text, "4194304");
    }
    assert_eq!(call(&host, "forget", "{}").await.text, "gone");
    assert_eq!(call(&host, "hoard", r#"{"mib":8}"#).await.text, "8");
}

#[tokio::test]
async fn arguments_count_as_their_extensions() {
    let world = World::new().file(
        "t.lua",
        &("kept = {}\n".to_owned() + &tool("keep", "kept[#kept + 1] = args")),
    );
    let host = world.start();
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(2 << 20));
    call(&host, "keep", &large).await;
    call(&host, "keep", &large).await;
    let held = host.memory().await.unwrap();
    // About two texts of 2 MiB: the collector may have freed something else of it.
    assert!(held.extensions["t"] > 15 << 18, "{held:?}");
}
