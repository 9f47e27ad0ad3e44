//! What the host does for a task that waits.

use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::task::AbortHandle;

use super::task::Answer;

/// What an operation comes to: its answer, or what it panicked with.
pub(super) type Outcome = Result<Answer, Box<dyn Any + Send>>;

/// An operation.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome>>>;

/// An operation under way.
pub(super) struct Running {
    work: Rc<RefCell<Option<Work>>>,
    task: AbortHandle,
}

impl Running {
    /// Goes on with an operation, and tells what it came to, unless it is ended
    /// before.
    pub(super) fn start(work: Work, tell: impl FnOnce(Outcome) + 'static) -> Self {
        let work = Rc::new(RefCell::new(Some(work)));
        let under_way = Rc::clone(&work);
        let task = tokio::task::spawn_local(async move {
            if let Some(outcome) = poll_fn(|context| poll(&under_way, context)).await {
                tell(outcome);
            }
        });
        Self {
            work,
            task: task.abort_handle(),
        }
    }

    /// Drops the operation, and whatever it holds, at once: to abort its task
    /// alone would leave a program that runs until that task's next turn, which
    /// a process that ends never gives it.
    pub(super) fn end(&self) {
        // One that ends itself, from within, is dropped with its task.
        let work = self.work.try_borrow_mut().ok().and_then(|mut w| w.take());
        drop(work);
        self.task.abort();
    }
}

fn poll(work: &RefCell<Option<Work>>, context: &mut Context<'_>) -> Poll<Option<Outcome>> {
    let mut work = work.borrow_mut();
    match work.as_mut() {
        Some(work) => work.as_mut().poll(context).map(Some),
        None => Poll::Ready(None),
    }
}
