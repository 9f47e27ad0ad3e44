//! What the rounds of a benchmark say together.

use serde_json::json;

use crate::{Budget, Round, Sample};

/// What one operation took: medians over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// Time on the clock in nanoseconds.
    pub wall_ns: f64,
    /// Peak memory of a child process, in bytes.
    pub peak_memory: Option<u64>,
}

/// Where the middle half of the values lies, and their median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// A quarter of the values is at most this.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// A quarter of the values is at least this.
    pub high: f64,
}

/// How many times what the floor took the real thing did, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// CPU time.
    pub cpu: Spread,
    /// Time on the clock.
    pub wall: Spread,
}

/// What came of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The benchmark's name.
    pub name: &'static str,
    /// The real thing.
    pub measured: Cost,
    /// The floor.
    pub floor: Cost,
    /// How the two compare.
    pub ratio: Ratio,
    /// The benchmark's budgets, and whether each was kept.
    pub budgets: Vec<(Budget, bool)>,
}

impl Outcome {
    /// Sums up at least one round.
    pub(crate) fn new(name: &'static str, budgets: &[Budget], rounds: &[Round]) -> Self {
        let measured = Cost::of(rounds.iter().map(|round| round.measured));
        let floor = Cost::of(rounds.iter().map(|round| round.floor));
        let of = |time: fn(&Sample) -> f64| {
            // A floor that only waits may take less CPU time than the clock sees.
            let ratio = |round: &Round| time(&round.measured) / time(&round.floor).max(1.0);
            Spread::of(rounds.iter().map(ratio))
        };
        let ratio = Ratio {
            cpu: of(cpu_ns),
            wall: of(wall_ns),
        };
        let budgets = budgets
            .iter()
            .map(|budget| (*budget, budget.allows(&measured, &ratio)))
            .collect();
        Self {
            name,
            measured,
            floor,
            ratio,
            budgets,
        }
    }

    /// True if every budget was kept.
    pub fn is_ok(&self) -> bool {
        self.budgets.iter().all(|(_, kept)| *kept)
    }

    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        let cost = |cost: &Cost| {
            json!({
                "cpu_ns": cost.cpu_ns,
                "wall_ns": cost.wall_ns,
                "peak_memory": cost.peak_memory,
            })
        };
        let budgets: Vec<_> = self
            .budgets
            .iter()
            .map(|(budget, kept)| json!({"budget": budget.to_string(), "ok": kept}))
            .collect();
        let spread =
            |Spread { low, median, high }| json!({"low": low, "median": median, "high": high});
        json!({
            "name": self.name,
            "measured": cost(&self.measured),
            "floor": cost(&self.floor),
            "ratio": {"cpu": spread(self.ratio.cpu), "wall": spread(self.ratio.wall)},
            "budgets": budgets,
            "ok": self.is_ok(),
        })
        .to_string()
    }
}

fn cpu_ns(sample: &Sample) -> f64 {
    sample.cpu.as_nanos() as f64 / f64::from(sample.operations)
}

fn wall_ns(sample: &Sample) -> f64 {
    sample.wall.as_nanos() as f64 / f64::from(sample.operations)
}

impl Cost {
    fn of(samples: impl Iterator<Item = Sample> + Clone) -> Self {
        let memory: Vec<_> = samples
            .clone()
            .filter_map(|s| s.peak_memory)
            .map(|bytes| bytes as f64)
            .collect();
        Self {
            cpu_ns: Spread::of(samples.clone().map(|s| cpu_ns(&s))).median,
            wall_ns: Spread::of(samples.map(|s| wall_ns(&s))).median,
            peak_memory: (!memory.is_empty()).then(|| Spread::of(memory).median as u64),
        }
    }
}

impl Spread {
    /// Of at least one value.
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        // Between two values, in proportion.
        let at = |part: f64| {
            let place = part * last as f64;
            let (below, share) = (place as usize, place.fract());
            values[below] + share * (values[last.min(below + 1)] - values[below])
        };
        Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(operations: u32, cpu: u64, wall: u64, peak_memory: Option<u64>) -> Sample {
        let (cpu, wall) = (Duration::from_nanos(cpu), Duration::from_nanos(wall));
        Sample {
            operations,
            cpu,
            wall,
            peak_memory,
        }
    }

    /// Three rounds, the last of them on a machine four times as slow.
    pub(crate) fn outcome(budgets: &[Budget]) -> Outcome {
        let round = |slow: u64, extra: u64| Round {
            measured: sample(10, (3000 + extra) * slow, 4000 * slow, Some(1_000_000)),
            floor: sample(100, 10_000 * slow, 20_000 * slow, None),
        };
        Outcome::new(
            "sample",
            budgets,
            &[round(1, 0), round(1, 100), round(4, 50)],
        )
    }

    #[test]
    fn figures_are_medians_for_one_operation_and_ratios_are_paired() {
        let outcome = outcome(&[]);
        let measured = Cost {
            cpu_ns: 310.0,
            wall_ns: 400.0,
            peak_memory: Some(1_000_000),
        };
        assert_eq!(outcome.measured, measured);
        assert_eq!(
            outcome.floor,
            Cost {
                cpu_ns: 100.0,
                wall_ns: 200.0,
                peak_memory: None
            }
        );
        let cpu = Spread {
            low: 3.025,
            median: 3.05,
            high: 3.075,
        };
        let wall = Spread {
            low: 2.0,
            median: 2.0,
            high: 2.0,
        };
        assert_eq!(outcome.ratio, Ratio { cpu, wall });
    }

    #[test]
    fn an_exceeded_budget_is_told() {
        let budgets = [
            Budget::CpuRatio(3.1),
            Budget::Cpu(Duration::from_nanos(300)),
        ];
        let outcome = outcome(&budgets);
        assert_eq!(outcome.budgets, [(budgets[0], true), (budgets[1], false)]);
        assert!(!outcome.is_ok());
        let json: serde_json::Value = serde_json::from_str(&outcome.to_json()).unwrap();
        assert_eq!(json["name"], "sample");
        assert_eq!(json["measured"]["cpu_ns"], 310.0);
        assert_eq!(json["floor"]["peak_memory"], serde_json::Value::Null);
        assert_eq!(json["ratio"]["cpu"]["median"], 3.05);
        assert_eq!(json["budgets"][0]["ok"], true);
        assert_eq!(json["budgets"][1]["budget"], "≤ 300 ns cpu");
        assert_eq!(json["ok"], false);
    }

    #[test]
    fn a_spread_of_few_values() {
        let check = |values: &[f64], expected: [f64; 3]| {
            let spread = Spread::of(values.iter().copied());
            assert_eq!(
                [spread.low, spread.median, spread.high],
                expected,
                "{values:?}"
            );
        };
        check(&[7.0], [7.0, 7.0, 7.0]);
        check(&[3.0, 1.0], [1.5, 2.0, 2.5]);
        check(&[5.0, 1.0, 2.0, 4.0, 3.0], [2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_floor_without_cpu_time_gives_a_number() {
        let round = Round {
            measured: sample(1, 50, 50, None),
            floor: sample(1, 0, 50, None),
        };
        assert_eq!(Outcome::new("x", &[], &[round]).ratio.cpu.median, 50.0);
    }
}
