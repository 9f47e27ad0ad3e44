//! A WebSocket's connection, on the host's own thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc as threads};
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use haft_script_host::http::{CONNECT_TIMEOUT, Url, tls_config};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use super::Command;
use crate::worker::{Completion, Message, Settled};

/// How long the other side has to answer that a connection is to be closed.
const CLOSING: Duration = Duration::from_secs(5);
/// What a message takes in a queue besides its bytes.
const OVERHEAD: usize = 64;

/// A connection that is to be made.
pub(super) struct Connection {
    pub(super) url: Url,
    pub(super) protocols: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
    /// Most bytes of a message, and of those that wait to be taken.
    pub(super) most: usize,
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

type Socket = WebSocketStream<Box<dyn Wire>>;

/// How a connection ended.
struct Ended {
    /// What the other side said, if it said that it ends.
    closed: Option<Option<CloseFrame>>,
    error: Option<String>,
}

impl Ended {
    fn broken(error: impl Into<String>) -> Self {
        Self {
            closed: None,
            error: Some(error.into()),
        }
    }

    fn told(self) -> String {
        let (code, reason) = match &self.closed {
            Some(Some(frame)) => (u16::from(frame.code), frame.reason.as_str()),
            // No code was given; no word was said (RFC 6455, 7.4.1).
            Some(None) => (1005, ""),
            None => (1006, ""),
        };
        serde_json::json!({
            "is": "close",
            "code": code,
            "reason": reason,
            "wasClean": self.closed.is_some() && self.error.is_none(),
            "error": self.error,
        })
        .to_string()
    }
}

/// The skill's thread, told of one connection.
struct Teller {
    operation: u64,
    say: threads::Sender<Message>,
    /// Bytes that may wait until the thread takes them.
    room: Arc<Semaphore>,
    most: usize,
}

impl Teller {
    /// Waits until there is room for a message, and tells of it.
    async fn message(&self, told: Settled, length: usize) {
        let needs = u32::try_from((length + OVERHEAD).min(self.most)).unwrap_or(u32::MAX);
        // Nobody closes it.
        let room = Arc::clone(&self.room).acquire_many_owned(needs).await.ok();
        self.tell(told, false, room);
    }

    fn tell(&self, told: Settled, last: bool, room: Option<OwnedSemaphorePermit>) {
        let completion = Completion {
            operation: self.operation,
            outcome: Ok(told),
            last,
            room,
        };
        // A thread that has ended needs no word.
        self.say.send(Message::Operation(completion)).ok();
    }
}

impl Connection {
    /// Connects, and tells of everything until the connection has ended.
    pub(super) async fn run(
        self,
        operation: u64,
        say: threads::Sender<Message>,
        commands: mpsc::UnboundedReceiver<Command>,
        buffered: Arc<AtomicUsize>,
        turnstile: Arc<Semaphore>,
    ) {
        let most = self
            .most
            .clamp(OVERHEAD, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        let teller = Teller {
            operation,
            say,
            room: Arc::new(Semaphore::new(most)),
            most,
        };
        let permit = turnstile.acquire_owned().await;
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open()).await;
        let ended = match opened {
            Ok(Ok((socket, protocol))) => {
                let told = serde_json::json!({ "is": "open", "protocol": protocol });
                teller.tell(Settled::Json(told.to_string()), false, None);
                talk(socket, &teller, commands, &buffered).await
            }
            Ok(Err(words)) => Ended::broken(words),
            Err(_) => Ended::broken(format!("no answer within {CONNECT_TIMEOUT:?}")),
        };
        drop(permit);
        let ended = Ended {
            error: ended.error.map(|words| format!("{}: {words}", self.url)),
            ..ended
        };
        teller.tell(Settled::Json(ended.told()), true, None);
    }

    async fn open(&self) -> Result<(Socket, String), String> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await;
        let stream = stream.map_err(|e| format!("can't be reached: {e}"))?;
        // Messages are sent as they come.
        stream.set_nodelay(true).ok();
        let wire: Box<dyn Wire> = match self.url.scheme() {
            "wss" => {
                let config = tls()?;
                let name = ServerName::try_from(bare.to_owned()).map_err(|e| e.to_string())?;
                let connector = tokio_rustls::TlsConnector::from(config);
                let stream = connector.connect(name, stream).await;
                Box::new(stream.map_err(|e| format!("TLS: {e}"))?)
            }
            _ => Box::new(stream),
        };
        let uri = self.url.as_str().parse();
        let uri = uri.map_err(|e: tungstenite::http::uri::InvalidUri| e.to_string())?;
        let mut request = ClientRequestBuilder::new(uri)
            .with_header("user-agent", concat!("haft/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.headers {
            request = request.with_header(name, value);
        }
        for protocol in &self.protocols {
            request = request.with_sub_protocol(protocol);
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(self.most))
            .max_frame_size(Some(self.most));
        let opened = tokio_tungstenite::client_async_with_config(request, wire, Some(config)).await;
        let (socket, response) = opened.map_err(|error| match error {
            tungstenite::Error::Http(response) => format!(
                "the server answered {} instead of opening a WebSocket",
                response.status()
            ),
            error => error.to_string(),
        })?;
        let protocol = response.headers().get("sec-websocket-protocol");
        let protocol = protocol.and_then(|value| value.to_str().ok());
        Ok((socket, protocol.unwrap_or_default().to_owned()))
    }
}

/// One configuration for all: to read the system's certificates takes a while.
fn tls() -> Result<Arc<rustls::ClientConfig>, String> {
    static CONFIG: OnceLock<Arc<rustls::ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let made = tls_config().map_err(|e| e.to_string())?;
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(made))))
}

/// Passes messages on in both directions until one side ends it.
async fn talk(
    socket: Socket,
    teller: &Teller,
    commands: mpsc::UnboundedReceiver<Command>,
    buffered: &AtomicUsize,
) -> Ended {
    let (sink, stream) = socket.split();
    let hearing = hear(stream, teller);
    tokio::pin!(hearing);
    let spoken = tokio::select! {
        ended = &mut hearing => return ended,
        spoken = speak(sink, commands, buffered) => spoken,
    };
    // What is heard still says more than that nothing can be sent.
    match (tokio::time::timeout(CLOSING, hearing).await, spoken) {
        (
            Ok(Ended {
                closed: None,
                error: None,
            })
            | Err(_),
            Err(error),
        ) => Ended::broken(error.to_string()),
        (Ok(ended), _) => ended,
        (Err(_), Ok(())) => Ended::broken(format!("the server didn't close it within {CLOSING:?}")),
    }
}

/// Sends what it is told to, until it is told that this was all.
async fn speak(
    mut sink: SplitSink<Socket, Frame>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    buffered: &AtomicUsize,
) -> Result<(), tungstenite::Error> {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Send(frame) => {
                let length = frame.len();
                let sent = sink.send(frame).await;
                buffered.fetch_sub(length, Ordering::Relaxed);
                sent?;
            }
            Command::Close(frame) => return sink.send(Frame::Close(frame)).await,
        }
    }
    // Nobody can say anything any more; what comes is heard still.
    std::future::pending().await
}

/// Tells of what comes, until the end.
async fn hear(mut stream: SplitStream<Socket>, teller: &Teller) -> Ended {
    let mut closed = None;
    loop {
        match stream.next().await {
            Some(Ok(Frame::Text(text))) => {
                let told = serde_json::json!({ "is": "text", "data": text.as_str() });
                let told = Settled::Json(told.to_string());
                teller.message(told, text.len()).await;
            }
            Some(Ok(Frame::Binary(bytes))) => {
                let length = bytes.len();
                let told = Settled::JsonAndBytes(r#"{"is":"bytes"}"#.to_owned(), bytes.into());
                teller.message(told, length).await;
            }
            Some(Ok(Frame::Close(frame))) => closed = Some(frame),
            // Pings are answered underneath.
            Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => {}
            Some(Err(error)) => {
                // After a closing word it matters no more how the wire ends.
                let error = closed.is_none().then(|| error.to_string());
                return Ended { closed, error };
            }
            None => {
                return Ended {
                    closed,
                    error: None,
                };
            }
        }
    }
}
