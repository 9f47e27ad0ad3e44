//! The way through a proxy: a real one, though a small one.

use std::process::Command;
use std::sync::{Arc, Mutex};

use haft_api::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::tls::{serve_tls, trusted};
use crate::{DONE, HELLO, STOP, engine, round};
use haft_testkit::loopback::{Answer, LoopbackServer};

/// `user` and `pass word`, as a header has them and as a URL has them.
const LOGIN: &str = "proxy-authorization: basic dxnlcjpwyxnzihdvcmq=\r\n";
const IN_URL: &str = "user:pass%20word@";

/// What a proxy does.
#[derive(Clone)]
enum Rule {
    /// Goes where it is told to, if it is told who asks.
    Forward,
    /// Goes to this address, wherever it is told to: what it is asked for has no
    /// address but the proxy's.
    Resolve(String),
    /// Refuses with this status.
    Refuse(&'static str),
}

/// A proxy. Dropping it ends it.
struct Proxy {
    address: String,
    /// The heads of what it was asked, in lower case.
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn start(rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, rule.clone(), Arc::clone(&seen)));
            }
        });
        Self {
            address,
            heads,
            task,
        }
    }

    fn url(&self, login: &str) -> Option<String> {
        Some(format!("http://{login}{}", self.address))
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Serves one connection. All of its requests are taken to be for one server.
async fn serve(mut client: TcpStream, rule: Rule, heads: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let seen = head.to_lowercase();
    heads.lock().unwrap().push(seen.clone());
    let refusal = match &rule {
        Rule::Refuse(status) => Some(*status),
        Rule::Forward if !seen.contains(LOGIN) => Some("407 Proxy Authentication Required"),
        _ => None,
    };
    if let Some(status) = refusal {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        client.write_all(answer.as_bytes()).await.unwrap();
        return;
    }
    let (line, rest) = head.split_once("\r\n").unwrap();
    let [method, target, version] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("no request line: {line}");
    };
    let tunnel = method == "CONNECT";
    let (host, path) = match target.strip_prefix("http://") {
        Some(url) => url.split_at(url.find('/').unwrap()),
        None => (target, ""),
    };
    let to = match &rule {
        Rule::Resolve(address) => address,
        _ => host,
    };
    let mut server = TcpStream::connect(to).await.unwrap();
    if tunnel {
        let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
        client.write_all(answer).await.unwrap();
    } else {
        let headers: String = rest
            .split_inclusive("\r\n")
            .filter(|line| !line.to_lowercase().starts_with("proxy-"))
            .collect();
        let request = format!("{method} {path} {version}\r\n{headers}");
        server.write_all(request.as_bytes()).await.unwrap();
    }
    // It ends however the connections end.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[tokio::test]
async fn an_encrypted_connection_goes_through_a_tunnel() {
    let proxy = Proxy::start(Rule::Forward).await;
    let server = serve_tls().await;
    let through = engine(&server.base_url, |config| {
        trusted(config);
        config.api_key = Some("k3y".to_owned());
        config.proxy = proxy.url(IN_URL);
    });
    round(&through).await.ends("hello");
    let [head] = &proxy.heads()[..] else {
        panic!("one tunnel: {:?}", proxy.heads());
    };
    let authority = server.base_url.trim_start_matches("https://");
    let authority = authority.trim_end_matches("/v1");
    assert!(
        head.starts_with(&format!("connect {authority} http/1.1\r\n")),
        "{head}"
    );
    assert!(head.contains(LOGIN), "{head}");
    assert!(!head.contains("k3y"), "the key is for the server: {head}");
    let asked = server.requests();
    assert!(
        asked[0].starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{asked:?}"
    );
    assert!(asked[0].contains("authorization: bearer k3y\r\n"));
    assert!(
        !asked[0].contains("proxy-authorization"),
        "the login is for the proxy: {asked:?}"
    );
}

#[tokio::test]
async fn a_plain_request_tells_the_proxy_the_whole_url() {
    let proxy = Proxy::start(Rule::Forward).await;
    let server = LoopbackServer::start(vec![Answer::stream(&[HELLO, STOP, DONE])]).await;
    let url = format!("{}?q=1", server.base_url());
    let through = engine(&url, |config| config.proxy = proxy.url(IN_URL));
    for _ in 0..2 {
        round(&through).await.ends("hello");
    }
    let [head] = &proxy.heads()[..] else {
        panic!("one connection, used again: {:?}", proxy.heads());
    };
    let target = url.replace("/v1", "/v1/chat/completions");
    assert!(
        head.starts_with(&format!("post {target} http/1.1\r\n")),
        "{head}"
    );
    let host = server.base_url().trim_start_matches("http://");
    let host = host.trim_end_matches("/v1");
    assert!(head.contains(&format!("host: {host}\r\n")), "{head}");
    assert!(head.contains(LOGIN), "{head}");
    assert_eq!(server.requests().len(), 2);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn what_a_proxy_refuses_is_told_with_its_name() {
    let check = async |rule: Rule, login: &str, url: &str, kind: ErrorKind, says: &str| {
        let proxy = Proxy::start(rule).await;
        let through = engine(url, |config| config.proxy = proxy.url(login));
        let heard = round(&through).await;
        let temporary = kind == ErrorKind::Unavailable;
        heard.fails("", kind, temporary, &[says]);
        let error = heard.error.unwrap().to_string();
        for secret in ["pass%20word", "pass word", "wrong"] {
            assert!(!error.contains(secret), "{error}");
        }
        if kind == ErrorKind::Denied {
            assert!(error.contains(&proxy.address), "{error}");
        }
    };
    let urls = ["http://127.0.0.1:1/v1", "https://127.0.0.1:1/v1"];
    for url in urls {
        check(Rule::Forward, "", url, ErrorKind::Denied, "wants a user").await;
        check(
            Rule::Forward,
            "user:wrong@",
            url,
            ErrorKind::Denied,
            "doesn't accept",
        )
        .await;
    }
    let gone = Rule::Refuse("502 Bad Gateway");
    let unavailable = ErrorKind::Unavailable;
    check(gone.clone(), IN_URL, urls[0], unavailable, "502").await;
    check(gone, IN_URL, urls[1], unavailable, "through the proxy").await;
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    for url in ["http://127.0.0.1:1/v1", "https://127.0.0.1:1/v1"] {
        let through = engine(url, |config| {
            config.proxy = Some(format!("http://{IN_URL}{gone}"));
        });
        let heard = round(&through).await;
        heard.fails(
            "",
            ErrorKind::Unavailable,
            true,
            &["the proxy", &gone, "connection refused", "`proxy`"],
        );
        assert!(!heard.error.unwrap().to_string().contains("pass%20word"));
    }
}

/// A variable of a process can't be set safely while others read it, so this
/// test starts itself again.
#[tokio::test]
async fn the_environments_proxy_is_used_where_the_setting_says_so() {
    const SETTING: &str = "HAFT_TEST_PROXY_SETTING";
    if let Ok(setting) = std::env::var(SETTING) {
        let through = engine("http://model.test/v1", |config| {
            config.proxy = Some(setting);
        });
        round(&through).await.ends("hello");
        return;
    }
    let server = LoopbackServer::start(vec![Answer::stream(&[HELLO, STOP, DONE])]).await;
    let host = server.base_url().trim_start_matches("http://");
    let host = host.trim_end_matches("/v1").to_owned();
    let proxy = Proxy::start(Rule::Resolve(host)).await;
    let name = std::thread::current().name().unwrap().to_owned();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again
        .args(["--exact", &name])
        .env(SETTING, "environment")
        .env("HTTP_PROXY", proxy.url(IN_URL).unwrap())
        .env_remove("REQUEST_METHOD")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    let ended = tokio::task::spawn_blocking(move || again.output());
    let output = ended.await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
    let [head] = &proxy.heads()[..] else {
        panic!("one request: {:?}", proxy.heads());
    };
    assert!(
        head.starts_with("post http://model.test/v1/chat/completions http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains(LOGIN) && head.contains("host: model.test\r\n"));
}
