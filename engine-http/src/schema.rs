//! JSON schemas, as servers take them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// What providers refuse where a tool's schema begins.
const REFUSED: [&str; 6] = ["$ref", "allOf", "anyOf", "enum", "not", "oneOf"];

/// How many references and choices of a schema are looked at: they may lead in
/// circles, and multiply.
const MOST_BRANCHES: u32 = 256;

/// A tool's schema. Servers insist on an object schema that says so and lists
/// its properties. Such a one is passed on byte for byte; one that begins with a
/// reference or a choice is made flat, since models are told of an object's
/// fields alone: all that any choice has, and as required what every choice
/// requires.
pub fn parameters(schema: &RawValue) -> Cow<'_, RawValue> {
    let text = schema.get();
    let Ok(top) = serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(text) else {
        return Cow::Borrowed(schema);
    };
    let is_plain = top.get("type").is_none_or(|t| t.get() == "\"object\"");
    if !is_plain || REFUSED.iter().any(|key| top.contains_key(*key)) {
        let flat = serde_json::from_str(text).map(|root| flat(&root));
        let flat = flat.and_then(|flat| serde_json::value::to_raw_value(&flat));
        return flat.map_or(Cow::Borrowed(schema), Cow::Owned);
    }
    let mut missing = Vec::new();
    if !top.contains_key("type") {
        missing.push(r#""type":"object""#);
    }
    if !top.contains_key("properties") {
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

/// A schema as one of an object's fields. It allows at least what it allowed
/// before; the tool's own check is the strict one.
fn flat(root: &Map<String, Value>) -> Map<String, Value> {
    let mut flat = flattened(root, root, &mut { MOST_BRANCHES });
    flat.insert("type".to_owned(), Value::from("object"));
    flat.entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    flat
}

/// A schema without what providers refuse. `left` is how many branches may yet
/// be looked at.
fn flattened(
    schema: &Map<String, Value>,
    root: &Map<String, Value>,
    left: &mut u32,
) -> Map<String, Value> {
    let mut flat = schema.clone();
    for key in REFUSED {
        flat.remove(key);
    }
    let reference = schema.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|r| at_pointer(root, r.strip_prefix('#')?));
    for part in target.into_iter().chain(list(schema, "allOf")) {
        if let Some(part) = branch(part, root, left) {
            add(&mut flat, part, true);
        }
    }
    for key in ["anyOf", "oneOf"] {
        let choices: Vec<_> = list(schema, key)
            .filter_map(|choice| branch(choice, root, left))
            .collect();
        let in_all = |name: &Value| choices.iter().all(|c| required(c).contains(&name));
        let needed = choices.first().map(required).unwrap_or_default();
        let needed: Vec<_> = needed.into_iter().filter(|n| in_all(n)).cloned().collect();
        for choice in choices {
            add(&mut flat, choice, false);
        }
        require(&mut flat, needed);
    }
    flat
}

/// A part of a schema, unless it can't be an object and so is no choice for a
/// tool's arguments.
fn branch(value: &Value, root: &Map<String, Value>, left: &mut u32) -> Option<Map<String, Value>> {
    let branch = value.as_object()?;
    let may_be_object = branch.get("type").is_none_or(|t| {
        t == "object"
            || t.as_array()
                .is_some_and(|t| t.iter().any(|t| t == "object"))
    });
    *left = left.checked_sub(1)?;
    may_be_object.then(|| flattened(branch, root, left))
}

fn list<'v>(schema: &'v Map<String, Value>, key: &str) -> impl Iterator<Item = &'v Value> {
    let list = schema.get(key).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn at_pointer<'v>(root: &'v Map<String, Value>, pointer: &str) -> Option<&'v Value> {
    let (first, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    root.get(first)?.pointer(&format!("/{rest}"))
}

fn required(schema: &Map<String, Value>) -> Vec<&Value> {
    list(schema, "required").collect()
}

fn require(flat: &mut Map<String, Value>, names: Vec<Value>) {
    if names.is_empty() {
        return;
    }
    let list = flat
        .entry("required")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list {
        for name in names {
            if !list.contains(&name) {
                list.push(name);
            }
        }
    }
}

/// Adds a part's fields. What is there already stays.
fn add(flat: &mut Map<String, Value>, part: Map<String, Value>, requires: bool) {
    for (key, value) in part {
        match (key.as_str(), value) {
            ("required", Value::Array(names)) if requires => require(flat, names),
            // What one choice demands, another one may not.
            ("required" | "additionalProperties", _) if !requires => {}
            ("properties", Value::Object(more)) => {
                let properties = flat
                    .entry("properties")
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(properties) = properties {
                    for (name, schema) in more {
                        properties.entry(name).or_insert(schema);
                    }
                }
            }
            (_, value) => {
                flat.entry(key).or_insert(value);
            }
        }
    }
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
    use serde_json::json;

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
    fn a_schema_that_begins_with_a_reference_or_a_choice_is_made_flat() {
        let check = |schema: &str, expected: Value| {
            let given = raw(schema);
            let flat = parameters(&given);
            let flat: Value = serde_json::from_str(flat.get()).unwrap();
            assert_eq!(flat, expected, "{schema}");
        };
        let definitions = json!({"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}},
            "required": ["a"]}, "B": {"type": "string"}});
        check(
            &json!({"$ref": "#/$defs/A", "$defs": definitions}).to_string(),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}, "required": ["a"],
                "$defs": definitions}),
        );
        check(
            r#"{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}"#,
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}),
        );
        check(
            r#"{"type":"object","properties":{"k":{}},"required":["k"],"oneOf":[
                {"properties":{"a":{}},"required":["a","c"],"additionalProperties":false},
                {"properties":{"b":{}},"required":["c","b"]},{"type":"null"}]}"#,
            json!({"type": "object", "properties": {"a": {}, "b": {}, "k": {}},
                "required": ["k", "c"]}),
        );
        check(
            r#"{"type":["object","null"],"properties":{"a":{}}}"#,
            json!({"type": "object", "properties": {"a": {}}}),
        );
        // References that lead nowhere, or in a circle.
        let empty = json!({"type": "object", "properties": {}});
        check(r##"{"$ref":"#/$defs/None"}"##, empty.clone());
        check(r#"{"$ref":"https://elsewhere.test"}"#, empty.clone());
        check(
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}"##,
            json!({"type": "object", "properties": {}, "$defs": {"A": {"$ref": "#/$defs/A"}}}),
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
