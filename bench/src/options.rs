//! The command line.

use lexopt::prelude::*;

use crate::Result;

pub(crate) const USAGE: &str = "\
Usage: cargo xtask bench [OPTIONS]

  --filter TEXT   only benchmarks whose name contains this
  --rounds N      pairs to measure for each (default 15)
  --json          one JSON object a benchmark
  --check         exit status 1 if a budget is exceeded
  --list          list the benchmarks";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Wish {
    Help,
    List,
    Run(Options),
}

/// How to run.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    filter: String,
    pub(crate) rounds: usize,
    pub(crate) json: bool,
    pub(crate) check: bool,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// For an unknown option, or a number of rounds that is none.
    pub(crate) fn parse(mut arguments: lexopt::Parser) -> Result<Wish> {
        let mut options = Self {
            filter: String::new(),
            rounds: 15,
            json: false,
            check: false,
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("filter") => options.filter = arguments.value()?.string()?,
                Long("rounds") => {
                    options.rounds = arguments.value()?.parse()?;
                    if options.rounds == 0 {
                        return Err("--rounds must be at least 1".into());
                    }
                }
                Long("json") => options.json = true,
                Long("check") => options.check = true,
                Long("list") => return Ok(Wish::List),
                Short('h') | Long("help") => return Ok(Wish::Help),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Wish::Run(options))
    }

    /// True if the benchmark is to run.
    pub(crate) fn includes(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Wish> {
        Options::parse(lexopt::Parser::from_args(arguments))
    }

    #[test]
    fn options_are_read() {
        let Wish::Run(options) = parse(&["--filter", "item", "--rounds=3", "--json"]).unwrap()
        else {
            panic!("not a run");
        };
        assert!(options.includes("an-item-x") && !options.includes("turn"));
        assert_eq!(
            (options.rounds, options.json, options.check),
            (3, true, false)
        );
        assert_eq!(parse(&["--list"]).unwrap(), Wish::List);
        assert_eq!(parse(&["--help"]).unwrap(), Wish::Help);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            &["--rounds", "0"][..],
            &["--rounds", "x"],
            &["--fast"],
            &["item"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
