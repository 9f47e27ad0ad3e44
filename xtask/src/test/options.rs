//! The task's own command line.

use lexopt::prelude::*;

use crate::Result;

pub(super) const USAGE: &str = "\
Usage: cargo xtask test [OPTIONS]

  --only STEP   run this step; may be repeated
  --skip STEP   leave this step out; may be repeated
  --list        list the steps

The last line is `N passed, N failed, N skipped`; exit status 1 if any failed.";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Wish {
    Help,
    List,
    Run(Options),
}

/// Which steps to run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    only: Vec<String>,
    skip: Vec<String>,
}

impl Options {
    /// Reads the command line; `steps` are the names there are.
    ///
    /// # Errors
    /// For an unknown option or step.
    pub(super) fn parse(mut arguments: lexopt::Parser, steps: &[&str]) -> Result<Wish> {
        let mut options = Self::default();
        let known = |name: String| match steps.contains(&name.as_str()) {
            true => Ok(name),
            false => Err(format!(
                "no step is called `{name}`; there are {}",
                steps.join(", ")
            )),
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("only") => options.only.push(known(arguments.value()?.string()?)?),
                Long("skip") => options.skip.push(known(arguments.value()?.string()?)?),
                Long("list") => return Ok(Wish::List),
                Short('h') | Long("help") => return Ok(Wish::Help),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Wish::Run(options))
    }

    /// True if the step is to run.
    pub(super) fn includes(&self, step: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|name| name == step);
        (self.only.is_empty() || listed(&self.only)) && !listed(&self.skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[&str] = &["fmt", "tidy", "test"];

    fn parse(arguments: &[&str]) -> Result<Wish> {
        Options::parse(lexopt::Parser::from_args(arguments), STEPS)
    }

    #[test]
    fn only_and_skip_choose_steps() {
        let check = |arguments: &[&str], expected: &[&str]| {
            let Wish::Run(options) = parse(arguments).unwrap() else {
                panic!("{arguments:?}")
            };
            let steps: Vec<_> = STEPS
                .iter()
                .copied()
                .filter(|s| options.includes(s))
                .collect();
            assert_eq!(steps, expected, "{arguments:?}");
        };
        check(&[], STEPS);
        check(&["--only", "fmt", "--only=test"], &["fmt", "test"]);
        check(&["--skip", "tidy"], &["fmt", "test"]);
        check(&["--only", "fmt", "--skip", "fmt"], &[]);
    }

    #[test]
    fn unknown_words_are_errors() {
        let check = |arguments: &[&str], word: &str| {
            let error = parse(arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        check(
            &["--only", "clipy"],
            "no step is called `clipy`; there are fmt, tidy, test",
        );
        check(&["--skip"], "--skip");
        check(&["--fast"], "--fast");
        check(&["fmt"], "fmt");
    }

    #[test]
    fn list_and_help() {
        assert_eq!(parse(&["--list"]).unwrap(), Wish::List);
        assert_eq!(parse(&["-h"]).unwrap(), Wish::Help);
    }
}
