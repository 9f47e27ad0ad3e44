//! A server of this side, as a table for the other one.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use super::import::EndpointRef;
use super::{borrow, lend, waker};
use crate::boundary::abi::{
    DONE, FAILED, HaftBytes, HaftEndpoint, HaftMessage, HaftTask, HaftTaskTable, HaftWaker, ITEM,
    PENDING, SHUTDOWN, UNIMPLEMENTED,
};
use crate::boundary::link::Step;
use crate::boundary::message::MessageRef;
use crate::boundary::server::{LogLevel, Server};
use crate::boundary::task::ServedTask;
use crate::error::{Error, ErrorKind};

/// Makes a server callable for the other side, for ever: its memory is never
/// freed, because nobody can know when the other side calls for the last time.
pub fn export(server: Arc<Server>) -> EndpointRef {
    let data: &'static Arc<Server> = Box::leak(Box::new(server));
    EndpointRef::of_this_side(Box::leak(Box::new(HaftEndpoint {
        size: size_of::<HaftEndpoint>(),
        data: std::ptr::from_ref(data).cast_mut().cast(),
        call: Some(call),
        retain: Some(retain),
        release: Some(release),
        close: Some(close),
        log: Some(log),
    })))
}

/// The server behind the `data` of a table.
///
/// # Safety
/// `data` is that of a table made by [`export`].
unsafe fn server<'a>(data: *mut c_void) -> &'a Arc<Server> {
    // SAFETY: `export` leaked it, so it lives for ever, and never lends it
    // mutably.
    unsafe { &*data.cast_const().cast::<Arc<Server>>() }
}

/// Runs what mustn't unwind into the other side.
fn contained<T>(fallback: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        // Dropping what was thrown could throw again.
        std::mem::forget(panic);
        fallback
    })
}

unsafe extern "C" fn call(
    data: *mut c_void,
    object: u64,
    method: HaftBytes,
    json: HaftBytes,
    blob: HaftBytes,
    out: *mut HaftTask,
) {
    let nothing = HaftTask {
        data: std::ptr::null_mut(),
        table: &raw const TASK_TABLE,
    };
    let task = contained(nothing, || {
        // SAFETY: `data` is what the table says.
        let server = unsafe { server(data) };
        // SAFETY: the caller lends all three for the duration of this call.
        let (method, json, blob) = unsafe { (borrow(method), borrow(json), borrow(blob)) };
        let method = method.and_then(|method| std::str::from_utf8(method).ok());
        let task = match (method, json, blob) {
            (Some(method), Some(json), Some(blob)) => server.call(object, method, json, blob),
            _ => {
                let error = Error::new(ErrorKind::Corrupt, "a call of bytes that aren't there");
                ServedTask::failed(Arc::clone(server), &error)
            }
        };
        HaftTask {
            data: Box::into_raw(Box::new(task)).cast(),
            table: &raw const TASK_TABLE,
        }
    });
    // SAFETY: the caller has a place for it.
    unsafe { out.write(task) }
}

unsafe extern "C" fn retain(data: *mut c_void, object: u64) {
    // SAFETY: `data` is what the table says.
    contained((), || unsafe { server(data) }.retain(object));
}

unsafe extern "C" fn release(data: *mut c_void, object: u64) {
    // SAFETY: `data` is what the table says.
    contained((), || unsafe { server(data) }.release(object));
}

unsafe extern "C" fn close(data: *mut c_void) {
    // SAFETY: `data` is what the table says.
    contained((), || unsafe { server(data) }.close());
}

unsafe extern "C" fn log(data: *mut c_void, level: u32, text: HaftBytes) {
    contained((), || {
        // SAFETY: the caller lends the text for the duration of this call.
        let text = unsafe { borrow(text) }.unwrap_or_default();
        // SAFETY: `data` is what the table says.
        let server = unsafe { server(data) };
        server.log(LogLevel::from_number(level), &String::from_utf8_lossy(text));
    });
}

/// The table of this side's tasks. Their data is a boxed [`ServedTask`], or
/// null for one that couldn't be made.
static TASK_TABLE: HaftTaskTable = HaftTaskTable {
    size: size_of::<HaftTaskTable>(),
    poll: Some(poll_task),
    drop: Some(drop_task),
};

unsafe extern "C" fn poll_task(
    data: *mut c_void,
    waker: *const HaftWaker,
    out: *mut HaftMessage,
) -> i32 {
    let failed = (
        FAILED,
        MessageRef {
            json: &[],
            blob: &[],
        },
    );
    // SAFETY: null, or a box that `call` made and `drop_task` hasn't seen yet;
    // one thread at a time uses it: the caller's promise.
    let task = unsafe { data.cast::<ServedTask>().as_mut() };
    let (status, message) = contained(failed, || {
        let Some(task) = task else { return failed };
        // SAFETY: the caller lends the waker for the duration of this call.
        let step = unsafe {
            waker::with_foreign(waker, |waker| task.poll(&mut Context::from_waker(waker)))
        };
        let nothing = failed.1;
        match step {
            Poll::Pending => (PENDING, nothing),
            Poll::Ready(Step::Item(message)) => (ITEM, message),
            Poll::Ready(Step::Done(message)) => (DONE, message),
            Poll::Ready(Step::Failed(message)) => (FAILED, message),
            Poll::Ready(Step::Unimplemented) => (UNIMPLEMENTED, nothing),
            Poll::Ready(Step::Shutdown) => (SHUTDOWN, nothing),
            Poll::Ready(Step::Broken(_)) => failed,
        }
    });
    // SAFETY: the caller has a place for it. What it points to belongs to the
    // task and stays until its next `poll` or `drop`.
    unsafe {
        out.write(HaftMessage {
            json: lend(message.json),
            blob: lend(message.blob),
        });
    }
    status
}

unsafe extern "C" fn drop_task(data: *mut c_void) {
    contained((), || {
        if !data.is_null() {
            // SAFETY: a box that `call` made; the caller drops it once.
            drop(unsafe { Box::from_raw(data.cast::<ServedTask>()) });
        }
    });
}
