//! Processes of a local session: endings, input, output, surroundings.
#![cfg(unix)]

mod support;

use std::time::{Duration, Instant};

use haft_api::{
    CommandRequest, Ending, ErrorKind, NoOutput, OutputChannel, ProcessRead, ProcessSpec,
    RemoteRunnerSession, RemoteRunnerSessionExt as _, Signal,
};
use support::{Kept, Mode, Place, available, config, id};

const MODES: [Mode; 4] = [
    Mode::Confined,
    Mode::Filtered,
    Mode::Supervised,
    Mode::Grouped,
];

fn spec(line: &str) -> ProcessSpec {
    ProcessSpec::new(id(), vec!["/bin/sh".into(), "-c".into(), line.into()])
}

/// Everything of a process, once it has ended.
async fn wait_ended(session: &dyn RemoteRunnerSession, spec: &ProcessSpec) -> ProcessRead {
    let start = Instant::now();
    let mut after = None;
    loop {
        let read = session
            .read_process(&spec.id, after, 1 << 20, 1000)
            .await
            .unwrap();
        if read.closed {
            return session
                .read_process(&spec.id, None, 1 << 20, 1000)
                .await
                .unwrap();
        }
        after = read.chunks.last().map_or(after, |chunk| Some(chunk.seq));
        assert!(start.elapsed() < Duration::from_secs(20), "it didn't end");
    }
}

#[tokio::test]
async fn a_command_is_completed_with_code_and_both_channels_apart() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        let check = async |line: &str, code: i32, stdout: &str, stderr: &str| {
            let (outcome, kept) = place.shell(line).await;
            assert_eq!(outcome.ending, Ending::Exited { code }, "{mode:?} {line}");
            assert_eq!(kept.stdout(), stdout, "{mode:?} {line}");
            assert_eq!(kept.stderr(), stderr, "{mode:?} {line}");
            assert!(outcome.leftovers.is_empty(), "{mode:?} {line}");
        };
        check("echo out; echo err >&2", 0, "out\n", "err\n").await;
        check("exit 3", 3, "", "").await;
        check("exit 255", 255, "", "").await;
        // The workspace is where it runs.
        let root = format!("{}\n", place.root.display());
        check("pwd -P", 0, &root, "").await;
        check("echo x > made; cat made", 0, "x\n", "").await;
        // An end of input at once, and no terminal to ask on.
        check("cat; read x || echo none", 0, "none\n", "").await;
        check(
            "test -t 0 || test -t 1 || test -t 2 || echo no",
            0,
            "no\n",
            "",
        )
        .await;
    }
}

#[tokio::test]
async fn there_is_no_terminal_to_open() {
    let place = Place::new().await;
    let (outcome, kept) = place
        .shell("(echo ask > /dev/tty) 2>/dev/null || echo none")
        .await;
    assert!(outcome.ending.is_success());
    assert_eq!(kept.stdout(), "none\n");
    // A session and a group of its own.
    let (_, kept) = place.shell("cut -d' ' -f1,5,6 /proc/self/stat").await;
    let own: Vec<u32> = kept
        .stdout()
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    let ours = rustix::process::getpgrp()
        .as_raw_nonzero()
        .get()
        .cast_unsigned();
    assert!(own[1] != ours && own[2] != ours, "{own:?}");
}

#[tokio::test]
async fn a_command_starts_where_it_is_told_to() {
    let place = Place::new().await;
    std::fs::create_dir_all(place.root.join("a/b")).unwrap();
    let absolute = place.root.join("a");
    for (cwd, expected) in [
        ("a/b", "a/b"),
        ("./a/../a", "a"),
        (absolute.to_str().unwrap(), "a"),
    ] {
        let mut request = CommandRequest::shell("pwd -P");
        request.cwd = Some(cwd.to_owned());
        let (_, kept) = place.run(request).await.unwrap();
        let expected = format!("{}\n", place.root.join(expected).display());
        assert_eq!(kept.stdout(), expected);
    }
}

/// Four different endings, none of which is "exit code 0" or "failed".
#[tokio::test]
async fn every_ending_has_a_name_of_its_own() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        let session = &*place.session;
        let (outcome, _) = place.shell("kill -SEGV $$").await;
        assert_eq!(outcome.ending, Ending::Signalled { signal: 11 }, "{mode:?}");
        let (outcome, _) = place.shell("kill -KILL $$").await;
        assert_eq!(outcome.ending, Ending::Signalled { signal: 9 }, "{mode:?}");

        let mut request = CommandRequest::shell("echo begun; sleep 60");
        request.timeout_ms = Some(300);
        let start = Instant::now();
        let (outcome, kept) = place.run(request).await.unwrap();
        assert_eq!(outcome.ending, Ending::TimedOut, "{mode:?}");
        assert!(start.elapsed() >= Duration::from_millis(300), "{mode:?}");
        assert!(start.elapsed() < Duration::from_secs(5), "{mode:?}");
        assert_eq!(kept.stdout(), "begun\n", "what came is kept");

        for signal in [Signal::Terminate, Signal::Kill] {
            let spec = spec("sleep 60");
            session.start_process(spec.clone()).await.unwrap();
            session.signal(&spec.id, signal).await.unwrap();
            let read = wait_ended(session, &spec).await;
            assert_eq!(read.ending, Some(Ending::Cancelled), "{mode:?}");
            session.release_process(&spec.id);
        }
        // A command that takes the hint its own way ends its own way.
        let spec = spec("trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done");
        session.start_process(spec.clone()).await.unwrap();
        session
            .read_process(&spec.id, None, 100, 5000)
            .await
            .unwrap();
        session.signal(&spec.id, Signal::Interrupt).await.unwrap();
        let read = wait_ended(session, &spec).await;
        assert_eq!(read.ending, Some(Ending::Exited { code: 7 }), "{mode:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_lost_supervisor_leaves_the_outcome_unknown() {
    let place = Place::new().await;
    let mark = support::marker();
    let mut request = CommandRequest::shell("sleep 60 & sleep 0.2; kill -KILL $PPID; sleep 60");
    request.env.push(("MARK".into(), mark.clone()));
    let (outcome, _) = place.run(request).await.unwrap();
    let Ending::Unknown { reason } = outcome.ending else {
        panic!("{:?}", outcome.ending);
    };
    assert!(reason.contains("supervisor"), "{reason}");
    support::assert_dead(&mark, "its supervisor was killed").await;
}

#[tokio::test]
async fn input_is_read_when_asked_for() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        let mut request = CommandRequest::new(["cat"]);
        request.stdin = Some(b"hello".to_vec());
        let (outcome, kept) = place.run(request).await.unwrap();
        assert!(outcome.ending.is_success());
        assert_eq!(kept.stdout(), "hello");

        // A conversation.
        let mut spec = spec("while read x; do echo \"got $x\"; done; echo end");
        spec.stdin = true;
        let session = &*place.session;
        session.start_process(spec.clone()).await.unwrap();
        session
            .write_stdin(&spec.id, Some(b"a\n".to_vec()))
            .await
            .unwrap();
        let read = session
            .read_process(&spec.id, None, 100, 5000)
            .await
            .unwrap();
        assert_eq!(read.chunks[0].bytes, b"got a\n");
        session.write_stdin(&spec.id, None).await.unwrap();
        let read = wait_ended(session, &spec).await;
        assert_eq!(read.chunks.last().unwrap().bytes, b"end\n");
        let error = session
            .write_stdin(&spec.id, Some(b"b".to_vec()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);

        // A filter: it answers while it is still being fed.
        let mut request = CommandRequest::new(["cat"]);
        let input: Vec<u8> = (0..8_000_000u32).map(|n| b'a' + (n % 23) as u8).collect();
        request.stdin = Some(input.clone());
        let (outcome, kept) = place.run(request).await.unwrap();
        assert_eq!(outcome.skipped_bytes, 0, "{mode:?}");
        assert!(kept.stdout().as_bytes() == input, "{mode:?}");

        // One that doesn't read at all.
        let mut request = CommandRequest::new(["true"]);
        request.stdin = Some(vec![b'x'; 1_000_000]);
        let (outcome, _) = place.run(request).await.unwrap();
        assert!(outcome.ending.is_success());

        // None was asked for.
        let spec = self::spec("sleep 5");
        session.start_process(spec.clone()).await.unwrap();
        let error = session
            .write_stdin(&spec.id, Some(b"b".to_vec()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn the_environment_is_clean() {
    // Set for this whole program, as a host's would be.
    let inherited = std::env::vars()
        .map(|(name, _)| name)
        .find(|n| n.starts_with("CARGO"));
    let inherited = inherited.expect("cargo sets some");
    for mode in available(&MODES).await {
        let mut config = config(mode);
        config.set_env.insert("FIXED".into(), "1".into());
        let place = Place::with(config.clone()).await;
        let mut request = CommandRequest::new(["env"]);
        request.env.push(("ADDED".into(), "2".into()));
        let (_, kept) = place.run(request.clone()).await.unwrap();
        let all = kept.stdout();
        let has = |line: &str| all.lines().any(|l| l == line);
        assert!(has("FIXED=1") && has("ADDED=2"), "{all}");
        assert!(all.contains("PATH=") && !all.contains("CARGO"), "{all}");
        // Cargo sets this one, too, and supervisors need it.
        assert!(!all.contains("LD_LIBRARY_PATH"), "{all}");
        config.pass_env.push(inherited.clone());
        let place = Place::with(config).await;
        let (_, kept) = place.run(request).await.unwrap();
        assert!(kept.stdout().contains(&format!("{inherited}=")));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_supervisor_holds_no_secrets() {
    let place = Place::with(config(Mode::Supervised)).await;
    let (_, kept) = place
        .shell("tr '\\0' '\\n' < /proc/$PPID/environ; ls -l /proc/$PPID/exe")
        .await;
    let environ = kept.stdout();
    assert!(environ.contains("haft-supervisor"), "{environ}");
    assert!(
        !environ.contains("CARGO") && !environ.contains("HOME="),
        "{environ}"
    );
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        std::fs::write(place.root.join("plain"), "text").unwrap();
        let kind = async |argv: &[&str], cwd: Option<&str>| {
            let mut request = CommandRequest::new(argv.iter().copied());
            request.cwd = cwd.map(str::to_owned);
            let error = place.run(request).await.err().unwrap();
            let text = error.to_string();
            let name = cwd.or(argv.first().copied()).unwrap_or("argv");
            assert!(text.contains(name) || text.contains("argument"), "{text}");
            error.kind()
        };
        use ErrorKind::{Denied, InvalidInput, NotFound};
        assert_eq!(kind(&["no-such-program"], None).await, NotFound);
        assert_eq!(kind(&["./nothing"], None).await, NotFound);
        assert_eq!(kind(&["./plain"], None).await, Denied);
        assert_eq!(kind(&["true"], Some("nowhere")).await, NotFound);
        assert_eq!(kind(&["true"], Some("plain")).await, NotFound);
        assert_eq!(kind(&[], None).await, InvalidInput);
        assert_eq!(kind(&[""], None).await, InvalidInput);
        assert_eq!(kind(&["echo", "a\0b"], None).await, InvalidInput);
        assert_eq!(
            kind(&["true", &"x".repeat(3_000_000)], None).await,
            InvalidInput
        );
        let mut terminal = spec("true");
        terminal.pty = true;
        if mode == Mode::Grouped {
            let error = place.session.start_process(terminal).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
        // And nothing stays behind of any of them.
        place.session.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_supervisor_is_an_error_and_never_a_hang() {
    let check = async |program: &str, word: &str| {
        let mut config = config(Mode::Grouped);
        config.supervisor = Some(program.into());
        let place = Place::with(config).await;
        let run = place.run(CommandRequest::shell("true"));
        let error = tokio::time::timeout(Duration::from_secs(10), run).await;
        let text = error.unwrap().err().unwrap().to_string();
        assert!(text.contains(word), "{text}");
    };
    check("/no/such/program", "/no/such/program").await;
    check("/bin/true", "supervise_if_asked").await;
    check("/bin/cat", "supervise_if_asked").await;
}

#[tokio::test]
async fn process_ids_are_unique_until_released() {
    let place = Place::new().await;
    let session = &*place.session;
    let spec = spec("true");
    session.start_process(spec.clone()).await.unwrap();
    wait_ended(session, &spec).await;
    let error = session.start_process(spec.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    session.release_process(&spec.id);
    session.release_process(&spec.id);
    let gone = session
        .read_process(&spec.id, None, 1, 0)
        .await
        .unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let gone = session.signal(&spec.id, Signal::Kill).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    session.start_process(spec.clone()).await.unwrap();
}

#[tokio::test]
async fn a_session_has_only_so_many_processes() {
    let mut config = config(Mode::Supervised);
    config.max_processes = 2;
    let place = Place::with(config).await;
    let specs = [spec("true"), spec("true"), spec("true")];
    for spec in &specs[..2] {
        place.session.start_process(spec.clone()).await.unwrap();
    }
    let error = place
        .session
        .start_process(specs[2].clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    place.session.release_process(&specs[0].id);
    place.session.start_process(specs[2].clone()).await.unwrap();
}

#[tokio::test]
async fn output_is_numbered_capped_and_waited_for() {
    let place = Place::new().await;
    let session = &*place.session;
    let spec = spec("echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three");
    session.start_process(spec.clone()).await.unwrap();
    let read = async |after, max, wait| {
        session
            .read_process(&spec.id, after, max, wait)
            .await
            .unwrap()
    };
    let first = read(None, 100, 5000).await;
    assert_eq!(first.chunks.len(), 1);
    assert_eq!(first.chunks[0].bytes, b"one\n");
    assert!(!first.closed && first.ending.is_none());
    let nothing = read(Some(0), 100, 10).await;
    assert!(nothing.chunks.is_empty() && !nothing.closed);
    let second = read(Some(0), 2, 5000).await;
    assert_eq!(second.chunks[0].bytes, b"tw");
    assert_eq!(second.chunks[0].channel, OutputChannel::Stderr);
    let whole = wait_ended(session, &spec).await;
    let numbers: Vec<u64> = whole.chunks.iter().map(|chunk| chunk.seq).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let bytes: Vec<u8> = whole.chunks.iter().flat_map(|c| c.bytes.clone()).collect();
    assert_eq!(bytes, b"one\ntwo\nthree\n");
    assert_eq!(whole.ending, Some(Ending::Exited { code: 0 }));
    assert_eq!(whole.skipped_bytes, 0);
}

#[tokio::test]
async fn an_end_without_output_wakes_a_reader_at_once() {
    let place = Place::new().await;
    let spec = spec("sleep 0.2");
    place.session.start_process(spec.clone()).await.unwrap();
    let start = Instant::now();
    let read = place
        .session
        .read_process(&spec.id, None, 100, 30_000)
        .await
        .unwrap();
    assert_eq!(read.ending, Some(Ending::Exited { code: 0 }));
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// Nobody reads: the command goes on to its end, and what is left is the last.
#[tokio::test]
async fn a_process_that_nobody_reads_from_goes_on() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        let line = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); printf '%65536s' x; done; touch done; echo last";
        let spec = spec(line);
        place.session.start_process(spec.clone()).await.unwrap();
        let done = place.root.join("done");
        support::until("the end of a flood", Duration::from_secs(20), || {
            done.exists()
        })
        .await;
        let mut after = None;
        let (mut read_bytes, mut skipped, mut last) = (0, 0, Vec::new());
        loop {
            let read = place
                .session
                .read_process(&spec.id, after, 100_000, 5000)
                .await
                .unwrap();
            skipped += read.skipped_bytes;
            for chunk in read.chunks {
                after = Some(chunk.seq);
                read_bytes += chunk.bytes.len() as u64;
                last = chunk.bytes;
            }
            if read.closed {
                break;
            }
        }
        assert_eq!(read_bytes + skipped, 200 * 65536 + 5, "{mode:?}");
        // What is kept, and what still came while it was read.
        assert!(read_bytes <= 2 * 1024 * 1024, "{read_bytes}");
        assert!(last.ends_with(b"last\n"));
    }
}

/// A reader that is slow but keeps coming loses nothing.
#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    let place = Place::new().await;
    let spec = spec("head -c 6000000 /dev/zero; echo end >&2");
    place.session.start_process(spec.clone()).await.unwrap();
    let mut after = None;
    let mut total = 0;
    loop {
        let read = place
            .session
            .read_process(&spec.id, after, 100_000, 5000)
            .await
            .unwrap();
        assert_eq!(read.skipped_bytes, 0);
        for chunk in read.chunks {
            after = Some(chunk.seq);
            total += chunk.bytes.len();
        }
        if read.closed {
            assert_eq!(read.ending, Some(Ending::Exited { code: 0 }));
            break;
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    assert_eq!(total, 6_000_004);
}

#[tokio::test]
async fn everything_written_before_the_end_arrives() {
    let place = Place::new().await;
    // Both pipes are full when the command ends, and a part of it is still at
    // work for a moment.
    for _ in 0..10 {
        let (outcome, kept) = place
            .shell("head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2; (echo tail) &")
            .await;
        assert_eq!(outcome.ending, Ending::Exited { code: 0 });
        assert_eq!(kept.stdout().len(), 200_005);
        assert_eq!(kept.stderr().len(), 200_000);
        assert_eq!(outcome.skipped_bytes, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_run_at_the_same_time() {
    let place = std::sync::Arc::new(Place::new().await);
    let mut tasks = Vec::new();
    for n in 0..100 {
        let place = std::sync::Arc::clone(&place);
        tasks.push(tokio::spawn(async move {
            let (outcome, kept) = place.shell(&format!("echo {n}; exit {n}")).await;
            assert_eq!(outcome.ending, Ending::Exited { code: n });
            assert_eq!(kept.stdout(), format!("{n}\n"));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Whatever a command writes arrives byte for byte, in order on each channel.
#[tokio::test]
async fn output_arrives_as_it_was_written() {
    let numbered = |word: &str| -> Vec<u8> {
        let lines = (1..=500).map(|number| format!("{word}{number}\n"));
        lines.collect::<String>().into_bytes()
    };
    let cases: [(&str, &str, Vec<u8>, Vec<u8>); 7] = [
        ("nothing", "true", Vec::new(), Vec::new()),
        ("no newline", "printf end", b"end".to_vec(), Vec::new()),
        (
            "a very long line",
            "head -c 5000000 /dev/zero | tr '\\0' x",
            vec![b'x'; 5_000_000],
            Vec::new(),
        ),
        (
            "zeros",
            "head -c 100000 /dev/zero",
            vec![0; 100_000],
            Vec::new(),
        ),
        (
            "no UTF-8",
            "printf '\\377\\376a\\303' ; printf '\\200' >&2",
            vec![0xff, 0xfe, b'a', 0xc3],
            vec![0x80],
        ),
        (
            "a character in two pieces",
            "printf '\\303'; sleep 0.1; printf '\\244'",
            "ä".into(),
            Vec::new(),
        ),
        (
            "both channels by turns",
            "i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo out$i; echo err$i >&2; done",
            numbered("out"),
            numbered("err"),
        ),
    ];
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        for (what, line, out, err) in &cases {
            let (outcome, kept) = place.shell(line).await;
            assert!(outcome.ending.is_success(), "{mode:?} {what}: {outcome:?}");
            assert_eq!(outcome.skipped_bytes, 0, "{mode:?} {what}");
            let (stdout, stderr) = kept.bytes();
            assert!(stdout == *out, "{mode:?} {what}: {} bytes", stdout.len());
            assert!(stderr == *err, "{mode:?} {what}: {} bytes", stderr.len());
        }
    }
}

/// `timeout 10 yes` made others' hosts grow by gigabytes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_flood_costs_no_memory() {
    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
    let place = Place::new().await;
    place.shell("head -c 10000000 /dev/zero").await;
    let before = resident_kib();
    // With a reader that takes all of it, and with one that never comes.
    let mut request = CommandRequest::shell("exec yes");
    request.timeout_ms = Some(4000);
    let unread = spec("exec yes");
    place.session.start_process(unread.clone()).await.unwrap();
    let outcome = place
        .session
        .run_command(id(), request, &NoOutput)
        .await
        .unwrap();
    let after = resident_kib();
    assert_eq!(outcome.ending, Ending::TimedOut);
    assert_eq!(outcome.skipped_bytes, 0);
    assert!(after < before + 16 * 1024, "grew by {} KiB", after - before);
    let read = place
        .session
        .read_process(&unread.id, None, 10, 1000)
        .await
        .unwrap();
    assert!(
        read.skipped_bytes > 1_000_000,
        "it did flood: {}",
        read.skipped_bytes
    );
}

#[tokio::test]
async fn kept_output_is_told_by_channel() {
    let place = Place::new().await;
    let kept = Kept::default();
    let request = CommandRequest::shell("for i in 1 2 3; do echo o$i; echo e$i >&2; done");
    place
        .session
        .run_command(id(), request, &kept)
        .await
        .unwrap();
    assert_eq!(kept.stdout(), "o1\no2\no3\n");
    assert_eq!(kept.stderr(), "e1\ne2\ne3\n");
}
