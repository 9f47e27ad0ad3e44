//! Turns: how they end, what they print, and that they go on.

use std::time::Duration;

use haft_tests::{Running, World, call, text};
use serde_json::{Value, json};

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect()
}

#[test]
fn events_are_one_object_a_line_and_end_once() {
    let world = World::new();
    world.file("a.txt", "A");
    let rounds = [
        vec![
            json!({"type": "reasoning", "text": "hm"}),
            call("a", "read_file", json!({"path": "a.txt"})),
            json!({"type": "usage", "input": 10, "output": 5}),
        ],
        text("done"),
    ];
    let run = world.run(world.turn(&rounds, &["--json"])).expect(0);
    let events = run.json_lines();
    let seqs: Vec<_> = events
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    assert_eq!(seqs.len(), events.len());
    for event in &events {
        for field in ["thread", "at", "type"] {
            assert!(!event[field].is_null(), "{field} in {event}");
        }
    }
    let kinds = kinds(&events);
    for kind in [
        "thread.created",
        "turn.started",
        "item.appended",
        "message.delta",
        "reasoning.delta",
        "tool.started",
        "tool.completed",
        "usage",
    ] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    let ends = ["turn.completed", "turn.failed", "turn.interrupted"];
    assert_eq!(kinds.iter().filter(|kind| ends.contains(kind)).count(), 1);
    assert_eq!(*kinds.last().unwrap(), "turn.completed");
}

#[test]
fn an_interrupt_ends_the_turn_and_leaves_a_valid_thread() {
    for (name, rounds) in [
        (
            "stall",
            vec![vec![
                json!({"type": "text", "text": "half"}),
                json!({"type": "stall"}),
            ]],
        ),
        (
            "command",
            vec![vec![
                call("a", "shell", json!({"command": "echo ready"})),
                call("b", "shell", json!({"command": "echo partly; sleep 61"})),
                call("c", "shell", json!({"command": "echo never"})),
            ]],
        ),
    ] {
        for signal in ["INT", "TERM"] {
            let world = World::new();
            let mut run = Running::start(world.haft(world.turn(&rounds, &["--json"])));
            run.wait_for(if name == "stall" {
                "message.delta"
            } else {
                r#""text":"partly"#
            });
            run.signal(signal);
            let run = run.finish();
            assert_eq!(run.code, Some(130), "{name} {signal}: {}", run.stderr);
            assert_eq!(
                *kinds(&run.json_lines()).last().unwrap(),
                "turn.interrupted"
            );
            if name == "command" {
                let outcomes = world.outcomes();
                assert!(outcomes[0].contains("ready"), "{outcomes:?}");
                assert!(outcomes[1].contains("partly") && outcomes[1].contains("aborted"));
                assert!(outcomes[2].contains("not started"), "{outcomes:?}");
            }
            let next = world
                .run(world.turn(&[text("again")], &["--thread", "last"]))
                .expect(0);
            assert_eq!(next.stdout, "again\n");
            world.printed("last");
        }
    }
}

#[test]
fn engines_fail_in_many_ways_and_each_is_said() {
    let check = |events: Value, words: &[&str]| {
        let world = World::new();
        let run = world.play(&[serde_json::from_value(events).unwrap()]);
        run.expect_error(1, words);
        world.printed("last");
        world
            .run(world.turn(&[text("again")], &["--thread", "last"]))
            .expect(0);
    };
    check(
        json!([{"type": "error", "kind": "denied", "message": "bad key"}]),
        &["bad key"],
    );
    check(
        json!([{"type": "text", "text": "x"}, {"type": "cut"}]),
        &["broke off"],
    );
    check(
        json!([{"type": "error", "kind": "context_overflow", "message": "too long"}]),
        &["too long"],
    );
}

#[test]
fn a_call_of_a_cut_round_never_runs() {
    let world = World::new();
    let touch = call("a", "shell", json!({"command": "touch ran"}));
    for end in [
        json!({"type": "cut"}),
        json!({"type": "stop", "reason": "length"}),
    ] {
        world.play(&[vec![touch.clone(), end]]).expect(1);
        assert!(!world.workspace().join("ran").exists());
    }
}

#[test]
fn a_temporary_error_is_tried_again() {
    let world = World::new();
    let busy = json!({"type": "error", "kind": "rate_limited", "message": "slow down",
        "retry_after_ms": 50});
    let run = world
        .run(world.turn(&[vec![busy], text("ok")], &["--json"]))
        .expect(0);
    let events = run.json_lines();
    assert!(
        kinds(&events).contains(&"engine.retry"),
        "{:?}",
        kinds(&events)
    );
}

#[test]
fn the_deadline_cuts_a_tool_and_the_model_still_answers() {
    let world = World::new();
    let command = json!({"command": "echo partial; sleep 60"});
    let rounds = [vec![call("a", "shell", command)], text("as far as I got")];
    let run = world
        .run(world.turn(&rounds, &["--deadline", "1"]))
        .expect(0);
    assert_eq!(run.stdout, "as far as I got\n");
    assert!(run.took < Duration::from_secs(20), "{:?}", run.took);
    let outcome = world.outcomes().remove(0);
    assert!(
        outcome.contains("partial") && outcome.contains('!'),
        "{outcome}"
    );
}

#[test]
fn a_thread_goes_on_in_another_process() {
    let world = World::new();
    world.play(&[text("one")]).expect(0);
    world
        .run(world.turn(&[text("two")], &["--thread", "last"]))
        .expect(0);
    let texts: Vec<_> = world
        .printed("last")
        .iter()
        .filter(|item| item["type"] == "assistant_message")
        .map(|item| item["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(
        world
            .run(["threads", "list", "--json"])
            .expect(0)
            .json_lines()
            .len(),
        1
    );
}

#[test]
fn a_second_process_on_one_thread_is_told_who_has_it() {
    let world = World::new();
    world.play(&[text("one")]).expect(0);
    let stall = [vec![
        json!({"type": "text", "text": "here"}),
        json!({"type": "stall"}),
    ]];
    let args = world.turn(&stall, &["--thread", "last", "--json"]);
    let mut first = Running::start(world.haft(args));
    first.wait_for("message.delta");
    let second = world.run(world.turn(&[text("two")], &["--thread", "last"]));
    second.expect_error(1, &[&first.pid().to_string()]);
    assert!(second.took < Duration::from_secs(10));
    // Reading is free.
    assert!(!world.printed("last").is_empty());
    first.signal("KILL");
    first.finish();
    world
        .run(world.turn(&[text("three")], &["--thread", "last"]))
        .expect(0);
    world.printed("last");
}

#[test]
fn threads_created_at_the_same_time_are_all_there() {
    let world = World::new();
    let args = world.turn(&[text("one")], &[]);
    let running: Vec<_> = (0..20).map(|_| Running::start(world.haft(&args))).collect();
    for run in running {
        run.finish().expect(0);
    }
    assert_eq!(
        world
            .run(["threads", "list", "--json"])
            .expect(0)
            .json_lines()
            .len(),
        20
    );
}

#[test]
fn a_slow_reader_of_the_output_does_not_slow_the_turn() {
    let world = World::new();
    let deltas = (0..20_000).map(|n| json!({"type": "text", "text": format!("{n} ")}));
    let args = world.turn(&[deltas.collect()], &["--json"]);
    // Nobody reads until the turn is long over.
    let mut command = world.haft(args);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let listed = world
        .run(["threads", "show", "last", "--json"])
        .expect(0)
        .json_lines();
    assert_eq!(
        listed.last().unwrap()["type"],
        "assistant_message",
        "the turn is over"
    );
    let mut printed = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut printed).unwrap();
    assert!(child.wait().unwrap().success());
    let events: Vec<Value> = printed
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let kinds = kinds(&events);
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == "item.appended")
            .count(),
        2
    );
    assert_eq!(*kinds.last().unwrap(), "turn.completed");
    let mut next = events[0]["seq"].as_u64().unwrap();
    for event in &events {
        assert_eq!(
            event["seq"], next,
            "each event or its lag notice stands in its place"
        );
        next = if event["type"] == "lagged" {
            event["to"].as_u64().unwrap()
        } else {
            next
        } + 1;
    }
}
