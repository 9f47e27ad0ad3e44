//! A gate that holds code up until a test lets it go.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy)]
struct State {
    open: bool,
    arrived: usize,
}

/// Holds whoever comes to it until a test opens it, and tells the test when
/// somebody has come. Clones are the same gate.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use haft_testkit::Gate;
///
/// let gate = Gate::new();
/// let at_gate = gate.clone();
/// let task = tokio::spawn(async move { at_gate.pass().await });
/// gate.reached(1).await;
/// assert!(!task.is_finished());
/// gate.open();
/// task.await.unwrap();
/// # }
/// ```
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<State>>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        let closed = State {
            open: false,
            arrived: 0,
        };
        Self(Arc::new(watch::Sender::new(closed)))
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.send_modify(|state| state.open = true);
    }

    /// Holds everybody who comes from now on.
    pub fn close(&self) {
        self.0.send_modify(|state| state.open = false);
    }

    /// How many have come so far, held or not.
    pub fn arrivals(&self) -> usize {
        self.0.borrow().arrived
    }

    /// Comes to the gate and waits until it is open.
    pub async fn pass(&self) {
        self.0.send_modify(|state| state.arrived += 1);
        self.wait(|state| state.open).await;
    }

    /// Waits until so many have come.
    pub async fn reached(&self, arrivals: usize) {
        self.wait(|state| state.arrived >= arrivals).await;
    }

    async fn wait(&self, until: impl Fn(&State) -> bool) {
        let mut states = self.0.subscribe();
        // Can't fail: the sender lives as long as `self`.
        states.wait_for(|state| until(state)).await.ok();
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { open, arrived } = *self.0.borrow();
        f.debug_struct("Gate")
            .field("open", &open)
            .field("arrived", &arrived)
            .finish()
    }
}
