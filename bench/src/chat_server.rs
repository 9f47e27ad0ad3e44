//! A server that speaks Chat Completions over the loopback device, in a process
//! of its own: the bench's own program, started again with [`ARGUMENT`].
//!
//! The model's name says what is wanted. `rounds-N` calls a tool N times, one
//! call a round, and then says a word; it knows from the last call in the
//! request how far it is. `deltas-N` says N pieces of text.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use haft_bench::Result;
use memchr::memmem;

/// The argument that makes the bench's program this server.
pub(crate) const ARGUMENT: &str = "serve-chat";

/// The server's process. It ends when this is dropped.
pub(crate) struct ChatServer {
    process: Child,
    address: SocketAddr,
}

impl ChatServer {
    /// Starts a server on a port of its own.
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let port = process.stdout.take().map(read_port).transpose();
        let port = port?.ok_or("the server has no output")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { process, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn read_port(output: ChildStdout) -> Result<u16> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let port = line.trim().parse();
    port.map_err(|_| format!("the server's port isn't one: {line:?}").into())
}

impl Drop for ChatServer {
    fn drop(&mut self) {
        // The end of its input is the end of the server.
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

/// Serves until standard input ends.
pub(crate) fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the chat server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let answer = |stream| {
                // A client that goes away is no business of the others.
                answer_all(stream).ok();
            };
            match connection {
                Ok(stream) => drop(std::thread::spawn(move || answer(stream))),
                Err(error) => eprintln!("error: the chat server: {error}"),
            }
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// Answers a connection's requests, one after the other.
fn answer_all(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                match line.trim_end() {
                    "" => break,
                    _ => continue,
                }
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        body.resize(length, 0);
        requests.read_exact(&mut body)?;
        for event in answer(&body)?.events() {
            stream.write_all(event)?;
        }
    }
}

/// What the request's model is to do.
fn answer(body: &[u8]) -> Result<Answer> {
    if let Some(count) = number_after(body, b"\"model\":\"deltas-", memmem::find) {
        let mut answer = Answer::begin();
        for number in 0..count {
            answer.delta(&format!("{{\"content\":\"word{} \"}}", number % 10), "null");
        }
        answer.end("stop");
        return Ok(answer);
    }
    let rounds = number_after(body, b"\"model\":\"rounds-", memmem::find);
    let rounds = rounds.ok_or("the model's name isn't one that this server knows")?;
    let last = number_after(body, b"\"call_", memmem::rfind).unwrap_or(0);
    let mut answer = Answer::begin();
    if last < rounds {
        answer.call(last + 1);
        answer.end("tool_calls");
        return Ok(answer);
    }
    for word in ["All", " of", " it", " is", " read", "."] {
        answer.delta(&format!("{{\"content\":\"{word}\"}}"), "null");
    }
    answer.end("stop");
    Ok(answer)
}

fn number_after(
    text: &[u8],
    mark: &[u8],
    find: impl Fn(&[u8], &[u8]) -> Option<usize>,
) -> Option<u32> {
    let digits = &text[find(text, mark)? + mark.len()..];
    let length = digits.iter().take_while(|c| c.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

/// An answer as a stream. Servers send each event as soon as the model has said
/// it, as a chunk of HTTP's and a write of its own.
struct Answer {
    text: String,
    /// Where the events end.
    ends: Vec<usize>,
}

impl Answer {
    fn begin() -> Self {
        let text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut answer = Self {
            text: text.to_owned(),
            ends: vec![text.len()],
        };
        answer.delta(r#"{"role":"assistant","content":null}"#, "null");
        answer
    }

    fn call(&mut self, number: u32) {
        self.delta(
            &format!(
                "{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_{number}\",\"type\":\"function\",\
                 \"function\":{{\"name\":\"read_line\",\"arguments\":\"\"}}}}]}}"
            ),
            "null",
        );
        let number = number.to_string();
        for piece in [
            "{\\\"",
            "path",
            "\\\":\\\"src/",
            "parser.rs",
            "\\\",\\\"line",
            "\\\":",
            &number,
            "}",
        ] {
            self.delta(
                &format!("{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{piece}\"}}}}]}}"),
                "null",
            );
        }
    }

    fn delta(&mut self, delta: &str, finish_reason: &str) {
        self.event(&format!(
            "{{\"id\":\"chatcmpl-Bx2yHq4kPz0fT7mNc1vRs8dLw3\",\"object\":\"chat.completion.chunk\",\
             \"created\":1760000000,\"model\":\"served-model-2025-08-07\",\"service_tier\":\"default\",\
             \"system_fingerprint\":\"fp_4a5b6c7d8e\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"logprobs\":null,\"finish_reason\":{finish_reason}}}],\"usage\":null}}"
        ));
    }

    fn event(&mut self, data: &str) {
        let length = "data: \n\n".len() + data.len();
        // Writing to a string can't fail.
        write!(self.text, "{length:x}\r\ndata: {data}\n\n\r\n").ok();
        self.ends.push(self.text.len());
    }

    fn end(&mut self, reason: &str) {
        self.delta("{}", &format!("\"{reason}\""));
        self.event(
            "{\"id\":\"chatcmpl-Bx2yHq4kPz0fT7mNc1vRs8dLw3\",\"object\":\"chat.completion.chunk\",\
             \"created\":1760000000,\"model\":\"served-model-2025-08-07\",\"choices\":[],\
             \"usage\":{\"prompt_tokens\":1200,\"completion_tokens\":24,\"total_tokens\":1224,\
             \"prompt_tokens_details\":{\"cached_tokens\":1024}}}",
        );
        self.event("[DONE]");
        self.text.push_str("0\r\n\r\n");
        self.ends.push(self.text.len());
    }

    /// The head, each event, and the end.
    fn events(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(begin, end)| &self.text.as_bytes()[begin..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_and_the_last_call_say_what_comes_next() {
        let check = |body: &str, expected: &[&str]| {
            let answer = answer(body.as_bytes()).unwrap();
            let sent: Vec<u8> = answer.events().flatten().copied().collect();
            let answer = String::from_utf8(sent).unwrap();
            assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
            for word in expected {
                assert!(answer.contains(word), "{word} in {answer}");
            }
        };
        let last = |call: &str| {
            format!(
                "{{\"model\":\"rounds-2\",\"messages\":[{{\"tool_calls\":[]}},\
                 {{\"role\":\"tool\",\"tool_call_id\":\"{call}\",\"content\":\"x\"}}]}}"
            )
        };
        check(
            r#"{"model":"rounds-2","messages":[]}"#,
            &["\"id\":\"call_1\"", "\"tool_calls\"}"],
        );
        check(&last("call_1"), &["\"id\":\"call_2\""]);
        check(&last("call_2"), &["\" read\"", "\"stop\""]);
        check(r#"{"model":"deltas-3"}"#, &["word0 ", "word2 ", "\"stop\""]);
        assert!(answer(br#"{"model":"other"}"#).is_err());
    }
}
