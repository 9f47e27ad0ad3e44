//! One record as one line of text.
//!
//! `{"s":41,"t":1760000000123,"k":"item","d":{…},"c":"1a2b3c4d"}`: the
//! checksum is the CRC-32C of all bytes before `,"c":`, stands last, and is
//! compared as bytes, not as a number: a flipped bit that turns `a` into `A`
//! must count.

use std::borrow::Cow;

use haft_api::{known_json, raw_json};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::blobs::push_places;

/// The longest line, with its line break.
pub(crate) const MAX_LINE: usize = 16 * 1024 * 1024;

/// How deep a record's data may be nested.
pub(crate) const MAX_DEPTH: usize = 100;

/// What every record begins with.
pub(crate) const START: &[u8] = b"{\"s\":";

/// What stands before the checksum's digits.
pub(crate) const CHECKSUM: &[u8] = b",\"c\":\"";

/// The length of `,"c":"1a2b3c4d"}`.
pub(crate) const SUFFIX_LEN: usize = 16;

/// A record as it stands in a line.
#[derive(Debug, Clone)]
pub(crate) struct Frame<'a> {
    pub(crate) seq: u64,
    pub(crate) time_ms: u64,
    pub(crate) kind: Cow<'a, str>,
    /// Text that claims to be JSON; see [`Frame::raw_data`].
    pub(crate) data: &'a str,
    /// Where in the data references to payloads stand, as JSON.
    pub(crate) blobs: Option<Cow<'a, str>>,
    /// Whether a checksum vouches for it.
    pub(crate) verified: bool,
}

/// Why a line, or a piece of one, isn't a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It isn't in the form of a record: a fragment, or somebody else's text.
    NoRecord,
    /// A record in form, whose checksum is another's.
    Checksum,
    /// Zero bytes.
    Zeros,
    /// Longer than [`MAX_LINE`].
    TooLong,
    /// Its data are nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// No checksum vouches for it, and its data aren't JSON.
    NotJson,
    /// A record without a checksum whose number isn't the next one.
    OutOfSequence,
}

impl Fault {
    /// The fault as a clause that follows "bytes that".
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::NoRecord => "aren't a record",
            Self::Checksum => {
                "don't fit their checksum (to keep a line that was edited on purpose, remove its \
                 `c` field)"
            }
            Self::Zeros => "are zeros",
            Self::TooLong => "are a line longer than 16 MiB",
            Self::TooDeep => "are nested deeper than 100 levels",
            Self::NotJson => "are a record whose data aren't JSON",
            Self::OutOfSequence => "are a record without checksum and out of sequence",
        }
    }
}

/// Appends a record's line, with its line break, to a buffer.
///
/// Line breaks can stand only between the data's tokens, where JSON doesn't
/// care for them; each becomes a space.
pub(crate) fn encode(buffer: &mut Vec<u8>, seq: u64, time_ms: u64, kind: &str, data: &str) {
    encode_with_blobs(buffer, seq, time_ms, kind, data, &[]);
}

/// Appends the line of a record whose data have references at these places.
pub(crate) fn encode_with_blobs(
    buffer: &mut Vec<u8>,
    seq: u64,
    time_ms: u64,
    kind: &str,
    data: &str,
    places: &[(usize, usize)],
) {
    let start = buffer.len();
    buffer.reserve(data.len() + kind.len() + 80);
    buffer.extend_from_slice(START);
    push_decimal(buffer, seq);
    buffer.extend_from_slice(b",\"t\":");
    push_decimal(buffer, time_ms);
    buffer.extend_from_slice(b",\"k\":\"");
    buffer.extend_from_slice(kind.as_bytes());
    buffer.push(b'"');
    if !places.is_empty() {
        buffer.extend_from_slice(b",\"b\":[");
        push_places(buffer, places);
        buffer.push(b']');
    }
    buffer.extend_from_slice(b",\"d\":");
    let data_start = buffer.len();
    buffer.extend_from_slice(data.as_bytes());
    let mut written = &mut buffer[data_start..];
    while let Some(at) = memchr::memchr(b'\n', written) {
        written[at] = b' ';
        written = &mut written[at + 1..];
    }
    push_seal(buffer, start);
}

/// Ends an object that begins at `start` and whose fields are all in the buffer
/// with its checksum, and the line with it.
pub(crate) fn push_seal(buffer: &mut Vec<u8>, start: usize) {
    let checksum = crc32c::crc32c(&buffer[start..]);
    buffer.extend_from_slice(CHECKSUM);
    buffer.extend_from_slice(&hex(checksum));
    buffer.extend_from_slice(b"\"}\n");
}

/// A checksum's eight digits.
fn hex(checksum: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Half a byte in each byte; then what makes digits and letters of them, in
    // all at once.
    let spread = u64::from(checksum);
    let spread = (spread << 16 | spread) & 0x0000_ffff_0000_ffff;
    let spread = (spread << 8 | spread) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread << 4 | spread) & (0x0f * EACH);
    let letters = (spread + 6 * EACH) >> 4 & EACH;
    let digits = spread + u64::from(b'0') * EACH + letters * u64::from(b'a' - b'9' - 1);
    digits.to_be_bytes()
}

/// Appends a number in decimal.
pub(crate) fn push_decimal(buffer: &mut Vec<u8>, mut number: u64) {
    // As many as the largest number has.
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[at..]);
}

/// Whether this is a word of `a-z`, `0-9`, `_` and `.`, as kinds are.
pub(crate) fn is_kind(text: &str) -> bool {
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'.';
    !text.is_empty() && text.len() <= 128 && text.bytes().all(word)
}

/// Whether JSON text is nested deeper than [`MAX_DEPTH`].
pub(crate) fn is_too_deep(json: &str) -> bool {
    let bytes = json.as_bytes();
    // Text with few brackets can't be deep; nearly all records end here.
    if count_opening(bytes) <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// How many `{` and `[` there are, in strings too.
pub(crate) fn count_opening(bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks();
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    blocks.iter().map(opening_in).sum::<usize>() + opening_in(&last)
}

/// How many bytes are counted together.
pub(crate) const BLOCK: usize = 64;

/// How many `{` and `[` there are.
pub(crate) fn opening_in(block: &[u8; BLOCK]) -> usize {
    // The two differ in one bit, and sums of bytes are made many at once.
    let opening = block.iter().map(|byte| u8::from(byte | 0x20 == b'{'));
    usize::from(opening.sum::<u8>())
}

/// Whether this is `,"c":"1a2b3c4d"}`, and the eight digits in it.
pub(crate) fn checksum_digits(suffix: &[u8]) -> Option<&[u8]> {
    let digits = suffix.strip_prefix(CHECKSUM)?.strip_suffix(b"\"}")?;
    (digits.len() == 8).then_some(digits)
}

/// Whether these digits are the checksum, in exactly the form it is written.
pub(crate) fn same_checksum(checksum: u32, digits: &[u8]) -> bool {
    digits == hex(checksum)
}

/// What a line's end says of it.
pub(crate) enum Seal<'a> {
    /// There is a checksum, and it fits.
    Fits,
    /// There is a checksum, and it is another's.
    Broken,
    /// There is none. These are all bytes.
    Absent(&'a [u8]),
}

/// Looks at a line's checksum.
pub(crate) fn seal(line: &[u8]) -> Seal<'_> {
    let split = line.split_at_checked(line.len().wrapping_sub(SUFFIX_LEN));
    match split.and_then(|(body, suffix)| Some((body, checksum_digits(suffix)?))) {
        Some((body, digits)) if same_checksum(crc32c::crc32c(body), digits) => Seal::Fits,
        Some(_) => Seal::Broken,
        None => Seal::Absent(line),
    }
}

/// Reads a line, without its line break, as a record.
pub(crate) fn decode(line: &[u8]) -> Result<Frame<'_>, Fault> {
    match seal(line) {
        _ if line.len() >= MAX_LINE => Err(Fault::TooLong),
        Seal::Fits => decode_sealed(line),
        Seal::Broken => Err(Fault::Checksum),
        Seal::Absent(line) => decode_unsealed(line),
    }
}

/// Reads a line whose checksum was found right.
pub(crate) fn decode_sealed(line: &[u8]) -> Result<Frame<'_>, Fault> {
    let body = &line[..line.len().saturating_sub(SUFFIX_LEN)];
    if let Some(frame) = decode_canonical(body) {
        return Ok(frame);
    }
    /// The fields in any order, among others that a later version added.
    #[derive(Deserialize)]
    struct Fields<'a> {
        s: u64,
        t: u64,
        #[serde(borrow)]
        k: Cow<'a, str>,
        #[serde(borrow)]
        d: &'a RawValue,
        #[serde(borrow, default)]
        b: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(|_| Fault::NoRecord)?;
    Ok(Frame {
        seq: fields.s,
        time_ms: fields.t,
        kind: fields.k,
        data: fields.d.get(),
        blobs: fields.b.map(|b| Cow::Borrowed(b.get())),
        verified: true,
    })
}

/// Reads the form that [`encode`] writes, without the checksum.
fn decode_canonical(body: &[u8]) -> Option<Frame<'_>> {
    let rest = body.strip_prefix(START)?;
    let (seq, rest) = number(rest)?;
    let (time_ms, rest) = number(rest.strip_prefix(b",\"t\":")?)?;
    let rest = rest.strip_prefix(b",\"k\":\"")?;
    let end = memchr::memchr(b'"', rest)?;
    let kind = std::str::from_utf8(&rest[..end]).ok()?;
    let data = rest[end..].strip_prefix(b"\",\"d\":")?;
    Some(Frame {
        seq,
        time_ms,
        kind: Cow::Borrowed(is_kind(kind).then_some(kind)?),
        data: std::str::from_utf8(data).ok()?,
        blobs: None,
        verified: true,
    })
}

/// The decimal number that a text begins with, and the rest.
pub(crate) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    /// So many digits always fit.
    const SHORT: usize = 19;
    // Once through for both: nearly all numbers are short.
    let (mut number, mut len) = (0_u64, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        len += 1;
    }
    let (digits, rest) = text.split_at(len);
    if len > SHORT {
        number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    }
    (len > 0).then_some((number, rest))
}

/// Reads a line that has no checksum. It must have the four fields and no
/// other but `b`, so that damage to the field `c` itself doesn't pass for its absence.
pub(crate) fn decode_unsealed(line: &[u8]) -> Result<Frame<'_>, Fault> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields<'a> {
        s: u64,
        t: u64,
        #[serde(borrow)]
        k: Cow<'a, str>,
        #[serde(borrow)]
        d: &'a RawValue,
        // A list: what is left of a damaged `c` isn't one.
        #[serde(default)]
        b: Option<Vec<(usize, usize)>>,
    }
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(|_| Fault::NoRecord)?;
    let blobs = fields.b.map(|places| {
        let mut text = b"[".to_vec();
        push_places(&mut text, &places);
        Cow::Owned(format!("{}]", String::from_utf8_lossy(&text)))
    });
    Ok(Frame {
        seq: fields.s,
        time_ms: fields.t,
        kind: fields.k,
        data: fields.d.get(),
        blobs,
        verified: false,
    })
}

impl Frame<'_> {
    /// The data as JSON. A writer's data are JSON, so that what a checksum
    /// vouches for is taken at its word: to parse it here, only for it to be
    /// parsed again by whoever wants to know what it says, would double the
    /// price of reading.
    pub(crate) fn raw_data(&self) -> Result<Box<RawValue>, Fault> {
        self.raw_data_as(self.data)
    }

    /// The same of these data, which are the frame's with its payloads in them.
    pub(crate) fn raw_data_as(&self, data: &str) -> Result<Box<RawValue>, Fault> {
        if is_too_deep(data) {
            return Err(Fault::TooDeep);
        }
        let data = match self.verified {
            true => known_json(data),
            false => raw_json(data),
        };
        data.map_err(|_| Fault::NotJson)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, kind: &str, data: &str) -> Vec<u8> {
        let mut buffer = Vec::new();
        encode(&mut buffer, seq, 1_760_000_000_123, kind, data);
        assert_eq!(buffer.pop(), Some(b'\n'));
        buffer
    }

    #[test]
    fn the_form_on_disk_is_fixed() {
        let text = String::from_utf8(line(41, "tool_result", r#"{"a": 1.50}"#)).unwrap();
        let body = r#"{"s":41,"t":1760000000123,"k":"tool_result","d":{"a": 1.50}"#;
        let checksum = crc32c::crc32c(body.as_bytes());
        assert_eq!(text, format!("{body},\"c\":\"{checksum:08x}\"}}"));
        // The standard's check value, so that the polynomial is the right one.
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn checksums_have_eight_digits() {
        let halves = (0..16).flat_map(|half| (0..8).map(move |at| half << (4 * at)));
        for checksum in halves.chain([0x0123_4567, 0x89ab_cdef, 0xfedc_ba98, u32::MAX]) {
            let digits = String::from_utf8(hex(checksum).to_vec()).unwrap();
            assert_eq!(digits, format!("{checksum:08x}"));
        }
    }

    #[test]
    fn numbers_come_back() {
        for seq in [0, 9, 10, 1_234_567_890, u64::MAX] {
            let mut buffer = Vec::new();
            push_decimal(&mut buffer, seq);
            assert_eq!(String::from_utf8(buffer.clone()).unwrap(), seq.to_string());
            assert_eq!(number(&buffer), Some((seq, &[][..])));
        }
        assert_eq!(number(b"18446744073709551616"), None);
        let padded = b"000000000000000000000000000007,";
        assert_eq!(number(padded), Some((7, &b","[..])));
        assert_eq!(number(b"x"), None);
    }

    #[test]
    fn data_come_back_byte_for_byte() {
        for data in [
            "{}",
            "null",
            r#"{"n":100000000000000000000000,"f":1.0,"u":"\u00e4ä😀\\\"","n":null}"#,
            r#"{"s":1,"t":2,"k":"x","d":{},"c":"00000000"}"#,
        ] {
            let line = line(7, "x.y_1", data);
            let frame = decode(&line).unwrap();
            assert_eq!((frame.seq, &*frame.kind), (7, "x.y_1"));
            assert!(frame.verified);
            assert_eq!(frame.raw_data().unwrap().get(), data);
        }
    }

    #[test]
    fn data_under_a_checksum_are_not_parsed_again() {
        let line = line(1, "x", "not json");
        assert_eq!(decode(&line).unwrap().raw_data().unwrap().get(), "not json");
        let unsealed = Frame {
            verified: false,
            ..decode(&line).unwrap()
        };
        assert_eq!(unsealed.raw_data().unwrap_err(), Fault::NotJson);
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let line = line(1, "x", "{\n  \"a\": 1\n}");
        assert!(!line.contains(&b'\n'));
        assert_eq!(decode(&line).unwrap().data, "{   \"a\": 1 }");
    }

    #[test]
    fn lines_are_told_apart() {
        let check = |line: &str, expected: Result<bool, Fault>| {
            let outcome = decode(line.as_bytes()).map(|frame| frame.verified);
            assert_eq!(outcome, expected, "{line}");
        };
        let good = String::from_utf8(line(1, "x", "[1]")).unwrap();
        check(&good, Ok(true));
        check(r#"{"s":1,"t":2,"k":"x","d":[1]}"#, Ok(false));
        check(r#"{ "t":2, "s":1, "d":[1], "k":"x" }"#, Ok(false));
        check(&good.replace("[1]", "[2]"), Err(Fault::Checksum));
        // A damaged `c` is no reason to believe the rest.
        check(&good.replace("\"c\"", "\"b\""), Err(Fault::NoRecord));
        check(r#"{"s":1,"t":2,"k":"x"}"#, Err(Fault::NoRecord));
        check("", Err(Fault::NoRecord));
        check("[]", Err(Fault::NoRecord));
        check(&good[..good.len() - 1], Err(Fault::NoRecord));
    }

    #[test]
    fn a_verified_line_may_have_fields_of_a_later_version() {
        let body = r#"{"s":3,"t":4,"x":[1],"k":"y","d":{}"#;
        let checksum = crc32c::crc32c(body.as_bytes());
        let line = format!("{body},\"c\":\"{checksum:08x}\"}}");
        let frame = decode(line.as_bytes()).unwrap();
        assert_eq!((frame.seq, &*frame.kind, frame.data), (3, "y", "{}"));
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed() {
        let good = line(12, "item", r#"{"text":"abcABC","n":[1,2],"q":"\"\\"}"#);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(decode(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings_only() {
        let check = |json: String, expected| assert_eq!(is_too_deep(&json), expected, "{json}");
        check(
            format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)),
            false,
        );
        check(
            format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1)),
            true,
        );
        check(format!("[{}1]", "[],".repeat(500)), false);
        check(
            format!("\"{}\\\"{}\"", "[".repeat(200), "{".repeat(200)),
            false,
        );
    }

    #[test]
    fn kinds_are_words() {
        for (kind, expected) in [
            ("turn_ended", true),
            ("my.ext_2", true),
            ("", false),
            ("A", false),
            ("a b", false),
            ("a\"", false),
            ("ä", false),
        ] {
            assert_eq!(is_kind(kind), expected, "{kind}");
        }
    }
}
