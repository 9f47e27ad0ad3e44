//! A small model server that speaks all wires, on threads of its own. It refuses
//! every request that the wire's own provider would refuse, and takes back no
//! state but its own, unchanged.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

mod chat;
mod messages;
mod responses;

/// What came of looking at a request.
type Checked = Result<(), String>;

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
        writer.write_all(answer(&head, &body).as_bytes())?;
    }
}

fn answer(head: &[String], body: &[u8]) -> String {
    let Some(line) = head.first() else {
        return refuse("no request");
    };
    if line.starts_with("get ") {
        return whole("200 OK", &json!({"data": [{"id": "m"}, {"id": "n"}]}));
    }
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(e) => return refuse(&format!("not JSON: {e}")),
    };
    let has = |header: &str| head.iter().any(|line| line.starts_with(header));
    let (checked, respond): (Checked, fn(&Value) -> Vec<Value>) =
        match line.split(' ').nth(1).unwrap_or_default() {
            "/v1/chat/completions" => (chat::check(&request), chat::respond),
            "/v1/responses" => (responses::check(&request), responses::respond),
            "/v1/messages" if !has("anthropic-version: 2023-06-01") => {
                return refuse("no version of the wire");
            }
            "/v1/messages" => (messages::check(&request), messages::respond),
            other => return refuse(&format!("no such path: {other}")),
        };
    if let Err(why) = checked {
        return refuse(&why);
    }
    let mut answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Transfer-Encoding: chunked\r\n\r\n"
        .to_owned();
    for event in respond(&request) {
        let event = match event.as_str() {
            Some(text) => format!("data: {text}\n\n"),
            None => format!("data: {event}\n\n"),
        };
        answer += &format!("{:x}\r\n{event}\r\n", event.len());
    }
    answer + "0\r\n\r\n"
}

fn whole(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn refuse(why: &str) -> String {
    whole("400 Bad Request", &json!({"error": {"message": why}}))
}

fn check_name(name: &Value) -> Result<&str, String> {
    let name = name.as_str().ok_or("no name")?;
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    match (1..=64).contains(&name.len()) && name.bytes().all(word) {
        true => Ok(name),
        false => Err(format!("not a function's name: {name:?}")),
    }
}

fn check_text(content: &Value) -> Checked {
    match content.as_str() {
        Some("") | None => Err(format!("no text: {content}")),
        Some(_) => Ok(()),
    }
}

/// Checks tools whose names and schemas these functions find.
fn check_tools<'v>(
    tools: &'v Value,
    name: impl Fn(&'v Value) -> &'v Value,
    schema: impl Fn(&'v Value) -> &'v Value,
) -> Checked {
    let mut names = Vec::new();
    for tool in tools.as_array().into_iter().flatten() {
        let name = check_name(name(tool))?;
        if names.contains(&name) {
            return Err(format!("two tools are called {name}"));
        }
        names.push(name);
        let schema = schema(tool);
        let odd = ["$ref", "anyOf", "oneOf", "allOf", "enum", "not"]
            .iter()
            .find(|key| schema.get(**key).is_some());
        if schema["type"] != "object" || !schema["properties"].is_object() || odd.is_some() {
            return Err(format!("no plain object schema: {schema}"));
        }
    }
    Ok(())
}

fn check_object(arguments: &str) -> Checked {
    serde_json::from_str::<serde_json::Map<String, Value>>(arguments)
        .map(drop)
        .map_err(|e| format!("arguments are no object ({e}): {arguments}"))
}

fn check_data_url(url: &Value) -> Checked {
    let url = url.as_str().ok_or("no URL")?;
    match url.starts_with("data:image/") && url.contains(";base64,") {
        true => Ok(()),
        false => Err(format!("no picture: {url}")),
    }
}
