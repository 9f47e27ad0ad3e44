//! `haft doctor`: what works here.

mod checks;
mod python;

use std::io::Write as _;

use serde::Serialize;

use super::{block_on, opening, print};
use crate::args::{DoctorArgs, PlaceArgs};
use crate::assembly;
use crate::config::{self, Environment};
use crate::console::Console;
use crate::engine_choice;
use crate::failure::{DONE, FAILED, Outcome, one_line};
use crate::render::{Style, write_line};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Good,
    /// Something is left out, and everything else works.
    Limited,
    /// Turns can't run, or aren't kept.
    Bad,
}

/// What a check found.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was looked at.
    subject: String,
    health: Health,
    /// What was found, and what to do.
    text: String,
}

impl Finding {
    fn new(subject: impl Into<String>, health: Health, text: impl AsRef<str>) -> Self {
        Self {
            subject: subject.into(),
            health,
            text: one_line(text.as_ref()),
        }
    }
}

pub(super) fn run(args: &DoctorArgs, place: &PlaceArgs, console: &Console) -> Outcome {
    block_on(async {
        let findings = examine(place).await?;
        let style = Style::new(console.colour && console.shows_answers);
        print(|out| {
            findings.iter().try_for_each(|finding| match args.json {
                true => write_line(out, finding),
                false => writeln!(out, "{}", line(finding, style)),
            })
        })?;
        let bad = findings.iter().any(|finding| finding.health == Health::Bad);
        Ok(if bad { FAILED } else { DONE })
    })
}

fn line(finding: &Finding, style: Style) -> String {
    let mark = match finding.health {
        Health::Good => style.good("✓"),
        Health::Limited => style.warning("!"),
        Health::Bad => style.bad("✗"),
    };
    format!("{mark} {}: {}", style.bold(&finding.subject), finding.text)
}

async fn examine(place: &PlaceArgs) -> Outcome<Vec<Finding>> {
    let environment = Environment::of_process();
    let mut settings = opening::settings(place)?;
    let chosen = engine_choice::choose(&mut settings, &environment)
        .await
        .ok();
    let registry = assembly::registry(&settings)?;
    let mut findings = vec![checks::configuration(config::user_file(
        place,
        &environment,
    ))];
    findings.push(checks::store(&settings, &registry).await);
    findings.push(checks::runner(&settings, &registry).await);
    findings.push(checks::tools(&settings, &registry).await);
    findings.extend(checks::engines(&registry, chosen.as_deref(), &environment).await);
    if cfg!(feature = "engine-local") {
        findings.push(python::check().await);
    }
    Ok(findings)
}
