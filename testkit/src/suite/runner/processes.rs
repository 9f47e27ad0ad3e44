//! Processes: output, input, ids.

use std::time::{Duration, Instant};

use futures::future::join_all;
use haft_api::{Ending, ErrorKind, OutputChannel, ProcessSpec, Signal};

use super::Probe;
use super::subject::{SOON, Subject};
use crate::fixture::fresh_process;
use crate::suite::expect::{claimed, ensure, fails, ok, same, soon};
use crate::suite::{Checked, Unmet};

fn print(stdout: &str, stderr: &str) -> Probe {
    let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
    Probe::Print { stdout, stderr }
}

const MINUTE: Duration = Duration::from_secs(60);

pub(in crate::suite) async fn output_comes_by_channel(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    for (stdout, stderr) in [
        ("", ""),
        ("out\n", ""),
        ("", "err"),
        ("a\nb ä 中", "'quoted' \"x\""),
    ] {
        let ran = session
            .run(subject.request(&print(stdout, stderr))?)
            .await?;
        same("standard output", stdout, &ran.stdout)?;
        same("standard error", stderr, &ran.stderr)?;
        same("the ending", &Ending::Exited { code: 0 }, &ran.ending)?;
    }
    Ok(())
}

pub(in crate::suite) async fn chunks_have_contiguous_numbers(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let id = session.start(subject.spec(&print("out", "err"))?).await?;
    // Reading from the beginning leaves nothing behind.
    let whole = async {
        loop {
            let read = session.read(&id, None, 4096, 1000).await?;
            if read.closed {
                return Ok::<_, Unmet>(read);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let whole = soon("the end of a process's output", SOON, whole).await??;
    for (expected, chunk) in (0..).zip(&whole.chunks) {
        same("a piece's number", &expected, &chunk.seq)?;
        ensure!(
            !chunk.bytes.is_empty(),
            "expected pieces with bytes in them, got an empty one"
        );
    }
    for (channel, expected) in [
        (OutputChannel::Stdout, "out"),
        (OutputChannel::Stderr, "err"),
    ] {
        let pieces = whole.chunks.iter().filter(|chunk| chunk.channel == channel);
        let bytes: Vec<u8> = pieces.flat_map(|chunk| chunk.bytes.clone()).collect();
        same(&format!("{channel:?}"), expected.as_bytes(), &*bytes)?;
    }
    let again = session.read(&id, None, 4096, 0).await?;
    same("the same pieces again", &whole.chunks, &again.chunks)?;
    let last = whole.chunks.last().map(|chunk| chunk.seq);
    let rest = session.read(&id, last, 4096, 0).await?;
    same("pieces after the last", &vec![], &rest.chunks)?;
    ensure!(
        rest.closed,
        "expected the output to be closed after the last piece"
    );
    same("the ending, still", &whole.ending, &rest.ending)
}

pub(in crate::suite) async fn output_is_read_in_pieces(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    for max_bytes in [1000, 100_000] {
        let id = session.start(subject.spec(&Probe::Flood(200_000))?).await?;
        let drained = session.drain(&id, None, max_bytes).await?;
        same("bytes that were lost", &0, &drained.skipped)?;
        same("bytes that came", &200_000, &drained.bytes.len())?;
        ensure!(
            drained.bytes.iter().all(|&byte| byte == b'x'),
            "expected nothing but `x`"
        );
    }
    Ok(())
}

pub(in crate::suite) async fn a_read_waits_no_longer_than_asked(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let id = session.start(subject.spec(&Probe::Sleep(MINUTE))?).await?;
    let after = session.printed(&id, "begun").await?;
    let began = Instant::now();
    let read = session.read(&id, after, 4096, 300).await?;
    let took = began.elapsed();
    same("output of a silent process", &vec![], &read.chunks)?;
    same("its ending", &None, &read.ending)?;
    ensure!(
        (Duration::from_millis(250)..Duration::from_secs(10)).contains(&took),
        "expected a wait of 300 ms, got {took:?}"
    );
    session.release_process(&id);

    let id = session.start(subject.spec(&print("now", ""))?).await?;
    let began = Instant::now();
    let read = session.read(&id, None, 4096, 60_000).await?;
    ensure!(
        began.elapsed() < Duration::from_secs(30) && (!read.chunks.is_empty() || read.closed),
        "expected a read to return when there is something, got {read:?} after {:?}",
        began.elapsed()
    );
    Ok(())
}

pub(in crate::suite) async fn processes_start_in_the_workspace(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    session.put("here", "workspace").await?;
    session.put("folder/here", "folder").await?;
    let absolute = format!("{}/folder", session.workspace().trim_end_matches('/'));
    for (cwd, expected) in [
        (None, "workspace"),
        (Some("."), "workspace"),
        (Some("folder"), "folder"),
        (Some(&*absolute), "folder"),
    ] {
        let mut request = subject.request(&Probe::PrintFile("here".to_owned()))?;
        request.cwd = cwd.map(str::to_owned);
        let ran = session.run(request).await?;
        same(&format!("the file where {cwd:?} is"), expected, &ran.stdout)?;
    }
    Ok(())
}

pub(in crate::suite) async fn variables_are_handed_over(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let name = "HAFT_CONFORMANCE";
    for value in ["", "plain", "with space and 'quotes' \"x\" $HOME ä"] {
        let mut request = subject.request(&Probe::PrintVariable(name.to_owned()))?;
        request.env = vec![(name.to_owned(), value.to_owned())];
        same("the variable", value, &session.run(request).await?.stdout)?;
    }
    let request = subject.request(&Probe::PrintVariable(name.to_owned()))?;
    same(
        "the variable, without one",
        "",
        &session.run(request).await?.stdout,
    )
}

pub(in crate::suite) async fn input_is_handed_over(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    claimed(subject.can().stdin, "the provider doesn't claim `stdin`")?;
    let mut spec = subject.spec(&Probe::Copy)?;
    spec.stdin = true;
    let id = session.start(spec).await?;
    ok(
        "writing input",
        session.write_stdin(&id, Some(b"first ".to_vec())).await,
    )?;
    let after = session.printed(&id, "first ").await?;
    ok(
        "writing input",
        session.write_stdin(&id, Some(b"second".to_vec())).await,
    )?;
    ok("closing the input", session.write_stdin(&id, None).await)?;
    let drained = session.drain(&id, after, 4096).await?;
    same("the rest of the output", &b"second"[..], &*drained.bytes)?;
    same(
        "the ending",
        &Some(Ending::Exited { code: 0 }),
        &drained.ending,
    )?;

    let large = vec![b'x'; 300_000];
    let mut request = subject.request(&Probe::Copy)?;
    request.stdin = Some(large.clone());
    let ran = session.run(request).await?;
    same(
        "bytes of a large input that came back",
        &large.len(),
        &ran.stdout.len(),
    )
}

pub(in crate::suite) async fn input_is_at_its_end_without_any(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let ran = session.run(subject.request(&Probe::Copy)?).await?;
    same("the output", "", &ran.stdout)?;
    same("the ending", &Ending::Exited { code: 0 }, &ran.ending)
}

pub(in crate::suite) async fn a_process_that_ended_takes_no_input(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    claimed(subject.can().stdin, "the provider doesn't claim `stdin`")?;
    let mut spec = subject.spec(&Probe::Exit(0))?;
    spec.stdin = true;
    let id = session.start(spec).await?;
    session.drain(&id, None, 4096).await?;
    let late = session.write_stdin(&id, Some(b"late".to_vec())).await;
    ensure!(
        late.is_err(),
        "expected input for an ended process to be refused, got success"
    );
    Ok(())
}

pub(in crate::suite) async fn an_id_names_one_process(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let first = subject.spec(&print("first", ""))?;
    let mut second = subject.spec(&print("second", ""))?;
    second.id = first.id.clone();
    let id = session.start(first).await?;
    let taken = ErrorKind::AlreadyExists;
    fails(
        "a second process",
        taken,
        session.start_process(second.clone()).await,
    )?;
    let drained = session.drain(&id, None, 4096).await?;
    same("the first one's output", &b"first"[..], &*drained.bytes)?;
    // Ended isn't released: its output may still be wanted.
    fails(
        "a second process",
        taken,
        session.start_process(second.clone()).await,
    )?;
    session.release_process(&id);
    session.start(second).await?;
    let drained = session.drain(&id, None, 4096).await?;
    same("the second one's output", &b"second"[..], &*drained.bytes)
}

pub(in crate::suite) async fn an_unknown_process_is_not_found(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let id = fresh_process();
    let missing = ErrorKind::NotFound;
    fails(
        "reading it",
        missing,
        session.read_process(&id, None, 1, 0).await,
    )?;
    fails(
        "a signal to it",
        missing,
        session.signal(&id, Signal::Kill).await,
    )?;
    let written = session.write_stdin(&id, Some(vec![1])).await;
    ensure!(
        written.is_err(),
        "expected input for an unknown process to be refused, got success"
    );
    session.release_process(&id);
    session.release_process(&id);
    Ok(())
}

pub(in crate::suite) async fn what_is_not_there_is_not_started(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let missing = ErrorKind::NotFound;
    for program in [
        "haft-no-such-program",
        "./no-such-program",
        "/no/such/program",
    ] {
        let spec = ProcessSpec::new(fresh_process(), vec![program.to_owned()]);
        let id = spec.id.clone();
        let started = session.start_process(spec).await;
        fails(&format!("starting {program}"), missing, started)?;
        let read = session.read_process(&id, None, 1, 0).await;
        fails("reading what wasn't started", missing, read)?;
    }
    let mut spec = subject.spec(&Probe::Exit(0))?;
    spec.cwd = Some("no-such-folder".to_owned());
    fails(
        "starting in a missing folder",
        missing,
        session.start_process(spec).await,
    )?;
    let empty = session
        .start_process(ProcessSpec::new(fresh_process(), vec![]))
        .await;
    ensure!(
        empty.is_err(),
        "expected a process without a program to be refused, got success"
    );
    Ok(())
}

pub(in crate::suite) async fn processes_run_side_by_side(subject: Subject) -> Checked {
    let session = subject.session_with_processes().await?;
    let slow = session.start(subject.spec(&Probe::Sleep(MINUTE))?).await?;
    let runs = (0..8).map(|number| {
        let (session, subject) = (&session, &subject);
        async move {
            let text = format!("process {number}");
            let ran = session.run(subject.request(&print(&text, ""))?).await?;
            same("a process's own output", &text, &ran.stdout)
        }
    });
    join_all(runs).await.into_iter().collect::<Checked>()?;
    let read = session.read(&slow, None, 4096, 0).await?;
    same("the ending of the slow one", &None, &read.ending)?;
    session.release_process(&slow);
    Ok(())
}

pub(in crate::suite) async fn a_slow_reader_stops_no_process(subject: Subject) -> Checked {
    const BYTES: u64 = 16 * 1024 * 1024;
    let session = subject.session_with_processes().await?;
    let id = session
        .start(subject.spec(&Probe::Flood(BYTES as usize))?)
        .await?;
    // Time for it to run into whatever limits there are.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let drained = session.drain(&id, None, 64 * 1024).await?;
    let came = drained.bytes.len() as u64;
    same("bytes kept and counted", &BYTES, &(came + drained.skipped))?;
    same(
        "the ending",
        &Some(Ending::Exited { code: 0 }),
        &drained.ending,
    )
}
