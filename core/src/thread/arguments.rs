//! The arguments of a call: from what a model wrote to what a tool gets.

use haft_api::raw_json;
use serde_json::value::RawValue;

/// The form in which arguments are stored: the object's own text; `{}` for
/// what stands for no arguments; the text as a JSON string for all that is no
/// object, so that nothing of it is lost.
pub(crate) fn stored(written: &str) -> Box<RawValue> {
    let text = written.trim();
    if text.is_empty() || text == "null" {
        return raw_json("{}").expect("an empty object is valid JSON");
    }
    if let Some(object) = as_object(text) {
        return object;
    }
    // Some models write the object as a JSON string.
    if let Some(object) = serde_json::from_str::<String>(text)
        .ok()
        .as_deref()
        .and_then(as_object)
    {
        return object;
    }
    serde_json::value::to_raw_value(written).expect("a string is valid JSON")
}

fn as_object(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let raw = raw_json(text).ok()?;
    // A record is one line: break the object's own line breaks between tokens.
    if raw.get().contains(['\n', '\r']) {
        compact(&raw)
    } else {
        Some(raw)
    }
}

/// The same JSON without line breaks between its tokens. Within strings JSON
/// has none, so every one that is there may go.
fn compact(raw: &RawValue) -> Option<Box<RawValue>> {
    raw_json(raw.get().replace(['\n', '\r'], " ")).ok()
}

/// Why a call's arguments can't be used, in words for the model; `None` if
/// they can.
pub(crate) fn complaint(arguments: &RawValue) -> Option<String> {
    if arguments.get().starts_with('{') {
        return None;
    }
    let written: String = serde_json::from_str(arguments.get()).ok()?;
    Some(match serde_json::from_str::<&RawValue>(written.trim()) {
        Err(error) => format!("The arguments are not valid JSON: {error}. They were: {written}"),
        Ok(_) => format!("The arguments must be a JSON object. They were: {written}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_no_arguments_is_an_empty_object() {
        for written in ["", " ", "null", "{}", " {} ", "\n", "\"{}\""] {
            assert_eq!(stored(written).get(), "{}", "{written:?}");
            assert_eq!(complaint(&stored(written)), None);
        }
    }

    #[test]
    fn objects_are_kept_as_they_were_written() {
        let check = |written: &str, expected: &str| assert_eq!(stored(written).get(), expected);
        check(r#"{"a": 1.0, "b":[1]}"#, r#"{"a": 1.0, "b":[1]}"#);
        check(
            r#" {"n":123456789012345678901} "#,
            r#"{"n":123456789012345678901}"#,
        );
        check("{\n \"a\":\"x\\ny\"\r\n}", "{  \"a\":\"x\\ny\"  }");
        check(r#""{\"a\":1}""#, r#"{"a":1}"#);
    }

    #[test]
    fn what_is_no_object_is_kept_and_explained() {
        let check = |written: &str, words: &[&str]| {
            let raw = stored(written);
            assert_eq!(serde_json::from_str::<String>(raw.get()).unwrap(), written);
            let complaint = complaint(&raw).unwrap();
            for word in words {
                assert!(complaint.contains(word), "{complaint}");
            }
        };
        check(r#"{"a":"#, &["line 1 column 5", r#"{"a":"#]);
        check("[1]", &["must be a JSON object", "[1]"]);
        check("read it", &["not valid JSON", "column 1"]);
    }
}
