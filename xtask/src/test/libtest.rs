//! Reading what `cargo test -- --show-output` prints.
//!
//! Tests print too, and some print what cargo prints, so a line counts only
//! where it can come: a result's numbers must add up to the number of tests that
//! were announced.

/// What came of one test binary, or of one part of a crate's documentation.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Suite {
    /// The crate and the file, such as `haft_core src/lib.rs`.
    pub(super) name: String,
    pub(super) passed: usize,
    /// Names of failed tests, or [`CRASHED`].
    pub(super) failed: Vec<String>,
    /// Tests that did not run here, each with the reason.
    pub(super) skipped: Vec<(String, String)>,
    /// The lines that explain the failures.
    pub(super) output: Vec<String>,
}

/// Stands for all tests of a suite that ended without a result.
pub(super) const CRASHED: &str = "(ended without a result)";

/// Stands for a test whose line could not be read.
const UNNAMED: &str = "(a test)";

/// What a line brought.
#[derive(Debug, PartialEq)]
pub(super) enum Update {
    /// So many tests of so many in a suite have ended.
    Progress {
        suite: String,
        done: usize,
        of: usize,
    },
    /// A suite ended.
    Suite(Suite),
}

/// The reader.
#[derive(Debug, Default)]
pub(super) struct Reader {
    name: String,
    state: State,
    /// The lines outside all suites: cargo's own.
    pub(super) other: Vec<String>,
}

#[derive(Debug, Default)]
enum State {
    /// Between suites.
    #[default]
    Idle,
    /// A test binary was started and has announced nothing yet.
    Started,
    /// Its tests run.
    Running(Running),
}

#[derive(Debug, Default)]
struct Running {
    /// The number of tests that were announced.
    of: usize,
    /// What is known of it so far.
    suite: Suite,
    /// Tests that said that they can't run here, each with the reason.
    skipped_selves: Vec<(String, String)>,
    lines: Vec<String>,
    /// True once the tests have ended and what they printed comes.
    details: bool,
    /// The test whose output is coming.
    block: Option<String>,
}

impl Reader {
    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str) -> Option<Update> {
        if line.starts_with("error: test failed, to rerun pass") {
            self.other.push(line.to_owned());
            return self.end().map(Update::Suite);
        }
        if let State::Running(running) = &mut self.state {
            let update = running.line(line);
            if matches!(update, Some(Update::Suite(_))) {
                self.state = State::Idle;
            }
            return update;
        }
        if let Some(of) = announced(line) {
            let suite = Suite {
                name: self.name.clone(),
                ..Suite::default()
            };
            let running = Running {
                of,
                suite,
                ..Running::default()
            };
            let update = running.progress();
            self.state = State::Running(running);
            return Some(update);
        } else if let Some(name) = header(line) {
            self.name = name;
            self.state = State::Started;
        } else {
            self.other.push(line.to_owned());
        }
        None
    }

    /// Ends the reading of a suite that came to no result, if there is one.
    pub(super) fn end(&mut self) -> Option<Suite> {
        let mut suite = match std::mem::take(&mut self.state) {
            State::Idle => return None,
            State::Started => Suite {
                name: self.name.clone(),
                ..Suite::default()
            },
            State::Running(running) => Suite {
                output: running.lines,
                ..running.suite
            },
        };
        suite.failed.push(CRASHED.to_owned());
        Some(suite)
    }
}

impl Running {
    fn line(&mut self, line: &str) -> Option<Update> {
        if let Some(result) = result(line)
            && result.iter().sum::<usize>() == self.of
        {
            return Some(Update::Suite(self.ended(result)));
        }
        self.lines.push(line.to_owned());
        self.details |= matches!(line, "successes:" | "failures:");
        if self.details {
            self.detail(line);
            return None;
        }
        let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        // Where its output is shown, the name comes without this.
        let test = test.strip_suffix(" - should panic").unwrap_or(test);
        match outcome.split_once(", ").unwrap_or((outcome, "")) {
            ("ok", _) => self.suite.passed += 1,
            ("FAILED", _) => self.suite.failed.push(test.to_owned()),
            ("ignored", why) => self.suite.skipped.push((test.to_owned(), why.to_owned())),
            _ => return None,
        }
        Some(self.progress())
    }

    fn progress(&self) -> Update {
        let suite = &self.suite;
        Update::Progress {
            suite: suite.name.clone(),
            done: suite.passed + suite.failed.len() + suite.skipped.len(),
            of: self.of,
        }
    }

    /// Looks for tests that say that they skipped themselves.
    fn detail(&mut self, line: &str) {
        if let Some(test) = line
            .strip_prefix("---- ")
            .and_then(|l| l.strip_suffix(" stdout ----"))
        {
            self.block = Some(test.to_owned());
        } else if let (Some(why), Some(test)) = (line.strip_prefix("skipped: "), &self.block)
            && !self.suite.failed.contains(test)
        {
            match self
                .skipped_selves
                .iter_mut()
                .find(|(name, _)| name == test)
            {
                Some((_, reasons)) => *reasons += &format!("; {why}"),
                None => self.skipped_selves.push((test.clone(), why.to_owned())),
            }
        }
    }

    /// The suite by its result, which is right even where a test's line was
    /// torn by something else that printed.
    fn ended(&mut self, [passed, failed, ignored]: [usize; 3]) -> Suite {
        let mut suite = std::mem::take(&mut self.suite);
        suite.failed.resize(failed, UNNAMED.to_owned());
        suite
            .skipped
            .resize(ignored, (UNNAMED.to_owned(), String::new()));
        // A test that skips itself has passed, as far as its harness knows.
        suite.passed = passed.saturating_sub(self.skipped_selves.len());
        suite.skipped.append(&mut self.skipped_selves);
        if failed > 0 {
            let start = self.lines.iter().position(|line| line == "failures:");
            suite.output = self.lines.split_off(start.unwrap_or(0));
        }
        suite
    }
}

/// `running 3 tests`
fn announced(line: &str) -> Option<usize> {
    let (count, word) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(word, "test" | "tests").then(|| count.parse().ok())?
}

/// `     Running tests/turns.rs (target/debug/deps/turns-0123456789abcdef)` or
/// `   Doc-tests haft_api`, as a name.
fn header(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("   Doc-tests ") {
        return Some(format!("{name} docs"));
    }
    let (file, binary) = line
        .strip_prefix("     Running ")?
        .strip_suffix(')')?
        .rsplit_once(" (")?;
    let binary = binary.rsplit(['/', '\\']).next()?;
    let crate_name = binary.rsplit_once('-').map_or(binary, |(name, _)| name);
    Some(match file.strip_prefix("unittests ") {
        Some(file) => format!("{crate_name} {file}"),
        None => file.to_owned(),
    })
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`, as those three numbers.
fn result(line: &str) -> Option<[usize; 3]> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = counts.split("; ");
    let mut count = |word: &str| {
        let (count, found) = parts.next()?.split_once(' ')?;
        (found == word).then(|| count.parse().ok())?
    };
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

#[cfg(test)]
mod tests;
