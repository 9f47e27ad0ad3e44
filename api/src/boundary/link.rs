//! The calling half of a side: the other side's objects.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::{Message, MessageRef};
use super::server::{Lent, LogLevel, Server};
use crate::error::{Error, ErrorKind, Result};

/// What polling a call of the other side brought.
#[derive(Debug)]
pub enum Step<'a> {
    /// One message of several.
    Item(MessageRef<'a>),
    /// The end, with the result.
    Done(MessageRef<'a>),
    /// The end, with an error.
    Failed(MessageRef<'a>),
    /// The end; there is no such method.
    Unimplemented,
    /// The end; the other side was closed.
    Shutdown,
    /// The end; what came isn't of this protocol.
    Broken(&'static str),
}

/// A call under way at the other side. Dropping it cancels, before it returns.
pub trait TransportTask: Send {
    /// Goes on with it. After any step but [`Step::Item`] it isn't polled again.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step<'_>>;
}

/// A way to the other side's [`Server`], whatever lies between.
pub trait Transport: Send + Sync + 'static {
    /// Begins a call. What is wrong with it is said by the task.
    fn call(&self, object: u64, method: &str, json: &[u8], blob: &[u8]) -> Box<dyn TransportTask>;
    /// Counts an object's users up.
    fn retain(&self, object: u64);
    /// Counts an object's users down.
    fn release(&self, object: u64);
    /// Ends all work there.
    fn close(&self);
    /// Writes a line into the other side's log.
    fn log(&self, level: LogLevel, text: &str);
}

/// The tie to the other side. When the last user of it is gone, that side is
/// closed.
pub struct Link {
    name: String,
    transport: Box<dyn Transport>,
    server: Arc<Server>,
    closed: AtomicBool,
    waiting: Mutex<HashMap<u64, Waker>>,
    last_wait: AtomicU64,
}

impl Link {
    /// A tie over this transport. `server` is one's own, where objects are put
    /// that the other side is lent; `name` says in errors who is there.
    pub fn new(name: String, transport: Box<dyn Transport>, server: Arc<Server>) -> Arc<Self> {
        let link = Arc::new(Self {
            name,
            transport,
            server,
            closed: AtomicBool::new(false),
            waiting: Mutex::default(),
            last_wait: AtomicU64::new(0),
        });
        link.server.set_link(&link);
        link
    }

    /// Who is there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One's own server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The other side's object 0.
    pub fn root(self: &Arc<Self>) -> Remote {
        Remote::lent(Arc::clone(self), 0)
    }

    /// Closes the other side and one's own server: calls under way end with
    /// an error, and so does every later one.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.transport.close();
        self.server.close();
        let waiting = std::mem::take(&mut *self.waiting());
        for waker in waiting.into_values() {
            waker.wake();
        }
    }

    /// Whether it was closed from here.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Writes a line into the other side's log.
    pub fn log(&self, level: LogLevel, text: &str) {
        self.transport.log(level, text);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shut_down(&self) -> Error {
        Error::new(ErrorKind::Unavailable, "it has been shut down")
            .permanent()
            .context("plug-in", &self.name)
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, what).context("plug-in", &self.name)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// An object of the other side.
pub struct Remote {
    link: Arc<Link>,
    object: u64,
    kept: AtomicBool,
}

impl Remote {
    /// An object that was given: it is let go of when this is dropped.
    pub fn given(link: Arc<Link>, object: u64) -> Self {
        Self {
            link,
            object,
            kept: AtomicBool::new(true),
        }
    }

    /// An object that was lent.
    pub(super) fn lent(link: Arc<Link>, object: u64) -> Self {
        Self {
            link,
            object,
            kept: AtomicBool::new(false),
        }
    }

    /// Ends the time for which an object was lent: if anybody but the caller
    /// has it still, it is kept from now on.
    pub(super) fn settle(remote: Arc<Self>) {
        if Arc::strong_count(&remote) > 1 && !remote.kept.load(Ordering::Relaxed) {
            remote.link.transport.retain(remote.object);
            remote.kept.store(true, Ordering::Release);
        }
    }

    /// The tie to the other side.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Calls a method.
    pub fn call(&self, method: &'static str, arguments: &impl Serialize) -> Call {
        self.call_with(method, arguments, &[], Vec::new())
    }

    /// Calls a method with raw bytes and objects that are lent for the call.
    pub fn call_with(
        &self,
        method: &'static str,
        arguments: &impl Serialize,
        blob: &[u8],
        lent: Vec<Lent>,
    ) -> Call {
        let mut call = Call {
            state: CallState::Ended,
            method,
            wait: None,
            link: Arc::clone(&self.link),
            _lent: lent,
        };
        if self.link.is_closed() {
            call.state = CallState::Refused(self.link.shut_down());
            return call;
        }
        call.state = match Message::json(arguments) {
            Ok(message) => {
                let transport = &self.link.transport;
                CallState::Running(transport.call(self.object, method, &message.json, blob))
            }
            Err(error) => CallState::Refused(error),
        };
        call
    }

    /// Calls a method that answers at once.
    ///
    /// # Errors
    /// What the other side says; [`ErrorKind::Corrupt`] if it doesn't answer at
    /// once.
    pub fn now<T: DeserializeOwned>(
        &self,
        method: &'static str,
        arguments: &impl Serialize,
    ) -> Result<T> {
        self.call(method, arguments).now()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            self.link.transport.release(self.object);
        }
    }
}

enum CallState {
    Running(Box<dyn TransportTask>),
    Refused(Error),
    Ended,
}

/// One step of a call, as the caller sees it.
enum Outcome<T> {
    Item(T),
    Done(T),
}

/// A call of the other side. Dropping it cancels.
pub struct Call {
    // Before what is lent: that must outlive the task.
    state: CallState,
    method: &'static str,
    wait: Option<(u64, Waker)>,
    link: Arc<Link>,
    _lent: Vec<Lent>,
}

impl Call {
    fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        decode: impl FnOnce(MessageRef<'_>) -> Result<T>,
    ) -> Poll<Result<Outcome<T>>> {
        let task = match &mut self.state {
            CallState::Running(task) => task,
            CallState::Refused(_) => {
                let state = std::mem::replace(&mut self.state, CallState::Ended);
                let CallState::Refused(error) = state else {
                    unreachable!("it was refused a moment ago");
                };
                return Poll::Ready(Err(error));
            }
            CallState::Ended => {
                let error = Error::new(ErrorKind::InvalidInput, "polled after its end");
                return Poll::Ready(Err(error.operation(self.method)));
            }
        };
        let broken = |what: &str| self.link.corrupt(what).operation(self.method);
        let ready = match task.poll(context) {
            Poll::Pending => {
                return if self.wait_for_close(context) {
                    Poll::Pending
                } else {
                    self.state = CallState::Ended;
                    Poll::Ready(Err(self.link.shut_down()))
                };
            }
            Poll::Ready(step) => match step {
                Step::Item(message) => match decode(message) {
                    Ok(item) => return Poll::Ready(Ok(Outcome::Item(item))),
                    Err(error) => Err(self.attributed(error)),
                },
                Step::Done(message) => match decode(message) {
                    Ok(result) => Ok(Outcome::Done(result)),
                    Err(error) => Err(self.attributed(error)),
                },
                Step::Failed(message) => Err(message.read_error()),
                Step::Unimplemented => Err(unimplemented(&self.link, self.method)),
                Step::Shutdown => Err(self.link.shut_down()),
                Step::Broken(what) => Err(broken(what)),
            },
        };
        self.state = CallState::Ended;
        Poll::Ready(ready)
    }

    /// An error of ours about what came from the other side.
    fn attributed(&self, error: Error) -> Error {
        error
            .operation(self.method)
            .context("plug-in", &self.link.name)
    }

    /// Sees to it that the caller is woken when the link is closed. False if it
    /// is already.
    fn wait_for_close(&mut self, context: &Context<'_>) -> bool {
        let waker = context.waker();
        if let Some((_, known)) = &self.wait
            && known.will_wake(waker)
        {
            return !self.link.is_closed();
        }
        let key = match &self.wait {
            Some((key, _)) => *key,
            None => self.link.last_wait.fetch_add(1, Ordering::Relaxed),
        };
        self.wait = Some((key, waker.clone()));
        let replaced = self.link.waiting().insert(key, waker.clone());
        drop(replaced);
        // After the registration: a close that came before it woke nobody.
        !self.link.is_closed()
    }

    /// The result.
    ///
    /// # Errors
    /// What the other side says; [`ErrorKind::Corrupt`] for what can't be read.
    pub async fn reply<T: DeserializeOwned>(self) -> Result<T> {
        self.reply_with(|message| message.read()).await
    }

    /// The result, read by the caller.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub async fn reply_with<T>(
        mut self,
        decode: impl Fn(MessageRef<'_>) -> Result<T>,
    ) -> Result<T> {
        std::future::poll_fn(|context| self.poll_reply(context, &decode)).await
    }

    fn poll_reply<T>(
        &mut self,
        context: &mut Context<'_>,
        decode: impl Fn(MessageRef<'_>) -> Result<T>,
    ) -> Poll<Result<T>> {
        match std::task::ready!(self.poll_with(context, decode))? {
            Outcome::Done(result) => Poll::Ready(Ok(result)),
            Outcome::Item(_) => {
                self.state = CallState::Ended;
                let error = self.link.corrupt("several messages where one was due");
                Poll::Ready(Err(error.operation(self.method)))
            }
        }
    }

    /// The end, whatever it says.
    ///
    /// # Errors
    /// What the other side says.
    pub async fn done(self) -> Result<()> {
        self.reply_with(|_| Ok(())).await
    }

    /// The result of a method that answers at once.
    ///
    /// # Errors
    /// As [`reply`](Self::reply); [`ErrorKind::Corrupt`] if there is none yet.
    pub fn now<T: DeserializeOwned>(self) -> Result<T> {
        self.now_with(|message| message.read())
    }

    /// The end of a method that answers at once, whatever it says.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub fn done_now(self) -> Result<()> {
        self.now_with(|_| Ok(()))
    }

    fn now_with<T>(mut self, decode: impl Fn(MessageRef<'_>) -> Result<T>) -> Result<T> {
        let mut context = Context::from_waker(Waker::noop());
        match self.poll_reply(&mut context, decode) {
            Poll::Ready(result) => result,
            Poll::Pending => {
                let error = self.link.corrupt("no answer where it is due at once");
                Err(error.operation(self.method))
            }
        }
    }

    /// The next message of several; `None` at the end.
    ///
    /// # Errors
    /// As [`reply`](Self::reply). Nothing comes after an error.
    pub fn poll_item<T>(
        &mut self,
        context: &mut Context<'_>,
        decode: impl Fn(MessageRef<'_>) -> Result<T>,
    ) -> Poll<Option<Result<T>>> {
        if matches!(self.state, CallState::Ended) {
            return Poll::Ready(None);
        }
        let decode = |message: MessageRef<'_>| {
            // The end of a stream carries nothing.
            let at_end = message.json.is_empty() && message.blob.is_empty();
            (!at_end).then(|| decode(message)).transpose()
        };
        Poll::Ready(match std::task::ready!(self.poll_with(context, decode)) {
            Ok(Outcome::Item(Some(item))) => Some(Ok(item)),
            Ok(Outcome::Done(None)) => None,
            Ok(_) => {
                self.state = CallState::Ended;
                let error = self.link.corrupt("an empty item, or an end that isn't");
                Some(Err(error.operation(self.method)))
            }
            Err(error) => Some(Err(error)),
        })
    }

    /// As [`poll_item`](Self::poll_item), as a future.
    ///
    /// # Errors
    /// As [`poll_item`](Self::poll_item).
    pub async fn item<T>(
        &mut self,
        decode: impl Fn(MessageRef<'_>) -> Result<T>,
    ) -> Option<Result<T>> {
        std::future::poll_fn(|context| self.poll_item(context, &decode)).await
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // The task first, while everything it may use is there.
        self.state = CallState::Ended;
        if let Some((key, _)) = self.wait.take() {
            let waker = self.link.waiting().remove(&key);
            drop(waker);
        }
    }
}

/// The key under which an error says that the other side has no such method.
const UNIMPLEMENTED_METHOD: &str = "unimplemented method";

fn unimplemented(link: &Link, method: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "it can't do this")
        .context(UNIMPLEMENTED_METHOD, method)
        .context("plug-in", &link.name)
}

/// Whether an error says that the other side has no such method: the caller
/// goes on with the method's default.
pub fn is_unimplemented(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported && error.context_value(UNIMPLEMENTED_METHOD).is_some()
}

/// A stream of what `decode` makes of a call's messages.
pub fn items<T, D>(call: Call, decode: D) -> impl futures_core::Stream<Item = Result<T>> + Send
where
    D: Fn(MessageRef<'_>) -> Result<T> + Send + Unpin,
{
    struct Items<D> {
        call: Call,
        decode: D,
    }
    impl<T, D> futures_core::Stream for Items<D>
    where
        D: Fn(MessageRef<'_>) -> Result<T> + Unpin,
    {
        type Item = Result<T>;
        fn poll_next(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Self::Item>> {
            let this = &mut *self;
            this.call.poll_item(context, &this.decode)
        }
    }
    Items { call, decode }
}
