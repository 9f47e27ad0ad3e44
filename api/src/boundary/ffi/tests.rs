//! Two sides in one process, over the tables of C functions. Small enough for
//! Miri, which sees what the tests of whole shared objects can't.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use super::*;
use crate::boundary::abi::{
    HaftEndpoint, HaftMessage, HaftPlugin, HaftPluginHead, HaftTask, HaftTaskTable, HaftText,
    HaftWaker,
};
use crate::boundary::link::{Call, Link, Remote};
use crate::boundary::message::{Message, MessageRef};
use crate::boundary::server::{Origin, Reply, Request, Served, Server, ServerStats};
use crate::error::{Error, ErrorKind, Result};

/// Wakes the thread that waits.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// Ready once another thread says so.
#[derive(Default)]
struct Signal {
    given: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn give(&self) {
        self.given.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            // Both ways of waking are called.
            waker.wake_by_ref();
            waker.wake();
        }
    }
}

impl Future for &Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        *self.waker.lock().unwrap() = Some(context.waker().clone());
        if self.given.load(Ordering::SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// What a side does in these tests, by method.
#[derive(Default)]
struct Parts {
    signal: Signal,
    dropped: AtomicUsize,
    kept: Mutex<Option<Arc<Remote>>>,
}

struct CountDrop(Arc<Parts>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

struct Count(u32);

impl futures_core::Stream for Count {
    type Item = Result<Message>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0 += 1;
        match self.0 {
            // Pending every other time, woken at once.
            n if n % 2 == 1 => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            n if n > 6 => Poll::Ready(None),
            n => Poll::Ready(Some(Message::json(&(n / 2)))),
        }
    }
}

impl Served for Parts {
    fn call(self: Arc<Self>, mut request: Request<'_>) -> Result<Reply> {
        Ok(match request.method {
            "echo" => {
                let text: String = request.read()?;
                Reply::Now(Message::with_blob(&text, request.blob().to_vec())?)
            }
            "later" => Reply::later(async move {
                let guard = CountDrop(Arc::clone(&self));
                (&guard.0.signal).await;
                Message::json(&"later")
            }),
            "count" => Reply::Stream(Box::pin(Count(0))),
            "fail" => return Err(Error::new(ErrorKind::Busy, "not now").temporary()),
            "panic" => panic!("at once"),
            "panic_later" => Reply::later(async { panic!("later") }),
            "bomb" => Reply::later(async {
                let _bomb = Bomb;
                std::future::pending::<()>().await;
                Ok(Message::empty())
            }),
            "make" => {
                let made: Arc<dyn Served> = Arc::new(Self::default());
                Reply::value(&request.giver().give(made))?
            }
            "call_back" => {
                let back = request.lent(request.read()?)?;
                let said: String = back.now("echo", &"from behind")?;
                Reply::value(&said)?
            }
            "keep" => {
                let back = request.lent(request.read()?)?;
                *self.kept.lock().unwrap() = Some(back);
                Reply::nothing()
            }
            "let_go" => {
                let kept = self.kept.lock().unwrap().take();
                let said = kept.map(|kept| kept.now::<String>("echo", &"kept"));
                Reply::value(&said.transpose()?)?
            }
            _ => Reply::Unimplemented,
        })
    }
}

/// One side's log.
type Lines = Arc<Mutex<Vec<String>>>;

fn server(parts: &Arc<Parts>, lines: &Lines) -> Arc<Server> {
    let lines = Arc::clone(lines);
    let log = Box::new(move |_, text: &str| lines.lock().unwrap().push(text.to_owned()));
    let root = Arc::clone(parts) as Arc<dyn Served>;
    Server::new(root, Origin::default(), log, Box::new(|| {}))
}

struct Sides {
    near: Arc<Link>,
    far: Arc<Link>,
    parts: Arc<Parts>,
    log: Lines,
}

fn sides() -> Sides {
    let (parts, log) = (Arc::new(Parts::default()), Lines::default());
    let near_server = server(&Arc::new(Parts::default()), &log);
    let far_server = server(&parts, &Lines::default());
    let link = |name: &str, to: &Arc<Server>, own: &Arc<Server>| {
        let transport = connect(export(Arc::clone(to))).unwrap();
        Link::new(name.to_owned(), transport, Arc::clone(own))
    };
    Sides {
        near: link("far", &far_server, &near_server),
        far: link("near", &near_server, &far_server),
        parts,
        log,
    }
}

fn call(sides: &Sides, method: &'static str) -> Call {
    sides.near.root().call(method, &())
}

#[test]
fn messages_cross() {
    let sides = sides();
    let blob = [0, 255, 7];
    let echo = sides
        .near
        .root()
        .call_with("echo", &"grüße", &blob, Vec::new());
    let read = |message: MessageRef<'_>| Ok((message.read::<String>()?, message.blob.to_vec()));
    let (text, back) = block_on(echo.reply_with(read)).unwrap();
    assert_eq!((&*text, &*back), ("grüße", &blob[..]));
    let error = block_on(call(&sides, "fail").done()).unwrap_err();
    assert_eq!(
        (error.kind(), error.is_temporary()),
        (ErrorKind::Busy, true)
    );
    let error = block_on(call(&sides, "what").done()).unwrap_err();
    assert!(crate::boundary::is_unimplemented(&error), "{error}");
    assert_eq!(sides.far.server().stats(), ServerStats::default());
}

#[test]
fn wakers_cross_threads() {
    let sides = sides();
    let parts = Arc::clone(&sides.parts);
    let waker = thread::spawn(move || {
        while parts.signal.waker.lock().unwrap().is_none() {
            thread::yield_now();
        }
        parts.signal.give();
    });
    let said: String = block_on(call(&sides, "later").reply()).unwrap();
    assert_eq!(said, "later");
    waker.join().unwrap();
    assert_eq!(sides.parts.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn a_waker_may_outlive_its_task() {
    let sides = sides();
    let mut later = std::pin::pin!(call(&sides, "later").reply::<String>());
    let mut context = Context::from_waker(Waker::noop());
    assert!(later.as_mut().poll(&mut context).is_pending());
    // Again, with another waker: the first one's clone is let go of.
    let other = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&other);
    assert!(later.as_mut().poll(&mut context).is_pending());
    drop(sides.near.root());
    let parts = Arc::clone(&sides.parts);
    drop(sides);
    parts.signal.give();
}

#[test]
fn streams_cross() {
    let sides = sides();
    let mut count = call(&sides, "count");
    let mut all = Vec::new();
    while let Some(item) = block_on(count.item(|message| message.read::<u32>())) {
        all.push(item.unwrap());
    }
    assert_eq!(all, [1, 2, 3]);
    let mut half = call(&sides, "count");
    assert!(block_on(half.item(|message| message.read::<u32>())).is_some());
    drop(half);
    assert_eq!(sides.far.server().stats(), ServerStats::default());
}

#[test]
fn dropping_cancels_at_once() {
    let sides = sides();
    let mut later = Box::pin(call(&sides, "later").reply::<String>());
    let mut context = Context::from_waker(Waker::noop());
    assert!(later.as_mut().poll(&mut context).is_pending());
    assert_eq!(sides.parts.dropped.load(Ordering::SeqCst), 0);
    drop(later);
    assert_eq!(sides.parts.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn panics_stay_on_their_side() {
    let sides = sides();
    for (method, text) in [("panic", "at once"), ("panic_later", "later")] {
        let error = block_on(call(&sides, method).done()).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(sides.log.lock().unwrap().pop().unwrap().contains(text));
    }
    let mut bomb = Box::pin(call(&sides, "bomb").done());
    let mut context = Context::from_waker(Waker::noop());
    assert!(bomb.as_mut().poll(&mut context).is_pending());
    drop(bomb);
    assert!(sides.log.lock().unwrap().pop().unwrap().contains("a bomb"));
}

#[test]
fn objects_are_given_lent_and_kept() {
    let sides = sides();
    let made: u64 = sides.near.root().now("make", &()).unwrap();
    let made = Remote::given(Arc::clone(&sides.near), made);
    assert_eq!(made.now::<String>("echo", &"x").unwrap(), "x");
    assert_eq!(sides.far.server().stats().objects, 1);
    drop(made);
    assert_eq!(sides.far.server().stats().objects, 0);

    let own = sides.near.server();
    let with = |method: &'static str| {
        let lent = own.lend(Arc::new(Parts::default()), Origin::default());
        let id = lent.id();
        sides.near.root().call_with(method, &id, &[], vec![lent])
    };
    assert_eq!(with("call_back").now::<String>().unwrap(), "from behind");
    assert_eq!(own.stats(), ServerStats::default());
    with("keep").done_now().unwrap();
    assert_eq!(own.stats().objects, 1);
    let said: Option<String> = sides.near.root().now("let_go", &()).unwrap();
    assert_eq!(said.as_deref(), Some("kept"));
    assert_eq!(own.stats(), ServerStats::default());
    let error = Remote::given(Arc::clone(&sides.near), 77).now::<()>("echo", &());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn closing_wakes_whoever_waits() {
    let sides = sides();
    let near = Arc::clone(&sides.near);
    let parts = Arc::clone(&sides.parts);
    let closer = thread::spawn(move || {
        while parts.signal.waker.lock().unwrap().is_none() {
            thread::yield_now();
        }
        near.close();
    });
    let error = block_on(call(&sides, "later").reply::<String>()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    closer.join().unwrap();
    assert_eq!(sides.parts.dropped.load(Ordering::SeqCst), 1);
    assert!(block_on(call(&sides, "echo").done()).is_err());
    // What is lent now is nobody's to call.
    let late = Arc::new(Parts::default());
    let own = sides.near.server();
    let lent = own.lend(Arc::clone(&late) as _, Origin::default());
    assert_eq!((own.stats().objects, Arc::strong_count(&late)), (0, 1));
    drop(lent);
    // The other side notices, too, even if it wasn't told by its own link.
    assert!(sides.far.root().now::<()>("echo", &()).is_err());
}

#[test]
fn many_threads_at_once() {
    let sides = Arc::new(sides());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let sides = Arc::clone(&sides);
            thread::spawn(move || {
                for _ in 0..5 {
                    let made: u64 = sides.near.root().now("make", &()).unwrap();
                    let made = Remote::given(Arc::clone(&sides.near), made);
                    assert_eq!(made.now::<String>("echo", &"x").unwrap(), "x");
                    let lent = sides
                        .near
                        .server()
                        .lend(Arc::new(Parts::default()), Origin::default());
                    let id = lent.id();
                    let root = sides.near.root();
                    let back = root.call_with("call_back", &id, &[], vec![lent]);
                    assert_eq!(block_on(back.reply::<String>()).unwrap(), "from behind");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    for link in [&sides.near, &sides.far] {
        assert_eq!(link.server().stats(), ServerStats::default());
    }
}

/// What a careless caller in C may do.
#[test]
fn nonsense_from_the_other_side_is_answered() {
    let server = server(&Arc::new(Parts::default()), &Lines::default());
    let endpoint = export(Arc::clone(&server));
    // SAFETY: a table of this side's own.
    let table = unsafe { &*endpoint.as_ptr() };
    let nowhere = HaftBytes {
        ptr: std::ptr::null(),
        len: 9,
    };
    let text = |text: &'static str| lend(text.as_bytes());
    let status = |object, method, json, blob| {
        let mut task = HaftTask {
            data: std::ptr::null_mut(),
            table: std::ptr::null(),
        };
        let mut out = HaftMessage {
            json: text(""),
            blob: text(""),
        };
        // SAFETY: everything but the nonsense is as the table wants it.
        unsafe {
            (table.call.unwrap())(table.data, object, method, json, blob, &raw mut task);
            let tasks = &*task.table;
            // A null waker is one that wakes nobody.
            let status =
                (tasks.poll.unwrap())(task.data, std::ptr::null::<HaftWaker>(), &raw mut out);
            let again = (tasks.poll.unwrap())(task.data, std::ptr::null(), &raw mut out);
            assert!(again == FAILED || again == status, "{again} after {status}");
            (tasks.drop.unwrap())(task.data);
            status
        }
    };
    use crate::boundary::abi::{DONE, FAILED, UNIMPLEMENTED};
    assert_eq!(status(0, text("echo"), text("\"x\""), text("")), DONE);
    assert_eq!(status(0, text("echo"), nowhere, text("")), FAILED);
    assert_eq!(status(0, nowhere, text(""), text("")), FAILED);
    assert_eq!(status(0, text("echo"), text("\"x\""), nowhere), FAILED);
    assert_eq!(status(9, text("echo"), text("\"x\""), text("")), FAILED);
    assert_eq!(status(0, text("x"), text(""), text("")), UNIMPLEMENTED);
    let not_utf8 = lend(b"\xff\xfe");
    assert_eq!(status(0, not_utf8, text(""), text("")), FAILED);
    let huge = HaftBytes {
        ptr: table.data.cast(),
        len: usize::MAX,
    };
    assert_eq!(status(0, text("echo"), huge, text("")), FAILED);
    // SAFETY: as above; unknown numbers are ignored, and null is no task.
    unsafe {
        (table.release.unwrap())(table.data, 1234);
        (table.retain.unwrap())(table.data, 1234);
        (table.log.unwrap())(table.data, 99, not_utf8);
        let tasks: &HaftTaskTable = &*task_table(table);
        (tasks.drop.unwrap())(std::ptr::null_mut());
    }
    assert_eq!(server.stats(), ServerStats::default());
}

/// The table of the side's tasks.
///
/// # Safety
/// The endpoint is one of this side's own.
unsafe fn task_table(table: &HaftEndpoint) -> *const HaftTaskTable {
    let mut task = HaftTask {
        data: std::ptr::null_mut(),
        table: std::ptr::null(),
    };
    let none = lend(&[]);
    // SAFETY: the caller's promise.
    unsafe {
        (table.call.unwrap())(table.data, 0, none, none, none, &raw mut task);
        ((*task.table).drop.unwrap())(task.data);
    }
    task.table
}

unsafe extern "C" fn init_refused(
    _: *const HaftEndpoint,
    host_minor: u32,
    config: HaftBytes,
    _: *mut *const HaftEndpoint,
    error: *const HaftText,
) -> i32 {
    // SAFETY: a host lends all of these.
    unsafe {
        let config = String::from_utf8_lossy(borrow(config).unwrap()).into_owned();
        let text = format!("{host_minor} {config}");
        let HaftText { data, write } = *error;
        let (first, second) = text.split_at(1);
        (write.unwrap())(data, lend(first.as_bytes()));
        (write.unwrap())(data, lend(second.as_bytes()));
    }
    5
}

#[test]
fn a_plug_in_is_started_or_says_why_not() {
    let host = export(server(&Arc::new(Parts::default()), &Lines::default()));
    let begin = |init| {
        let plugin = HaftPlugin {
            head: HaftPluginHead::of_this_crate("a test"),
            init,
        };
        // SAFETY: a plug-in that keeps to its documentation.
        unsafe { start(&raw const plugin, host, b"{}") }.map_err(|e| e.to_string())
    };
    assert_eq!(begin(Some(init_refused)).unwrap_err(), "0 {} (status: 5)");
    assert!(begin(None).unwrap_err().contains("no function"));
    // SAFETY: null is no table.
    assert!(unsafe { EndpointRef::of_other_side(std::ptr::null()) }.is_err());
}
