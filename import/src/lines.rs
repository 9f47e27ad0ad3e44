//! From a file to its JSON lines, whatever state it is in.

use std::io::BufRead;

use haft_api::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::losses::Losses;

/// The longest line that is read. Screenshots stand in lines; more than this is
/// no session.
const LONGEST: usize = 64 * 1024 * 1024;

/// A line of the file.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) value: Value,
}

/// Reads all lines that are JSON objects; the others are losses.
pub(crate) fn read(mut file: impl BufRead, losses: &mut Losses) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = file.read_until(b'\n', &mut bytes).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the session file can't be read").source(error)
        })?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            continue;
        }
        if text.len() > LONGEST {
            losses.add(number, "a line of more than 64 MiB was skipped");
            continue;
        }
        match parse(text) {
            Some((value, whole)) if value.is_object() => {
                if !whole {
                    losses.add(number, "half a character was replaced");
                }
                lines.push(Line { number, value });
            }
            _ => losses.add(number, "a line that is no JSON object was skipped"),
        }
    }
    Ok(lines)
}

/// The value, and whether it is what was written: JavaScript writes the half of
/// a character that a text was cut in, which is no Unicode text.
fn parse(text: &str) -> Option<(Value, bool)> {
    match serde_json::from_str(text) {
        Ok(value) => Some((value, true)),
        Err(_) => {
            let mended = without_lone_surrogates(text)?;
            Some((serde_json::from_str(&mended).ok()?, false))
        }
    }
}

/// The same JSON with U+FFFD in place of escaped surrogates that have no other
/// half; `None` if there are none.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let unit = code_unit(escape);
        let taken = match unit {
            Some(0xd800..=0xdbff) if matches!(code_unit(&escape[6..]), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                mended.push_str("\\ufffd");
                changed = true;
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            // A backslash and what it escapes, which may be another backslash.
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&escape[..taken]);
        rest = &escape[taken..];
    }
    mended.push_str(rest);
    changed.then_some(mended)
}

/// The number of the escape `\uXXXX` that a text begins with.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_replaced_and_nothing_else() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(without_lone_surrogates(text).as_deref(), expected, "{text}");
        };
        check(r#"{"a":"x"}"#, None);
        check(r#"{"a":"\ud83d\ude00 \n \\ud83d \u00e9"}"#, None);
        check(r#"{"a":"\ud83d"}"#, Some(r#"{"a":"\ufffd"}"#));
        check(r#""\ude00\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#));
        check(r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#));
        check(r#""\ud83dé\"#, Some(r#""\ufffdé\"#));
    }

    #[test]
    fn every_line_that_is_json_is_read() {
        let file =
            b"\xef\xbb\xbf{\"a\":1}\r\n\n[1]\n{\"b\":\"\xff\"}\n{\"c\":\"\\ud800\"}\n{\"d\":";
        let mut losses = Losses::default();
        let lines = read(&file[..], &mut losses).unwrap();
        let numbers: Vec<_> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [1, 4, 5]);
        assert_eq!(lines[2].value["c"], "\u{fffd}");
        let losses: Vec<_> = losses.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(
            losses,
            [
                "a line that is no JSON object was skipped (2 times, first in line 3)",
                "half a character was replaced (line 5)",
            ]
        );
    }
}
