//! Answers whose bodies are yet to be read.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use haft_script_host::http::Answer;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

use super::raised;
use crate::worker::{Raised, Settled};

/// An answer, and its place among the skill's connections. Both are given back
/// when the body's end was read, or nobody wants it any more.
pub(super) type Body = Arc<Mutex<Option<(Answer, OwnedSemaphorePermit)>>>;

/// The unread bodies of a runtime, by number.
#[derive(Default)]
pub(super) struct Bodies {
    numbers: Cell<u64>,
    open: RefCell<HashMap<u64, Body>>,
}

impl Bodies {
    /// Room for the body of a request that is to be made.
    pub(super) fn open(&self) -> u64 {
        let number = self.numbers.get() + 1;
        self.numbers.set(number);
        self.open.borrow_mut().insert(number, Body::default());
        number
    }

    pub(super) fn get(&self, number: u64) -> Result<Body, Raised> {
        let open = self.open.borrow();
        let body = open.get(&number).cloned();
        body.ok_or_else(|| Raised::new("TypeError", "the body was let go"))
    }

    pub(super) fn remove(&self, number: u64) {
        self.open.borrow_mut().remove(&number);
    }

    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }
}

/// The next piece; `null` at the end.
pub(super) async fn piece(body: Body) -> Result<Settled, Raised> {
    let mut place = body.lock().await;
    let Some((answer, _)) = place.as_mut() else {
        return Ok(Settled::Json("null".to_owned()));
    };
    let piece = answer.piece().await;
    if !matches!(piece, Ok(Some(_))) {
        *place = None;
    }
    match piece.map_err(raised)? {
        Some(bytes) => Ok(Settled::JsonAndBytes("null".to_owned(), bytes)),
        None => Ok(Settled::Json("null".to_owned())),
    }
}

/// All that is left of it.
pub(super) async fn whole(body: Body, most: usize) -> Result<Settled, Raised> {
    let taken = body.lock().await.take();
    let bytes = match taken {
        Some((answer, _permit)) => answer.whole(most).await.map_err(raised)?,
        None => Vec::new(),
    };
    Ok(Settled::JsonAndBytes("null".to_owned(), bytes))
}
