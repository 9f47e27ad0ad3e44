//! What came of it all.

use std::fmt;
use std::time::Duration;

/// What came of one step.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// How many tests passed; other steps count none.
    pub(super) passed: usize,
    /// What failed, by name.
    pub(super) failed: Vec<String>,
    /// What could not run here, each with the reason.
    pub(super) skipped: Vec<String>,
}

impl Outcome {
    pub(super) fn failed(what: impl Into<String>) -> Self {
        Self {
            failed: vec![what.into()],
            ..Self::default()
        }
    }

    pub(super) fn skipped(what: impl Into<String>) -> Self {
        Self {
            skipped: vec![what.into()],
            ..Self::default()
        }
    }

    /// A word for it.
    pub(super) fn word(&self) -> &'static str {
        if !self.failed.is_empty() {
            "FAILED"
        } else if self.passed == 0 && !self.skipped.is_empty() {
            "skipped"
        } else {
            "ok"
        }
    }
}

/// What came of all steps.
#[derive(Debug, Default)]
pub(super) struct Report {
    steps: Vec<(&'static str, Duration, Outcome)>,
}

impl Report {
    pub(super) fn add(&mut self, step: &'static str, time: Duration, outcome: Outcome) {
        self.steps.push((step, time, outcome));
    }

    pub(super) fn failed(&self) -> usize {
        self.outcomes().map(|outcome| outcome.failed.len()).sum()
    }

    /// The closing line.
    pub(super) fn summary(&self) -> String {
        let passed: usize = self.outcomes().map(|outcome| outcome.passed).sum();
        let skipped: usize = self.outcomes().map(|outcome| outcome.skipped.len()).sum();
        format!(
            "{passed} passed, {} failed, {skipped} skipped",
            self.failed()
        )
    }

    fn list(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        lines: fn(&Outcome) -> &Vec<String>,
    ) -> fmt::Result {
        let lines: Vec<_> = self.outcomes().flat_map(lines).collect();
        if !lines.is_empty() {
            writeln!(f, "\n{title}:")?;
        }
        lines.iter().try_for_each(|line| writeln!(f, "   {line}"))
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.steps.iter().map(|(_, _, outcome)| outcome)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n== summary")?;
        for (step, time, outcome) in &self.steps {
            writeln!(
                f,
                "   {step:8}{:8}{:6.1} s",
                outcome.word(),
                time.as_secs_f64()
            )?;
        }
        self.list(f, "skipped", |outcome| &outcome.skipped)?;
        self.list(f, "failed", |outcome| &outcome.failed)?;
        writeln!(f, "\n{}", self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_sums_up_all_steps() {
        let mut report = Report::default();
        report.add("fmt", Duration::from_millis(1234), Outcome::failed("fmt"));
        let outcome = Outcome {
            passed: 40,
            failed: vec!["core tests/turns.rs: panics".to_owned()],
            skipped: vec!["cli: server: no pip".to_owned()],
        };
        report.add("test", Duration::from_secs(60), outcome);
        report.add(
            "doc",
            Duration::ZERO,
            Outcome::skipped("doc: the build broke"),
        );
        assert_eq!(
            report.to_string(),
            "\n== summary\n   fmt     FAILED     1.2 s\n   test    FAILED    60.0 s\n   \
             doc     skipped    0.0 s\n\
             \nskipped:\n   cli: server: no pip\n   doc: the build broke\n\
             \nfailed:\n   fmt\n   core tests/turns.rs: panics\n\
             \n40 passed, 2 failed, 2 skipped\n"
        );
    }
}
