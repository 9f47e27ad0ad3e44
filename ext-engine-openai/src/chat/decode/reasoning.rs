//! Reasoning that comes as a list of details, which a router wants back as it
//! was given (OpenRouter's `reasoning_details`).

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The details of one block of reasoning, pieces joined.
#[derive(Debug, Clone, Default)]
pub(super) struct ReasoningDetails {
    details: Vec<Map<String, Value>>,
}

impl ReasoningDetails {
    /// Adds a delta's details. What can't be read is left out: it is for the
    /// provider alone.
    pub(super) fn add(&mut self, raw: &RawValue) {
        let Ok(details) = serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()) else {
            return;
        };
        for detail in details {
            match self.details.last_mut() {
                Some(last) if continues(last, &detail) => join(last, detail),
                _ => self.details.push(detail),
            }
        }
    }

    /// The details so far, for the provider.
    pub(super) fn take(&mut self) -> Option<Box<RawValue>> {
        let details = std::mem::take(&mut self.details);
        if details.is_empty() {
            return None;
        }
        serde_json::value::to_raw_value(&details).ok()
    }
}

/// A piece continues the last one if it is of the same type at the same place.
fn continues(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let text = next.contains_key("text") || next.contains_key("summary");
    let closes = next.contains_key("signature");
    (text || closes)
        && !last.contains_key("signature")
        && last.get("type") == next.get("type")
        && last.get("index") == next.get("index")
        && !last.contains_key("data")
        && !next.contains_key("data")
}

fn join(last: &mut Map<String, Value>, next: Map<String, Value>) {
    for (key, value) in next {
        match (last.get_mut(&key), &value) {
            (Some(Value::String(so_far)), Value::String(more))
                if key == "text" || key == "summary" =>
            {
                so_far.push_str(more);
            }
            (_, Value::Null) => {}
            _ => {
                last.insert(key, value);
            }
        }
    }
}

/// The readable text of details.
pub(super) fn text_of(raw: &RawValue) -> String {
    let Ok(details) = serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()) else {
        return String::new();
    };
    details
        .iter()
        .filter_map(|detail| detail.get("text").or(detail.get("summary"))?.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_detail_are_joined_and_others_kept_as_they_are() {
        let check = |deltas: &[&str], expected: Option<&str>| {
            let mut details = ReasoningDetails::default();
            for delta in deltas {
                details.add(&RawValue::from_string((*delta).to_owned()).unwrap());
            }
            assert_eq!(details.take().as_deref().map(RawValue::get), expected);
            assert!(details.take().is_none());
        };
        check(&[], None);
        check(&["[]", "null", "7"], None);
        check(
            &[
                r#"[{"type":"reasoning.text","text":"a","index":0}]"#,
                r#"[{"type":"reasoning.text","text":"b","index":0,"signature":null}]"#,
                r#"[{"type":"reasoning.text","index":0,"signature":"sig"}]"#,
                r#"[{"type":"reasoning.text","text":"c","index":0}]"#,
            ],
            Some(concat!(
                r#"[{"index":0,"signature":"sig","text":"ab","type":"reasoning.text"},"#,
                r#"{"index":0,"text":"c","type":"reasoning.text"}]"#
            )),
        );
        check(
            &[
                r#"[{"type":"reasoning.summary","summary":"a","index":0}]"#,
                r#"[{"type":"reasoning.encrypted","data":"x","index":0},{"type":"reasoning.encrypted","data":"y","index":0}]"#,
            ],
            Some(concat!(
                r#"[{"index":0,"summary":"a","type":"reasoning.summary"},"#,
                r#"{"data":"x","index":0,"type":"reasoning.encrypted"},"#,
                r#"{"data":"y","index":0,"type":"reasoning.encrypted"}]"#
            )),
        );
    }
}
