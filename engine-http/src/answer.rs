//! An answer that is being received.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures::stream;
use haft_api::{EngineEvent, EngineStream, Error, ErrorKind, Result};
use http::header::CONTENT_TYPE;
use tokio::time::{Instant, Sleep};

use crate::failure;
use crate::sse::MAX_EVENT_BYTES;
use crate::transport::{Response, encoding};

/// Makes events of an answer's bytes. It does no I/O.
pub trait AnswerDecoder: Send + 'static {
    /// Takes the next bytes of a stream of events and adds the events that they
    /// complete.
    ///
    /// # Errors
    /// What the server says went wrong, and [`ErrorKind::Corrupt`] for what isn't
    /// the wire at all. The events before it were added, and what was used is
    /// told; the decoder isn't called again.
    fn push(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()>;

    /// Ends the stream: adds what was held back, and the end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the server didn't say that the answer was
    /// whole, and as [`push`](Self::push).
    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()>;

    /// Takes a whole answer that isn't a stream, but one JSON value: some
    /// servers send one, whatever they were asked for, and some an error.
    ///
    /// # Errors
    /// As [`push`](Self::push) and [`finish`](Self::finish).
    fn whole(&mut self, body: &[u8], events: &mut Vec<EngineEvent>) -> Result<()>;

    /// Whether the server has said that nothing follows.
    fn is_done(&self) -> bool;

    /// Whether the server has given the reason of the end. What may follow (the
    /// usage) is waited for a short time only.
    fn has_ended(&self) -> bool;

    /// A number that grows whenever the model says something, however little.
    /// Silence is counted by it: what a server sends to keep the connection
    /// alive doesn't change it.
    fn progress(&self) -> u64;
}

impl AnswerDecoder for Box<dyn AnswerDecoder> {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        (**self).push(bytes, events)
    }

    fn finish(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        (**self).finish(events)
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        (**self).whole(body, events)
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn has_ended(&self) -> bool {
        (**self).has_ended()
    }

    fn progress(&self) -> u64 {
        (**self).progress()
    }
}

/// How long more is waited for once the server has given the reason of the end:
/// the usage, and `[DONE]`, which some never send.
const LINGER: Duration = Duration::from_secs(2);

/// How much of an answer is kept to be quoted, in bytes.
const KEPT_BEGINNING: usize = 512;

/// What an answer's body is. Its first byte tells, and not its head: streams
/// come as `application/json`, and errors as `text/event-stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing has come yet.
    Unknown,
    /// A stream of events.
    Stream,
    /// One JSON value.
    Whole,
}

impl Form {
    fn of(beginning: &[u8]) -> Self {
        match beginning.trim_ascii_start().first() {
            None => Self::Unknown,
            Some(b'{' | b'[') => Self::Whole,
            Some(_) => Self::Stream,
        }
    }
}

/// Looks at an answer's head.
///
/// # Errors
/// [`ErrorKind::Corrupt`] for what no model server sends: a page of a proxy or a
/// portal, or compressed bytes that weren't asked for. The page is quoted.
pub(crate) async fn check_head(response: &mut Response) -> Result<()> {
    if let Some(encoding) = encoding(response.headers()) {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("the server answered in `{encoding}` encoding, which wasn't asked for"),
        ));
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| {
        let value = value.to_str().ok()?.split(';').next()?;
        Some(value.trim().to_ascii_lowercase())
    });
    match content_type.as_deref() {
        // Some servers and many proxies name it wrongly, or not at all.
        None
        | Some(
            ""
            | "text/event-stream"
            | "application/json"
            | "text/plain"
            | "application/octet-stream",
        ) => Ok(()),
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

/// A timer that is set anew only when it must be: a limit that moves on with
/// every piece would cost more than the piece. It is never set for longer than
/// [`LINGER`] ahead, since setting it for an earlier time, as an answer's end
/// would, wakes the thread that waits for timers.
struct Timer {
    sleep: Pin<Box<Sleep>>,
}

impl Timer {
    fn new(until: Instant) -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep_until(Self::soon(until))),
        }
    }

    fn soon(until: Instant) -> Instant {
        until.min(Instant::now() + LINGER)
    }

    /// What comes of a future until then; `None` if nothing does.
    async fn limit<T>(&mut self, until: Instant, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(outcome) = future.as_mut().poll(context) {
                return Poll::Ready(Some(outcome));
            }
            if self.sleep.deadline() > until {
                self.sleep.as_mut().reset(until);
            }
            while self.sleep.as_mut().poll(context).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(None);
                }
                // It was set for an earlier piece, or not that far ahead.
                self.sleep.as_mut().reset(Self::soon(until));
            }
            Poll::Pending
        })
        .await
    }
}

/// An answer's state between two of its events.
struct Answer<A, D> {
    /// Dropping it closes the connection.
    response: Option<Response>,
    decoder: A,
    form: Form,
    /// What came of an answer that isn't a stream, and the beginning of one
    /// that is.
    body: Vec<u8>,
    ready: VecDeque<EngineEvent>,
    failed: Option<Error>,
    idle: Duration,
    silent_since: Instant,
    timer: Timer,
    /// An event was handed out, and whoever has it may take their time with it.
    handed_out: bool,
    describe: D,
}

/// The events of an answer. `describe` adds to errors whose answer it was.
pub(crate) fn receive(
    response: Response,
    decoder: impl AnswerDecoder,
    idle: Duration,
    asked_at: Instant,
    describe: impl Fn(Error) -> Error + Send + 'static,
) -> EngineStream {
    let answer = Answer {
        response: Some(response),
        decoder,
        form: Form::Unknown,
        body: Vec::new(),
        ready: VecDeque::new(),
        failed: None,
        idle,
        silent_since: asked_at,
        timer: Timer::new(asked_at + idle),
        handed_out: false,
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

impl<A: AnswerDecoder, D: Fn(Error) -> Error> Answer<A, D> {
    async fn next(&mut self) -> Option<Result<EngineEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.handed_out = true;
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
        if std::mem::take(&mut self.handed_out) {
            self.silent_since = Instant::now();
        }
        let ended = self.decoder.has_ended();
        let patience = if ended {
            self.idle.min(LINGER)
        } else {
            self.idle
        };
        let until = self.silent_since + patience;
        let piece = self.timer.limit(until, response.chunk()).await;
        let progress = self.decoder.progress();
        let mut events = Vec::new();
        let mut outcome = match piece {
            Some(Ok(Some(bytes))) => self.take(&bytes, &mut events),
            Some(Ok(None)) => self.end(&mut events),
            None if ended => self.end(&mut events),
            Some(Err(error)) => Err(error),
            None => Err(silent(self.idle)),
        };
        if self.decoder.progress() != progress {
            self.silent_since = Instant::now();
        }
        if outcome.is_ok()
            && self.decoder.is_done()
            && let Some(response) = self.response.take()
        {
            // Nothing follows but the end of the answer, for which nobody waits.
            response.leave_rest();
            outcome = self.end(&mut events);
        }
        if let Err(error) = outcome {
            self.response = None;
            self.failed = Some(error);
        }
        self.ready.extend(events);
        Some(())
    }

    fn take(&mut self, bytes: &[u8], events: &mut Vec<EngineEvent>) -> Result<()> {
        if self.form == Form::Unknown {
            self.form = Form::of(bytes);
        }
        let keeps = match self.form {
            Form::Whole => MAX_EVENT_BYTES,
            Form::Unknown | Form::Stream => KEPT_BEGINNING,
        };
        let left = keeps.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(left)]);
        match self.form {
            Form::Whole if bytes.len() > left => Err(Error::new(
                ErrorKind::Corrupt,
                "the server sent an answer of more than 64 MiB",
            )),
            Form::Whole => Ok(()),
            Form::Unknown | Form::Stream => self.decoder.push(bytes, events),
        }
    }

    fn end(&mut self, events: &mut Vec<EngineEvent>) -> Result<()> {
        self.response = None;
        let body = std::mem::take(&mut self.body);
        if self.form == Form::Whole {
            return self.decoder.whole(&body, events);
        }
        let ended = self.decoder.finish(events);
        // What isn't a stream at all had better be seen.
        if self.decoder.progress() == 0 && !body.trim_ascii().is_empty() {
            let said = failure::quote(&String::from_utf8_lossy(&body));
            return ended.map_err(|e| e.context("answer", said));
        }
        ended
    }
}
