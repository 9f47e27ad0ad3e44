//! Answers that come in pieces, from a server of the test's own.
#![cfg(feature = "http")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{World, call, call_within, tools, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// `/drip` sends its second piece after somebody asked for `/go`, `/endless`
/// sends as long as it is read, `/large` sends 200,000 bytes, `/broken` less
/// than it promised, `/events` what its name says.
#[derive(Default)]
struct Server {
    go: Notify,
    /// Endless answers that are open.
    open: AtomicUsize,
    /// Endless answers that were begun.
    begun: AtomicUsize,
}

async fn server() -> (String, Arc<Server>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Arc::<Server>::default();
    let of = Arc::clone(&server);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let of = Arc::clone(&of);
            tokio::spawn(async move { answer(&of, stream).await.ok() });
        }
    });
    (address, server)
}

async fn answer(of: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&read).into_owned();
    let path = text.split(' ').nth(1).unwrap_or("/").to_owned();
    let length = match &*path {
        "/drip" => 2,
        "/large" => 200_000,
        "/broken" => 1000,
        _ => 0,
    };
    let framing = match length {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    let head = format!("HTTP/1.1 200 OK\r\n{framing}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    match &*path {
        "/go" => of.go.notify_one(),
        "/drip" => {
            stream.write_all(b"1").await?;
            of.go.notified().await;
            stream.write_all(b"2").await?;
        }
        "/endless" => {
            of.begun.fetch_add(1, Ordering::Relaxed);
            of.open.fetch_add(1, Ordering::Relaxed);
            while stream.write_all(&[b'x'; 1000]).await.is_ok() {}
            of.open.fetch_sub(1, Ordering::Relaxed);
        }
        "/large" => stream.write_all(&vec![b'x'; 200_000]).await?,
        "/broken" => stream.write_all(b"too short").await?,
        "/events" => {
            for piece in ["data: \u{e9}", "in\n\nda", "ta: zwei\n\n"] {
                for half in piece.as_bytes().chunks(7) {
                    stream.write_all(half).await?;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn world(of: &[(&str, &str)], address: &str) -> World {
    let source = tools(of).replace("ADDRESS", address);
    World::new().skill_of("t", r#""grants":{"network":["127.0.0.1"]}"#, &source)
}

#[tokio::test]
async fn a_body_is_read_while_it_comes() {
    let (address, _) = server().await;
    for (body, expected) in [
        (
            "const reader = (await fetch('http://ADDRESS/drip')).body.getReader();
             const text = (bytes) => new TextDecoder().decode(bytes);
             const first = text((await reader.read()).value);
             await fetch('http://ADDRESS/go');
             const second = text((await reader.read()).value);
             return [first, second, (await reader.read()).done];",
            r#"["1","2",true]"#,
        ),
        (
            "const r = await fetch('http://ADDRESS/events');
             let rest = '', events = [];
             for await (const text of r.body.pipeThrough(new TextDecoderStream())) {
               const pieces = (rest + text).split('\\n\\n');
               rest = pieces.pop();
               events.push(...pieces.map((one) => one.slice(6)));
             }
             return [events, rest, r.bodyUsed];",
            r#"[["éin","zwei"],"",true]"#,
        ),
        (
            "let length = 0;
             for await (const piece of (await fetch('http://ADDRESS/large')).body) length += piece.length;
             return length;",
            "200000",
        ),
        (
            "const r = await fetch('http://ADDRESS/large'); const other = r.clone();
             const both = await Promise.all([r.bytes(), other.arrayBuffer()]);
             return both.map((one) => one.byteLength ?? one.length);",
            "[200000,200000]",
        ),
        (
            "const r = await fetch('http://ADDRESS/large'); const copy = new Response(r.body);
             return [(await copy.text()).length, r.bodyUsed];",
            "[200000,true]",
        ),
        ("return (await fetch('http://ADDRESS/empty')).body !== null;", "true"),
        ("return (await fetch('http://ADDRESS/empty', { method: 'HEAD' })).body;", "null"),
        ("return (await (await fetch('http://ADDRESS/empty')).text());", ""),
        ("await (await fetch('http://ADDRESS/broken')).text();", "fetch failed"),
        ("for await (const piece of (await fetch('http://ADDRESS/broken')).body) ;", "fetch failed"),
        (
            "const r = await fetch('http://ADDRESS/empty'); await r.text(); await r.text();",
            "was read already",
        ),
        (
            "const c = new AbortController(); const r = await fetch('http://ADDRESS/drip', { signal: c.signal });
             setTimeout(() => c.abort(), 20);
             try { await r.text(); } catch (error) { return error.name; }",
            "AbortError",
        ),
        (
            "const c = new AbortController(); const r = await fetch('http://ADDRESS/drip', { signal: c.signal });
             const reader = r.body.getReader(); await reader.read(); setTimeout(() => c.abort('enough'), 20);
             try { await reader.read(); } catch (error) { return error; }",
            "enough",
        ),
    ] {
        let world = world(&[("t", body)], &address).limits(|limits| limits.result_bytes = 300_000);
        let outcome = call(&world.start(), "t__t", "{}").await;
        assert!(outcome.text.contains(expected), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_body_in_pieces_may_be_larger_than_one_that_is_wanted_whole() {
    let (address, _) = server().await;
    let world = world(
        &[
            (
                "pieces",
                "let n = 0; for await (const p of (await fetch('http://ADDRESS/large')).body) n += p.length; return n;",
            ),
            (
                "whole",
                "return (await (await fetch('http://ADDRESS/large')).text()).length;",
            ),
        ],
        &address,
    )
    .limits(|limits| limits.result_bytes = 50_000);
    let host = world.start();
    assert_eq!(call(&host, "t__pieces", "{}").await.text, "200000");
    let outcome = call(&host, "t__whole", "{}").await;
    assert!(
        outcome.is_error && outcome.text.contains("larger than"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn an_answer_nobody_reads_any_more_is_let_go() {
    let (address, server) = server().await;
    for (name, body) in [
        (
            "left",
            "for await (const piece of (await fetch('http://ADDRESS/endless')).body) break;",
        ),
        (
            "cancelled",
            "await (await fetch('http://ADDRESS/endless')).body.cancel();",
        ),
        ("forgotten", "await fetch('http://ADDRESS/endless');"),
        (
            "more than may be open",
            "for (let i = 0; i < 20; i++) await fetch('http://ADDRESS/endless');",
        ),
        (
            "streams that were begun and forgotten",
            "for (let i = 0; i < 20; i++) await (await fetch('http://ADDRESS/endless')).body.getReader().read();",
        ),
    ] {
        let before = server.begun.load(Ordering::Relaxed);
        let world = world(&[("t", body)], &address).limits(|limits| limits.connections = 4);
        let host = world.start();
        let outcome = call(&host, "t__t", "{}").await;
        assert!(!outcome.is_error, "{name}: {outcome:?}");
        assert!(server.begun.load(Ordering::Relaxed) > before, "{name}");
        until(name, || server.open.load(Ordering::Relaxed) <= 4).await;
        drop(host);
        until(name, || server.open.load(Ordering::Relaxed) == 0).await;
    }
}

#[tokio::test]
async fn a_call_that_ends_takes_its_answer_along() {
    let (address, server) = server().await;
    let world = world(
        &[(
            "t",
            "globalThis.kept = await fetch('http://ADDRESS/drip'); await kept.text();",
        )],
        &address,
    );
    let host = world.start();
    let began = Instant::now();
    let outcome = call_within(&host, "t__t", Duration::from_millis(300)).await;
    assert!(
        outcome.is_error && began.elapsed() < Duration::from_secs(10),
        "{outcome:?}"
    );
    drop(server);
}
