//! Calls' ids on the wire.

use std::borrow::Cow;

/// How long such an id is.
const LENGTH: usize = 9;

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// An id of nine letters and digits, for a provider that takes no others. It
/// depends on the id alone, so that old calls are the same bytes in each request.
pub fn short(id: &str) -> Cow<'_, str> {
    if id.len() == LENGTH && id.bytes().all(|c| c.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    // FNV-1a of 64 bits: stable for ever, which the standard library's isn't.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let digits = (0..LENGTH).map(|_| {
        let digit = DIGITS[(hash % 36) as usize];
        hash /= 36;
        char::from(digit)
    });
    Cow::Owned(digits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_their_own() {
        assert_eq!(short("D681PevKs"), "D681PevKs");
        let ids: Vec<_> = (0..10_000).map(|n| format!("call_{n}")).collect();
        let short: std::collections::BTreeSet<_> = ids.iter().map(|id| short(id)).collect();
        assert_eq!(short.len(), ids.len());
        assert!(
            short
                .iter()
                .all(|id| { id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()) })
        );
    }
}
