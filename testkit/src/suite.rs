//! Conformance suites: what they are made of and how they are run.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};

mod declare;
pub(crate) mod engine;
mod expect;
mod outcome;
pub(crate) mod runner;
mod schema;
pub(crate) mod source;
pub(crate) mod store;
pub(crate) mod tools;

#[cfg(test)]
mod tests;

/// How long a case may take, unless it says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// Why a case didn't come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unmet {
    /// What is tested doesn't claim to have this.
    NotClaimed(String),
    /// What is tested doesn't keep its promise: what was expected, and what
    /// came.
    Broken(String),
}

impl From<String> for Unmet {
    fn from(message: String) -> Self {
        Self::Broken(message)
    }
}

/// What a case's function returns.
pub type Checked = Result<(), Unmet>;

type Run = dyn Fn() -> BoxFuture<'static, Checked> + Send + Sync;

/// One promise, and the test of it.
pub struct Case {
    name: &'static str,
    checks: &'static str,
    limit: Duration,
    run: Box<Run>,
}

impl Case {
    /// A case of this name that checks this. The function is called anew for
    /// each run.
    pub fn new<F, R>(name: &'static str, checks: &'static str, run: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Checked> + Send + 'static,
    {
        Self {
            name,
            checks,
            limit: LIMIT,
            run: Box::new(move || run().boxed()),
        }
    }

    /// Lets it take this long instead of a minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its name, unique in its suite.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The promise in words.
    pub fn checks(&self) -> &'static str {
        self.checks
    }

    /// Runs it. Needs a tokio runtime with time that isn't paused. A panic
    /// breaks the promise, as does taking too long.
    pub async fn run(&self) -> Verdict {
        // A panic may also come from the function itself, before its future.
        let run = AssertUnwindSafe(async { (self.run)().await }).catch_unwind();
        match tokio::time::timeout(self.limit, run).await {
            Ok(Ok(Ok(()))) => Verdict::Kept,
            Ok(Ok(Err(Unmet::NotClaimed(reason)))) => Verdict::Skipped { reason },
            Ok(Ok(Err(Unmet::Broken(message)))) => Verdict::Broken { message },
            Ok(Err(panic)) => Verdict::Broken {
                message: haft_api::panic_message(&*panic),
            },
            Err(_) => Verdict::Broken {
                message: format!("expected an end within {:?}, got none", self.limit),
            },
        }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("checks", &self.checks)
            .finish_non_exhaustive()
    }
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The promise is kept.
    Kept,
    /// What is tested doesn't claim to keep it.
    Skipped {
        /// What it would have to claim.
        reason: String,
    },
    /// The promise is broken.
    Broken {
        /// What was expected, and what came.
        message: String,
    },
}

/// What came of one case of a [`Report`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReportLine {
    /// The case's name.
    pub name: &'static str,
    /// The promise in words.
    pub checks: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// What came of a suite.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// One line per case, in the suite's order.
    pub lines: Vec<ReportLine>,
}

impl Report {
    /// The names of the cases whose promise is broken.
    pub fn broken(&self) -> Vec<&'static str> {
        let broken = |line: &&ReportLine| matches!(line.verdict, Verdict::Broken { .. });
        let lines = self.lines.iter().filter(broken);
        lines.map(|line| line.name).collect()
    }

    /// The names of the cases that were skipped.
    pub fn skipped(&self) -> Vec<&'static str> {
        let skipped = |line: &&ReportLine| matches!(line.verdict, Verdict::Skipped { .. });
        let lines = self.lines.iter().filter(skipped);
        lines.map(|line| line.name).collect()
    }

    /// True if no promise is broken.
    pub fn is_kept(&self) -> bool {
        self.broken().is_empty()
    }

    /// Fails a test if a promise is broken.
    ///
    /// # Panics
    /// With the whole report, if one is.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.is_kept(), "\n{self}");
    }
}

impl fmt::Display for Report {
    /// One line per case, broken ones with what was expected and what came.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let ReportLine { name, checks, .. } = line;
            match &line.verdict {
                Verdict::Kept => writeln!(f, "kept     {name}")?,
                Verdict::Skipped { reason } => writeln!(f, "skipped  {name}: {reason}")?,
                Verdict::Broken { message } => {
                    writeln!(f, "BROKEN   {name}: {checks}\n         {message}")?;
                }
            }
        }
        Ok(())
    }
}

/// Runs cases one after another, as a host does that tests what it has loaded.
///
/// ```
/// # #[tokio::main]
/// # async fn main() {
/// use haft_testkit::{MemoryStore, run_all, store_suite};
///
/// let make = || {
///     let store = MemoryStore::new();
///     move || std::future::ready(Ok(store.reopen().shared()))
/// };
/// run_all(store_suite(make)).await.assert_kept();
/// # }
/// ```
pub async fn run_all(cases: Vec<Case>) -> Report {
    let mut report = Report::default();
    for case in cases {
        let began = Instant::now();
        let verdict = case.run().await;
        report.lines.push(ReportLine {
            name: case.name,
            checks: case.checks,
            verdict,
            took: began.elapsed(),
        });
    }
    report
}

/// Runs one case of a suite within a test, on a runtime of its own.
///
/// # Panics
/// If its promise is broken, or there is no such case.
#[track_caller]
pub fn run_case(cases: &[Case], name: &str) {
    let Some(case) = cases.iter().find(|case| case.name == name) else {
        panic!("there is no case `{name}` in this suite");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap_or_else(|error| panic!("a test needs a runtime: {error}"));
    let verdict = runtime.block_on(case.run());
    // What is tested may have left a blocking thread behind; that isn't ours.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match verdict {
        Verdict::Kept => {}
        #[expect(
            clippy::print_stdout,
            reason = "a test's captured output is its reader's"
        )]
        Verdict::Skipped { reason } => println!("skipped: {reason}"),
        Verdict::Broken { message } => panic!("{name}: {}\n{message}", case.checks),
    }
}
