//! Servers on this machine that speak OpenAI's wire.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Where they usually listen, and what usually listens there.
const USUAL: [(u16, &str); 3] = [(8080, "llama.cpp"), (11434, "Ollama"), (1234, "LM Studio")];

/// How long one may take to answer. They are on this very machine.
const PATIENCE: Duration = Duration::from_millis(400);
/// Most bytes of an answer that are looked at.
const ANSWER: usize = 64 * 1024;

/// A server that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalServer {
    /// Its port.
    pub(crate) port: u16,
    /// What usually listens there.
    pub(crate) name: &'static str,
}

impl LocalServer {
    /// Where its API begins.
    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

/// The servers that answer now, in the order in which they are preferred.
pub(crate) async fn local_servers() -> Vec<LocalServer> {
    let asked = USUAL.map(|(port, name)| {
        tokio::spawn(async move {
            let answers = tokio::time::timeout(PATIENCE, lists_models(port)).await;
            answers
                .unwrap_or(false)
                .then_some(LocalServer { port, name })
        })
    });
    let mut found = Vec::new();
    for server in asked {
        found.extend(server.await.ok().flatten());
    }
    found
}

/// Whether what listens there has a list of models: anything may use such a
/// port.
async fn lists_models(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return false;
    };
    let request =
        format!("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let mut limited = stream.take(ANSWER as u64);
    limited.read_to_end(&mut answer).await.is_ok() && is_model_list(&answer)
}

fn is_model_list(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let status = head.split(' ').nth(1);
    let compact: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    status == Some("200") && compact.contains(r#""data":["#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_models_counts() {
        let check = |answer: &str, expected: bool| {
            assert_eq!(is_model_list(answer.as_bytes()), expected, "{answer}");
        };
        check(
            "HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"object\":\"list\",\"data\": [{}]}",
            true,
        );
        check("HTTP/1.1 200 OK\r\n\r\n<html>", false);
        check("HTTP/1.1 404 Not Found\r\n\r\n{\"data\":[]}", false);
        check("SSH-2.0-OpenSSH", false);
        check("", false);
    }
}
