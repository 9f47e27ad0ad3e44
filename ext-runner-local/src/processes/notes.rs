//! What is said of a limit that a command has met, at the end of its standard
//! error: the system tells the command no more than that something failed.

use crate::config::Limits;
use crate::supervisor::Met;

/// A line for each.
pub(crate) fn of_limits(met: Met, limits: &Limits) -> Vec<String> {
    let each = [
        (
            met.cpu,
            limits.cpu_seconds,
            "cpu_seconds",
            "seconds of processor time",
        ),
        (
            met.memory,
            limits.memory_bytes,
            "memory_bytes",
            "bytes of memory",
        ),
        (
            met.processes,
            limits.processes,
            "processes",
            "processes at a time",
        ),
        (
            met.file_size,
            limits.file_bytes,
            "file_bytes",
            "bytes in a file",
        ),
    ];
    let told = |(met, limit, key, what): (bool, Option<u64>, &str, &str)| {
        let limit = limit.filter(|_| met)?;
        Some(format!(
            "haft: the command met its limit of {limit} {what} (limits.{key} in the runner's settings)\n"
        ))
    };
    each.into_iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_met_is_named_with_its_setting() {
        let met = Met {
            processes: true,
            // Somebody else's limit.
            file_size: true,
            ..Met::default()
        };
        let limits = Limits {
            processes: Some(7),
            cpu_seconds: Some(1),
            ..Limits::default()
        };
        let notes = of_limits(met, &limits);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("limit of 7 processes"), "{notes:?}");
        assert!(notes[0].contains("limits.processes"), "{notes:?}");
    }
}
