//! One connection to the server, driven by whoever waits for its answer.
//!
//! hyper has two halves for a connection: one that sends requests, and one that
//! does the I/O, which is meant for a task of its own. With such a task every
//! piece of an answer would wake two tasks, often on two threads, and cost
//! several times what the piece itself costs. Here both halves are polled
//! together, in the caller's task.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};

/// A request's body.
pub(super) type Outgoing = Full<Bytes>;

type Io = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// How often the halves are polled in turn before other tasks have theirs. A
/// request takes two or three turns. There must be an end to it: once a task
/// has used up its share of time, tokio answers each of its polls with a wake.
const TURNS: usize = 16;

/// A connection. Dropping it closes it.
pub(super) struct Connection {
    sender: SendRequest<Outgoing>,
    /// Does the I/O; `None` once it has ended.
    io: Option<Io>,
    relay: Arc<Relay>,
    relay_waker: Waker,
}

impl Connection {
    /// Takes a connection that was just made.
    pub(super) async fn new(
        stream: impl Read + Write + Unpin + Send + 'static,
    ) -> hyper::Result<Self> {
        let (sender, io) = handshake(stream).await?;
        let relay = Arc::new(Relay::default());
        let relay_waker = Waker::from(Arc::clone(&relay));
        Ok(Self {
            sender,
            io: Some(Box::pin(io)),
            relay,
            relay_waker,
        })
    }

    /// Sends a request, and waits for its answer's head.
    ///
    /// # Errors
    /// With the request itself if nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, (hyper::Error, Option<Request<Outgoing>>)> {
        let Self {
            sender,
            io,
            relay,
            relay_waker,
        } = self;
        let mut response = pin!(sender.try_send_request(request));
        poll_fn(|context| {
            relay.drive(relay_waker, context, io, |context| {
                response.as_mut().poll(context)
            })
        })
        .await
        .map_err(|mut failed| {
            let request = failed.take_message();
            (failed.into_error(), request)
        })
    }

    /// The next piece of an answer's body.
    pub(super) async fn frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<hyper::Result<Frame<Bytes>>> {
        let Self {
            io,
            relay,
            relay_waker,
            ..
        } = self;
        poll_fn(|context| {
            relay.drive(relay_waker, context, io, |context| {
                Pin::new(&mut *body).poll_frame(context)
            })
        })
        .await
    }

    /// Reads what is left of an answer's body, as far as it is there, and forgets
    /// it. Wakes nobody.
    pub(super) fn poll_rest(&mut self, body: &mut Incoming) -> Poll<hyper::Result<()>> {
        let Self {
            io,
            relay,
            relay_waker,
            ..
        } = self;
        let context = Context::from_waker(Waker::noop());
        for _ in 0..TURNS {
            let frame = relay.drive(relay_waker, &context, io, |context| {
                Pin::new(&mut *body).poll_frame(context)
            });
            match frame {
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        // Whoever says so much after the end may say it for ever.
        Poll::Pending
    }

    /// Whether another request can be sent. Nobody looks after a connection
    /// while it is idle, so that the server may have closed it meanwhile.
    pub(super) fn is_reusable(&mut self) -> bool {
        poll_io(&mut self.io, &mut Context::from_waker(Waker::noop()));
        self.io.is_some() && self.sender.is_ready()
    }
}

fn poll_io(io: &mut Option<Io>, context: &mut Context<'_>) {
    if let Some(running) = io
        && running.as_mut().poll(context).is_ready()
    {
        // How it ended is told by what waits for it.
        *io = None;
    }
}

/// Wakes the caller's task, but not while it is polling both halves: what one
/// of them has for the other then is seen in the same poll.
#[derive(Default)]
struct Relay {
    task: AtomicWaker,
    state: AtomicU8,
}

/// Nobody polls: a wake goes to the task.
const WAITING: u8 = 0;
/// The halves are being polled.
const POLLING: u8 = 1;
/// The same, and they are to be polled again.
const AGAIN: u8 = 2;

impl Relay {
    /// Polls the I/O and what waits for it, in turn, until both wait for the
    /// network. `own_waker` is that of this relay.
    fn drive<T>(
        &self,
        own_waker: &Waker,
        context: &Context<'_>,
        io: &mut Option<Io>,
        mut waiting: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut inner = Context::from_waker(own_waker);
        self.begin(context.waker());
        for _ in 0..TURNS {
            poll_io(io, &mut inner);
            if let Poll::Ready(outcome) = waiting(&mut inner) {
                self.end();
                return Poll::Ready(outcome);
            }
            if self.end_if_settled() {
                return Poll::Pending;
            }
        }
        self.end();
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.state.store(POLLING, Ordering::SeqCst);
    }

    fn end(&self) {
        self.state.store(WAITING, Ordering::SeqCst);
    }

    /// Ends the polling unless there was a wake since its last turn began.
    fn end_if_settled(&self) -> bool {
        let order = Ordering::SeqCst;
        let settled = self.state.compare_exchange(POLLING, WAITING, order, order);
        if settled.is_err() {
            self.state.store(POLLING, order);
        }
        settled.is_ok()
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let order = Ordering::SeqCst;
        let polling = self.state.compare_exchange(POLLING, AGAIN, order, order);
        if polling == Err(WAITING) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn a_wake_goes_to_the_task_or_to_the_poll_under_way_and_is_never_lost() {
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        let relay = Arc::new(Relay::default());
        let waker = Waker::from(Arc::clone(&relay));

        relay.begin(&task);
        assert!(relay.end_if_settled(), "nothing happened");
        waker.wake_by_ref();
        assert_eq!(count.get(), 1, "while waiting");

        relay.begin(&task);
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(!relay.end_if_settled(), "the halves have more to do");
        assert!(relay.end_if_settled(), "and have done it");
        assert_eq!(count.get(), 1, "while polling");

        relay.begin(&task);
        relay.end();
        waker.wake_by_ref();
        assert_eq!(count.get(), 2, "after a poll that was ready");
    }

    #[test]
    fn halves_that_always_wake_do_not_keep_the_thread() {
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        let relay = Arc::new(Relay::default());
        let waker = Waker::from(Arc::clone(&relay));
        let mut polls = 0;
        let polled = relay.drive(&waker, &Context::from_waker(&task), &mut None, |context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, count.get()), (TURNS, 1));
        waker.wake_by_ref();
        assert_eq!(count.get(), 2, "a wake after it");
    }
}
