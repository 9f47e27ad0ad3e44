//! The two sides of a benchmark, and how they take turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::{Result, Sample};

/// A sample of quick operations has at least as many as take this long.
const SAMPLE: Duration = Duration::from_millis(5);

type Side = Box<dyn FnMut() -> Result<Sample>>;

/// What is measured, and its floor.
pub struct Pair {
    measured: Side,
    floor: Side,
}

/// One round's samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// The real thing's.
    pub measured: Sample,
    /// The floor's.
    pub floor: Sample,
}

impl Pair {
    /// Two sides that take their samples themselves.
    pub fn of_samples(
        measured: impl FnMut() -> Result<Sample> + 'static,
        floor: impl FnMut() -> Result<Sample> + 'static,
    ) -> Self {
        Self {
            measured: Box::new(measured),
            floor: Box::new(floor),
        }
    }

    /// Two quick operations, each repeated as often as makes a sample long
    /// enough to measure.
    ///
    /// # Errors
    /// What the first calls failed with.
    pub fn of_operations<T, U>(
        measured: impl FnMut() -> Result<T> + 'static,
        floor: impl FnMut() -> Result<U> + 'static,
    ) -> Result<Self> {
        Ok(Self {
            measured: repeated(measured)?,
            floor: repeated(floor)?,
        })
    }

    /// Measures `rounds` pairs, after one to warm up; each side is first in
    /// every other round.
    ///
    /// # Errors
    /// What a side failed with.
    pub fn measure(mut self, rounds: usize) -> Result<Vec<Round>> {
        let mut pairs = Vec::with_capacity(rounds);
        for round in 0..=rounds {
            let (measured, floor);
            if round % 2 == 0 {
                measured = (self.measured)()?;
                floor = (self.floor)()?;
            } else {
                floor = (self.floor)()?;
                measured = (self.measured)()?;
            }
            if round > 0 {
                pairs.push(Round { measured, floor });
            }
        }
        Ok(pairs)
    }
}

fn repeated<T>(mut operation: impl FnMut() -> Result<T> + 'static) -> Result<Side> {
    let mut repeat = move |times: u32| -> Result<()> {
        for _ in 0..times {
            black_box(operation()?);
        }
        Ok(())
    };
    // More than once, or a moment in which another process had the CPU would count.
    let mut is_long_enough = |times: u32| -> Result<bool> {
        for _ in 0..3 {
            let start = Instant::now();
            repeat(times)?;
            if start.elapsed() < SAMPLE {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut times = 1_u32;
    while !is_long_enough(times)? {
        times = times
            .checked_mul(2)
            .ok_or("the operation takes no time at all: has the compiler removed it?")?;
    }
    Ok(Box::new(move || Sample::take(times, || repeat(times))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn sides_take_turns_and_the_first_round_is_dropped() {
        let calls = Rc::new(RefCell::new(String::new()));
        let side = |letter: char| {
            let (calls, mut count) = (Rc::clone(&calls), 0);
            move || {
                calls.borrow_mut().push(letter);
                count += 1;
                let wall = Duration::from_secs(count);
                Ok(Sample {
                    operations: 1,
                    cpu: wall,
                    wall,
                    peak_memory: None,
                })
            }
        };
        let rounds = Pair::of_samples(side('m'), side('f')).measure(3).unwrap();
        assert_eq!(*calls.borrow(), "mffmmffm");
        let seconds: Vec<_> = rounds
            .iter()
            .map(|round| (round.measured.wall.as_secs(), round.floor.wall.as_secs()))
            .collect();
        assert_eq!(seconds, [(2, 2), (3, 3), (4, 4)]);
    }

    #[test]
    fn a_failing_side_ends_it() {
        let good = || Sample::take(1, || Ok(()));
        assert!(
            Pair::of_samples(good, || Err("no".into()))
                .measure(3)
                .is_err()
        );
        let (mut calls, limit) = (0, 100);
        let fails_later = move || {
            calls += 1;
            if calls < limit {
                Ok(())
            } else {
                Err("no".into())
            }
        };
        assert!(Pair::of_operations(|| Ok(()), fails_later).is_err());
    }

    #[test]
    fn quick_operations_are_repeated_until_they_can_be_measured() {
        let nap = Duration::from_millis(1);
        let sleep = move || {
            std::thread::sleep(nap);
            Ok(())
        };
        let pair = Pair::of_operations(|| Ok(()), sleep).unwrap();
        let round = pair.measure(1).unwrap()[0];
        assert!(round.measured.operations > 100, "{round:?}");
        assert!(round.floor.operations <= 8, "{round:?}");
        assert!(
            round.floor.wall >= nap * round.floor.operations,
            "{round:?}"
        );
    }
}
