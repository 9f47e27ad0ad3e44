//! How a command ended, as its supervisor wrote it down.

use haft_api::Ending;

/// The kernel's signal for a file over its limit, which is what output is here.
const OVER_FILE_LIMIT: i32 = 25;

/// What shells call the signals that end a process.
const SIGNALS: [(&str, i32); 16] = [
    ("Hangup", 1),
    ("Interrupt", 2),
    ("Quit", 3),
    ("Illegal instruction", 4),
    ("Trace/breakpoint trap", 5),
    ("Aborted", 6),
    ("Bus error", 7),
    ("Floating point exception", 8),
    ("Arithmetic exception", 8),
    ("Killed", 9),
    ("User defined signal 1", 10),
    ("Segmentation fault", 11),
    ("User defined signal 2", 12),
    ("Broken pipe", 13),
    ("Alarm clock", 14),
    ("Terminated", 15),
];

/// All that is known of a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    /// Bytes of standard output and of error output.
    pub(crate) sizes: [u64; 2],
    pub(crate) leftovers: Vec<u32>,
}

/// Reads a supervisor's last note. Its lines: the cause, the shell's code and
/// the sizes; the shell's job; signals that were sent; leftovers.
pub(crate) fn parse(note: &str) -> Option<Ended> {
    let mut lines = note.lines();
    let mut first = lines.next()?.split_whitespace();
    let cause = first.next()?;
    let code: i32 = first.next()?.parse().ok()?;
    let sizes = [first.next()?.parse().ok()?, first.next()?.parse().ok()?];
    let job = lines.next().unwrap_or_default();
    let numbers = |line: Option<&str>| -> Vec<u32> {
        let words = line.unwrap_or_default().split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let sent = numbers(lines.next());
    let leftovers = numbers(lines.next());
    let ending = match (cause, of_job(job, code)) {
        ("timeout", _) => Ending::TimedOut,
        ("cancelled" | "abandoned", _) => Ending::Cancelled,
        ("output", _) => Ending::Signalled {
            signal: OVER_FILE_LIMIT,
        },
        (_, Ending::Signalled { signal }) if sent.iter().any(|&s| s.cast_signed() == signal) => {
            Ending::Cancelled
        }
        (_, ending) => ending,
    };
    Some(Ended {
        ending,
        sizes,
        leftovers,
    })
}

/// A line such as `[2]+  Exit 3  command`, `[2] + Done(3)` or `[2] + Killed`.
fn of_job(job: &str, code: i32) -> Ending {
    let status = job.split_once(']').map_or("", |(_, rest)| rest);
    let status = status.trim_start_matches(['+', '-', ' ']);
    let number = |text: &str| -> Option<i32> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    if let Some(rest) = status.strip_prefix("Done") {
        let code = rest.strip_prefix('(').and_then(number).unwrap_or(0);
        return Ending::Exited { code };
    }
    if let Some(code) = status.strip_prefix("Exit ").and_then(number) {
        return Ending::Exited { code };
    }
    let named = SIGNALS.iter().find(|(name, _)| status.starts_with(name));
    if let Some(&(_, signal)) = named {
        return Ending::Signalled { signal };
    }
    match code {
        // 127 is also what a shell says that has forgotten its job.
        127 | 129.. => Ending::Unknown {
            reason: format!("the far side's shell says {code} and {status:?}"),
        },
        code => Ending::Exited { code },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_over_128_and_a_signal_are_told_apart() {
        let check = |note: &str, expected: Ending| {
            assert_eq!(parse(note).unwrap().ending, expected, "{note}");
        };
        let exited = |code| Ending::Exited { code };
        let signalled = |signal| Ending::Signalled { signal };
        check("- 127 0 0\n[2] + Done\n\n", exited(0));
        check("- 127 0 0\n[2] + Done(137)\n\n", exited(137));
        check("- 137 0 0\n[2]+  Exit 137     ( x )\n\n", exited(137));
        check("- 127 0 0\n[2] + Killed\n\n", signalled(9));
        check(
            "- 139 0 0\n[2]+  Segmentation fault  (core dumped) x\n",
            signalled(11),
        );
        check("- 127 0 0\n[2] + Terminated\n15\n", Ending::Cancelled);
        check("- 127 0 0\n[2] + Done(143)\n15\n", exited(143));
        check("timeout 127 0 0\n[2] + Killed\n", Ending::TimedOut);
        check("cancelled 127 0 0\n[2] + Done\n", Ending::Cancelled);
        check("abandoned 127 0 0\n[2] + Killed\n", Ending::Cancelled);
        check("output 127 0 0\n[2] + Killed\n", signalled(25));
        assert!(matches!(
            parse("- 127 0 0\n\n").unwrap().ending,
            Ending::Unknown { .. }
        ));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn sizes_and_leftovers_are_read() {
        let ended = parse("- 0 12 3\n[2]+  Done x\n\n 41 42\n").unwrap();
        assert_eq!((ended.sizes, ended.leftovers), ([12, 3], vec![41, 42]));
    }
}
