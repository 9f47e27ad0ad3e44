//! An answer that is being received.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream;
use haft_api::{EngineEvent, EngineStream, Error, ErrorKind, Result};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use tokio::time::Instant;

use crate::decode::ChatDecoder;
use crate::failure;
use crate::sse::MAX_EVENT_BYTES;
use crate::transport::broken;

/// How long the end of the connection is waited for once the server has said
/// that nothing follows. It frees the connection for the next request.
const GRACE: Duration = Duration::from_millis(250);

/// What an answer's head says its body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A stream of events.
    Stream,
    /// One JSON value.
    Whole,
}

/// # Errors
/// [`ErrorKind::Corrupt`] for what no model server sends: a page of a proxy or a
/// portal, or compressed bytes that weren't asked for. The page is quoted.
pub(crate) async fn form_of(response: &mut Response) -> Result<Form> {
    let header = |name| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.split(';').next()?.trim().to_ascii_lowercase())
    };
    if let Some(encoding) = header(CONTENT_ENCODING).filter(|e| !e.is_empty() && e != "identity") {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("the server answered in `{encoding}` encoding, which wasn't asked for"),
        ));
    }
    match header(CONTENT_TYPE).as_deref() {
        Some("application/json") => Ok(Form::Whole),
        // Some servers and many proxies name the stream so, or not at all.
        None | Some("" | "text/event-stream" | "text/plain" | "application/octet-stream") => {
            Ok(Form::Stream)
        }
        Some(other) => {
            let what = format!(
                "the server answered with `{other}` where a stream of events was due: is \
                 `base_url` right, and is there a proxy or a login page in between?"
            );
            let first = response.chunk().await.ok().flatten().unwrap_or_default();
            let first = &first[..first.len().min(failure::READ_BYTES)];
            let said = failure::quote(&String::from_utf8_lossy(first));
            Err(Error::new(
                ErrorKind::Corrupt,
                format!("{what} It begins: {said}"),
            ))
        }
    }
}

/// An answer's state between two of its events.
struct Answer<D> {
    /// Dropping it closes the connection.
    response: Option<Response>,
    decoder: ChatDecoder,
    form: Form,
    body: Vec<u8>,
    ready: VecDeque<EngineEvent>,
    failed: Option<Error>,
    idle: Duration,
    silent_since: Instant,
    describe: D,
}

/// The events of an answer. `describe` adds to errors whose answer it was.
pub(crate) fn receive(
    response: Response,
    form: Form,
    decoder: ChatDecoder,
    idle: Duration,
    asked_at: Instant,
    describe: impl Fn(Error) -> Error + Send + 'static,
) -> EngineStream {
    let answer = Answer {
        response: Some(response),
        decoder,
        form,
        body: Vec::new(),
        ready: VecDeque::new(),
        failed: None,
        idle,
        silent_since: asked_at,
        describe,
    };
    Box::pin(stream::unfold(answer, |mut answer| async move {
        let event = answer.next().await?;
        Some((event, answer))
    }))
}

/// The error of a model that says nothing.
pub(crate) fn silent(idle: Duration) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the model said nothing for {} ms (`idle_timeout_ms`)",
            idle.as_millis()
        ),
    )
    .temporary()
}

impl<D: Fn(Error) -> Error> Answer<D> {
    async fn next(&mut self) -> Option<Result<EngineEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err((self.describe)(error)));
            }
            self.receive().await?;
        }
    }

    /// Receives one piece of the body; `None` once there was an end.
    async fn receive(&mut self) -> Option<()> {
        let response = self.response.as_mut()?;
        let done = self.decoder.is_done();
        let until = match done {
            true => Instant::now() + GRACE,
            false => self.silent_since + self.idle,
        };
        let piece = tokio::time::timeout_at(until, response.chunk()).await;
        let progress = self.decoder.progress();
        let mut events = Vec::new();
        let outcome = match piece {
            Ok(Ok(Some(bytes))) => match self.form {
                Form::Stream => self.decoder.push(&bytes, &mut events),
                Form::Whole => self.keep(&bytes),
            },
            // Once all was said it doesn't matter how the connection ends.
            Ok(Ok(None)) => self.end(&mut events),
            Err(_) | Ok(Err(_)) if done => self.end(&mut events),
            Ok(Err(error)) => Err(broken(error)),
            Err(_) => Err(silent(self.idle)),
        };
        if self.decoder.progress() != progress {
            self.silent_since = Instant::now();
        }
        if let Err(error) = outcome {
            self.response = None;
            self.failed = Some(error);
        }
        self.ready.extend(events);
        Some(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        if self.body.len() + bytes.len() > MAX_EVENT_BYTES {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the server sent an answer of more than 64 MiB",
            ));
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        self.response = None;
        match self.form {
            Form::Stream => self.decoder.finish(events),
            Form::Whole => {
                let body = std::mem::take(&mut self.body);
                self.decoder.whole(&body, events)
            }
        }
    }
}
