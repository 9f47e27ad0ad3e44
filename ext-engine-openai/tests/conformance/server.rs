//! A small model server, on threads of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::rules;

/// What a user says to have a tool called.
pub(crate) const CALLING: &str = "Call the tool.";

/// The server. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) base_url: String,
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                // Ends with its connection, by an error at the latest.
                thread::spawn(|| stream.and_then(serve));
            }
        });
        Self {
            base_url: format!("http://{address}/v1"),
            address,
            over,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the listener up to see it.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.to_lowercase());
        }
        let length = head
            .iter()
            .find_map(|line| line.strip_prefix("content-length:"))
            .map_or(0, |length| length.trim().parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let answer = match head.first().is_some_and(|line| line.starts_with("get ")) {
            true => whole("200 OK", &json!({"data": [{"id": "m"}, {"id": "n"}]})),
            false => chat(&body),
        };
        writer.write_all(answer.as_bytes())?;
    }
}

fn whole(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn chat(body: &[u8]) -> String {
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(e) => return refuse(&format!("not JSON: {e}")),
    };
    if let Err(why) = rules::check(&request) {
        return refuse(&why);
    }
    let asked = &request["messages"]
        .as_array()
        .and_then(|m| m.last())
        .unwrap()["content"];
    let deltas = match asked == CALLING {
        false => vec![json!({"content": "Hel"}), json!({"content": "lo."})],
        true => {
            let name = &request["tools"][0]["function"]["name"];
            vec![
                json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                    "function": {"name": name, "arguments": "{\"at\":"}}]}),
                json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
            ]
        }
    };
    let mut events: Vec<Value> = deltas
        .iter()
        .map(|delta| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
        .collect();
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    events.push(
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4}}}),
    );
    let events = events
        .iter()
        .map(Value::to_string)
        .chain(["[DONE]".to_owned()]);
    let mut answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Transfer-Encoding: chunked\r\n\r\n"
        .to_owned();
    for event in events {
        let event = format!("data: {event}\n\n");
        answer += &format!("{:x}\r\n{event}\r\n", event.len());
    }
    answer + "0\r\n\r\n"
}

fn refuse(why: &str) -> String {
    whole("400 Bad Request", &json!({"error": {"message": why}}))
}
