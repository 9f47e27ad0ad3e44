//! Calls of a round: each gets one result, whatever it and its siblings do.

mod support;

use std::time::{Duration, Instant};

use haft_api::{Effects, OutputChannel, PolicyMode, ToolOutput, ToolSpec};
use haft_core::{ThreadOptions, TurnStatus};
use haft_testkit::{
    CountingTool, EchoTool, FailTool, FnTool, OutputTool, PanicTool, Round, SleepTool, fixture,
};
use support::{Started, World, outcomes, request, results, run};

#[tokio::test]
async fn a_failure_or_panic_touches_no_sibling() {
    for bad in ["fail", "tell", "panic"] {
        let round = Round::new()
            .call("a", "sleep", r#"{"ms":50}"#)
            .call("b", bad, "{}")
            .call("c", "sleep", r#"{"ms":50}"#);
        let started = World::new([round])
            .tool(SleepTool::new("sleep"))
            .tool(FailTool::new("fail", "broken"))
            .tool(FailTool::telling("tell", "broken"))
            .tool(PanicTool::new("panic", "broken"))
            .start();
        let (thread, end) = started.turn("go").await;
        assert_eq!(end.status, TurnStatus::Completed);
        let outcomes = outcomes(&thread).await;
        assert_eq!(
            (outcomes[0].as_str(), outcomes[2].as_str()),
            ("sleep: slept", "sleep: slept")
        );
        assert!(
            outcomes[1].starts_with(&format!("{bad}: !")),
            "{outcomes:?}"
        );
        assert!(outcomes[1].contains("broken"), "{outcomes:?}");
    }
}

#[tokio::test]
async fn missing_and_duplicate_ids_are_told_apart() {
    let round = Round::new()
        .call("", "echo", r#"{"n":1}"#)
        .call_without_id("echo", r#"{"n":2}"#)
        .call("x", "echo", r#"{"n":3}"#)
        .call("x", "echo", r#"{"n":4}"#);
    let echo = EchoTool::new("echo");
    let executions = echo.executions();
    let started = World::new([round]).tool(echo).start();
    let (thread, _) = started.turn("go").await;
    assert_eq!(executions.counts().finished, 4);
    let texts: Vec<_> = results(&thread)
        .await
        .iter()
        .map(|result| result.text())
        .collect();
    assert_eq!(
        texts,
        [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#, r#"{"n":4}"#]
    );
}

#[tokio::test]
async fn what_stands_for_no_arguments_reaches_the_tool_as_an_empty_object() {
    let written = ["", "null", " ", "{}"];
    let round = written
        .iter()
        .zip('a'..)
        .fold(Round::new(), |round, (text, id)| {
            round.call(id.to_string(), "echo", *text)
        });
    let started = World::new([round]).tool(EchoTool::new("echo")).start();
    let (thread, _) = started.turn("go").await;
    assert_eq!(outcomes(&thread).await, vec!["echo: {}"; 4]);
}

/// Runs one call; its result's text, and whether the tool ran.
async fn refused(name: &str, arguments: &str) -> String {
    let shell = CountingTool::new("shell");
    let search = CountingTool::new("fs.search_files");
    let schema = r#"{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}"#;
    let read = FnTool::new("read", |_, _| async { Ok(ToolOutput::text("read")) }).schema(schema);
    let ran = [shell.executions(), search.executions(), read.executions()];
    let round = Round::new().call("c", name, arguments);
    let started = World::new([round])
        .tool(shell)
        .tool(search)
        .tool(read)
        .start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed, "the turn goes on");
    assert!(
        ran.iter().all(|ran| ran.counts().started == 0),
        "no tool ran"
    );
    let results = results(&thread).await;
    assert!(results[0].is_error);
    results[0].text()
}

#[tokio::test]
async fn a_call_that_cannot_run_says_why() {
    let check = async |name: &str, arguments: &str, words: &[&str]| {
        let text = refused(name, arguments).await;
        words
            .iter()
            .for_each(|word| assert!(text.contains(word), "{text}"));
    };
    check(
        "search_files",
        "{}",
        &["search_files", "Did you mean `fs.search_files`", "shell"],
    )
    .await;
    check("read", r#"{"path":"#, &["line 1 column 8", r#"{"path":"#]).await;
    check("read", "{}", &["path"]).await;
    check("read", r#"{"path":7}"#, &["/path", "string"]).await;
    check("read", "[1]", &["must be a JSON object"]).await;
}

#[tokio::test]
async fn approval_follows_effects_never_names() {
    let check = async |effects: Effects, runs: bool| {
        for name in ["purge_database", "credit_score", "read_file"] {
            let tool = CountingTool::new(name).effects(effects);
            let executions = tool.executions();
            let started = World::new([Round::new().call("c", name, "{}")])
                .tool(tool)
                .start();
            let thread = started.thread().await;
            let turn = request("go").mode(PolicyMode::Plan);
            thread.start_turn(turn).await.unwrap().ended().await;
            assert_eq!(executions.counts().started == 1, runs, "{name} {effects:?}");
        }
    };
    check(Effects::PURE, true).await;
    check(Effects::NETWORK, false).await;
    check(Effects::UNDECLARED, false).await;
    let spec = ToolSpec::new(fixture::tool_name("silent"), "says nothing of itself");
    assert_eq!(spec.effects, Effects::UNDECLARED);
}

/// The order in which tools of these effects began and ended.
async fn order(effects: &[Effects]) -> Vec<String> {
    let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut world = World::new([]);
    let mut round = Round::new();
    for (index, effects) in effects.iter().enumerate() {
        let (name, log) = (format!("t{index}"), std::sync::Arc::clone(&log));
        let tool = FnTool::new(&name, move |call, _| {
            let log = std::sync::Arc::clone(&log);
            async move {
                log.lock().unwrap().push(format!("+{}", call.name));
                tokio::time::sleep(Duration::from_millis(100)).await;
                log.lock().unwrap().push(format!("-{}", call.name));
                Ok(ToolOutput::text("done"))
            }
        });
        world = world.tool(tool.effects(*effects));
        round = round.call(format!("c{index}"), name, "{}");
    }
    let started: Started = world.start();
    started.engine.push(round);
    started.turn("go").await;
    std::sync::Arc::try_unwrap(log).map_or_else(
        |log| log.lock().unwrap().clone(),
        |log| log.into_inner().unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn calls_without_side_effects_run_together_and_others_in_order() {
    let together = order(&[Effects::PURE; 3]).await;
    assert_eq!(together[..3], ["+t0", "+t1", "+t2"]);
    let network = Effects::NETWORK;
    assert_eq!(order(&[network; 2]).await, ["+t0", "-t0", "+t1", "-t1"]);
    let mixed = order(&[network, Effects::PURE, network]).await;
    assert_eq!(mixed.iter().filter(|entry| *entry == "+t1").count(), 1);
    let position = |entry: &str| mixed.iter().position(|e| e == entry).unwrap();
    assert!(
        position("+t1") < position("-t0"),
        "the pure one didn't wait: {mixed:?}"
    );
    assert!(position("-t0") < position("+t2"), "{mixed:?}");
}

#[tokio::test]
async fn sixty_four_sleeps_take_one() {
    let round = (0..64).fold(Round::new(), |round, n| {
        round.call(format!("c{n}"), "sleep", r#"{"ms":200}"#)
    });
    let started = World::new([round]).tool(SleepTool::new("sleep")).start();
    let began = Instant::now();
    let (thread, _) = started.turn("go").await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(outcomes(&thread).await, vec!["sleep: slept"; 64]);
}

#[tokio::test]
async fn long_output_is_bounded_for_the_model_and_whole_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let text = "中".repeat(40_000);
    let tool = OutputTool::new("print", [(OutputChannel::Stdout, text.clone())]);
    let started = World::new([Round::new().call("c", "print", "{}")])
        .tool(tool)
        .options(|options| {
            options.tool_output_bytes = 25_000;
            options.spill_dir = Some(dir.path().to_owned());
        })
        .start();
    let (thread, _) = started.turn("go").await;
    let result = &results(&thread).await[0];
    assert!(result.text().len() < 25_300 && result.text().contains("of 120000 bytes shown"));
    let spilled = dir.path().join(thread.id().as_str()).join("c.stdout");
    assert!(result.text().contains(spilled.to_str().unwrap()));
    assert_eq!(std::fs::read_to_string(spilled).unwrap(), text);
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_time_limit_cuts_it_and_keeps_its_output() {
    let tool = OutputTool::hanging("slow", [(OutputChannel::Stdout, "half")]).timeout_ms(1_000);
    let executions = tool.executions();
    let started = World::new([Round::new().call("c", "slow", "{}")])
        .tool(tool)
        .start();
    let (thread, end) = started.turn("go").await;
    assert_eq!(end.status, TurnStatus::Completed);
    let outcome = &outcomes(&thread).await[0];
    assert!(
        outcome.contains("half") && outcome.contains("limit of 1.0 s"),
        "{outcome}"
    );
    assert_eq!(executions.counts().cancelled, 1, "its future was dropped");
}

#[tokio::test]
async fn a_tool_without_output_still_has_a_result() {
    let tool = FnTool::new("quiet", |_, _| async { Ok(ToolOutput::text(" \n")) });
    let started = World::new([Round::new().call("c", "quiet", "{}")])
        .tool(tool)
        .start();
    let (thread, _) = started.turn("go").await;
    assert_eq!(outcomes(&thread).await, ["quiet: (no output)"]);
}

#[tokio::test]
async fn workspace_tools_need_a_workspace() {
    let tool = CountingTool::new("write").effects(Effects::WRITES);
    let started = World::new([Round::new().call("c", "write", "{}")])
        .tool(tool)
        .start();
    let options = ThreadOptions::default();
    let thread = started.runtime.create_thread(options).await.unwrap();
    run(&thread, "go").await;
    let outcome = &outcomes(&thread).await[0];
    assert!(
        outcome.contains("local workspace execution is disabled"),
        "{outcome}"
    );
}

#[tokio::test]
async fn a_slow_store_holds_nobody_up_for_ever() {
    // One call's result is written while the next one's start is.
    let round = Round::new()
        .call("a", "count", "{}")
        .call("b", "send", "{}")
        .call("c", "count", "{}")
        .call("d", "send", "{}");
    let started = World::new([round])
        .tool(CountingTool::new("count"))
        .tool(CountingTool::new("send").effects(Effects::NETWORK))
        .start();
    let slow = Duration::from_millis(5);
    started
        .store
        .faults()
        .on(haft_testkit::StoreOperation::Append)
        .always()
        .delay(slow);
    let turn = started.turn("go");
    let (thread, end) = tokio::time::timeout(Duration::from_secs(20), turn)
        .await
        .expect("it ends");
    assert_eq!(end.status, TurnStatus::Completed);
    assert_eq!(outcomes(&thread).await.len(), 4);
}
