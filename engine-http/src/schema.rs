//! JSON schemas, as servers take them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A tool's schema. Servers insist on an object schema that says so and lists
/// its properties; everything else is passed on byte for byte.
pub fn parameters(schema: &RawValue) -> Cow<'_, RawValue> {
    #[derive(Deserialize)]
    struct Top<'a> {
        #[serde(borrow, default)]
        r#type: Option<&'a RawValue>,
        #[serde(borrow, default)]
        properties: Option<&'a RawValue>,
    }
    let text = schema.get();
    let Ok(top) = serde_json::from_str::<Top<'_>>(text) else {
        return Cow::Borrowed(schema);
    };
    let mut missing = Vec::new();
    if top.r#type.is_none() {
        missing.push(r#""type":"object""#);
    }
    if top.properties.is_none() {
        missing.push(r#""properties":{}"#);
    }
    if missing.is_empty() {
        return Cow::Borrowed(schema);
    }
    let rest = text.trim_start().trim_start_matches('{').trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    let patched = format!("{{{}{comma}{rest}", missing.join(","));
    RawValue::from_string(patched).map_or(Cow::Borrowed(schema), Cow::Owned)
}

/// Whether a schema is one of those that a server can be held to: every object
/// in it is closed, and all of its properties are required. Any other is refused
/// if strictness is asked for.
pub fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Array(list) => list.iter().all(is_strict),
        Value::Object(fields) => {
            let is_object = fields.get("type").is_some_and(|t| {
                t == "object"
                    || t.as_array()
                        .is_some_and(|t| t.iter().any(|t| t == "object"))
            });
            let properties = fields.get("properties").and_then(Value::as_object);
            let required = fields.get("required").and_then(Value::as_array);
            let all_required = properties.into_iter().flatten().all(|(name, _)| {
                required.is_some_and(|required| required.iter().any(|r| r == name))
            });
            let closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
            (!(is_object || properties.is_some()) || (closed && all_required))
                && fields.values().all(is_strict)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_tools_schema_is_passed_on_and_completed() {
        let check = |schema: &str, expected: &str| {
            assert_eq!(parameters(&raw(schema)).get(), expected);
        };
        let whole = r#"{ "type": "object", "properties": {"b":{},"a":{}}, "x": 1.0 }"#;
        check(whole, whole);
        check("{}", r#"{"type":"object","properties":{}}"#);
        check(
            r#"{"type":"object"}"#,
            r#"{"properties":{},"type":"object"}"#,
        );
        check(
            r#"{ "properties":{"a":{}} }"#,
            r#"{"type":"object","properties":{"a":{}} }"#,
        );
    }

    #[test]
    fn strictness_is_asked_for_only_where_it_can_be_had() {
        let check = |schema: &str, expected: bool| {
            let value = serde_json::from_str(schema).unwrap();
            assert_eq!(is_strict(&value), expected, "{schema}");
        };
        check(
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#,
            true,
        );
        check(
            r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#,
            false,
        );
        check(
            r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
            false,
        );
        check(
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}"#,
            false,
        );
        check(r#"{"type":"string"}"#, true);
    }
}
