//! Records that nothing is amiss with, told at the least expense.
//!
//! A check wants to know what is wrong with a log, and of nearly all records
//! nothing is. Such a one is as [`encode`](crate::frame::encode) writes it, has
//! the number that comes next, no references to payloads, data of an ordinary
//! depth, and a checksum that fits. Whatever isn't quite so is left to those who
//! can tell the difference.

use crate::frame::{MAX_DEPTH, START, SUFFIX_LEN, Seal, count_opening, is_kind, seal};
use crate::survey::Surveyed;

/// What stands between a record's number and its time.
const TIME: &[u8] = b",\"t\":";
/// How many digits a time has, until the year 2286.
const TIME_DIGITS: usize = 13;
/// What stands before a record's kind, and after it.
const KIND: &[u8] = b",\"k\":\"";
const DATA: &[u8] = b"\",\"d\":";

/// Tells sound records.
pub(crate) struct Sound {
    /// What the next record begins with, up to its time.
    start: Vec<u8>,
    /// What stood from the last record's kind to its data.
    kind: Vec<u8>,
}

impl Sound {
    /// For a log whose next record has this number.
    pub(crate) fn new(seq: u64) -> Self {
        let mut start = START.to_vec();
        start.extend_from_slice(seq.to_string().as_bytes());
        start.extend_from_slice(TIME);
        Self {
            start,
            kind: Vec::new(),
        }
    }

    /// Whether this line, without its line break, of which a survey says that, is
    /// the next record and sound; the next one is the one after it then.
    pub(crate) fn take(&mut self, line: &[u8], surveyed: Surveyed) -> bool {
        let sound = self.is_sound(line, surveyed).unwrap_or(false);
        if sound {
            self.count();
        }
        sound
    }

    fn is_sound(&mut self, line: &[u8], surveyed: Surveyed) -> Option<bool> {
        let rest = line.strip_prefix(self.start.as_slice())?;
        let (time, rest) = rest.split_at_checked(TIME_DIGITS)?;
        // All of them whatever the first one is: that is quicker.
        let digits = time
            .iter()
            .fold(true, |digits, byte| digits & byte.is_ascii_digit());
        if !digits {
            return None;
        }
        let rest = match rest.strip_prefix(self.kind.as_slice()) {
            Some(rest) if !self.kind.is_empty() => rest,
            _ => self.other_kind(rest)?,
        };
        let data = &rest[..rest.len().checked_sub(SUFFIX_LEN)?];
        let shallow = surveyed.opening <= MAX_DEPTH || count_opening(data) <= MAX_DEPTH;
        Some(surveyed.text && shallow && matches!(seal(line), Seal::Fits))
    }

    /// The same for a kind that isn't the last record's.
    fn other_kind<'l>(&mut self, rest: &'l [u8]) -> Option<&'l [u8]> {
        let named = rest.strip_prefix(KIND)?;
        let end = memchr::memchr(b'"', named)?;
        let data = named[end..].strip_prefix(DATA)?;
        if !std::str::from_utf8(&named[..end]).is_ok_and(is_kind) {
            return None;
        }
        self.kind.clear();
        self.kind
            .extend_from_slice(&rest[..rest.len() - data.len()]);
        Some(data)
    }

    /// Adds one to the number, digit by digit.
    fn count(&mut self) {
        let digits = START.len()..self.start.len() - TIME.len();
        for at in digits.rev() {
            match self.start[at] {
                b'9' => self.start[at] = b'0',
                _ => {
                    self.start[at] += 1;
                    return;
                }
            }
        }
        self.start.insert(START.len(), b'1');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{decode, encode, encode_with_blobs};
    use crate::survey::Survey;

    fn take(sound: &mut Sound, line: &[u8]) -> bool {
        let whole = 0..line.len();
        let surveyed = Survey::default().line(&[line, b"\n"].concat(), &whole);
        sound.take(line, surveyed)
    }

    fn line(seq: u64, kind: &str, data: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes, seq, 1_760_000_000_123, kind, data);
        bytes.pop();
        bytes
    }

    #[test]
    fn numbers_and_kinds_go_on() {
        let mut sound = Sound::new(8);
        for (seq, kind) in [(8, "item"), (9, "item"), (10, "turn_ended"), (11, "item")] {
            assert!(take(&mut sound, &line(seq, kind, "{\"a\":\"ä\"}")), "{seq}");
        }
        assert!(!take(&mut sound, &line(11, "item", "1")), "a number again");
        assert!(
            !take(&mut sound, &line(13, "item", "1")),
            "a number is missing"
        );
        assert!(
            take(&mut sound, &line(12, "item", "1")),
            "and nothing was passed"
        );
        let mut sound = Sound::new(999);
        assert!(take(&mut sound, &line(999, "x", "1")) && take(&mut sound, &line(1000, "x", "1")));
    }

    #[test]
    fn whatever_is_not_quite_so_is_not_told_sound() {
        let check = |what: &str, line: &[u8]| {
            assert!(!take(&mut Sound::new(3), line), "{what}");
            // Nor after a sound one, whose kind is known.
            let mut sound = Sound::new(2);
            assert!(
                take(&mut sound, &self::line(2, "item", "1")) && !take(&mut sound, line),
                "{what}"
            );
        };
        let good = line(3, "item", "[1]");
        let text = |text: &str| text.as_bytes().to_vec();
        check("nothing", b"");
        check("a fragment", &good[..good.len() - 1]);
        check(
            "no checksum",
            &text(r#"{"s":3,"t":1760000000123,"k":"item","d":[1]}"#),
        );
        let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
        check("deep", &line(3, "item", &deep));
        let many = format!("[{}1]", "[],".repeat(150));
        check("many brackets", &line(3, "item", &many));
        check("another kind of kind", &line(3, "Item", "1"));
        let mut short = Vec::new();
        encode(&mut short, 3, 12, "item", "1");
        short.pop();
        check("another time", &short);
        let mut blobs = Vec::new();
        encode_with_blobs(&mut blobs, 3, 1_760_000_000_123, "item", "[1]", &[(0, 3)]);
        blobs.pop();
        check("payloads", &blobs);
        let mut binary = good[..good.len() - SUFFIX_LEN - 1].to_vec();
        binary.extend_from_slice(b"\xff]");
        crate::frame::push_seal(&mut binary, 0);
        binary.pop();
        check("not UTF-8", &binary);
    }

    #[test]
    fn no_flipped_bit_is_sound_and_all_that_is_sound_decodes() {
        let good = line(3, "item", r#"{"text":"abcABC","n":[1,2],"q":"\"\\"}"#);
        assert!(take(&mut Sound::new(3), &good) && decode(&good).is_ok());
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(!take(&mut Sound::new(3), &bad), "byte {at} bit {bit}");
            }
        }
    }
}
