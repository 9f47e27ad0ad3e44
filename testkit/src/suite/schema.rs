//! What a tool says of itself: names, descriptions, schemas.

use std::collections::BTreeSet;

use haft_api::ToolSpec;
use jsonschema::Validator;
use serde_json::Value;

use super::expect::{ensure, same};
use super::{Checked, Unmet};

/// A schema as a value, and what validates arguments against it.
pub(super) struct Schema {
    pub(super) value: Value,
    pub(super) validator: Validator,
}

/// Reads a tool's schema, which must be a valid object schema (2020-12) that
/// refers to nothing outside itself.
pub(super) fn schema(spec: &ToolSpec) -> Result<Schema, Unmet> {
    let name = &spec.name;
    let text = spec.input_schema.get();
    let value: Value = serde_json::from_str(text)
        .map_err(|e| format!("expected {name}'s schema to be JSON, got: {e}: {text}"))?;
    ensure!(
        value["type"] == "object",
        "expected {name}'s schema to be of type \"object\", got {}",
        value["type"]
    );
    jsonschema::meta::validate(&value)
        .map_err(|e| format!("expected {name}'s schema to be a JSON schema, got: {e}"))?;
    let validator = jsonschema::draft202012::new(&value).map_err(|e| {
        format!("expected {name}'s schema to compile and to refer to nothing outside, got: {e}")
    })?;
    Ok(Schema { value, validator })
}

/// Checks everything that a list of tools says of itself.
pub(super) fn check_specs<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>) -> Checked {
    let mut names = BTreeSet::new();
    for spec in specs {
        let name = &spec.name;
        ensure!(
            names.insert(name.clone()),
            "expected names to be unique, got {name} twice"
        );
        ensure!(
            spec.description.trim().len() >= 3,
            "expected a description of {name}, got {:?}",
            spec.description
        );
        ensure!(
            spec.timeout_ms != Some(0),
            "expected {name}'s time limit to leave it time, got 0"
        );
        schema(spec)?;
    }
    ensure!(!names.is_empty(), "expected at least one tool, got none");
    Ok(())
}

/// Checks that two lists of tools are the same to the byte.
pub(super) fn same_specs<'a>(
    what: &str,
    first: impl IntoIterator<Item = &'a ToolSpec>,
    second: impl IntoIterator<Item = &'a ToolSpec>,
) -> Checked {
    fn text<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>) -> Result<Vec<String>, Unmet> {
        let texts = specs.into_iter().map(serde_json::to_string);
        let texts: Result<_, _> = texts.collect();
        texts.map_err(|e| format!("expected a tool to be writable as JSON, got: {e}").into())
    }
    same(what, &text(first)?, &text(second)?)
}

/// Arguments that don't fit: as many kinds as there are ways to be wrong.
pub(super) fn misfits(schema: &Schema) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    let required: Vec<&str> = schema.value["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut add = |arguments: String, must_fail: bool| {
        let value: Value = serde_json::from_str(&arguments).unwrap_or_default();
        // What happens to fit after all might well be carried out.
        if !schema.validator.is_valid(&value) {
            misfits.push(Misfit {
                arguments,
                must_fail,
            });
        }
    };
    let needs_something = !required.is_empty();
    add("{}".to_owned(), needs_something);
    for value in ["null", "[]", "1", "\"\"", r#""{\"cut\":""#] {
        add(value.to_owned(), needs_something);
    }
    let types = [
        "null",
        "true",
        "-1",
        "1e300",
        r#""""#,
        r#""\u0000""#,
        "[]",
        "[[]]",
        "{}",
    ];
    for name in &required {
        for value in types {
            let key = Value::from(*name);
            // Where there are other required ones, those are missing.
            let must_fail = required.len() > 1 || is_of_another_type(schema, name, value);
            add(format!("{{{key}:{value}}}"), must_fail);
        }
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    add(format!(r#"{{"haft_conformance":{deep}}}"#), false);
    misfits
}

/// Whether a value is of a type that the schema doesn't allow there. Other
/// limits (a range, a pattern) a tool may be lenient with: the runtime isn't.
fn is_of_another_type(schema: &Schema, property: &str, value: &str) -> bool {
    let declared = &schema.value["properties"][property]["type"];
    let found = match value.as_bytes()[0] {
        b'n' => "null",
        b't' => "boolean",
        b'"' => "string",
        b'[' => "array",
        b'{' => "object",
        _ => "number",
    };
    let allows = |name: &Value| *name == found || (*name == "integer" && found == "number");
    match declared {
        Value::String(_) => !allows(declared),
        Value::Array(names) => !names.iter().any(allows),
        _ => false,
    }
}

/// Arguments that don't fit a schema.
pub(super) struct Misfit {
    pub(super) arguments: String,
    /// Whether no tool could make sense of them. (One may well be lenient with
    /// what it doesn't need.)
    pub(super) must_fail: bool,
}
