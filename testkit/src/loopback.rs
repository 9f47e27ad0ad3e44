//! A server on the loopback that answers as it is told, byte for byte: with
//! what real servers do, and with everything that goes wrong on the way.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() {
//! use haft_testkit::loopback::{Answer, LoopbackServer};
//!
//! let refusal = Answer::whole("429 Too Many Requests", &["Retry-After: 1"], "{}");
//! let server = LoopbackServer::start(vec![refusal, Answer::stream(&["data: 1\n\n"])]).await;
//! // … an engine over `server.base_url()` is refused once, and then answered.
//! # }
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::lock::lock;

/// One thing the server does in an answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// Sends bytes, in one piece.
    Send(Vec<u8>),
    /// Sends bytes one by one.
    Trickle(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Sends the same bytes again and again, until the client leaves.
    Repeat(Vec<u8>, Duration),
    /// Says nothing until the client leaves.
    Silence,
    /// Resets the connection.
    Reset,
}

/// What the server does for a request. After the last step it closes the
/// connection, unless it is to be kept.
#[derive(Debug, Clone)]
pub struct Answer {
    steps: Vec<Step>,
    keep: bool,
}

impl Answer {
    /// An answer of these steps, after which the connection is closed.
    pub fn of(steps: Vec<Step>) -> Self {
        Self { steps, keep: false }
    }

    /// The same, and the connection is kept for another request.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.keep = true;
        self
    }

    /// A whole answer with these header lines.
    pub fn whole(status: &str, headers: &[&str], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
        for header in headers {
            text += header;
            text += "\r\n";
        }
        text += "\r\n";
        text += body;
        Self {
            steps: vec![Step::Send(text.into_bytes())],
            keep: true,
        }
    }

    /// A stream of events that ends as it should, in one HTTP chunk each.
    pub fn stream(events: &[&str]) -> Self {
        let mut steps = vec![head("text/event-stream")];
        steps.extend(events.iter().map(|event| chunk(event.as_bytes())));
        steps.push(end());
        Self { steps, keep: true }
    }
}

/// The head of an answer in chunks.
pub fn head(content_type: &str) -> Step {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    Step::Send(head.into_bytes())
}

/// A piece of an answer in chunks.
pub fn chunk(bytes: &[u8]) -> Step {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    Step::Send(chunk)
}

/// The end of an answer in chunks.
pub fn end() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request line and the headers, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Vec<Request>,
    connections: usize,
    left: usize,
}

/// The server. Dropping it ends it.
#[derive(Debug)]
pub struct LoopbackServer {
    base_url: String,
    seen: Arc<Mutex<Seen>>,
    client_left: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LoopbackServer {
    /// A server that gives one answer after the other, the last one for ever.
    ///
    /// # Panics
    /// If there is no loopback to listen on.
    pub async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port of the loopback");
        let address = listener.local_addr().expect("its address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let client_left = Arc::new(Notify::new());
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let (seen_by, left_by) = (Arc::clone(&seen), Arc::clone(&client_left));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Nothing depends on it but the test's speed.
                let _ = stream.set_nodelay(true);
                lock(&seen_by).connections += 1;
                let (answers, seen, left) = (
                    Arc::clone(&answers),
                    Arc::clone(&seen_by),
                    Arc::clone(&left_by),
                );
                tokio::spawn(async move {
                    serve(stream, &answers, &seen).await;
                    lock(&seen).left += 1;
                    left.notify_one();
                });
            }
        });
        Self {
            base_url: format!("http://{address}/v1"),
            seen,
            client_left,
            task,
        }
    }

    /// Where the API begins: with `/v1`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The requests that came, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.seen).requests.clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        lock(&self.seen).connections
    }

    /// Waits until a connection has ended.
    pub async fn connection_ended(&self) {
        loop {
            if lock(&self.seen).left > 0 {
                return;
            }
            self.client_left.notified().await;
        }
    }
}

async fn serve(mut stream: TcpStream, answers: &Mutex<VecDeque<Answer>>, seen: &Mutex<Seen>) {
    while let Some(request) = read_request(&mut stream).await {
        lock(seen).requests.push(request);
        let answer = {
            let mut answers = lock(answers);
            match answers.len() {
                0 | 1 => answers.front().cloned(),
                _ => answers.pop_front(),
            }
        };
        let Some(answer) = answer else { return };
        for step in answer.steps {
            if matches!(step, Step::Reset) {
                // Without it the connection ends, if not by a reset.
                let _ = stream.set_zero_linger();
                return;
            }
            if !take_step(&mut stream, step).await {
                return;
            }
        }
        if !answer.keep {
            return;
        }
    }
}

/// Does a step; false once the client has left.
async fn take_step(stream: &mut TcpStream, step: Step) -> bool {
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
        Step::Trickle(bytes) => {
            for byte in bytes {
                if stream.write_all(&[byte]).await.is_err() {
                    return false;
                }
                tokio::task::yield_now().await;
            }
            true
        }
        Step::Wait(time) => {
            tokio::time::sleep(time).await;
            true
        }
        Step::Repeat(bytes, every) => loop {
            if stream.write_all(&bytes).await.is_err() {
                return false;
            }
            let mut byte = [0];
            // The client sends nothing more, so whatever is read is its end.
            if tokio::time::timeout(every, stream.read(&mut byte))
                .await
                .is_ok()
            {
                return false;
            }
        },
        Step::Silence => {
            let mut byte = [0];
            let _ = stream.read(&mut byte).await;
            false
        }
        Step::Reset => unreachable!("handled where the stream is owned"),
    }
}

/// Reads a request; `None` at the connection's end.
pub async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(Some(0), |length| length.trim().parse().ok())?;
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&bytes[head_end..]).into_owned();
    Some(Request { head, body })
}
