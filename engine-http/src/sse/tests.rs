use super::*;

fn decode(bytes: &[u8], chunk: usize) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let mut decoder = SseDecoder::new();
    let mut keep = |event: SseEvent<'_>| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        seen.push((text(event.name), text(event.data)));
    };
    for chunk in bytes.chunks(chunk) {
        decoder.push(chunk, &mut keep).unwrap();
    }
    decoder.finish(&mut keep);
    seen
}

#[test]
fn events_are_the_same_however_they_are_cut() {
    let check = |stream: &str, expected: &[(&str, &str)]| {
        for chunk in 1..=stream.len().max(1) {
            let seen = decode(stream.as_bytes(), chunk);
            let seen: Vec<_> = seen.iter().map(|(n, d)| (n.as_str(), d.as_str())).collect();
            assert_eq!(seen, expected, "{stream:?} in chunks of {chunk}");
        }
    };
    check("", &[]);
    check("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
    check("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
    check("data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]);
    check("\u{feff}data: a\n\n", &[("", "a")]);
    check("\u{feff}\u{feff}data: a\n\ndata: b\n\n", &[("", "b")]);
    check("data: \u{feff}a\n\n", &[("", "\u{feff}a")]);
    check("data:a\n\ndata:  b\n\n", &[("", "a"), ("", " b")]);
    check("data: é\u{1f600}ü\n\n", &[("", "é\u{1f600}ü")]);
    check("data: a\ndata: b\ndata\n\n", &[("", "a\nb\n")]);
    check("data\n\n", &[("", "")]);
    check("\n\n\n: comment\n\n:\n", &[]);
    check(": ping\ndata: a\n: ping\n\n", &[("", "a")]);
    check("event: x\ndata: a\n\ndata: b\n\n", &[("x", "a"), ("", "b")]);
    check("event: x\n\ndata: b\n\n", &[("", "b")]);
    check("id: 1\nretry: 5\nunknown: x\ndata: a\n\n", &[("", "a")]);
    check("error: {\"code\":500}\n\n", &[("error", "{\"code\":500}")]);
    check("data: a: b\n\n", &[("", "a: b")]);
    // The last event without its end.
    check("data: a\n\ndata: b\n", &[("", "a"), ("", "b")]);
    check("data: a\n\ndata: b", &[("", "a"), ("", "b")]);
    check("data: a\r", &[("", "a")]);
}

#[test]
fn an_event_beyond_the_limit_is_refused_and_one_at_it_is_not() {
    let push = |size: usize, chunk: usize| {
        let mut decoder = SseDecoder::with_limit(1000);
        let stream = format!("data:{}\n\n", "x".repeat(size));
        let mut sizes = Vec::new();
        for chunk in stream.as_bytes().chunks(chunk) {
            decoder.push(chunk, |event| sizes.push(event.data.len()))?;
        }
        Ok(sizes)
    };
    for chunk in [1, 7, 5000] {
        assert_eq!(push(995, chunk), Ok(vec![995]), "chunks of {chunk}");
        assert_eq!(push(996, chunk), Err(EventTooLarge), "chunks of {chunk}");
    }
    let mut decoder = SseDecoder::with_limit(1000);
    let line = format!("data:{}\n", "x".repeat(400));
    assert!(decoder.push(line.as_bytes(), |_| ()).is_ok());
    assert!(decoder.push(line.as_bytes(), |_| ()).is_ok());
    assert_eq!(decoder.push(line.as_bytes(), |_| ()), Err(EventTooLarge));
}

#[test]
fn every_byte_is_looked_at_about_once() {
    // A quadratic decoder takes minutes for this: 16 MiB in one event, given
    // byte by byte for the first part and in small chunks for the rest.
    let size = 16 * 1024 * 1024;
    let mut decoder = SseDecoder::new();
    let mut seen = 0;
    decoder.push(b"data: ", |_| ()).unwrap();
    let chunk = [b'x'; 64];
    for _ in 0..1_000_000 {
        decoder.push(b"x", |_| ()).unwrap();
    }
    for _ in 0..(size / chunk.len()) {
        decoder.push(&chunk, |_| ()).unwrap();
    }
    decoder
        .push(b"\n\n", |event| seen = event.data.len())
        .unwrap();
    assert_eq!(seen, size + 1_000_000);
}
