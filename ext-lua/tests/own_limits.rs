//! Limits of one extension: what it declares, and what the settings say instead.

mod support;

use std::time::{Duration, Instant};

use haft_api::ToolSource as _;
use haft_ext_lua::OwnLimits;
use support::{World, call, tool};

const SPIN: &str = "while true do end";

#[tokio::test]
async fn calls_have_the_time_that_their_extension_declares() {
    let own = "haft.register_tool { name = 'own', description = 'x', timeout_ms = 700, handler = print }\n\
               haft.register_command { name = 'spin', description = 'x', handler = function() while true do end end }\n";
    let world = World::new()
        .file(
            "short.lua",
            &("--@limits call_ms=150\n".to_owned() + own + &tool("spin", SPIN)),
        )
        .file("plain.lua", &tool("nap", "haft.sleep(400) return 'fine'"));
    let host = world.start();
    let times: Vec<_> = host.tools().await.unwrap();
    let times: Vec<_> = times
        .iter()
        .map(|tool| (tool.name.as_str(), tool.timeout_ms))
        .collect();
    assert_eq!(
        times,
        [("nap", None), ("own", Some(700)), ("spin", Some(150))]
    );
    let outcomes = support::batch(&host, &[("spin", "{}"), ("nap", "{}")]).await;
    assert!(
        outcomes[0].is_error && outcomes[0].text.contains("its time was over"),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1].text, "fine");
    let error = host
        .run_command(haft_api::SlashCommandCall::new("spin", ""))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), haft_api::ErrorKind::Timeout, "{error}");
}

#[tokio::test]
async fn the_settings_have_the_last_word_on_each_limit() {
    let mut world = World::new().file(
        "t.lua",
        &("--@limits call_ms=60000 result_bytes=1000\n".to_owned()
            + &tool("spin", SPIN)
            + &tool("big", "return { ('x'):rep(args.n) }")),
    );
    let mut own = OwnLimits::default();
    own.call_ms = Some(150);
    world.settings.extension_limits.insert("t".to_owned(), own);
    let host = world.start();
    let began = Instant::now();
    let outcome = call(&host, "spin", "{}").await;
    assert!(outcome.text.contains("its time was over"), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(30));
    // What they don't speak of stays as declared.
    let fine = call(&host, "big", r#"{"n":900}"#).await;
    assert!(!fine.is_error, "{fine:?}");
    let outcome = call(&host, "big", r#"{"n":1100}"#).await;
    assert!(
        outcome.is_error && outcome.text.contains("larger than 1000 bytes"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn loading_and_callbacks_have_their_own_time() {
    let world = World::new()
        .file("slow.lua", &format!("--@limits load_ms=150\n{SPIN}"))
        .file(
            "back.lua",
            &("--@limits callback_ms=150\nlocal t = require('luv').new_timer()\n\
               t:start(1, 0, function() while true do end end)\n"
                .to_owned()
                + &tool("fine", "return 'fine'")),
        )
        .file("wrong.lua", "--@limits never=1\n");
    let host = world.start();
    assert_eq!(call(&host, "fine", "{}").await.text, "fine");
    let problems: Vec<_> = host.problems().await.unwrap();
    let problems = format!("{problems:?}");
    for words in ["slow", "its time was over", "wrong.lua: line 1", "`never`"] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    let began = Instant::now();
    while !world.log.text().contains("back error a timer's callback") {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{}",
            world.log.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn memory_is_held_to_what_the_extension_declares() {
    let fill = |name: &str| {
        format!(
            "kept = {{}}\n{}",
            tool(
                name,
                "for i = 1, 40 do kept[i] = ('x'):rep(1024 * 1024 - 64) .. i end return #kept"
            )
        )
    };
    let world = World::new()
        .file(
            "few.lua",
            &("--@limits memory_mib=16\n".to_owned() + &fill("few")),
        )
        .file("many.lua", &fill("many"))
        .limits(|limits| {
            limits.memory_mib = 64;
            limits.extension_memory_mib = 60;
        });
    let host = world.start();
    // Once half of the state's memory is used.
    let outcome = call(&host, "few", "{}").await;
    assert!(
        outcome.is_error && outcome.text.contains("one may hold 16"),
        "{outcome:?}"
    );
    let fresh = world.start();
    assert_eq!(call(&fresh, "many", "{}").await.text, "40");
}
