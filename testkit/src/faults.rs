//! Faults that a test puts into a double's operations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::poll;
use haft_api::{Error, ErrorData, Result};
use tokio::sync::watch;

use crate::crash::{CrashMoment, Fate, Life, crashed};
use crate::gate::Gate;
use crate::lock::lock;

/// What happens to one run of an operation besides, or instead of, what the
/// operation does.
#[derive(Debug, Clone)]
enum Fault {
    Delay(Duration),
    Hold(Gate),
    Stall,
    Fail(ErrorData),
    FailAfter(ErrorData),
    Panic(String),
}

/// Which runs of an operation a fault befalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Nth(usize),
    Every,
}

#[derive(Debug)]
struct Plan<Op> {
    started: watch::Sender<BTreeMap<Op, usize>>,
    faults: Mutex<Vec<(Op, Runs, Fault)>>,
    life: Life,
}

/// Counts a double's operations and lets a test make them slow, fail, hang or
/// panic. `Op` names the operations. Clones control the same double.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use haft_api::{Error, ErrorKind};
/// use haft_testkit::Faults;
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
/// enum Op {
///     Ping,
/// }
///
/// let faults = Faults::new();
/// faults.on(Op::Ping).nth(1).fail(Error::new(ErrorKind::Unavailable, "unplugged"));
/// assert!(faults.run(Op::Ping, async { Ok("pong") }).await.is_ok());
/// assert!(faults.run(Op::Ping, async { Ok("pong") }).await.is_err());
/// assert!(faults.run(Op::Ping, async { Ok("pong") }).await.is_ok());
/// assert_eq!(faults.on(Op::Ping).count(), 3);
/// # }
/// ```
pub struct Faults<Op>(Arc<Plan<Op>>);

impl<Op: Copy + Ord> Faults<Op> {
    /// No faults.
    pub fn new() -> Self {
        Self(Arc::new(Plan {
            started: watch::Sender::new(BTreeMap::new()),
            faults: Mutex::new(Vec::new()),
            life: Life::default(),
        }))
    }

    /// The operation to look at or to put a fault into.
    pub fn on(&self, operation: Op) -> Operation<'_, Op> {
        Operation {
            faults: self,
            operation,
        }
    }

    /// Ends the process, as far as the double is concerned, in the run of this
    /// number, the first of all operations' being 0: that run and all that are
    /// begun later fail, permanently. What is under way goes on. The locks and
    /// leases that the system takes from a dead process are let go of by dropping
    /// what holds them.
    pub fn crash_at(&self, number: usize, moment: CrashMoment) {
        self.0.life.end_at(number, moment);
    }

    /// Whether it has ended.
    pub fn is_crashed(&self) -> bool {
        self.0.life.is_over()
    }

    /// How many runs were begun of all operations, up to the end.
    pub fn total(&self) -> usize {
        self.0.life.begun()
    }

    /// Takes back every fault that was put in. Who is held at a gate or hangs
    /// goes on doing so.
    pub fn clear(&self) {
        lock(&self.0.faults).clear();
    }

    /// Runs an operation with the faults that are meant for this run. Delays
    /// and gates come first, in the order they were put in, then the failure.
    ///
    /// # Errors
    /// The operation's own error, or the one that was put in;
    /// [`ErrorKind::Unavailable`](haft_api::ErrorKind::Unavailable), permanently,
    /// from a [crash](Self::crash_at) on.
    ///
    /// # Panics
    /// If a panic was put in.
    pub async fn run<T>(
        &self,
        operation: Op,
        run: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.begin(operation).run(run).await
    }

    /// Runs a part of an operation that has a name of its own.
    pub(crate) async fn run_within<T>(
        &self,
        operation: Op,
        run: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let part = Run {
            fate: Fate::Lives,
            faults: self.start(operation),
        };
        part.run(run).await
    }

    /// Begins a run whose operation is made of what befalls it.
    pub(crate) fn begin(&self, operation: Op) -> Run {
        match self.0.life.begin() {
            Fate::Lives => Run {
                fate: Fate::Lives,
                faults: self.start(operation),
            },
            fate => Run {
                fate,
                faults: Vec::new(),
            },
        }
    }

    /// Counts a run and says what befalls it.
    fn start(&self, operation: Op) -> Vec<Fault> {
        let mut index = 0;
        self.0.started.send_modify(|counts| {
            let count = counts.entry(operation).or_default();
            index = *count;
            *count += 1;
        });
        lock(&self.0.faults)
            .iter()
            .filter(|(op, runs, _)| {
                *op == operation && (*runs == Runs::Every || *runs == Runs::Nth(index))
            })
            .map(|(_, _, fault)| fault.clone())
            .collect()
    }
}

/// A run that was begun.
pub(crate) struct Run {
    fate: Fate,
    faults: Vec<Fault>,
}

impl Run {
    /// Whether only a part is to be written of what the operation writes.
    pub(crate) fn is_torn(&self) -> bool {
        self.fate == Fate::Ends(CrashMoment::Torn)
    }

    /// Runs the operation; of one that is torn, its first part.
    pub(crate) async fn run_part<T>(
        self,
        run: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let fate = match self.fate {
            Fate::Ends(CrashMoment::Torn) => Fate::Ends(CrashMoment::After),
            fate => fate,
        };
        Self { fate, ..self }.run(run).await
    }

    async fn run<T>(self, run: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match self.fate {
            Fate::Lives => {}
            Fate::Ends(CrashMoment::Within) => {
                let mut run = std::pin::pin!(run);
                // Whatever it says, nobody hears of it.
                let _ = poll!(run.as_mut());
                return Err(crashed());
            }
            Fate::Ends(CrashMoment::After) => {
                let _ = run.await;
                return Err(crashed());
            }
            Fate::Ends(_) | Fate::Over => return Err(crashed()),
        }
        for fault in &self.faults {
            match fault {
                Fault::Delay(time) => tokio::time::sleep(*time).await,
                Fault::Hold(gate) => gate.pass().await,
                Fault::Stall => std::future::pending().await,
                Fault::Fail(_) | Fault::FailAfter(_) | Fault::Panic(_) => {}
            }
        }
        for fault in &self.faults {
            match fault {
                Fault::Fail(error) => return Err(Error::from(error.clone())),
                Fault::Panic(message) => panic!("{message}"),
                _ => {}
            }
        }
        let outcome = run.await?;
        for fault in self.faults {
            if let Fault::FailAfter(error) = fault {
                return Err(Error::from(error));
            }
        }
        Ok(outcome)
    }
}

impl<Op: Copy + Ord> Default for Faults<Op> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Op> Clone for Faults<Op> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Op: fmt::Debug> fmt::Debug for Faults<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faults").field(&self.0).finish()
    }
}

/// One operation of a double.
pub struct Operation<'a, Op> {
    faults: &'a Faults<Op>,
    operation: Op,
}

impl<Op: fmt::Debug> fmt::Debug for Operation<'_, Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operation").field(&self.operation).finish()
    }
}

impl<'a, Op: Copy + Ord> Operation<'a, Op> {
    /// How often it was begun.
    pub fn count(&self) -> usize {
        let counts = self.faults.0.started.borrow();
        counts.get(&self.operation).copied().unwrap_or(0)
    }

    /// Waits until it was begun so often.
    pub async fn reached(&self, count: usize) {
        let mut counts = self.faults.0.started.subscribe();
        let enough = |counts: &BTreeMap<Op, usize>| {
            counts.get(&self.operation).copied().unwrap_or(0) >= count
        };
        // Can't fail: the sender lives as long as `self.faults`.
        counts.wait_for(enough).await.ok();
    }

    /// The run with this number, the first ever being 0.
    #[must_use]
    pub fn nth(self, number: usize) -> Injection<'a, Op> {
        Injection {
            faults: self.faults,
            operation: self.operation,
            runs: Runs::Nth(number),
        }
    }

    /// The run that comes next.
    #[must_use]
    pub fn next(self) -> Injection<'a, Op> {
        let number = self.count();
        self.nth(number)
    }

    /// Every run from now on.
    #[must_use]
    pub fn always(self) -> Injection<'a, Op> {
        Injection {
            faults: self.faults,
            operation: self.operation,
            runs: Runs::Every,
        }
    }
}

/// Where a fault is put. Several may befall one run.
pub struct Injection<'a, Op> {
    faults: &'a Faults<Op>,
    operation: Op,
    runs: Runs,
}

impl<Op: fmt::Debug> fmt::Debug for Injection<'_, Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection")
            .field("operation", &self.operation)
            .field("runs", &self.runs)
            .finish()
    }
}

impl<Op: Copy + Ord> Injection<'_, Op> {
    fn put(self, fault: Fault) -> Self {
        lock(&self.faults.0.faults).push((self.operation, self.runs, fault));
        self
    }

    /// It fails before it has done anything.
    pub fn fail(self, error: Error) -> Self {
        self.put(Fault::Fail(error.to_data()))
    }

    /// It is done, and then reported as failed.
    pub fn fail_after(self, error: Error) -> Self {
        self.put(Fault::FailAfter(error.to_data()))
    }

    /// It panics before it has done anything.
    pub fn panic(self, message: impl Into<String>) -> Self {
        self.put(Fault::Panic(message.into()))
    }

    /// It takes this much longer.
    pub fn delay(self, time: Duration) -> Self {
        self.put(Fault::Delay(time))
    }

    /// It waits at a gate before it does anything.
    pub fn hold(self, gate: &Gate) -> Self {
        self.put(Fault::Hold(gate.clone()))
    }

    /// It never ends.
    pub fn stall(self) -> Self {
        self.put(Fault::Stall)
    }
}
