//! The other side's table, as a transport.

use std::ffi::c_void;
use std::task::{Context, Poll};

use super::{borrow, lend, waker};
use crate::boundary::abi::{
    DONE, EndpointCall, EndpointClose, EndpointCount, EndpointLog, FAILED, HaftBytes, HaftEndpoint,
    HaftMessage, HaftTask, HaftTaskTable, ITEM, PENDING, SHUTDOWN, TaskDrop, TaskPoll,
    UNIMPLEMENTED,
};
use crate::boundary::link::{Step, Transport, TransportTask};
use crate::boundary::message::MessageRef;
use crate::boundary::server::LogLevel;
use crate::error::{Error, ErrorKind, Result};

/// A table of either side. It lives for ever.
#[derive(Debug, Clone, Copy)]
pub struct EndpointRef(&'static HaftEndpoint);

// SAFETY: the ABI lets endpoints be used from any thread, at the same time.
unsafe impl Send for EndpointRef {}
// SAFETY: as above.
unsafe impl Sync for EndpointRef {}

impl EndpointRef {
    pub(super) fn of_this_side(endpoint: &'static HaftEndpoint) -> Self {
        Self(endpoint)
    }

    /// The table that the other side offers.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if there is none, or it is too small.
    ///
    /// # Safety
    /// `endpoint` is null, or points to a table that lives for ever, is never
    /// changed, and is at least as large as its `size` says.
    pub(super) unsafe fn of_other_side(endpoint: *const HaftEndpoint) -> Result<Self> {
        let refuse = |what: &str| Err(Error::new(ErrorKind::Corrupt, what));
        if endpoint.is_null() {
            return refuse("the other side offers no endpoint");
        }
        if !endpoint.is_aligned() {
            return refuse("the other side's endpoint is misplaced");
        }
        // SAFETY: the size is there in every version; the rest isn't touched yet.
        let size = unsafe { (&raw const (*endpoint).size).read() };
        if size < size_of::<HaftEndpoint>() {
            return refuse("the other side's endpoint is too small");
        }
        // SAFETY: large enough, and for ever: the caller's promise.
        Ok(Self(unsafe { &*endpoint }))
    }

    pub(super) fn as_ptr(self) -> *const HaftEndpoint {
        self.0
    }
}

struct Table {
    data: *mut c_void,
    call: EndpointCall,
    retain: EndpointCount,
    release: EndpointCount,
    close: EndpointClose,
    log: EndpointLog,
}

// SAFETY: the ABI lets endpoints be used from any thread, at the same time.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// A transport to the side that offers this table.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the table has gaps.
pub fn connect(endpoint: EndpointRef) -> Result<Box<dyn Transport>> {
    let table = endpoint.0;
    let gap = || Error::new(ErrorKind::Corrupt, "the other side's endpoint has gaps");
    Ok(Box::new(Table {
        data: table.data,
        call: table.call.ok_or_else(gap)?,
        retain: table.retain.ok_or_else(gap)?,
        release: table.release.ok_or_else(gap)?,
        close: table.close.ok_or_else(gap)?,
        log: table.log.ok_or_else(gap)?,
    }))
}

impl Transport for Table {
    fn call(&self, object: u64, method: &str, json: &[u8], blob: &[u8]) -> Box<dyn TransportTask> {
        let mut task = HaftTask {
            data: std::ptr::null_mut(),
            table: std::ptr::null(),
        };
        let (method, json, blob) = (lend(method.as_bytes()), lend(json), lend(blob));
        // SAFETY: the function belongs to this `data`; all bytes and the place
        // for the task are there until it returns.
        unsafe { (self.call)(self.data, object, method, json, blob, &raw mut task) }
        // SAFETY: what the other side filled in is null or a task of its own.
        match unsafe { Task::new(task) } {
            Some(task) => Box::new(task),
            None => Box::new(NoTask),
        }
    }

    fn retain(&self, object: u64) {
        // SAFETY: the function belongs to this `data`.
        unsafe { (self.retain)(self.data, object) }
    }

    fn release(&self, object: u64) {
        // SAFETY: the function belongs to this `data`.
        unsafe { (self.release)(self.data, object) }
    }

    fn close(&self) {
        // SAFETY: the function belongs to this `data`.
        unsafe { (self.close)(self.data) }
    }

    fn log(&self, level: LogLevel, text: &str) {
        // SAFETY: the function belongs to this `data`; the text is there until
        // it returns.
        unsafe { (self.log)(self.data, level as u32, lend(text.as_bytes())) }
    }
}

/// What a call becomes that the other side made no task of.
struct NoTask;

impl TransportTask for NoTask {
    fn poll(&mut self, _: &mut Context<'_>) -> Poll<Step<'_>> {
        Poll::Ready(Step::Broken("the call became no task"))
    }
}

/// A task of the other side.
struct Task {
    data: *mut c_void,
    poll: TaskPoll,
    drop: TaskDrop,
}

// SAFETY: the ABI lets a task move between threads; `&mut self` sees to it that
// one at a time uses it.
unsafe impl Send for Task {}

impl Task {
    /// # Safety
    /// The table is null, or lives for ever and is at least as large as its
    /// `size` says.
    unsafe fn new(task: HaftTask) -> Option<Self> {
        if task.table.is_null() || !task.table.is_aligned() {
            return None;
        }
        // SAFETY: the size is there in every version.
        if unsafe { (&raw const (*task.table).size).read() } < size_of::<HaftTaskTable>() {
            return None;
        }
        // SAFETY: large enough, and for ever: the caller's promise.
        let table = unsafe { &*task.table };
        Some(Self {
            data: task.data,
            poll: table.poll?,
            drop: table.drop?,
        })
    }
}

impl TransportTask for Task {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step<'_>> {
        const NO_BYTES: HaftBytes = HaftBytes {
            ptr: std::ptr::null(),
            len: 0,
        };
        let mut out = HaftMessage {
            json: NO_BYTES,
            blob: NO_BYTES,
        };
        let waker = waker::lend(context.waker());
        // SAFETY: the function belongs to this `data`, which isn't dropped
        // before `self` is; waker and place are there until it returns.
        let status = unsafe { (self.poll)(self.data, &raw const waker, &raw mut out) };
        if status == PENDING {
            return Poll::Pending;
        }
        // SAFETY: these bytes belong to the task and stay until its next `poll`
        // or `drop`, both of which need `self` mutably, and the result borrows it.
        let (json, blob) = unsafe { (borrow(out.json), borrow(out.blob)) };
        let (Some(json), Some(blob)) = (json, blob) else {
            return Poll::Ready(Step::Broken("a message of bytes that aren't there"));
        };
        let message = MessageRef { json, blob };
        Poll::Ready(match status {
            ITEM => Step::Item(message),
            DONE => Step::Done(message),
            FAILED => Step::Failed(message),
            UNIMPLEMENTED => Step::Unimplemented,
            SHUTDOWN => Step::Shutdown,
            _ => Step::Broken("a task said something unknown of itself"),
        })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: the function belongs to this `data`, and this is the only
        // place that drops it.
        unsafe { (self.drop)(self.data) }
    }
}
