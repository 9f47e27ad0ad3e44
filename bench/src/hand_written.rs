//! What an agent's loop costs that is written by hand for one server: the floor
//! of the benchmarks that run turns.
//!
//! It reads the answer's stream event by event, runs the tool, keeps the bytes
//! of the messages it has sent and adds to them. It stores nothing, checks
//! nothing, shows nothing and can't be interrupted.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::SocketAddr;

use haft_bench::Result;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::agent::{self, ReadLine};

/// Has a conversation with the model of this name and returns its last words.
pub(crate) async fn converse(connection: &mut Connection, model: &str) -> Result<String> {
    let mut request = format!(
        "{{\"model\":\"{model}\",\"stream\":true,\"stream_options\":{{\"include_usage\":true}},\
         \"tools\":[{{\"type\":\"function\",\"function\":{{\"name\":\"{}\",\"description\":\"{}\",\
         \"parameters\":{}}}}}],\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}",
        agent::TOOL,
        agent::DESCRIPTION,
        agent::SCHEMA,
        agent::PROMPT,
    )
    .into_bytes();
    loop {
        let answer = connection.ask(&request).await?;
        let Some(call) = answer.call else {
            return Ok(answer.text);
        };
        let arguments: ReadLine = serde_json::from_str(&call.arguments)?;
        request.extend_from_slice(
            b",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":",
        );
        serde_json::to_writer(&mut request, &call.id)?;
        request.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
        serde_json::to_writer(&mut request, &call.name)?;
        request.extend_from_slice(b",\"arguments\":");
        serde_json::to_writer(&mut request, &call.arguments)?;
        request.extend_from_slice(b"}}]},{\"role\":\"tool\",\"tool_call_id\":");
        serde_json::to_writer(&mut request, &call.id)?;
        request.extend_from_slice(b",\"content\":");
        serde_json::to_writer(&mut request, &arguments.run())?;
        request.push(b'}');
    }
}

/// What the model said.
#[derive(Default)]
struct Answer {
    text: String,
    call: Option<Call>,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<CallDelta<'a>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow)]
    arguments: Cow<'a, str>,
}

impl Answer {
    fn take(&mut self, data: &[u8]) -> Result<()> {
        let chunk: Chunk<'_> = serde_json::from_slice(data)?;
        for Choice { delta } in chunk.choices {
            if let Some(text) = delta.content {
                self.text.push_str(&text);
            }
            for CallDelta { id, function } in delta.tool_calls {
                if let (Some(id), Some(name)) = (id, function.name) {
                    let arguments = String::new();
                    self.call = Some(Call {
                        id,
                        name,
                        arguments,
                    });
                }
                let call = self.call.as_mut().ok_or("a call without an id")?;
                call.arguments.push_str(&function.arguments);
            }
        }
        Ok(())
    }
}

/// A connection that is kept between requests.
pub(crate) struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    sent: Vec<u8>,
    /// As it came.
    received: Vec<u8>,
    /// Without HTTP's chunks.
    body: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sent, received, body) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            stream,
            address,
            sent,
            received,
            body,
        })
    }

    /// Sends a request that lacks the end of its messages, and reads the answer.
    async fn ask(&mut self, request: &[u8]) -> Result<Answer> {
        self.sent.clear();
        write!(
            self.sent,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            request.len() + 2,
        )?;
        self.sent.extend_from_slice(request);
        self.sent.extend_from_slice(b"]}");
        self.stream.write_all(&self.sent).await?;
        let mut answer = Answer::default();
        self.received.clear();
        self.body.clear();
        let mut at = loop {
            self.receive().await?;
            if let Some(end) = memchr::memmem::find(&self.received, b"\r\n\r\n") {
                break end + 4;
            }
        };
        if !self.received.starts_with(b"HTTP/1.1 200 ") {
            return Err("the server refused".into());
        }
        loop {
            let Some((length, begin)) = chunk(&self.received[at..])? else {
                self.receive().await?;
                continue;
            };
            if length == 0 {
                return Ok(answer);
            }
            let begin = at + begin;
            self.body
                .extend_from_slice(&self.received[begin..begin + length]);
            at = begin + length + 2;
            take_lines(&mut self.body, &mut answer)?;
        }
    }

    async fn receive(&mut self) -> Result<()> {
        self.received.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err("the connection ended within an answer".into()),
            _ => Ok(()),
        }
    }
}

/// The length of the chunk that begins here, and where its bytes begin, if all
/// of it is there.
fn chunk(received: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = memchr::memchr(b'\n', received) else {
        return Ok(None);
    };
    let line = std::str::from_utf8(&received[..end])?;
    let length = usize::from_str_radix(line.trim_end(), 16)?;
    let whole = received.len() >= end + 1 + length + 2;
    Ok(whole.then_some((length, end + 1)))
}

/// Takes the whole lines out of the body.
fn take_lines(body: &mut Vec<u8>, answer: &mut Answer) -> Result<()> {
    let mut done = 0;
    while let Some(end) = memchr::memchr(b'\n', &body[done..]) {
        let line = &body[done..done + end];
        done += end + 1;
        match line.strip_prefix(b"data: ") {
            Some(data) if data != b"[DONE]" => answer.take(data)?,
            _ => {}
        }
    }
    body.drain(..done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_taken_when_they_are_whole() {
        let check = |received: &str, expected: Option<(usize, usize)>| {
            assert_eq!(
                chunk(received.as_bytes()).unwrap(),
                expected,
                "{received:?}"
            );
        };
        check("", None);
        check("5", None);
        check("5\r\nabc", None);
        check("5\r\nabcde\r", None);
        check("5\r\nabcde\r\n", Some((5, 3)));
        check("10\r\nabcdefghijklmnop\r\n0\r\n\r\n", Some((16, 4)));
        check("0\r\n\r\n", Some((0, 3)));
        assert!(chunk(b"x\r\n").is_err());
    }

    #[test]
    fn lines_may_be_cut_anywhere() {
        let mut answer = Answer::default();
        let mut body = Vec::new();
        for byte in b"data: {\"choices\":[{\"delta\":{\"content\":\"a\\nb\"}}]}\n\ndata: [DONE]\n\n"
        {
            body.push(*byte);
            take_lines(&mut body, &mut answer).unwrap();
        }
        assert_eq!(answer.text, "a\nb");
    }
}
