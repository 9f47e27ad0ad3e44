//! The serving half of a side: the objects that the other side may call.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::link::{Link, Remote};
use super::message::{Message, MessageRef};
use super::task::ServedTask;
use crate::error::{Error, ErrorKind, Result};
use crate::id::ExtensionId;

/// How grave a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something isn't as it should be.
    Warn = 2,
    /// Good to know.
    Info = 3,
    /// For whoever looks for a fault.
    Debug = 4,
}

impl LogLevel {
    /// The level of that number; an unknown one is taken as the least grave.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Error,
            2 => Self::Warn,
            3 => Self::Info,
            _ => Self::Debug,
        }
    }
}

/// Takes the lines of a log.
pub type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Prepares a thread for code that expects to run somewhere in particular, such
/// as within an async runtime.
pub trait Enter: Send + Sync + 'static {
    /// Calls `run`, once, on this thread.
    fn enter(&self, run: &mut dyn FnMut());
}

/// A future of a message.
pub type MessageFuture = Pin<Box<dyn Future<Output = Result<Message>> + Send>>;
/// A stream of messages; an error ends it.
pub type MessageStream = Pin<Box<dyn Stream<Item = Result<Message>> + Send>>;

/// What a call of an object became.
pub enum Reply {
    /// Its result is there.
    Now(Message),
    /// Its result will be.
    Later(MessageFuture),
    /// Several messages.
    Stream(MessageStream),
    /// There is no such method.
    Unimplemented,
}

impl Reply {
    /// Nothing, at once.
    pub fn nothing() -> Self {
        Self::Now(Message::empty())
    }

    /// A value, at once.
    ///
    /// # Errors
    /// If it can't be written as JSON.
    pub fn value(value: &impl serde::Serialize) -> Result<Self> {
        Message::json(value).map(Self::Now)
    }

    /// A future.
    pub fn later(future: impl Future<Output = Result<Message>> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }
}

/// Something that the other side may call.
pub trait Served: Send + Sync + 'static {
    /// Reads a request, at once and completely, and begins with it. Work that
    /// may take time belongs into the reply's future.
    ///
    /// # Errors
    /// What failed at once; the caller can't tell it from a later failure.
    fn call(self: Arc<Self>, request: Request<'_>) -> Result<Reply>;
}

/// A call as it came in.
pub struct Request<'a> {
    /// What is asked for.
    pub method: &'a str,
    pub(super) message: MessageRef<'a>,
    pub(super) server: &'a Arc<Server>,
    pub(super) origin: &'a Origin,
    pub(super) lent: &'a mut Vec<Arc<Remote>>,
}

impl Request<'_> {
    /// Reads the arguments.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they aren't what they must be.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        self.message.read()
    }

    /// The raw bytes beside the arguments.
    pub fn blob(&self) -> &[u8] {
        self.message.blob
    }

    /// How many bytes came.
    pub fn size(&self) -> usize {
        self.message.json.len() + self.message.blob.len()
    }

    /// An object of the other side, named in the arguments. It may be kept
    /// beyond the call; that is seen to.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the other side is gone.
    pub fn lent(&mut self, object: u64) -> Result<Arc<Remote>> {
        let link = self.server.link().ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                "nobody is there to be called back any more",
            )
            .permanent()
        })?;
        let remote = Arc::new(Remote::lent(link, object));
        self.lent.push(Arc::clone(&remote));
        Ok(remote)
    }

    /// A way to hand out objects in the result, also later on.
    pub fn giver(&self) -> Giver {
        Giver {
            server: Arc::clone(self.server),
            origin: self.origin.clone(),
        }
    }
}

/// Where an object comes from; what it makes comes from there as well.
#[derive(Clone, Default)]
pub struct Origin {
    /// The extension that brought it, to be named when it panics.
    pub owner: Option<ExtensionId>,
    /// What has to be entered before its code runs.
    pub enter: Option<Arc<dyn Enter>>,
}

/// Hands objects out to the other side, as parts of a result.
#[derive(Clone)]
pub struct Giver {
    server: Arc<Server>,
    origin: Origin,
}

impl Giver {
    /// Puts an object where the other side can call it, until that lets go of it.
    pub fn give(&self, object: Arc<dyn Served>) -> u64 {
        self.server.insert(object, self.origin.clone())
    }

    /// The same for objects of that extension.
    #[must_use]
    pub fn owned_by(&self, owner: ExtensionId) -> Self {
        Self {
            server: Arc::clone(&self.server),
            origin: Origin {
                owner: Some(owner),
                enter: self.origin.enter.clone(),
            },
        }
    }
}

struct Entry {
    object: Arc<dyn Served>,
    users: u64,
    origin: Origin,
}

/// The number of the object that is there from the beginning.
const ROOT: u64 = 0;

/// The objects of one side, by number. Number 0 is there from the beginning
/// until the server is closed.
pub struct Server {
    objects: Mutex<Objects>,
    link: OnceLock<Weak<Link>>,
    closed: AtomicBool,
    tasks: AtomicUsize,
    log: Log,
    on_close: Box<dyn Fn() + Send + Sync>,
}

struct Objects {
    entries: HashMap<u64, Entry>,
    last: u64,
}

/// How much a server holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServerStats {
    /// Objects that the other side may still call, without number 0.
    pub objects: usize,
    /// Tasks that the other side hasn't let go of.
    pub tasks: usize,
}

impl Server {
    /// A server with this object 0. `on_close` is called once, when the other
    /// side closes it.
    pub fn new(
        root: Arc<dyn Served>,
        origin: Origin,
        log: Log,
        on_close: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        let root = Entry {
            object: root,
            users: 1,
            origin,
        };
        let objects = Objects {
            entries: HashMap::from([(ROOT, root)]),
            last: ROOT,
        };
        Arc::new(Self {
            objects: Mutex::new(objects),
            link: OnceLock::new(),
            closed: AtomicBool::new(false),
            tasks: AtomicUsize::new(0),
            log,
            on_close,
        })
    }

    /// Says whom to call back. Only the first one counts.
    pub fn set_link(&self, link: &Arc<Link>) {
        self.link.get_or_init(|| Arc::downgrade(link));
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.link.get().and_then(Weak::upgrade)
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call. Never fails: what is wrong with it is said by the task.
    pub fn call(
        self: &Arc<Self>,
        object: u64,
        method: &str,
        json: &[u8],
        blob: &[u8],
    ) -> ServedTask {
        if self.is_closed() {
            return ServedTask::shutdown(Arc::clone(self));
        }
        let found = {
            let objects = self.objects();
            let entry = objects.entries.get(&object);
            entry.map(|entry| (Arc::clone(&entry.object), entry.origin.clone()))
        };
        match found {
            Some((target, origin)) => {
                let message = MessageRef { json, blob };
                ServedTask::begin(Arc::clone(self), target, origin, method, message)
            }
            None => ServedTask::failed(
                Arc::clone(self),
                &Error::new(ErrorKind::NotFound, "there is no such object")
                    .context("object", object)
                    .context("method", method),
            ),
        }
    }

    /// Counts an object's users up. Unknown ones are ignored.
    pub fn retain(&self, object: u64) {
        if object == ROOT {
            return;
        }
        if let Some(entry) = self.objects().entries.get_mut(&object) {
            entry.users = entry.users.saturating_add(1);
        }
    }

    /// Counts an object's users down, and lets go of it at zero. Unknown ones
    /// are ignored.
    pub fn release(&self, object: u64) {
        if object == ROOT {
            return;
        }
        let gone = {
            let mut objects = self.objects();
            let Some(entry) = objects.entries.get_mut(&object) else {
                return;
            };
            entry.users -= 1;
            if entry.users > 0 {
                return;
            }
            objects.entries.remove(&object)
        };
        // Outside of the lock: what it drops may call here again.
        self.drop_entries(gone);
    }

    /// Puts an object where the other side can call it. Once the server is
    /// closed nobody can, and the object is dropped.
    pub(crate) fn insert(&self, object: Arc<dyn Served>, origin: Origin) -> u64 {
        let entry = Entry {
            object,
            users: 1,
            origin,
        };
        let mut objects = self.objects();
        objects.last += 1;
        let id = objects.last;
        // Under the lock, so that closing either sees the object or is seen.
        if self.is_closed() {
            drop(objects);
            self.drop_entries([entry]);
        } else {
            objects.entries.insert(id, entry);
        }
        id
    }

    /// Lends an object to the other side for as long as the guard lives; the
    /// other side may keep it for longer.
    pub fn lend(self: &Arc<Self>, object: Arc<dyn Served>, origin: Origin) -> Lent {
        Lent {
            id: self.insert(object, origin),
            server: Arc::clone(self),
        }
    }

    /// Ends all work: objects are dropped, and every later call and poll is
    /// answered with "shutdown".
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let entries = std::mem::take(&mut self.objects().entries);
        self.drop_entries(entries.into_values());
        (self.on_close)();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Writes a line into this side's log.
    pub fn log(&self, level: LogLevel, text: &str) {
        (self.log)(level, text);
    }

    /// How much is held at this moment.
    pub fn stats(&self) -> ServerStats {
        ServerStats {
            objects: {
                let entries = &self.objects().entries;
                entries.len() - usize::from(entries.contains_key(&ROOT))
            },
            tasks: self.tasks.load(Ordering::Relaxed),
        }
    }

    pub(super) fn count_task(&self, change: isize) {
        self.tasks
            .fetch_add(change.cast_unsigned(), Ordering::Relaxed);
    }

    /// Tells whoever can do something about it that code of an extension
    /// panicked: the other side, which called it.
    pub(super) fn report_panic(&self, error: &Error) {
        match self.link() {
            Some(link) => link.log(LogLevel::Error, &error.to_string()),
            None => self.log(LogLevel::Error, &error.to_string()),
        }
    }

    fn drop_entries(&self, entries: impl IntoIterator<Item = Entry>) {
        for Entry { object, origin, .. } in entries {
            let mut object = Some(object);
            if let Err(error) = super::task::shielded(&origin, "drop", || drop(object.take())) {
                self.report_panic(&error);
            }
        }
    }
}

/// An object that is lent to the other side.
pub struct Lent {
    id: u64,
    server: Arc<Server>,
}

impl Lent {
    /// The object's number, to be named in a request.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.server.release(self.id);
    }
}
