//! WebSockets to servers of the test's own.
#![cfg(feature = "http")]

mod support;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use support::{World, call, call_within, tools, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// What a server saw.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server that does what a connection's path says: `/echo` says everything
/// back; `/end` closes with 4001; `/break` ends the wire; `/flood` sends 20,000
/// numbers; `/large` sends 100,000 bytes; `/deaf` reads nothing.
async fn server() -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let of = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let of = Arc::clone(&of);
            tokio::spawn(serve(stream, of));
        }
    });
    (address, seen)
}

async fn serve(stream: TcpStream, seen: Seen) {
    let mut path = String::new();
    #[allow(
        clippy::result_large_err,
        reason = "the library asks for this function"
    )]
    let greet = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        path = request.uri().path().to_owned();
        if path == "/none" {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = 403.try_into().unwrap();
            return Err(refusal);
        }
        let header = |name: &str| {
            let value = request.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        if let Some(key) = header("x-key") {
            seen.lock().unwrap().push(format!("key {key}"));
        }
        if let Some(protocols) = header("sec-websocket-protocol") {
            let chosen = protocols.split(", ").last().unwrap().parse().unwrap();
            let headers = response.headers_mut();
            headers.insert("sec-websocket-protocol", chosen);
        }
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, greet).await else {
        return;
    };
    match &*path {
        "/end" => {
            let frame = CloseFrame {
                code: 4001.into(),
                reason: "enough".into(),
            };
            socket.close(Some(frame)).await.ok();
        }
        "/break" => return,
        "/flood" => {
            for number in 0..20_000 {
                if socket.feed(Frame::text(number.to_string())).await.is_err() {
                    break;
                }
            }
            socket.close(None).await.ok();
        }
        "/large" => {
            socket.send(Frame::binary(vec![7; 100_000])).await.ok();
        }
        "/deaf" => std::future::pending().await,
        _ => {}
    }
    while let Some(Ok(frame)) = socket.next().await {
        match frame {
            Frame::Text(_) | Frame::Binary(_) => socket.send(frame).await.unwrap(),
            Frame::Close(frame) => {
                let told = frame.map_or("none".to_owned(), |f| format!("{} {}", f.code, f.reason));
                seen.lock().unwrap().push(format!("close {told}"));
            }
            _ => {}
        }
    }
    seen.lock().unwrap().push(format!("ended {path}"));
}

/// Words that the tools are written with.
const WORDS: &str = "
const events = (socket) => new Promise((done) => {
  const log = [];
  socket.onopen = () => log.push('open ' + socket.readyState);
  socket.onmessage = (event) => log.push(event.data);
  socket.onerror = (event) => log.push('error ' + event.message);
  socket.onclose = (event) => { log.push(['close', event.code, event.reason, event.wasClean, socket.readyState]); done(log); };
});
const once = (socket, name) => new Promise((done) => socket.addEventListener(name, done, { once: true }));
";

fn world(of: &[(&str, &str)], address: SocketAddr) -> World {
    let source = format!("{WORDS}{}", tools(of));
    let source = source.replace("ADDRESS", &address.to_string());
    World::new().skill_of("t", r#""grants":{"network":["127.0.0.1"]}"#, &source)
}

#[tokio::test]
async fn sockets_say_and_hear_what_they_are_told() {
    let (address, _) = server().await;
    for (body, expected) in [
        (
            "const s = new WebSocket('ws://ADDRESS/echo'); const all = events(s);
             const early = [s.readyState, s.url];
             await once(s, 'open'); s.send('a€😀'); s.send(new Uint8Array([1, 2])); await once(s, 'message');
             const blob = (await once(s, 'message')).data;
             s.binaryType = 'arraybuffer'; s.send(new Blob([new Uint8Array([3])])); const buffer = (await once(s, 'message')).data;
             s.close(3000, 'done'); const state = s.readyState; const log = await all;
             return [early[0], early[1].endsWith('/echo'), log[0], log[1], [...await blob.bytes()], [...new Uint8Array(buffer)], state, log.at(-1)];",
            r#"[0,true,"open 1","a€😀",[1,2],[3],2,["close",3000,"done",true,3]]"#,
        ),
        (
            "const s = new WebSocket('ws://ADDRESS/echo', ['one', 'two']); await once(s, 'open'); return [s.protocol, s.extensions];",
            r#"["two",""]"#,
        ),
        ("return await events(new WebSocket('ws://ADDRESS/end'));", r#"["open 1",["close",4001,"enough",true,3]]"#),
        ("return await events(new WebSocket('http://ADDRESS/end'));", r#"["open 1",["close",4001,"enough",true,3]]"#),
        (
            "const s = new WebSocket('ws://ADDRESS/echo'); const all = events(s); await once(s, 'open'); s.close(); s.close(); return await all;",
            r#"["open 1",["close",1005,"",true,3]]"#,
        ),
        ("return (await events(new WebSocket('ws://ADDRESS/break'))).at(-1);", r#"["close",1006,"",false,3]"#),
        ("return await events(new WebSocket('ws://ADDRESS/none'));", "answered 403"),
        ("return await events(new WebSocket('ws://127.0.0.1:1/'));", "can't be reached"),
        ("return await events(new WebSocket('wss://ADDRESS/echo'));", "TLS: "),
        ("new WebSocket('ws://example.com/');", "NotAllowedError: denied: the skill lacks the grant `network` for example.com"),
        (
            "const s = new WebSocket('ws://ADDRESS/echo'); s.close(); return await events(s);",
            r#"["error the WebSocket was closed before it was open",["close",1006,"",false,3]]"#,
        ),
        ("new WebSocket('ws://ADDRESS/echo').send('x');", "InvalidStateError"),
        (
            "const s = new WebSocket('ws://ADDRESS/echo'); await once(s, 'open');
             const errors = []; for (const [code, reason] of [[1001], [5000], [NaN], [1000, 'x'.repeat(124)]]) { try { s.close(code, reason); } catch (error) { errors.push(error.name); } }
             const all = events(s); s.close(); s.send('later'); const log = await all; return [errors, s.bufferedAmount];",
            r#"[["InvalidAccessError","InvalidAccessError","InvalidAccessError","SyntaxError"],5]"#,
        ),
        (
            "const s = new WebSocket('ws://ADDRESS/flood'); let n = 0, order = true; s.onmessage = (e) => { order &&= Number(e.data) === n++; }; await once(s, 'close'); return [n, order];",
            "[20000,true]",
        ),
    ] {
        let outcome = call(&world(&[("t", body)], address).start(), "t__t", "{}").await;
        assert!(outcome.text.contains(expected), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn headers_go_with_the_request_that_opens_a_socket() {
    let (address, seen) = server().await;
    let body = "const s = new WebSocket('ws://ADDRESS/echo', { protocols: 'p', headers: { 'X-Key': 'k' } }); await once(s, 'open'); return s.protocol;";
    let outcome = call(&world(&[("t", body)], address).start(), "t__t", "{}").await;
    assert_eq!(outcome.text, "p", "{outcome:?}");
    assert!(seen.lock().unwrap().contains(&"key k".to_owned()));
}

#[tokio::test]
async fn a_socket_outlives_the_call_that_opened_it_and_ends_with_the_skill() {
    let (address, seen) = server().await;
    let world = world(
        &[
            (
                "open",
                "globalThis.s = new WebSocket('ws://ADDRESS/echo'); await once(s, 'open');",
            ),
            (
                "say",
                "s.send(args.text); return (await once(s, 'message')).data;",
            ),
        ],
        address,
    );
    let host = world.start();
    assert!(!call(&host, "t__open", "{}").await.is_error);
    for text in ["one", "two"] {
        let arguments = format!(r#"{{"text":"{text}"}}"#);
        assert_eq!(call(&host, "t__say", &arguments).await.text, text);
    }
    assert!(seen.lock().unwrap().is_empty());
    host.stop("t").await.unwrap();
    until("the connection ends", || {
        seen.lock().unwrap().contains(&"ended /echo".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_time_is_over_takes_its_socket_along() {
    let (address, seen) = server().await;
    let body = "const s = new WebSocket('ws://ADDRESS/echo'); s.onclose = (e) => console.log('closed: ' + e.code); await once(s, 'message');";
    let world = world(&[("t", body)], address);
    let host = world.start();
    let outcome = call_within(&host, "t__t", Duration::from_millis(500)).await;
    assert!(outcome.is_error, "{outcome:?}");
    until("the server sees it", || {
        seen.lock().unwrap().contains(&"ended /echo".to_owned())
    })
    .await;
    until("the script is told", || {
        world.log.text().contains("closed: 1006")
    })
    .await;
}

#[tokio::test]
async fn what_waits_to_be_sent_and_what_comes_is_bounded() {
    let (address, _) = server().await;
    for (body, expected) in [
        (
            "const s = new WebSocket('ws://ADDRESS/deaf'); await once(s, 'open'); const piece = new Uint8Array(20_000);
             try { for (let i = 0; i < 10_000; i++) s.send(piece); } catch (error) { return [error.name, s.bufferedAmount <= 50_000]; }",
            r#"["QuotaExceededError",true]"#,
        ),
        ("return await events(new WebSocket('ws://ADDRESS/large'));", "error"),
    ] {
        let world = world(&[("t", body)], address).limits(|limits| limits.result_bytes = 50_000);
        let outcome = call(&world.start(), "t__t", "{}").await;
        assert!(outcome.text.contains(expected), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_socket_too_many_waits_for_its_turn() {
    let (address, _) = server().await;
    let body = "const open = []; const all = [0, 1, 2].map(() => { const s = new WebSocket('ws://ADDRESS/echo'); s.onopen = () => open.push(s); return s; });
        while (open.length < 2) await new Promise((r) => setTimeout(r, 5));
        await new Promise((r) => setTimeout(r, 100)); const before = open.length; open[0].close();
        while (open.length < 3) await new Promise((r) => setTimeout(r, 5)); return [before, open.length];";
    let world = world(&[("t", body)], address).limits(|limits| limits.connections = 2);
    let outcome = call(&world.start(), "t__t", "{}").await;
    assert_eq!(outcome.text, "[2,3]", "{outcome:?}");
}

/// Frames as RFC 6455 (5.7) writes them down, by hand.
#[tokio::test]
async fn fragments_are_joined_and_pings_between_them_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let named = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let mut found = lines.filter(|(of, _)| of.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.to_owned())
        };
        assert_eq!(named("sec-websocket-version").as_deref(), Some("13"));
        let key = named("sec-websocket-key").unwrap();
        let accept = derive_accept_key(key.as_bytes());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        // "Hel", a ping, "lo"; a close without a code.
        let frames = b"\x01\x03Hel\x89\x05Hello\x80\x02lo";
        for byte in frames {
            stream.write_all(&[*byte]).await.unwrap();
        }
        let mut pong = [0; 11];
        stream.read_exact(&mut pong).await.unwrap();
        stream.write_all(b"\x88\x00").await.unwrap();
        let mut close = [0; 6];
        stream.read_exact(&mut close).await.unwrap();
        (pong, close)
    });
    let body = "return await events(new WebSocket('ws://ADDRESS/'));";
    let outcome = call(&world(&[("t", body)], address).start(), "t__t", "{}").await;
    assert_eq!(
        outcome.text, r#"["open 1","Hello",["close",1005,"",true,3]]"#,
        "{outcome:?}"
    );
    let (pong, close) = server.await.unwrap();
    let unmasked: Vec<u8> = (0..5).map(|at| pong[6 + at] ^ pong[2 + at % 4]).collect();
    assert_eq!((&pong[..2], &*unmasked), (&b"\x8a\x85"[..], &b"Hello"[..]));
    assert_eq!(close[..2], *b"\x88\x80");
}
