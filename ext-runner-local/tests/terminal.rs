//! Commands on a pseudo terminal.
#![cfg(target_os = "linux")]

mod support;

use std::time::Duration;

use haft_api::{Ending, ErrorKind, ProcessSpec, PtySize};
use support::{Mode, Place, available, config, id};

const MODES: [Mode; 3] = [Mode::Confined, Mode::Filtered, Mode::Supervised];

fn spec(line: &str) -> ProcessSpec {
    let mut spec = ProcessSpec::new(id(), vec!["/bin/sh".into(), "-c".into(), line.into()]);
    spec.pty = true;
    spec
}

/// Reads on until a word has come, or the end; what has come so far.
async fn read_until(place: &Place, spec: &ProcessSpec, word: &str) -> (String, Option<Ending>) {
    let mut text = String::new();
    let mut after = None;
    let reading = async {
        loop {
            let read = place
                .session
                .read_process(&spec.id, after, 1 << 16, 5000)
                .await
                .unwrap();
            for chunk in &read.chunks {
                after = Some(chunk.seq);
                text.push_str(&String::from_utf8_lossy(&chunk.bytes));
            }
            if read.closed || text.contains(word) {
                return read.ending;
            }
        }
    };
    let ending = tokio::time::timeout(Duration::from_secs(20), reading).await;
    let ending = ending.unwrap_or_else(|_| panic!("no {word:?}"));
    (text, ending)
}

#[tokio::test]
async fn it_is_a_terminal_of_the_size_that_was_asked_for() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        assert!(place.session.capabilities().pty);
        let line = "test -t 0 && test -t 1 && test -t 2 && stty size && echo x > /dev/tty";
        let check = async |size: Option<PtySize>, expected: &str| {
            let mut spec = spec(line);
            spec.pty_size = size;
            place.session.start_process(spec.clone()).await.unwrap();
            let (text, ending) = read_until(&place, &spec, "never").await;
            assert_eq!(text, format!("{expected}\r\nx\r\n"), "{mode:?}");
            assert_eq!(ending, Some(Ending::Exited { code: 0 }), "{mode:?}");
        };
        check(None, "24 80").await;
        let size = PtySize {
            rows: 50,
            columns: 132,
        };
        check(Some(size), "50 132").await;
    }
}

#[tokio::test]
async fn it_can_be_resized_and_typed_at() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        let spec = spec(
            "trap 'stty size' WINCH; echo ready; while read x; do echo \"<$x>\"; done; echo over",
        );
        let session = &place.session;
        session.start_process(spec.clone()).await.unwrap();
        read_until(&place, &spec, "ready").await;
        let size = PtySize {
            rows: 30,
            columns: 100,
        };
        session.resize_pty(&spec.id, size).await.unwrap();
        session
            .write_stdin(&spec.id, Some(b"typed\n".to_vec()))
            .await
            .unwrap();
        let (text, _) = read_until(&place, &spec, "<typed>").await;
        assert!(text.contains("30 100"), "{mode:?}: {text:?}");
        session.write_stdin(&spec.id, None).await.unwrap();
        let (text, ending) = read_until(&place, &spec, "never").await;
        assert!(text.ends_with("over\r\n"), "{mode:?}: {text:?}");
        assert_eq!(ending, Some(Ending::Exited { code: 0 }), "{mode:?}");
    }
}

/// As somebody at the terminal would interrupt it.
#[tokio::test]
async fn control_c_interrupts_what_is_in_the_foreground() {
    for mode in available(&MODES).await {
        let place = Place::with(config(mode)).await;
        let spec = spec("echo ready; exec sleep 60");
        place.session.start_process(spec.clone()).await.unwrap();
        read_until(&place, &spec, "ready").await;
        place
            .session
            .write_stdin(&spec.id, Some(vec![3]))
            .await
            .unwrap();
        let (_, ending) = read_until(&place, &spec, "never").await;
        assert!(
            matches!(
                ending,
                Some(Ending::Signalled { signal: 2 } | Ending::Exited { code: 130 })
            ),
            "{mode:?}: {ending:?}"
        );
    }
}

#[tokio::test]
async fn without_a_terminal_there_is_nothing_to_resize() {
    let place = Place::with(config(Mode::Supervised)).await;
    let mut spec = spec("sleep 60");
    spec.pty = false;
    place.session.start_process(spec.clone()).await.unwrap();
    let kind = async |id| {
        let resized = place.session.resize_pty(id, PtySize::default()).await;
        resized.unwrap_err().kind()
    };
    assert_eq!(kind(&spec.id).await, ErrorKind::InvalidInput);
    assert_eq!(kind(&id()).await, ErrorKind::NotFound);
}
