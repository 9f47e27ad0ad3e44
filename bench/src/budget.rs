//! What a benchmark may cost.

use std::fmt;
use std::time::Duration;

use crate::table::{memory, time};
use crate::{Cost, Ratio};

/// One limit, for one operation.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Budget {
    /// So many times the floor's CPU time.
    CpuRatio(f64),
    /// So many times the floor's time on the clock: for what waits for the same
    /// thing as the floor does, and for nothing else.
    WallRatio(f64),
    /// CPU time.
    Cpu(Duration),
    /// Time on the clock.
    Wall(Duration),
    /// Peak memory of a child process, in bytes. A benchmark that tells none
    /// exceeds it.
    Memory(u64),
}

impl Budget {
    /// True if the figures keep to it.
    pub fn allows(self, measured: &Cost, ratio: &Ratio) -> bool {
        match self {
            Self::CpuRatio(limit) => ratio.cpu.median <= limit,
            Self::WallRatio(limit) => ratio.wall.median <= limit,
            Self::Cpu(limit) => measured.cpu_ns <= limit.as_nanos() as f64,
            Self::Wall(limit) => measured.wall_ns <= limit.as_nanos() as f64,
            Self::Memory(limit) => measured.peak_memory.is_some_and(|bytes| bytes <= limit),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuRatio(limit) => write!(f, "≤ {limit} × floor"),
            Self::WallRatio(limit) => write!(f, "≤ {limit} × floor wall"),
            Self::Cpu(limit) => write!(f, "≤ {} cpu", time(limit.as_nanos() as f64)),
            Self::Wall(limit) => write!(f, "≤ {} wall", time(limit.as_nanos() as f64)),
            Self::Memory(limit) => write!(f, "≤ {}", memory(*limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;

    #[test]
    fn each_budget_looks_at_its_own_figure() {
        let cost = Cost {
            cpu_ns: 2000.0,
            wall_ns: 5000.0,
            peak_memory: Some(9_000_000),
        };
        let spread = |median: f64| Spread {
            low: 1.0,
            median,
            high: 99.0,
        };
        let ratio = Ratio {
            cpu: spread(3.0),
            wall: spread(1.5),
        };
        let check = |budget: Budget, text: &str, allowed: bool| {
            assert_eq!(budget.to_string(), text);
            assert_eq!(budget.allows(&cost, &ratio), allowed, "{text}");
        };
        check(Budget::CpuRatio(3.0), "≤ 3 × floor", true);
        check(Budget::CpuRatio(2.9), "≤ 2.9 × floor", false);
        check(Budget::WallRatio(1.5), "≤ 1.5 × floor wall", true);
        check(Budget::WallRatio(1.4), "≤ 1.4 × floor wall", false);
        check(Budget::Cpu(Duration::from_micros(2)), "≤ 2.00 µs cpu", true);
        check(
            Budget::Cpu(Duration::from_nanos(1999)),
            "≤ 2.00 µs cpu",
            false,
        );
        check(
            Budget::Wall(Duration::from_micros(5)),
            "≤ 5.00 µs wall",
            true,
        );
        check(
            Budget::Wall(Duration::from_nanos(600)),
            "≤ 600 ns wall",
            false,
        );
        check(Budget::Memory(9_000_000), "≤ 9.0 MB", true);
        check(Budget::Memory(8_999_999), "≤ 9.0 MB", false);
        let untold = Cost {
            peak_memory: None,
            ..cost
        };
        assert!(!Budget::Memory(u64::MAX).allows(&untold, &ratio));
    }
}
