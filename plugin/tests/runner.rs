//! Runner providers, sessions and leases through the boundary.

use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    CommandRequest, Ending, Error, ErrorKind, FileKind, LeaseRequest, ListOptions, ProcessId,
    ProcessSpec, ReadOptions, Readiness, RemoteRunnerProvider, RemoteRunnerSession,
    RemoteRunnerSessionExt as _, Resumed, Signal, WriteMode, WriteOptions, raw_json,
};
use haft_testkit::{MemoryRunner, ProgramIo, RunnerFixture, RunnerOperation};

mod support;

use support::{Kept, Loaded, within};

fn plugged(runner: &MemoryRunner) -> (Loaded, Arc<dyn RemoteRunnerProvider>) {
    let runner = runner.clone();
    let loaded = Loaded::in_process(move |registry| {
        registry.runner(runner.shared());
    });
    let [provider] = loaded.registry.runners() else {
        panic!("one runner");
    };
    let provider = Arc::clone(&provider.part);
    (loaded, provider)
}

// Each promise of a runner, kept through the boundary.
haft_testkit::runner_conformance!(|| {
    let runner = MemoryRunner::new();
    let (loaded, provider) = plugged(&runner);
    RunnerFixture::new(provider, runner.binding("conformance"))
        .commands(MemoryRunner::probe_command)
        .keeping(loaded)
});

fn process(name: &str) -> ProcessId {
    ProcessId::new(name).unwrap()
}

async fn session(
    runner: &MemoryRunner,
    provider: &dyn RemoteRunnerProvider,
) -> Arc<dyn RemoteRunnerSession> {
    within(provider.create(runner.binding("d"))).await.unwrap()
}

#[tokio::test]
async fn what_is_constant_and_what_is_checked() {
    let runner = MemoryRunner::new()
        .with_id("far")
        .with_default_workspace(Some("/far"))
        .with_readiness(Readiness::NeedsSetup {
            reason: "an image".to_owned(),
            download_bytes: Some(7),
        })
        .refusing_configs("no such image");
    let (loaded, provider) = plugged(&runner);
    assert_eq!(provider.id().as_str(), "far");
    assert_eq!(provider.default_workspace().as_deref(), Some("/far"));
    assert_eq!(provider.capabilities(), runner.shared().capabilities());
    assert_eq!(
        within(provider.readiness()).await,
        within(runner.readiness_now()).await
    );
    let mut destination = runner.binding("d").destination;
    destination.config = raw_json(r#"{"image":"x"}"#).unwrap();
    let error = provider.validate(&destination).unwrap_err();
    let direct = runner.shared().validate(&destination).unwrap_err();
    assert_eq!(error.to_string(), direct.to_string());
    loaded.at_rest().await;
}

trait ReadinessNow {
    async fn readiness_now(&self) -> Readiness;
}

impl ReadinessNow for MemoryRunner {
    async fn readiness_now(&self) -> Readiness {
        self.shared().readiness().await
    }
}

#[tokio::test]
async fn files() {
    let runner = MemoryRunner::new().file("dir/a", "0123456789");
    let (loaded, provider) = plugged(&runner);
    let session = session(&runner, &*provider).await;
    assert_eq!(session.workspace(), "/workspace");
    let id = session.state().session_id;

    let options = ReadOptions::range(2, 3);
    let part = within(session.read_file("dir/a", options)).await.unwrap();
    assert_eq!((&*part.bytes, part.metadata.size), (&b"234"[..], 10));
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let options = WriteOptions::mode(WriteMode::CreateNew).create_parents();
    let written = session.write_file("new/b", large.clone(), options);
    let written = within(written).await.unwrap();
    assert_eq!((written.size, written.kind), (3_000_000, FileKind::File));
    assert!(runner.content(&id, "new/b") == Some(large.clone()));
    let back = within(session.read_file("new/b", ReadOptions::default()));
    assert!(back.await.unwrap().bytes == large);

    let old = WriteOptions::mode(WriteMode::IfVersion("old".to_owned()));
    let stale = within(session.write_file("new/b", b"x".to_vec(), old)).await;
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Busy);
    let outside = within(session.read_file("../x", ReadOptions::default())).await;
    assert_eq!(outside.unwrap_err().kind(), ErrorKind::Denied);

    within(session.make_dir("made")).await.unwrap();
    let listing = within(session.list("/workspace", ListOptions::default()));
    let names: Vec<_> = listing.await.unwrap().entries;
    let names: Vec<_> = names.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["dir", "made", "new"]);
    within(session.remove("made")).await.unwrap();
    let gone = within(session.metadata("made")).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    drop(session);
    loaded.at_rest().await;
}

#[tokio::test]
async fn processes() {
    let runner = MemoryRunner::new()
        .program("both", async |io: ProgramIo| {
            io.print([0, 159, 146, 150]);
            io.print_error("err");
            3
        })
        .program("hang", async |_| {
            std::future::pending::<()>().await;
            0
        });
    let (loaded, provider) = plugged(&runner);
    let session = session(&runner, &*provider).await;
    let output = Kept::default();
    let command = CommandRequest::shell("echo over there");
    let outcome = session.run_command(process("p1"), command, &output);
    let outcome = within(outcome).await.unwrap();
    assert!(outcome.ending.is_success());
    assert_eq!(output.text(), "over there\n");

    let spec = ProcessSpec::new(process("p2"), vec!["both".to_owned()]);
    within(session.start_process(spec)).await.unwrap();
    let (mut out, mut err, mut after) = (Vec::new(), Vec::new(), None);
    let ending = loop {
        let p2 = process("p2");
        let read = session.read_process(&p2, after, 1024, 1000);
        let read = within(read).await.unwrap();
        for chunk in read.chunks {
            after = Some(chunk.seq);
            match chunk.channel {
                haft_api::OutputChannel::Stdout => out.extend(chunk.bytes),
                haft_api::OutputChannel::Stderr => err.extend(chunk.bytes),
            }
        }
        if read.closed {
            break read.ending.unwrap();
        }
    };
    assert_eq!((&*out, &*err), (&[0, 159, 146, 150][..], &b"err"[..]));
    assert_eq!(ending, Ending::Exited { code: 3 });

    // What it reads: bytes, and then the end.
    let mut command = CommandRequest::new(["cat"]);
    command.stdin = Some(b"to be read".to_vec());
    let output = Kept::default();
    within(session.run_command(process("p3"), command, &output))
        .await
        .unwrap();
    assert_eq!(output.text(), "to be read");

    // A signal, and a release from a destructor.
    let spec = ProcessSpec::new(process("p4"), vec!["hang".to_owned()]);
    within(session.start_process(spec)).await.unwrap();
    within(session.signal(&process("p4"), Signal::Kill))
        .await
        .unwrap();
    let read = within(session.read_process(&process("p4"), None, 10, 60_000)).await;
    assert!(read.unwrap().ending.is_some());
    let hanging = session.run_command(process("p5"), CommandRequest::new(["hang"]), &output);
    let cancelled = tokio::time::timeout(Duration::from_millis(20), hanging).await;
    assert!(cancelled.is_err());
    let released = within(session.read_process(&process("p5"), None, 10, 0)).await;
    assert_eq!(released.unwrap_err().kind(), ErrorKind::NotFound);
    session.release_process(&process("nobody"));
    drop(session);
    loaded.at_rest().await;
}

#[tokio::test]
async fn sandboxes_come_back_or_are_gone() {
    let runner = MemoryRunner::new().file("a", "kept");
    let (loaded, provider) = plugged(&runner);
    let session = session(&runner, &*provider).await;
    let state = session.state();
    drop(session);
    let binding = || runner.binding("d");
    let resumed = within(provider.resume(binding(), state.clone())).await;
    let Resumed::Session(session) = resumed.unwrap() else {
        panic!("it is there");
    };
    assert_eq!(session.state().session_id, state.session_id);
    let file = within(session.read_file("a", ReadOptions::default())).await;
    assert_eq!(file.unwrap().bytes, b"kept");

    runner.lose(&state.session_id);
    let resumed = within(provider.resume(binding(), state.clone())).await;
    assert!(matches!(resumed.unwrap(), Resumed::Gone { .. }));

    let down = || Error::new(ErrorKind::Unavailable, "the network is down");
    runner
        .faults()
        .on(RunnerOperation::Resume)
        .next()
        .fail(down());
    let resumed = within(provider.resume(binding(), state)).await;
    assert_eq!(resumed.unwrap_err().kind(), ErrorKind::Unavailable);
    runner
        .faults()
        .on(RunnerOperation::Create)
        .next()
        .fail(down());
    let created = within(provider.create(binding())).await;
    assert_eq!(created.err().unwrap().message(), "the network is down");
    drop(session);
    loaded.at_rest().await;
}

#[tokio::test]
async fn the_rarer_things_are_there_or_unsupported() {
    let capable = MemoryRunner::new().with_capabilities(|capabilities| {
        capabilities.pause = true;
        capabilities.detach = true;
        capabilities.snapshot = true;
        capabilities.ports = true;
    });
    let plain = MemoryRunner::new().with_capabilities(|capabilities| {
        *capabilities = haft_api::RunnerCapabilities::default();
    });
    for runner in [capable, plain] {
        let (loaded, provider) = plugged(&runner);
        let through = session(&runner, &*provider).await;
        let direct = session(&runner, &*runner.shared()).await;
        assert_eq!(through.capabilities(), direct.capabilities());
        let kinds = async |session: &dyn RemoteRunnerSession| {
            let kind = |error: Error| error.kind();
            let spec = ProcessSpec::new(process("p"), vec!["true".to_owned()]);
            let p = process("q");
            [
                within(session.port(80)).await.err().map(kind),
                within(session.snapshot()).await.err().map(kind),
                within(session.start_process(spec)).await.err().map(kind),
                within(session.read_process(&p, None, 1, 0))
                    .await
                    .err()
                    .map(kind),
                within(session.write_stdin(&p, None)).await.err().map(kind),
                within(session.signal(&p, Signal::Kill))
                    .await
                    .err()
                    .map(kind),
                within(session.pause()).await.err().map(kind),
                within(session.detach()).await.err().map(kind),
                within(session.close()).await.err().map(kind),
            ]
        };
        assert_eq!(kinds(&*through).await, kinds(&*direct).await);
        drop(through);
        loaded.at_rest().await;
    }
}

#[tokio::test]
async fn leases_are_held_lost_and_given_back() {
    let runner = MemoryRunner::new().with_capabilities(|capabilities| capabilities.leases = true);
    let (loaded, provider) = plugged(&runner);
    let session = session(&runner, &*provider).await;
    let request = LeaseRequest {
        acquire_timeout_ms: 20,
        lease_timeout_ms: Some(60_000),
    };
    let acquire = async || within(provider.acquire_lease(session.state(), request)).await;
    let lease = acquire().await.unwrap().expect("a lease");
    assert_eq!(runner.lease_requests(), [request]);
    assert_eq!(acquire().await.err().unwrap().kind(), ErrorKind::Busy);
    let held = tokio::time::timeout(Duration::from_millis(20), lease.lost()).await;
    assert!(held.is_err());
    within(lease.release()).await.unwrap();
    drop(lease);

    let lease = acquire().await.unwrap().expect("a lease");
    let lost = tokio::spawn(async move { lease.lost().await });
    tokio::time::sleep(Duration::from_millis(5)).await;
    runner.lose_leases("somebody broke in");
    assert_eq!(within(lost).await.unwrap(), "somebody broke in");

    // A fence that can't be watched any more counts as lost.
    let plain = MemoryRunner::new().with_capabilities(|capabilities| capabilities.leases = false);
    let (_other, provider) = plugged(&plain);
    let state = within(provider.create(plain.binding("d")))
        .await
        .unwrap()
        .state();
    let none = within(provider.acquire_lease(state, request)).await;
    assert!(none.unwrap().is_none());
    drop(session);
    loaded.at_rest().await;
}

#[tokio::test]
async fn a_session_outlives_its_plug_in_as_an_error() {
    let runner = MemoryRunner::new().file("a", "x");
    let (loaded, provider) = plugged(&runner);
    let session = session(&runner, &*provider).await;
    let state = session.state();
    loaded.plugin.close();
    assert_eq!(session.state().session_id, state.session_id);
    let read = within(session.read_file("a", ReadOptions::default())).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Unavailable);
    session.release_process(&process("p"));
}
