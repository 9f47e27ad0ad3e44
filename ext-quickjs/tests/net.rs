//! Requests to a server of the test's own.
#![cfg(feature = "http")]

mod support;

use std::time::{Duration, Instant};

use support::{World, batch, call, tools, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A server that says the request back. `/slow` takes long, `/to/X` redirects,
/// `/big` is large.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = Vec::new();
                let mut piece = [0; 4096];
                loop {
                    let length = stream.read(&mut piece).await.unwrap_or(0);
                    read.extend_from_slice(&piece[..length]);
                    let text = String::from_utf8_lossy(&read).into_owned();
                    let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                        let length = head.lines().find_map(|line| {
                            line.to_lowercase()
                                .strip_prefix("content-length: ")
                                .map(str::to_owned)
                        });
                        length.is_none_or(|length| {
                            body.len() >= length.trim().parse::<usize>().unwrap()
                        })
                    });
                    if whole || length == 0 {
                        break;
                    }
                }
                let text = String::from_utf8_lossy(&read).into_owned();
                let path = text.split(' ').nth(1).unwrap_or("/").to_owned();
                let (status, extra, body) = match &*path {
                    "/slow" => {
                        tokio::time::sleep(Duration::from_secs(3)).await;
                        ("200 OK", String::new(), "slow".to_owned())
                    }
                    "/big" => ("200 OK", String::new(), "x".repeat(100_000)),
                    "/missing" => ("404 Not Found", String::new(), "none".to_owned()),
                    path if path.starts_with("/to/") => {
                        let to = format!("Location: {}\r\n", &path[4..].replace('+', "/"));
                        ("302 Found", to, String::new())
                    }
                    _ => ("200 OK", "X-Two: a\r\nX-Two: b\r\n".to_owned(), text),
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\n{extra}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.ok();
            });
        }
    });
    address
}

fn world(of: &[(&str, &str)], address: &str) -> World {
    let source = tools(of).replace("ADDRESS", address);
    World::new().skill_of("t", r#""grants":{"network":["127.0.0.1"]}"#, &source)
}

#[tokio::test]
async fn requests_carry_what_they_were_given_and_bring_what_was_answered() {
    let address = server().await;
    for (body, expected) in [
        (
            "const r = await fetch('http://ADDRESS/a?b', { method: 'post', headers: { 'X-A': '1' }, body: 'said' });
             const text = await r.text();
             return [r.status, r.ok, r.statusText, r.headers.get('x-two'), text.startsWith('POST /a?b'), /x-a: 1/i.test(text), text.endsWith('said'), r.bodyUsed, r.url.endsWith('/a?b')];",
            r#"[200,true,"OK","a, b",true,true,true,true,true]"#,
        ),
        (
            "const r = await fetch('http://ADDRESS/missing'); return [r.status, r.ok, await r.text()];",
            r#"[404,false,"none"]"#,
        ),
        (
            "const r = await net.fetch('http://ADDRESS/a', { method: 'PUT', body: 'x', headers: { b: 'c' } }); return [r.status, r.statusText, r.headers['x-two'], r.body.startsWith('PUT /a')];",
            r#"[200,"OK","a, b",true]"#,
        ),
        (
            "const r = await fetch('http://ADDRESS/to/+missing'); return [r.status, r.redirected];",
            "[404,true]",
        ),
        (
            "const r = await fetch('http://ADDRESS/to/+missing', { redirect: 'manual' }); return r.status;",
            "302",
        ),
        ("await fetch('http://ADDRESS/to/+a', { redirect: 'error' });", "a redirect to"),
        ("await fetch('http://ADDRESS/to/http:++localhost+x');", "lacks the grant `network` for localhost"),
        ("await fetch('http://example.com/');", "NotAllowedError: denied"),
        ("await fetch('file:///etc/passwd');", "only http and https"),
        ("await fetch('http://127.0.0.1:1/');", "onnect"),
        ("await fetch('no url');", "Invalid URL"),
        ("await fetch('http://ADDRESS/', { body: 'x' });", "has no body"),
        (
            "try { await net.fetch('http://ADDRESS/slow', { timeout: 100 }); } catch (error) { return error.name; }",
            "TimeoutError",
        ),
        (
            "try { await fetch('http://ADDRESS/slow', { signal: AbortSignal.timeout(100) }); } catch (error) { return error.name; }",
            "TimeoutError",
        ),
        (
            "const c = new AbortController(); setTimeout(() => c.abort(), 50);
             try { await fetch('http://ADDRESS/slow', { signal: c.signal }); } catch (error) { return error.name; }",
            "AbortError",
        ),
        (
            "const r = await fetch(new Request('http://ADDRESS/j', { method: 'POST', body: new URLSearchParams({ a: 'b c' }) })); return (await r.text()).split('\\r\\n\\r\\n')[1];",
            "a=b+c",
        ),
    ] {
        let outcome = call(&world(&[("t", body)], &address).start(), "t__t", "{}").await;
        assert!(outcome.text.contains(expected), "{body}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_slow_request_delays_nothing_else() {
    let address = server().await;
    let world = world(
        &[
            (
                "slow",
                "return (await fetch('http://ADDRESS/slow')).status;",
            ),
            ("quick", "return 'quick';"),
            (
                "chain",
                "let n = 0; for (let i = 0; i < 5; i++) n += (await fetch('http://ADDRESS/' + i)).status; return n;",
            ),
        ],
        &address,
    );
    let host = world.start();
    let outcomes = batch(
        &host,
        &[
            ("t__slow", "{}"),
            ("t__quick", "{}"),
            ("t__chain", "{}"),
            ("t__chain", "{}"),
        ],
    )
    .await;
    assert_eq!(outcomes[0].text, "200");
    assert_eq!(outcomes[1].text, "quick");
    assert_eq!(outcomes[2].text, "1000");
    assert!(
        outcomes[1].after < outcomes[0].after && outcomes[2].after < outcomes[0].after,
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn a_request_ends_with_its_call_and_a_large_answer_is_refused() {
    let address = server().await;
    let world = world(
        &[
            ("slow", "try { await fetch('http://ADDRESS/slow'); } catch (error) { console.log('ended: ' + error.name); }"),
            ("big", "return (await (await fetch('http://ADDRESS/big')).text()).length;"),
        ],
        &address,
    )
    .limits(|limits| limits.result_bytes = 50_000);
    let host = world.start();
    let began = Instant::now();
    let outcome = support::call_within(&host, "t__slow", Duration::from_millis(200)).await;
    assert!(
        outcome.is_error && began.elapsed() < Duration::from_secs(3),
        "{outcome:?}"
    );
    until("its code is told", || {
        world.log.text().contains("ended: AbortError")
    })
    .await;
    let outcome = call(&host, "t__big", "{}").await;
    assert!(
        outcome.is_error && outcome.text.contains("larger than"),
        "{outcome:?}"
    );
}
