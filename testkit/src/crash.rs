//! The end of a process, as a double plays it.

use std::sync::{Mutex, PoisonError};

use haft_api::{Error, ErrorKind};

/// How far the operation comes in which a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashMoment {
    /// Nothing of it is done.
    Before,
    /// It is begun, and dropped at the first point at which it waits.
    Within,
    /// Of a group of records the first half is written; of all else nothing is
    /// done.
    Torn,
    /// All of it is done, and nobody is told.
    After,
}

impl CrashMoment {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Before, Self::Within, Self::Torn, Self::After];
}

/// Counts the runs of all operations, and says when the end has come.
#[derive(Debug, Default)]
pub(crate) struct Life(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    begun: usize,
    end: Option<(usize, CrashMoment)>,
    over: bool,
}

/// What becomes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    /// The process ends in it.
    Ends(CrashMoment),
    /// It had ended.
    Over,
}

impl Life {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end_at(&self, number: usize, moment: CrashMoment) {
        self.state().end = Some((number, moment));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    pub(crate) fn begun(&self) -> usize {
        self.state().begun
    }

    /// Counts a run.
    pub(crate) fn begin(&self) -> Fate {
        let mut state = self.state();
        if state.over {
            return Fate::Over;
        }
        let number = state.begun;
        state.begun += 1;
        match state.end {
            Some((at, moment)) if at == number => {
                state.over = true;
                Fate::Ends(moment)
            }
            _ => Fate::Lives,
        }
    }
}

/// What everybody is told who asks something of a process that has ended.
pub(crate) fn crashed() -> Error {
    let message = "the process has ended here, as the test wanted";
    Error::new(ErrorKind::Unavailable, message).permanent()
}
