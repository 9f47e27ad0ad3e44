//! Counts what couldn't be carried, by kind.

use crate::Loss;

#[derive(Debug, Default)]
pub(crate) struct Losses(Vec<Loss>);

impl Losses {
    /// Something of a line was left out.
    pub(crate) fn add(&mut self, line: usize, what: impl Into<String>) {
        self.add_many(Some(line), what, 1);
    }

    pub(crate) fn add_many(&mut self, line: Option<usize>, what: impl Into<String>, count: usize) {
        let what = what.into();
        match self.0.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.count += count,
            None if count > 0 => self.0.push(Loss { line, what, count }),
            None => {}
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Loss> {
        self.0
    }
}
