//! Finds the records in a line that isn't one.
//!
//! A crash or a lost line break puts a fragment and a record, or two records,
//! on one line. What is found must be a record that was written as one, never
//! data inside another that merely look like it; a tool's output may well be
//! made to. So, of a line that is no record itself:
//! - records that stand back to back at its beginning count: a proper prefix of
//!   a record is never balanced JSON;
//! - after other bytes only the one counts that ends where the line ends *and*
//!   a line break follows, which no data can contain.

use std::ops::Range;

use memchr::memmem;

use crate::frame::{CHECKSUM, Fault, Frame, START, SUFFIX_LEN, checksum_digits, decode};

/// How many bytes of checksums one line may cost, lest a hostile one of 16 MiB
/// takes minutes. What isn't found by then stays damage.
const WORK_LIMIT: usize = 1 << 30;

/// A piece of a line: a record, or bytes that are none.
pub(crate) type Piece = (Range<usize>, Result<(), Fault>);

/// Takes a line apart that isn't a record. `fault` is what's wrong with it as a
/// whole; `broken` says whether a line break follows it.
pub(crate) fn resync(line: &[u8], fault: Fault, broken: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(len) = record_at_start(&line[start..]) {
        pieces.push((start..start + len, Ok(())));
        start += len;
    }
    let rest = &line[start..];
    if rest.is_empty() {
        return pieces;
    }
    match broken.then(|| record_at_end(rest)).flatten() {
        Some(at) => {
            pieces.push((start..start + at, Err(Fault::NoRecord)));
            pieces.push((start + at..line.len(), Ok(())));
        }
        None => pieces.push((start..line.len(), Err(fault))),
    }
    pieces
}

/// The length of the record that a text begins with.
fn record_at_start(text: &[u8]) -> Option<usize> {
    if !text.starts_with(START) {
        return None;
    }
    let (mut checksum, mut done) = (0, 0);
    for at in memmem::find_iter(text, CHECKSUM) {
        let Some(suffix) = text.get(at..at + SUFFIX_LEN) else {
            break;
        };
        if checksum_digits(suffix).is_none() {
            continue;
        }
        checksum = crc32c::crc32c_append(checksum, &text[done..at]);
        done = at;
        let end = at + SUFFIX_LEN;
        if decode_with(checksum, suffix, &text[..end]).is_some_and(is_whole) {
            return Some(end);
        }
    }
    None
}

/// Reads a record whose checksum up to its suffix is known already.
fn decode_with<'a>(checksum: u32, suffix: &[u8], line: &'a [u8]) -> Option<Frame<'a>> {
    let digits = checksum_digits(suffix)?;
    crate::frame::same_checksum(checksum, digits)
        .then(|| decode(line).ok())
        .flatten()
}

fn is_whole(frame: Frame<'_>) -> bool {
    frame.verified && frame.raw_data().is_ok()
}

/// Where the record begins that a text ends with.
fn record_at_end(text: &[u8]) -> Option<usize> {
    let suffix = text.get(text.len().checked_sub(SUFFIX_LEN)?..)?;
    checksum_digits(suffix)?;
    let mut work = 0;
    for at in memmem::find_iter(text, START) {
        work += text.len() - at;
        if work > WORK_LIMIT {
            return None;
        }
        if decode(&text[at..]).is_ok_and(is_whole) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode;

    fn record(seq: u64, data: &str) -> String {
        let mut buffer = Vec::new();
        encode(&mut buffer, seq, 1, "x", data);
        buffer.pop();
        String::from_utf8(buffer).unwrap()
    }

    /// `+` is a record, `-` other bytes.
    fn check(line: &str, broken: bool, expected: &[(char, &str)]) {
        let found: Vec<_> = resync(line.as_bytes(), Fault::NoRecord, broken)
            .into_iter()
            .map(|(range, kind)| (if kind.is_ok() { '+' } else { '-' }, &line[range]))
            .collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn records_are_found_beside_other_bytes() {
        let (a, b) = (record(1, "{}"), record(2, "[1]"));
        let fragment = r#"{"type":"pr-link","sessionId":"x","prNu"#;
        check(
            &format!("{fragment}{a}"),
            true,
            &[('-', fragment), ('+', &a)],
        );
        check(&format!("{a}{b}"), true, &[('+', &a), ('+', &b)]);
        check(&format!("{a}{b}"), false, &[('+', &a), ('+', &b)]);
        check(
            &format!("{a}{fragment}{b}"),
            true,
            &[('+', &a), ('-', fragment), ('+', &b)],
        );
        check(&format!("{a}x"), true, &[('+', &a), ('-', "x")]);
        let torn = &b[..20];
        check(&format!("{torn}{a}"), true, &[('-', torn), ('+', &a)]);
        check(
            &format!("{torn}\0\0{a}"),
            true,
            &[('-', &format!("{torn}\0\0")), ('+', &a)],
        );
        check("nothing", true, &[('-', "nothing")]);
    }

    #[test]
    fn a_record_inside_of_anothers_data_is_never_taken() {
        let inner = record(1, "{}");
        let outer = record(2, &format!("[{inner},{inner}]"));
        let damaged = outer.replace("\"k\":\"x\",\"d\":[", "\"k\":\"y\",\"d\":[");
        check(&damaged, true, &[('-', &damaged)]);
        // Cut at every byte: also right behind an inner record.
        for len in 1..outer.len() {
            let torn = &outer[..len];
            check(torn, false, &[('-', torn)]);
            let next = record(2, "null");
            check(&format!("{torn}{next}"), true, &[('-', torn), ('+', &next)]);
        }
    }

    #[test]
    fn a_hostile_line_ends_in_bounded_time() {
        let line = format!("{}{}", "{\"s\":".repeat(3_000_000), ",\"c\":\"00000000\"}");
        let started = std::time::Instant::now();
        let whole = line.as_str();
        check(whole, true, &[('-', whole)]);
        assert!(started.elapsed().as_secs() < 30);
    }
}
