//! Numbers for people.

use haft_api::Usage;

/// A count with its digits in threes.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if number < 1_000 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1_000.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 999.95 {
            break;
        }
        value /= 1_000.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// How long ago something was.
pub(crate) fn age(now_ms: u64, then_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1_000;
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Tokens that were used; `None` if nobody said.
pub(crate) fn tokens(usage: &Usage) -> Option<String> {
    let input = usage.input.map(|input| {
        let cached = usage.cached.filter(|cached| *cached > 0);
        let cached = cached.map_or_else(String::new, |c| format!(" ({} cached)", count(c)));
        format!("{} tokens in{cached}", count(input))
    });
    let output = usage.output.map(|output| format!("{} out", count(output)));
    let parts: Vec<_> = input.into_iter().chain(output).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A sum of money, to the digits that an estimate is worth.
pub(crate) fn dollars(sum: f64) -> String {
    match sum {
        s if s >= 1.0 => format!("${s:.2}"),
        s if s >= 0.01 => format!("${s:.3}"),
        s => format!("${s:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [999, 1_000, 98_362_432, 999_999, 5_000_000_000_000].map(bytes),
            ["999 B", "1.0 kB", "98.4 MB", "1.0 MB", "5.0 TB"]
        );
        let ages = [0, 59_999, 60_000, 7_200_000, 200_000_000].map(|then| age(200_000_000, then));
        assert_eq!(ages, ["2 d", "2 d", "2 d", "2 d", "just now"]);
        assert_eq!(age(7_200_000, 3_600_000), "1 h");
        assert_eq!(age(600_000, 0), "10 min");
        assert_eq!(age(0, 5_000), "just now");
    }

    #[test]
    fn usage_says_what_is_known() {
        let check = |input, cached, output, expected: Option<&str>| {
            let usage = Usage {
                input,
                cached,
                output,
                ..Usage::default()
            };
            assert_eq!(tokens(&usage).as_deref(), expected);
        };
        check(None, None, None, None);
        check(
            Some(1_200),
            Some(1_000),
            Some(5),
            Some("1,200 tokens in (1,000 cached), 5 out"),
        );
        check(Some(7), Some(0), None, Some("7 tokens in"));
        check(None, None, Some(7), Some("7 out"));
    }
}
