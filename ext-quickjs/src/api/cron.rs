//! `cron`: hooks by the clock.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use rquickjs::{Ctx, Function, Object};

use super::raise;
use crate::native::Native;
use crate::worker::Raised;

type Time = chrono::DateTime<chrono::Local>;

/// Most schedules of a skill.
const MOST: usize = 1_000;

struct Entry {
    cron: Cron,
    expression: String,
    next: Option<Time>,
}

/// A skill's schedules. They end with its runtime.
#[derive(Default)]
pub(crate) struct Schedule {
    entries: BTreeMap<String, Entry>,
}

impl Schedule {
    fn register(&mut self, id: String, expression: &str) -> Result<(), String> {
        if self.entries.len() >= MOST && !self.entries.contains_key(&id) {
            return Err(format!("there are {MOST} schedules, which is the most"));
        }
        let cron = parse(expression)?;
        let next = cron.find_next_occurrence(&chrono::Local::now(), false);
        let next = next.map_err(|e| format!("`{expression}` never comes: {e}"))?;
        let entry = Entry {
            cron,
            expression: expression.to_owned(),
            next: Some(next),
        };
        self.entries.insert(id, entry);
        Ok(())
    }

    /// When the first of them comes. The clock may be set meanwhile: the loop
    /// looks again before.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let next = self.entries.values().filter_map(|entry| entry.next).min()?;
        let wait = (next - chrono::Local::now()).to_std();
        Some(Instant::now() + wait.unwrap_or(Duration::ZERO))
    }

    /// Those whose time has come. What was missed comes once.
    pub(crate) fn take_due(&mut self) -> Vec<String> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let now = chrono::Local::now();
        let mut due = Vec::new();
        for (id, entry) in &mut self.entries {
            if entry.next.is_some_and(|next| next <= now) {
                due.push(id.clone());
                entry.next = entry.cron.find_next_occurrence(&now, false).ok();
            }
        }
        due
    }
}

fn parse(expression: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Required).build();
    parser.parse(expression).map_err(|e| {
        format!(
            "`{expression}` is no schedule: {e} (six fields: second, minute, hour, day of the \
             month, month, day of the week)"
        )
    })
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let register = move |ctx: Ctx<'js>, id: String, expression: String| {
        let outcome = host.cron.borrow_mut().register(id, &expression);
        raise(&ctx, outcome.map_err(Raised::error))
    };
    table.set("cronRegister", Function::new(ctx.clone(), register)?)?;

    let host = Rc::clone(native);
    let unregister = move |id: String| host.cron.borrow_mut().entries.remove(&id).is_some();
    table.set("cronUnregister", Function::new(ctx.clone(), unregister)?)?;

    let host = Rc::clone(native);
    let list = move || -> Vec<Vec<String>> {
        let schedule = host.cron.borrow();
        let entries = schedule.entries.iter().map(|(id, entry)| {
            let next = entry.next.map(|next| next.to_rfc3339()).unwrap_or_default();
            vec![id.clone(), entry.expression.clone(), next]
        });
        entries.collect()
    };
    table.set("cronList", Function::new(ctx.clone(), list)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_fields_and_nothing_else() {
        for (expression, fine) in [
            ("* * * * * *", true),
            ("0 30 9 * * MON-FRI", true),
            ("*/5 * * * * *", true),
            ("* * * * *", false),
            ("61 * * * * *", false),
            ("never", false),
            ("", false),
        ] {
            let parsed = parse(expression).map(|_| ());
            assert_eq!(parsed.is_ok(), fine, "{expression}: {parsed:?}");
        }
    }

    #[test]
    fn what_was_missed_comes_once() {
        let mut schedule = Schedule::default();
        schedule.register("a".to_owned(), "* * * * * *").unwrap();
        assert!(schedule.take_due().is_empty());
        let long_ago = chrono::Local::now() - chrono::Duration::hours(1);
        schedule.entries.get_mut("a").unwrap().next = Some(long_ago);
        assert_eq!(
            schedule.next_wake().map(|at| at <= Instant::now()),
            Some(true)
        );
        assert_eq!(schedule.take_due(), ["a"]);
        assert!(schedule.take_due().is_empty());
    }
}
