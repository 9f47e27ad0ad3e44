//! What servers say when they refuse, as the runtime's errors.

use haft_api::{Error, ErrorKind};
use serde_json::Value;

mod retry_after;
mod wording;

pub(crate) use retry_after::from_headers as retry_after_from_headers;

/// The most of a body that an error quotes, in characters.
const QUOTED_CHARS: usize = 1_000;

/// The most of a body that is read to make an error of, in bytes.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// What a refusal's body says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Refusal {
    message: Option<String>,
    /// Everything that names the kind of error: `code`, `type`, `status`.
    codes: Vec<String>,
    /// An HTTP status that the body gives.
    status: Option<u16>,
    retry_after_ms: Option<u64>,
}

/// The error of an answer with a status of 300 and above. `retry_after_ms` is
/// what the headers say.
pub fn from_response(status: u16, body: &[u8], retry_after_ms: Option<u64>) -> Error {
    let refusal = serde_json::from_slice(body)
        .map(|body| read_refusal(&body))
        .unwrap_or_default();
    let said = match &refusal.message {
        Some(message) => quote(message),
        None => quote(&String::from_utf8_lossy(body)),
    };
    let what = match status_name(status) {
        Some(name) => format!("the server answered {status} {name}"),
        None => format!("the server answered {status}"),
    };
    let message = match said.is_empty() {
        true => format!("{what} and said nothing more"),
        false => format!("{what}: {said}"),
    };
    classify(Some(status), &refusal, &said, message, retry_after_ms)
}

/// The error of an error object within a stream, or in an answer with status
/// 200. `None` where the value is no error at all (`null`, an empty one).
pub fn from_stream(error: &Value) -> Option<Error> {
    let nothing = match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if nothing {
        return None;
    }
    let refusal = read_refusal(error);
    let said = match &refusal.message {
        Some(message) => quote(message),
        None => quote(&error.to_string()),
    };
    let message = format!("the server broke off with an error: {said}");
    Some(classify(refusal.status, &refusal, &said, message, None))
}

/// As [`from_stream`], of the data of an event that is called an error: a text
/// that is no JSON is what it says.
pub fn from_event(data: &[u8]) -> Option<Error> {
    let said = serde_json::from_slice(data)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(data).into_owned()));
    from_stream(&said)
}

fn classify(
    status: Option<u16>,
    refusal: &Refusal,
    said: &str,
    message: String,
    retry_after_ms: Option<u64>,
) -> Error {
    let said = said.to_lowercase();
    let delay = retry_after_ms
        .or(refusal.retry_after_ms)
        .or_else(|| retry_after::from_text(&said));
    let code = |known: &[&str]| refusal.codes.iter().any(|code| known.contains(&&**code));

    let rate_limited = status == Some(429) || code(wording::RATE_CODES);
    let out_of_quota = code(wording::QUOTA_CODES)
        // Some say this of a limit per minute as well, and then when to return.
        || (rate_limited && delay.is_none() && wording::QUOTA.iter().any(|w| said.contains(w)));
    let too_long = code(wording::CONTEXT_CODES)
        || (matches!(status, None | Some(400 | 413 | 422 | 500))
            && wording::CONTEXT.iter().any(|w| said.contains(w)));
    let unsupported = status == Some(501) || wording::UNSUPPORTED.iter().any(|w| said.contains(w));

    let error = if out_of_quota {
        Error::new(ErrorKind::RateLimited, message).permanent()
    } else if rate_limited {
        Error::new(ErrorKind::RateLimited, message)
    } else if too_long {
        Error::new(ErrorKind::ContextOverflow, message)
    } else if unsupported {
        Error::new(ErrorKind::Unsupported, message)
    } else if code(wording::MODEL_CODES) || wording::MODEL.iter().any(|w| said.contains(w)) {
        Error::new(ErrorKind::NotFound, message)
    } else if code(wording::KEY_CODES) {
        Error::new(ErrorKind::Denied, message)
    } else if status.is_none() && code(wording::REQUEST_CODES) {
        Error::new(ErrorKind::InvalidInput, message)
    } else {
        by_status(status, message)
    };
    let error = match status {
        Some(status) => error.context("status", status),
        None => error,
    };
    match delay {
        Some(delay) if !out_of_quota => error.with_retry_after_ms(delay),
        _ => error,
    }
}

fn by_status(status: Option<u16>, message: String) -> Error {
    match status {
        Some(401..=403) => Error::new(ErrorKind::Denied, message),
        Some(404) => Error::new(ErrorKind::NotFound, message),
        Some(408) => Error::new(ErrorKind::Timeout, message).temporary(),
        Some(409 | 423 | 425) => Error::new(ErrorKind::Busy, message).temporary(),
        Some(413) => Error::new(ErrorKind::ContextOverflow, message),
        Some(400..=499) => Error::new(ErrorKind::InvalidInput, message),
        Some(500..) => Error::new(ErrorKind::Unavailable, message),
        // A server that begins to answer and then fails is at fault itself.
        None => Error::new(ErrorKind::Unavailable, message),
        Some(_) => Error::new(ErrorKind::Unexpected, message),
    }
}

fn read_refusal(body: &Value) -> Refusal {
    // Some wrap it in a list.
    let body = match body {
        Value::Array(list) => list.first().unwrap_or(&Value::Null),
        other => other,
    };
    let inner = body
        .get("error")
        .filter(|e| !e.is_null())
        .or_else(|| body.get("errors").and_then(|e| e.get(0)))
        .unwrap_or(body);
    let mut refusal = Refusal {
        message: message_of(inner).or_else(|| message_of(body)),
        ..Refusal::default()
    };
    for level in [inner, body] {
        for key in ["code", "type", "status"] {
            match level.get(key) {
                Some(Value::String(code)) => refusal.note_code(code),
                Some(Value::Number(number)) => refusal.note_status(number.as_u64()),
                _ => {}
            }
        }
        refusal.retry_after_ms = refusal
            .retry_after_ms
            .or_else(|| retry_after::from_body(level));
    }
    refusal
}

impl Refusal {
    fn note_code(&mut self, code: &str) {
        match code.parse() {
            Ok(number) => self.note_status(Some(number)),
            Err(_) => self.codes.push(code.to_lowercase()),
        }
    }

    fn note_status(&mut self, number: Option<u64>) {
        let status = number.and_then(|n| u16::try_from(n).ok());
        self.status = self
            .status
            .or(status.filter(|status| (400..600).contains(status)));
    }
}

fn message_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let message = ["message", "detail", "error_message", "msg"]
                .iter()
                .find_map(|key| fields.get(*key).filter(|m| !m.is_null()))?;
            let message = match message {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // Routers put what the provider behind them said beside it.
            match value.pointer("/metadata/raw") {
                Some(Value::String(raw)) => format!("{message}: {raw}"),
                _ => message,
            }
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// A text in one line, cut where it is too long.
pub fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            quoted.push(' ');
        }
        quoted.push_str(word);
        if quoted.len() > QUOTED_CHARS {
            let mut end = QUOTED_CHARS;
            while !quoted.is_char_boundary(end) {
                end -= 1;
            }
            quoted.truncate(end);
            quoted.push('…');
            break;
        }
    }
    quoted
}

fn status_name(status: u16) -> Option<&'static str> {
    http::StatusCode::from_u16(status).ok()?.canonical_reason()
}

#[cfg(test)]
mod tests;
