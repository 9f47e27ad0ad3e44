//! The tests that an author keeps beside a script.

use std::fmt;
use std::path::{Path, PathBuf};

use haft_api::{Error, Part, Result, ToolOutput, ToolSpec, raw_json};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The file with a script's tests, in its folder.
const FILE: &str = "tests.jsonl";

/// What was found of a script that was loaded on trial.
#[derive(Debug)]
pub struct Report<Command> {
    /// The tools it has, by the names that a model sees.
    pub tools: Vec<ToolSpec>,
    /// The commands it has.
    pub commands: Vec<Command>,
    /// What is wrong with it.
    pub problems: Vec<Error>,
    /// What came of its tests, in order.
    pub tests: Vec<TestOutcome>,
}

impl<Command> Report<Command> {
    /// Whether nothing is wrong.
    pub fn is_fine(&self) -> bool {
        self.problems.is_empty() && self.tests.iter().all(|test| test.failure.is_none())
    }
}

/// What came of a test.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestOutcome {
    /// The line it stands in, and the tool it calls.
    pub name: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// A call, and what must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuthoredTest {
    /// The tool's own name.
    pub name: String,
    arguments: Option<Box<RawValue>>,
    /// The whole text of the result.
    expect: Option<String>,
    /// A piece of an error's text.
    expect_error: Option<String>,
}

impl AuthoredTest {
    /// The arguments of the call, an empty object if the line has none.
    ///
    /// # Errors
    /// None for a test that was read from a file.
    pub fn arguments(&self) -> Result<Box<RawValue>> {
        self.arguments.clone().map_or_else(|| raw_json("{}"), Ok)
    }

    /// Why the outcome isn't the expected one, if it isn't.
    fn failure(&self, outcome: Result<ToolOutput>) -> Option<String> {
        let (text, is_error) = match outcome {
            Ok(output) => (shown(&output.parts), output.is_error),
            Err(error) => (error.to_string(), true),
        };
        match (&self.expect, &self.expect_error) {
            (_, Some(words)) if is_error && text.contains(words) => None,
            (_, Some(words)) => Some(format!("expected an error with `{words}`, got: {text}")),
            (Some(expected), None) if !is_error && text == *expected => None,
            (Some(expected), None) => Some(format!("expected `{expected}`, got: {text}")),
            (None, None) if is_error => Some(text),
            (None, None) => None,
        }
    }
}

/// The tests of a script.
pub struct AuthoredTests {
    file: PathBuf,
    text: String,
}

impl fmt::Debug for AuthoredTests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuthoredTests").field(&self.file).finish()
    }
}

impl AuthoredTests {
    /// Those in a script's folder; none if it has no file of them.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn of(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::io(e, "can't be read").context("file", file.display())),
        };
        Ok(Self { file, text })
    }

    /// Makes the calls, one after the other. A line that is no test counts as
    /// one that failed, with what is wrong with it.
    pub async fn run(
        &self,
        mut call: impl AsyncFnMut(&AuthoredTest) -> Result<ToolOutput>,
    ) -> Vec<TestOutcome> {
        let mut outcomes = Vec::new();
        for (line, number) in self.text.lines().zip(1..) {
            if line.trim().is_empty() {
                continue;
            }
            let at = format!("{FILE}:{number}");
            outcomes.push(match serde_json::from_str::<AuthoredTest>(line) {
                Ok(test) => TestOutcome {
                    name: format!("{at} {}", test.name),
                    failure: test.failure(call(&test).await),
                },
                Err(error) => TestOutcome {
                    name: at,
                    failure: Some(error.to_string()),
                },
            });
        }
        outcomes
    }
}

fn shown(parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Json { value } => value.get().to_owned(),
        Part::Image { media_type, .. } => format!("[{media_type}]"),
        _ => "[…]".to_owned(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that answers with its arguments, or fails as they say.
    fn echo(test: &AuthoredTest) -> Result<ToolOutput> {
        let arguments = test.arguments()?;
        match arguments.get() {
            r#"{"fail":true}"# => Ok(ToolOutput::error("as you like")),
            text => Ok(ToolOutput::text(text)),
        }
    }

    async fn run(lines: &str) -> Vec<TestOutcome> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), lines).unwrap();
        let tests = AuthoredTests::of(folder.path()).unwrap();
        tests.run(async |test: &AuthoredTest| echo(test)).await
    }

    #[tokio::test]
    async fn a_line_says_what_must_come_of_a_call() {
        for (line, failure) in [
            (r#"{"name":"t"}"#, None),
            (r#"{"name":"t","expect":"{}"}"#, None),
            (
                r#"{"name":"t","arguments":{"a":1},"expect":"{\"a\":1}"}"#,
                None,
            ),
            (
                r#"{"name":"t","expect":"x"}"#,
                Some("expected `x`, got: {}"),
            ),
            (
                r#"{"name":"t","arguments":{"fail":true}}"#,
                Some("as you like"),
            ),
            (
                r#"{"name":"t","arguments":{"fail":true},"expect_error":"like"}"#,
                None,
            ),
            (
                r#"{"name":"t","arguments":{"fail":true},"expect":"as you like"}"#,
                Some("expected `as you like`, got: as you like"),
            ),
            (
                r#"{"name":"t","expect_error":"like"}"#,
                Some("expected an error with `like`, got: {}"),
            ),
        ] {
            let outcomes = run(line).await;
            let expected = TestOutcome {
                name: "tests.jsonl:1 t".to_owned(),
                failure: failure.map(str::to_owned),
            };
            assert_eq!(outcomes, [expected], "{line}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_no_test_fails_and_stops_no_other() {
        let outcomes = run("{\"name\":\"t\",\"expects\":1}\n\nnonsense\n{\"name\":\"t\"}\n").await;
        let told: Vec<_> = outcomes
            .iter()
            .map(|outcome| (outcome.name.as_str(), outcome.failure.is_some()))
            .collect();
        assert_eq!(
            told,
            [
                ("tests.jsonl:1", true),
                ("tests.jsonl:3", true),
                ("tests.jsonl:4 t", false)
            ]
        );
        assert!(
            outcomes[0]
                .failure
                .as_deref()
                .unwrap()
                .contains("`expects`")
        );
    }

    #[tokio::test]
    async fn a_folder_without_tests_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let tests = AuthoredTests::of(folder.path()).unwrap();
        let call = async |_: &AuthoredTest| panic!("there is nothing to call");
        let outcomes = tests.run(call).await;
        assert!(outcomes.is_empty());
    }
}
