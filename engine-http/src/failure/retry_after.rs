//! How long a server asks to wait, in every form they use.

use std::time::{Duration, SystemTime};

use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use serde_json::Value;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// What the headers say: `retry-after-ms`, or `retry-after` in seconds or as a
/// date. Milliseconds.
pub(crate) fn from_headers(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text(&RETRY_AFTER_MS).and_then(|text| text.parse().ok()) {
        return milliseconds(ms, 1.0);
    }
    let value = text(&RETRY_AFTER)?;
    if let Ok(seconds) = value.parse() {
        return milliseconds(seconds, 1_000.0);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    // The server's clock counts, where it tells it.
    let now = text(&DATE)
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .unwrap_or_else(SystemTime::now);
    let left = until.duration_since(now).unwrap_or(Duration::ZERO);
    u64::try_from(left.as_millis()).ok()
}

/// What an error's object says: `retry_after_ms`, `retry_after` in seconds, or
/// the `retryDelay` of a Google error's details. Milliseconds.
pub(super) fn from_body(error: &Value) -> Option<u64> {
    let number = |key: &str| error.get(key).and_then(Value::as_f64);
    if let Some(ms) = number("retry_after_ms") {
        return milliseconds(ms, 1.0);
    }
    if let Some(seconds) = number("retry_after").or_else(|| number("retry_after_seconds")) {
        return milliseconds(seconds, 1_000.0);
    }
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|d| d.get("retryDelay")?.as_str())?;
    span(delay)
}

/// What a message says in words, such as "try again in 1m2.5s". The text is in
/// lower case. Milliseconds.
pub(super) fn from_text(said: &str) -> Option<u64> {
    ["try again in ", "retry in ", "retry after "]
        .iter()
        .find_map(|lead| {
            let start = said.find(lead)? + lead.len();
            span(&said[start..])
        })
}

/// A span of time at the start of a text: numbers with units, one after the
/// other (`6m0s`, `20ms`, `1.5 seconds`).
fn span(text: &str) -> Option<u64> {
    let mut rest = text.trim_start();
    let mut sum = None;
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        // A full stop after the unit is the sentence's.
        let Ok(number) = rest[..digits].parse::<f64>() else {
            return sum;
        };
        let after = rest[digits..].trim_start();
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let factor = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
            "h" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            _ => return sum,
        };
        sum = Some(
            sum.unwrap_or(0)
                .saturating_add(milliseconds(number, factor)?),
        );
        rest = after[letters..].trim_start();
    }
}

fn milliseconds(number: f64, factor: f64) -> Option<u64> {
    // Casts of floats saturate, and nothing negative or infinite is meant.
    number
        .is_finite()
        .then(|| (number.max(0.0) * factor).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let check = |pairs: &[(&str, &str)], expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    value.parse().unwrap(),
                );
            }
            assert_eq!(from_headers(&headers), expected, "{pairs:?}");
        };
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", " 0.25 ")], Some(250));
        check(&[("retry-after", "-3")], Some(0));
        check(&[("retry-after-ms", "1500")], Some(1_500));
        check(
            &[("retry-after", "9"), ("retry-after-ms", "1500")],
            Some(1_500),
        );
        check(&[("retry-after", "soon")], None);
        check(&[("retry-after", "inf")], None);
        check(
            &[
                ("date", "Wed, 21 Oct 2015 07:28:00 GMT"),
                ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT"),
            ],
            Some(30_000),
        );
        check(
            &[
                ("date", "Wed, 21 Oct 2015 07:28:00 GMT"),
                ("retry-after", "Wednesday, 21-Oct-15 07:29:00 GMT"),
            ],
            Some(60_000),
        );
        check(&[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")], Some(0));
    }

    #[test]
    fn bodies() {
        let check = |body: &str, expected: Option<u64>| {
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(from_body(&body), expected, "{body}");
        };
        check(r#"{"retry_after":2}"#, Some(2_000));
        check(r#"{"retry_after":0.5}"#, Some(500));
        check(r#"{"retry_after_ms":12}"#, Some(12));
        check(
            r#"{"details":[{"@type":"x"},{"retryDelay":"38.5s"}]}"#,
            Some(38_500),
        );
        check(r#"{"details":"none"}"#, None);
        check(r#"{}"#, None);
    }

    #[test]
    fn words() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(from_text(text), expected, "{text:?}");
        };
        check("please try again in 20ms. visit x", Some(20));
        check("please try again in 1.898s. visit x", Some(1_898));
        check("try again in 6m0s.", Some(360_000));
        check("try again in 1h2m3s", Some(3_723_000));
        check("please retry in 38.5 seconds", Some(38_500));
        check("retry after 1 minute.", Some(60_000));
        check("try again in a while", None);
        check("try again in 3", None);
        check("slow down", None);
    }
}
