//! Threads bound to a runner: provisioned once, lazily, fenced, never replaced
//! by the host.

mod support;

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    CommandRequest, Effects, Error, ErrorKind, NoOutput, ReadOptions, RemoteRunnerSessionExt,
    ThreadStore, ToolOutput, WriteOptions, command_timeout,
};
use haft_core::{RunnerSelection, Thread, ThreadOptions, TurnStatus};
use haft_testkit::{
    BatchSource, FnTool, Gate, MemoryRunner, MemoryStore, Outcome, Round, RunnerOperation, fixture,
};
use support::{Started, World, items, outcomes, request, run};

/// Adds an `x` to the file `f`, slowly: without a fence two would lose one.
fn edit() -> FnTool {
    FnTool::new("edit", |_, context| async move {
        let session = Arc::clone(context.workspace()?);
        let mut bytes = match session.read_file("f", ReadOptions::default()).await {
            Ok(file) => file.bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        tokio::time::sleep(Duration::from_millis(30)).await;
        bytes.push(b'x');
        session
            .write_file("f", bytes, WriteOptions::default())
            .await?;
        Ok(ToolOutput::text("edited"))
    })
    .effects(Effects::WRITES)
}

/// Reads the file `f`.
fn read() -> FnTool {
    FnTool::new("read", |_, context| async move {
        let file = context
            .workspace()?
            .read_file("f", ReadOptions::default())
            .await?;
        Ok(ToolOutput::text(String::from_utf8_lossy(&file.bytes)))
    })
    .effects(Effects::READS)
}

fn calls(name: &str, count: usize) -> Round {
    (0..count).fold(Round::new(), |round, n| {
        round.call(format!("{name}{n}"), name, "{}")
    })
}

fn world(runner: &MemoryRunner, rounds: impl IntoIterator<Item = Round>) -> World {
    World::new(rounds)
        .tool(edit())
        .tool(read())
        .runner(runner.shared())
}

async fn bound(started: &Started) -> Thread {
    let mut options = ThreadOptions::default();
    let provider = fixture::extension_id("memory");
    options.runner = Some(RunnerSelection::new(provider, "/workspace"));
    started.runtime.create_thread(options).await.unwrap()
}

async fn extra(thread: &Thread, key: &str) -> Option<String> {
    thread
        .metadata()
        .await
        .extra
        .get(key)
        .map(|raw| raw.get().to_owned())
}

#[tokio::test]
async fn an_explicit_selection_is_stored_as_it_is() {
    let runner = MemoryRunner::new();
    let started = world(&runner, []).start();
    let mut options = ThreadOptions::default();
    let config = haft_api::raw_json(r#"{"size": 1.50}"#).unwrap();
    let provider = fixture::extension_id("memory");
    options.runner = Some(RunnerSelection::new(provider, "/elsewhere").config(config));
    let thread = started.runtime.create_thread(options).await.unwrap();
    let binding = extra(&thread, "binding").await.unwrap();
    assert!(
        binding.contains(&format!(r#""id":"thread-{}""#, thread.id())),
        "{binding}"
    );
    assert!(
        binding.contains(r#"{"size": 1.50}"#) && binding.contains("/elsewhere"),
        "{binding}"
    );
}

#[tokio::test]
async fn a_default_runner_binds_new_threads_if_it_names_a_workspace() {
    for workspace in [Some("/workspace"), None] {
        let runner = MemoryRunner::new().with_default_workspace(workspace);
        let started = world(&runner, [])
            .options(|options| options.default_runner = Some(fixture::extension_id("memory")))
            .start();
        let thread = started.thread().await;
        let binding = extra(&thread, "binding").await;
        assert_eq!(binding.is_some(), workspace.is_some());
        if let Some(binding) = binding {
            assert!(
                binding.contains("memory") && binding.contains("/workspace"),
                "{binding}"
            );
        }
    }
}

#[tokio::test]
async fn a_binding_that_cannot_be_is_refused_at_creation() {
    let runner = MemoryRunner::new().refusing_configs("no such size");
    let started = world(&runner, []).start();
    let check = async |provider: &str, workspace: &str, word: &str| {
        let mut options = ThreadOptions::default();
        let provider = fixture::extension_id(provider);
        options.runner = Some(RunnerSelection::new(provider, workspace));
        let error = started
            .runtime
            .create_thread(options)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{error}");
    };
    check("other", "/workspace", "is not installed").await;
    check("memory", "relative", "must be absolute").await;
    check("memory", "/workspace", "no such size").await;
}

#[tokio::test]
async fn an_unbound_thread_stays_local() {
    let (local, remote) = (MemoryRunner::new().with_id("local"), MemoryRunner::new());
    let started = world(&remote, [calls("edit", 1)])
        .runner(local.shared())
        .options(|options| options.local_runner = Some(fixture::extension_id("local")))
        .start();
    let mut options = ThreadOptions::default();
    options.workspace = Some("/workspace".to_owned());
    let thread = started.runtime.create_thread(options).await.unwrap();
    run(&thread, "go").await;
    assert_eq!(outcomes(&thread).await, ["edit: edited"]);
    assert_eq!((local.created().len(), remote.created().len()), (1, 0));
}

#[tokio::test]
async fn nothing_is_made_for_turns_that_need_no_workspace() {
    let runner = MemoryRunner::new();
    let source = Arc::new(BatchSource::new("mcp").tool("search", Outcome::text("found")));
    let rounds = [Round::new().text("hi"), calls("search", 2)];
    let started = world(&runner, rounds).source(&source).start();
    let thread = bound(&started).await;
    run(&thread, "talk").await;
    run(&thread, "search").await;
    assert_eq!(outcomes(&thread).await.len(), 2);
    assert!(runner.created().is_empty());
    assert!(extra(&thread, "session_state").await.is_none());
    assert!(extra(&thread, "binding").await.is_some());
}

#[tokio::test]
async fn calls_of_a_round_share_one_sandbox_whose_handle_is_stored_first() {
    let runner = MemoryRunner::new();
    let store = MemoryStore::new();
    let seen = store.clone();
    let witness = FnTool::new("witness", move |_, context| {
        let store = seen.clone();
        async move {
            let metadata = store.metadata(&context.thread).await?;
            Ok(ToolOutput::text(
                metadata.extra.contains_key("session_state").to_string(),
            ))
        }
    });
    let round = Round::new()
        .call("a", "witness", "{}")
        .call("b", "witness", "{}")
        .call("c", "edit", "{}")
        .call("d", "witness", "{}");
    let started = world(&runner, [round])
        .tool(witness.effects(Effects::READS))
        .store(store.shared())
        .start();
    let thread = bound(&started).await;
    run(&thread, "go").await;
    let expected = [
        "witness: true",
        "witness: true",
        "edit: edited",
        "witness: true",
    ];
    assert_eq!(outcomes(&thread).await, expected);
    assert_eq!(runner.created().len(), 1);
}

#[tokio::test]
async fn a_failed_provisioning_is_shared_and_tried_again_by_the_next_turn() {
    let runner = MemoryRunner::new();
    let gone = Error::new(ErrorKind::Unavailable, "no capacity");
    runner
        .faults()
        .on(RunnerOperation::Create)
        .next()
        .delay(Duration::from_millis(30));
    runner
        .faults()
        .on(RunnerOperation::Create)
        .next()
        .fail(gone);
    let started = world(
        &runner,
        [calls("read", 3), Round::new().text("hm"), calls("edit", 1)],
    );
    let started = started.start();
    let thread = bound(&started).await;
    assert_eq!(run(&thread, "go").await.status, TurnStatus::Completed);
    let failed = outcomes(&thread).await;
    assert_eq!(failed.len(), 3);
    assert!(
        failed
            .iter()
            .all(|o| o.contains('!') && o.contains("no capacity")),
        "{failed:?}"
    );
    assert!(extra(&thread, "session_state").await.is_none());
    run(&thread, "again").await;
    assert_eq!(outcomes(&thread).await[3], "edit: edited");
}

#[tokio::test]
async fn an_interrupt_strands_no_sandbox_and_its_write_never_happens() {
    let runner = MemoryRunner::new();
    let gate = Gate::new();
    runner
        .faults()
        .on(RunnerOperation::Create)
        .next()
        .hold(&gate);
    let started = world(&runner, [calls("edit", 1)]).start();
    let thread = bound(&started).await;
    let turn = thread.start_turn(request("go")).await.unwrap();
    gate.reached(1).await;
    turn.interrupt();
    assert_eq!(turn.ended().await.status, TurnStatus::Interrupted);
    assert!(outcomes(&thread).await[0].contains("not started"));
    gate.open();
    let wait = Duration::from_secs(2);
    let session = tokio::time::timeout(wait, thread.resume_workspace())
        .await
        .unwrap()
        .unwrap();
    let written = session.read_file("f", ReadOptions::default()).await;
    assert_eq!(written.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        runner.created().len(),
        1,
        "the attempt that was under way is used"
    );
}

#[tokio::test]
async fn a_sandbox_is_used_again_by_later_turns_and_resumed_after_a_restart() {
    let runner = MemoryRunner::new();
    let store = MemoryStore::new();
    let started = world(
        &runner,
        [calls("edit", 1), Round::new().text("ok"), calls("edit", 1)],
    )
    .store(store.shared())
    .start();
    let thread = bound(&started).await;
    let id = thread.id().clone();
    run(&thread, "one").await;
    run(&thread, "two").await;
    assert_eq!((runner.created().len(), runner.resumed().len()), (1, 0));
    drop((thread, started));

    let restart = || {
        world(&runner, [calls("read", 1)])
            .store(store.shared())
            .start()
    };
    let started = restart();
    let thread = started.runtime.open_thread(&id).await.unwrap();
    run(&thread, "three").await;
    assert_eq!(
        outcomes(&thread).await[2],
        "read: xx",
        "what was written is there"
    );
    assert_eq!((runner.created().len(), runner.resumed().len()), (1, 1));
    drop((thread, started));

    runner.lose(&runner.sandboxes()[0]);
    let started = restart();
    let thread = started.runtime.open_thread(&id).await.unwrap();
    run(&thread, "four").await;
    assert!(
        outcomes(&thread).await[3].contains('!'),
        "a fresh sandbox has no such file"
    );
    let created = runner.created();
    assert_eq!(created.len(), 2);
    assert_eq!(created[0].destination.id, created[1].destination.id);
    let notices = items(&thread)
        .await
        .into_iter()
        .filter_map(|item| match item {
            haft_api::Item::Notice { code, .. } => Some(code),
            _ => None,
        });
    assert_eq!(notices.collect::<Vec<_>>(), ["workspace_lost"]);
}

#[tokio::test]
async fn an_unreachable_sandbox_is_an_error_never_replaced() {
    let runner = MemoryRunner::new();
    let store = MemoryStore::new();
    let started = world(&runner, [calls("edit", 1)])
        .store(store.shared())
        .start();
    let thread = bound(&started).await;
    let id = thread.id().clone();
    run(&thread, "one").await;
    drop((thread, started));
    let away = Error::new(ErrorKind::Unavailable, "no route to host");
    runner
        .faults()
        .on(RunnerOperation::Resume)
        .next()
        .fail(away);
    let started = world(&runner, [calls("edit", 1)])
        .store(store.shared())
        .start();
    let thread = started.runtime.open_thread(&id).await.unwrap();
    run(&thread, "two").await;
    assert!(outcomes(&thread).await[1].contains("no route to host"));
    assert_eq!(runner.created().len(), 1);
}

#[tokio::test]
async fn pausing_stores_the_handle_and_the_next_use_wakes_it() {
    let runner = MemoryRunner::new();
    let started = world(&runner, [calls("edit", 1)]).start();
    let thread = bound(&started).await;
    thread.pause_workspace().await.unwrap();
    assert_eq!(runner.created().len(), 1, "made to be paused");
    assert!(extra(&thread, "session_state").await.is_some());
    run(&thread, "go").await;
    assert_eq!(outcomes(&thread).await, ["edit: edited"]);
    assert_eq!((runner.created().len(), runner.resumed().len()), (1, 1));
}

#[tokio::test]
async fn detaching_keeps_the_sandbox_and_rejoining_never_makes_one() {
    let runner = MemoryRunner::new();
    let started = world(&runner, [calls("edit", 1)]).start();
    let thread = bound(&started).await;
    let none = thread.rejoin_workspace().await.err().unwrap();
    assert_eq!(
        (none.kind(), runner.created().len()),
        (ErrorKind::NotFound, 0)
    );
    run(&thread, "go").await;
    thread.detach_workspace().await.unwrap();
    assert_eq!(runner.sandboxes().len(), 1, "it is still there");
    let session = thread.rejoin_workspace().await.unwrap();
    let file = session
        .read_file("f", ReadOptions::default())
        .await
        .unwrap();
    assert_eq!(file.bytes, b"x");
    assert_eq!(runner.created().len(), 1);
}

#[tokio::test]
async fn what_a_runner_cannot_do_it_says() {
    let runner = MemoryRunner::new().with_capabilities(|can| can.pause = false);
    let started = world(&runner, []).start();
    let thread = bound(&started).await;
    let error = thread.pause_workspace().await.unwrap_err();
    assert!(
        error.to_string().contains("does not support pausing"),
        "{error}"
    );
    assert!(
        extra(&thread, "session_state").await.is_some(),
        "the handle was stored first"
    );
}

#[tokio::test]
async fn a_resumed_workspace_runs_commands_and_can_be_closed() {
    let runner = MemoryRunner::new().program("echo", |io| async move {
        io.print("hi");
        0
    });
    let started = world(&runner, []).start();
    let thread = bound(&started).await;
    let session = thread.resume_workspace().await.unwrap();
    let command = CommandRequest::new(["echo"]);
    let outcome = session
        .run_command(fixture::fresh_process(), command, &NoOutput)
        .await
        .unwrap();
    assert!(outcome.ending.is_success());
    session.snapshot().await.unwrap();
    session.port(8080).await.unwrap();
    thread.close_workspace().await.unwrap();
    assert!(runner.sandboxes().is_empty());
}

/// Runs one edit on each of these threads at the same time.
async fn edit_together(threads: &[&Thread]) {
    let turns = threads.iter().map(|thread| run(thread, "go"));
    for end in futures::future::join_all(turns).await {
        assert_eq!(end.status, TurnStatus::Completed);
    }
}

#[tokio::test]
async fn two_threads_of_one_session_never_interleave() {
    let runner = MemoryRunner::new()
        .with_capabilities(|can| can.leases = false)
        .one_session("shared");
    let started = world(&runner, [calls("edit", 2), calls("edit", 2)]).start();
    let (one, two) = (bound(&started).await, bound(&started).await);
    edit_together(&[&one, &two]).await;
    let file = runner.content(&runner.sandboxes()[0], "/workspace/f");
    assert_eq!(file.as_deref(), Some(&b"xxxx"[..]), "no update was lost");
}

#[tokio::test]
async fn two_runtimes_of_one_session_are_fenced_by_leases() {
    let runner = MemoryRunner::new().one_session("shared");
    let start = || world(&runner, [calls("edit", 1)]).start();
    let (first, second) = (start(), start());
    let (one, two) = (bound(&first).await, bound(&second).await);
    edit_together(&[&one, &two]).await;
    let file = runner.content(&runner.sandboxes()[0], "/workspace/f");
    assert_eq!(file.as_deref(), Some(&b"xx"[..]));
    let counts = runner.lease_counts();
    assert_eq!((counts.acquired, counts.released), (2, 2));
}

#[tokio::test]
async fn a_lost_lease_stops_the_tool_before_its_write() {
    let runner = MemoryRunner::new().file("/workspace/f", "old");
    let gate = Gate::new();
    let held = gate.clone();
    let slow = FnTool::new("slow", move |_, context| {
        let held = held.clone();
        async move {
            held.pass().await;
            let session = context.workspace()?;
            session
                .write_file("f", b"new".to_vec(), WriteOptions::default())
                .await?;
            Ok(ToolOutput::text("written"))
        }
    });
    let started = world(&runner, [calls("slow", 1)])
        .tool(slow.effects(Effects::WRITES))
        .start();
    let thread = bound(&started).await;
    let turn = thread.start_turn(request("go")).await.unwrap();
    gate.reached(1).await;
    runner.lose_leases("taken by another host");
    assert_eq!(turn.ended().await.status, TurnStatus::Completed);
    gate.open();
    let outcome = outcomes(&thread).await.remove(0);
    assert!(
        outcome.contains("lease was lost") && outcome.contains("another host"),
        "{outcome}"
    );
    let file = runner.content(&runner.sandboxes()[0], "/workspace/f");
    assert_eq!(file.as_deref(), Some(&b"old"[..]));
    assert_eq!(runner.lease_counts().released, 1);
}

#[tokio::test]
async fn a_lease_is_asked_for_with_limits_and_its_failing_release_is_told() {
    let runner = MemoryRunner::new();
    let stuck = Error::new(ErrorKind::Unavailable, "still fenced");
    runner
        .faults()
        .on(RunnerOperation::ReleaseLease)
        .next()
        .fail(stuck);
    let started = world(&runner, [calls("edit", 1)]).start();
    let thread = bound(&started).await;
    let turn = request("go").time_limit(Duration::from_secs(60));
    thread.start_turn(turn).await.unwrap().ended().await;
    let asked = runner.lease_requests().remove(0);
    assert!(asked.acquire_timeout_ms > 0);
    assert!(
        asked
            .lease_timeout_ms
            .is_some_and(|ms| (1..=60_000).contains(&ms))
    );
    let outcome = outcomes(&thread).await.remove(0);
    assert!(
        outcome.contains('!') && outcome.contains("still fenced"),
        "{outcome}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_commands_time_is_reckoned_when_it_is_issued() {
    let tool = FnTool::new("command", |_, context| async move {
        let asked = context.command_timeout(Some(Duration::from_secs(120)));
        Ok(ToolOutput::text(format!(
            "{} ms",
            asked.unwrap_or_default().as_millis()
        )))
    });
    let waits = [RunnerOperation::Create, RunnerOperation::AcquireLease];
    for slow in waits {
        let runner = MemoryRunner::new();
        runner
            .faults()
            .on(slow)
            .next()
            .delay(Duration::from_millis(2_100));
        let started = world(&runner, [calls("command", 1)])
            .tool(tool.clone().effects(Effects::COMMANDS))
            .start();
        let thread = bound(&started).await;
        let turn = request("go").time_limit(Duration::from_secs(34));
        thread.start_turn(turn).await.unwrap().ended().await;
        assert_eq!(outcomes(&thread).await, ["command: 1000 ms"], "{slow:?}");
    }
    let left = Some(Duration::from_millis(31_900));
    assert_eq!(command_timeout(left, None), Some(Duration::from_secs(1)));
}
