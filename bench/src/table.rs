//! Outcomes as a table for people.

use crate::{Cost, Outcome};

/// One row a benchmark, with a line for each of its budgets.
pub(crate) fn of(outcomes: &[Outcome]) -> String {
    let mut rows = vec![["name", "measured", "floor", "ratio", "budget", "ok"].map(str::to_owned)];
    for outcome in outcomes {
        let mut budgets = outcome.budgets.iter().map(|(budget, kept)| {
            (
                budget.to_string(),
                if *kept { "yes" } else { "NO" }.to_owned(),
            )
        });
        let (budget, ok) = budgets.next().unwrap_or(("-".to_owned(), "-".to_owned()));
        rows.push([
            outcome.name.to_owned(),
            cost(&outcome.measured),
            cost(&outcome.floor),
            format!(
                "{:.2} cpu, {:.2} wall",
                outcome.ratio.cpu.median, outcome.ratio.wall.median
            ),
            budget,
            ok,
        ]);
        rows.extend(budgets.map(|(budget, ok)| {
            let none = String::new;
            [none(), none(), none(), none(), budget, ok]
        }));
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .iter()
            .enumerate()
            .map(|(i, cell)| format!("{cell:0$}", width(i)));
        text += cells.collect::<Vec<_>>().join(" | ").trim_end();
        text.push('\n');
    }
    text
}

fn cost(cost: &Cost) -> String {
    let memory = match cost.peak_memory {
        Some(bytes) => format!(", {}", memory(bytes)),
        None => String::new(),
    };
    format!(
        "{} cpu, {} wall{memory}",
        time(cost.cpu_ns),
        time(cost.wall_ns)
    )
}

/// Bytes with their unit.
pub(crate) fn memory(bytes: u64) -> String {
    match bytes {
        ..100_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Nanoseconds with their unit, in three digits or so.
pub(crate) fn time(nanoseconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    // What would be shown as 1000 of a unit is one of the next.
    let unit = UNITS.iter().find(|(size, _)| nanoseconds >= size * 0.9995);
    let (size, unit) = unit.unwrap_or(&(1.0, "ns"));
    let value = nanoseconds / size;
    match value {
        value if value < 9.995 && *unit != "ns" => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;
    use std::time::Duration;

    #[test]
    fn a_row_for_each_with_a_line_for_each_budget() {
        let budgets = [
            Budget::CpuRatio(3.1),
            Budget::Cpu(Duration::from_nanos(300)),
        ];
        let text = of(&[
            crate::outcome::tests::outcome(&budgets),
            crate::outcome::tests::outcome(&[]),
        ]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split(" | ").map(str::trim).collect())
            .collect();
        let measured = "310 ns cpu, 400 ns wall, 1.0 MB";
        let floor = "100 ns cpu, 200 ns wall";
        let ratio = "3.05 cpu, 2.00 wall";
        assert_eq!(
            lines[0],
            ["name", "measured", "floor", "ratio", "budget", "ok"]
        );
        assert_eq!(
            lines[1],
            ["sample", measured, floor, ratio, "≤ 3.1 × floor", "yes"]
        );
        assert_eq!(lines[2], ["", "", "", "", "≤ 300 ns cpu", "NO"]);
        assert_eq!(lines[3], ["sample", measured, floor, ratio, "-", "-"]);
        let bars = |line: &str| {
            let columns = line.chars().enumerate().filter(|(_, c)| *c == '|');
            columns.map(|(column, _)| column).collect::<Vec<_>>()
        };
        let first = text.lines().next().map(bars);
        assert!(text.lines().all(|line| Some(bars(line)) == first), "{text}");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        let check = |nanoseconds: f64, text: &str| assert_eq!(time(nanoseconds), text);
        check(0.0, "0.0 ns");
        check(7.25, "7.2 ns");
        check(310.0, "310 ns");
        check(999.4, "999 ns");
        check(999.6, "1.00 µs");
        check(12_340.0, "12.3 µs");
        check(4e6, "4.00 ms");
        check(60e6, "60.0 ms");
        check(2.5e9, "2.50 s");
    }
}
