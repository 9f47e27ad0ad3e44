//! Wakers, in both directions.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Wake, Waker};

use crate::boundary::abi::{HaftWaker, HaftWakerTable, WakerCall};

/// The table of this side's wakers. Their data is a pointer to a [`Waker`]:
/// one on the stack of whoever polls, or a clone of its own in a box.
static TABLE: HaftWakerTable = HaftWakerTable {
    size: size_of::<HaftWakerTable>(),
    clone: Some(clone_own),
    wake: Some(wake_own),
    drop: Some(drop_own),
};

/// Lends a waker to the other side for one call of `poll`.
pub(super) fn lend(waker: &Waker) -> HaftWaker {
    HaftWaker {
        data: std::ptr::from_ref(waker).cast(),
        table: &raw const TABLE,
    }
}

unsafe extern "C" fn clone_own(data: *const c_void) -> *const c_void {
    let clone = || {
        // SAFETY: `data` came from `lend`, whose waker is borrowed during
        // `poll`, or from here and wasn't dropped: the other side's promise.
        let waker = unsafe { &*data.cast::<Waker>() };
        Box::into_raw(Box::new(waker.clone())).cast_const().cast()
    };
    let cloned: std::thread::Result<*const c_void> = catch_unwind(AssertUnwindSafe(clone));
    cloned.unwrap_or_else(|panic| {
        std::mem::forget(panic);
        // The one that wakes nobody: an executor whose clone panics is lost.
        Box::into_raw(Box::new(Waker::noop().clone()))
            .cast_const()
            .cast()
    })
}

unsafe extern "C" fn wake_own(data: *const c_void) {
    let wake = || {
        // SAFETY: as in `clone_own`.
        unsafe { &*data.cast::<Waker>() }.wake_by_ref();
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(wake)) {
        std::mem::forget(panic);
    }
}

unsafe extern "C" fn drop_own(data: *const c_void) {
    let dropped = || {
        // SAFETY: only clones are dropped, each once (the other side's
        // promise), and `clone_own` made them as boxes.
        drop(unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) });
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(dropped)) {
        std::mem::forget(panic);
    }
}

/// A clone of the other side's waker.
struct Foreign {
    data: *const c_void,
    wake: WakerCall,
    drop: WakerCall,
}

// SAFETY: the ABI lets wakers be used from any thread, at the same time.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SAFETY: `data` is a clone that isn't dropped before `self` is.
        unsafe { (self.wake)(self.data) }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: `data` is a clone, and this is the only place that drops it.
        unsafe { (self.drop)(self.data) }
    }
}

/// What the data of [`BORROWED`] point to.
type Lent = HaftWaker;

static BORROWED: RawWakerVTable = RawWakerVTable::new(clone_lent, wake_lent, wake_lent, |_| {});

/// # Safety
/// `data` points to a [`Lent`] that is valid now, and so is what it names.
unsafe fn clone_lent(data: *const ()) -> RawWaker {
    // SAFETY: the caller's promise; the table lives for ever.
    let lent = unsafe { &*data.cast::<Lent>() };
    // SAFETY: `with_foreign` checked that it isn't null.
    let table = unsafe { &*lent.table };
    let waker = match (table.clone, table.wake, table.drop) {
        (Some(clone), Some(wake), Some(drop)) => {
            // SAFETY: the waker is lent for as long as `poll` runs, as this does.
            let data = unsafe { clone(lent.data) };
            Waker::from(Arc::new(Foreign { data, wake, drop }))
        }
        _ => Waker::noop().clone(),
    };
    let waker = ManuallyDrop::new(waker);
    RawWaker::new(waker.data(), waker.vtable())
}

/// # Safety
/// As [`clone_lent`].
unsafe fn wake_lent(data: *const ()) {
    // SAFETY: as in `clone_lent`.
    let lent = unsafe { &*data.cast::<Lent>() };
    // SAFETY: as in `clone_lent`.
    if let Some(wake) = unsafe { &*lent.table }.wake {
        // SAFETY: as in `clone_lent`.
        unsafe { wake(lent.data) }
    }
}

/// Runs `poll` with the other side's waker.
///
/// # Safety
/// `waker` is null or points to a waker that is lent for the whole call.
pub(super) unsafe fn with_foreign<T>(waker: *const HaftWaker, poll: impl FnOnce(&Waker) -> T) -> T {
    // SAFETY: the caller's promise.
    let lent = unsafe { waker.as_ref() };
    // SAFETY: tables live for ever; only the size may be read before it is known.
    let usable = lent.is_some_and(|lent| {
        !lent.table.is_null()
            && unsafe { (&raw const (*lent.table).size).read() } >= size_of::<HaftWakerTable>()
    });
    let (Some(lent), true) = (lent, usable) else {
        return poll(Waker::noop());
    };
    let raw = RawWaker::new(std::ptr::from_ref(lent).cast(), &BORROWED);
    // SAFETY: the functions of `BORROWED` keep to the contract of `RawWaker`:
    // what they need is lent for as long as this waker lives (it is dropped
    // here, and clones are independent), and may be used from any thread.
    let waker = unsafe { Waker::from_raw(raw) };
    poll(&waker)
}
