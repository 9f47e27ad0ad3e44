//! Calls under way at the side that serves them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream as _;

use super::link::{Remote, Step, TransportTask};
use super::message::{Message, MessageRef, error_json};
use super::server::{MessageFuture, MessageStream, Origin, Reply, Request, Served, Server};
use crate::error::{Error, ErrorKind, Result};
use crate::extension::panic_message;

/// Runs an extension's code. A panic becomes its text.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic_message(&*panic);
        // What was thrown may itself throw when it is dropped.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(second);
        }
        text
    })
}

/// Runs an extension's code where it expects to be run. A panic becomes an
/// error that names the extension.
pub(super) fn shielded<T>(origin: &Origin, method: &str, run: impl FnOnce() -> T) -> Result<T> {
    let entered = || match &origin.enter {
        None => Some(run()),
        Some(enter) => {
            let (mut run, mut result) = (Some(run), None);
            enter.enter(&mut || result = run.take().map(|run| run()));
            result
        }
    };
    let what = match caught(entered) {
        Ok(Some(result)) => return Ok(result),
        Ok(None) => "was never run".to_owned(),
        Err(panic) => panic,
    };
    let error = Error::new(ErrorKind::Unexpected, what).operation(method);
    Err(match &origin.owner {
        Some(owner) => error.context("extension", owner),
        None => error,
    })
}

enum State {
    Done(Message),
    Failed(Vec<u8>),
    Later(MessageFuture),
    Stream(MessageStream),
    Unimplemented,
    Shutdown,
    Ended,
}

impl State {
    fn failed(error: &Error) -> Self {
        Self::Failed(error_json(error))
    }
}

/// A call under way. Dropping it cancels what it stands for.
pub struct ServedTask {
    state: State,
    /// What the last poll gave away; lent to whoever polled.
    out: Message,
    lent: Vec<Arc<Remote>>,
    origin: Origin,
    server: Arc<Server>,
}

impl ServedTask {
    fn new(server: Arc<Server>, origin: Origin, state: State) -> Self {
        server.count_task(1);
        Self {
            state,
            out: Message::empty(),
            lent: Vec::new(),
            origin,
            server,
        }
    }

    pub(super) fn shutdown(server: Arc<Server>) -> Self {
        Self::new(server, Origin::default(), State::Shutdown)
    }

    pub(super) fn failed(server: Arc<Server>, error: &Error) -> Self {
        Self::new(server, Origin::default(), State::failed(error))
    }

    pub(super) fn begin(
        server: Arc<Server>,
        target: Arc<dyn Served>,
        origin: Origin,
        method: &str,
        message: MessageRef<'_>,
    ) -> Self {
        let mut task = Self::new(server, origin, State::Ended);
        let request = Request {
            method,
            message,
            server: &task.server,
            origin: &task.origin,
            lent: &mut task.lent,
        };
        let reply = shielded(&task.origin, method, || target.call(request));
        task.state = match reply {
            Ok(Ok(Reply::Now(message))) => State::Done(message),
            Ok(Ok(Reply::Later(future))) => State::Later(future),
            Ok(Ok(Reply::Stream(stream))) => State::Stream(stream),
            Ok(Ok(Reply::Unimplemented)) => State::Unimplemented,
            Ok(Err(error)) => State::failed(&error),
            Err(panic) => {
                task.server.report_panic(&panic);
                State::failed(&panic)
            }
        };
        task
    }

    /// Drops whatever runs, and what it may throw at that.
    fn clear(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        if matches!(state, State::Later(_) | State::Stream(_)) {
            let dropped = shielded(&self.origin, "drop", || drop(state));
            if let Err(panic) = dropped {
                self.server.report_panic(&panic);
            }
        }
    }

    /// The end, with an error.
    fn fail(&mut self, error: &Error) -> Poll<Step<'_>> {
        self.clear();
        self.out = Message {
            json: error_json(error),
            blob: Vec::new(),
        };
        Poll::Ready(Step::Failed(self.out.as_ref()))
    }

    fn done(&mut self, message: Message) -> Poll<Step<'_>> {
        self.clear();
        self.out = message;
        Poll::Ready(Step::Done(self.out.as_ref()))
    }

    /// Goes on with it.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step<'_>> {
        enum Polled {
            Pending,
            Item(Message),
            Done(Message),
            Failed(Error),
        }
        if self.server.is_closed() {
            self.clear();
            return Poll::Ready(Step::Shutdown);
        }
        let mut run = |state: &mut State| match state {
            State::Later(future) => match future.as_mut().poll(context) {
                Poll::Pending => Polled::Pending,
                Poll::Ready(Ok(message)) => Polled::Done(message),
                Poll::Ready(Err(error)) => Polled::Failed(error),
            },
            State::Stream(stream) => match Pin::new(stream).poll_next(context) {
                Poll::Pending => Polled::Pending,
                Poll::Ready(Some(Ok(message))) => Polled::Item(message),
                Poll::Ready(Some(Err(error))) => Polled::Failed(error),
                Poll::Ready(None) => Polled::Done(Message::empty()),
            },
            _ => Polled::Failed(Error::new(ErrorKind::InvalidInput, "polled after its end")),
        };
        match &mut self.state {
            State::Done(message) => {
                self.out = std::mem::take(message);
                self.state = State::Ended;
                Poll::Ready(Step::Done(self.out.as_ref()))
            }
            State::Failed(json) => {
                self.out.json = std::mem::take(json);
                self.state = State::Ended;
                Poll::Ready(Step::Failed(self.out.as_ref()))
            }
            State::Unimplemented => Poll::Ready(Step::Unimplemented),
            State::Shutdown => Poll::Ready(Step::Shutdown),
            state => match shielded(&self.origin, "poll", || run(state)) {
                Ok(Polled::Pending) => Poll::Pending,
                Ok(Polled::Item(message)) => {
                    self.out = message;
                    Poll::Ready(Step::Item(self.out.as_ref()))
                }
                Ok(Polled::Done(message)) => self.done(message),
                Ok(Polled::Failed(error)) => self.fail(&error),
                Err(panic) => {
                    self.server.report_panic(&panic);
                    self.fail(&panic)
                }
            },
        }
    }
}

impl TransportTask for ServedTask {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step<'_>> {
        ServedTask::poll(self, context)
    }
}

impl Drop for ServedTask {
    fn drop(&mut self) {
        self.clear();
        // Objects that were lent for this call and are still held by somebody
        // are kept now, while they are sure to be there.
        for remote in self.lent.drain(..) {
            Remote::settle(remote);
        }
        self.server.count_task(-1);
    }
}
