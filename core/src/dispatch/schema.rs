//! A tool's schema: checked when the tool is registered, compiled when the tool
//! is first called.
//!
//! Compiling costs more than a whole turn without tools. A schema of the kind
//! that most tools have is known to be sound without it; every other one is
//! compiled at once, so that a bad one costs its tool and not a turn.

use std::sync::OnceLock;

use haft_api::{Error, ErrorKind, Result, ToolSpec};
use jsonschema::Validator;
use serde_json::Value;

use crate::guard;

/// See the module's description.
pub(crate) struct ArgumentsSchema {
    schema: Value,
    compiled: OnceLock<Result<Validator, String>>,
}

impl ArgumentsSchema {
    /// The schema of a tool's arguments.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the tool, if it is not usable.
    pub(crate) fn new(spec: &ToolSpec) -> Result<Self> {
        let refuse = |what: String| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the tool's schema is not usable: {what}"),
            )
            .context("tool", &spec.name)
        };
        let schema: Value = serde_json::from_str(spec.input_schema.get())
            .map_err(|error| refuse(error.to_string()))?;
        if !schema.is_object() {
            return Err(refuse("it is not an object".to_owned()));
        }
        let plain = is_plain(&schema);
        let this = Self {
            schema,
            compiled: OnceLock::new(),
        };
        if !plain {
            this.compiled().map_err(refuse)?;
        }
        Ok(this)
    }

    fn compiled(&self) -> Result<&Validator, String> {
        let compile = || {
            // The compiler is somebody else's code and reads somebody else's
            // data.
            guard::call("schema", || jsonschema::validator_for(&self.schema))
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())
        };
        let compiled = self.compiled.get_or_init(compile);
        compiled.as_ref().map_err(String::clone)
    }

    /// What is wrong with arguments, in at most five lines; nothing if they fit.
    pub(crate) fn complaints(&self, arguments: &Value) -> Vec<String> {
        let validator = match self.compiled() {
            Ok(validator) => validator,
            Err(why) => return vec![format!("- the schema itself is not usable: {why}")],
        };
        let errors = validator.iter_errors(arguments).take(5);
        errors
            .map(|error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() {
                    "the arguments".to_owned()
                } else {
                    format!("`{at}`")
                };
                format!("- {at}: {error}")
            })
            .collect()
    }
}

/// Whether a schema is made of nothing but the keywords below, each with a value
/// that it may have: then it is valid, and compiles.
fn is_plain(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else {
        return schema.is_boolean();
    };
    keywords
        .iter()
        .all(|(keyword, value)| match keyword.as_str() {
            "type" => match value {
                Value::Array(types) => {
                    !types.is_empty() && types.iter().all(is_type) && differ(types)
                }
                one => is_type(one),
            },
            "properties" => value
                .as_object()
                .is_some_and(|of| of.values().all(is_plain)),
            "items" | "additionalProperties" => is_plain(value),
            "anyOf" | "oneOf" | "allOf" => {
                let schemas = value.as_array();
                schemas.is_some_and(|of| !of.is_empty() && of.iter().all(is_plain))
            }
            "required" => {
                let names = value.as_array();
                names.is_some_and(|of| of.iter().all(Value::is_string) && differ(of))
            }
            "title" | "description" => value.is_string(),
            "enum" | "examples" => value.is_array(),
            "const" | "default" => true,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            _ => false,
        })
}

fn is_type(value: &Value) -> bool {
    const TYPES: [&str; 7] = [
        "array", "boolean", "integer", "null", "number", "object", "string",
    ];
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn differ(values: &[Value]) -> bool {
    let before = |index: usize| &values[..index];
    (0..values.len()).all(|index| !before(index).contains(&values[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [&str; 5] = [
        "{}",
        r#"{"type":"object","required":["a"],"additionalProperties":false,
            "properties":{"a":{"type":"string","minLength":1,"description":"d"},"b":true}}"#,
        r#"{"type":["string","null"],"enum":["a",null],"default":null,"title":"t"}"#,
        r#"{"type":"array","items":{"type":"integer","minimum":0,"exclusiveMaximum":9.5}}"#,
        r#"{"anyOf":[{"const":1},{"type":"object","additionalProperties":{"type":"number"}}]}"#,
    ];

    /// Each could be taken for plain by a check that looks less closely.
    const BAD: [&str; 12] = [
        r#"{"type":"no-such-type"}"#,
        r#"{"type":[]}"#,
        r#"{"type":["string","string"]}"#,
        r#"{"properties":[]}"#,
        r#"{"properties":{"a":{"type":1}}}"#,
        r#"{"items":[{"type":"string"}]}"#,
        r#"{"required":["a","a"]}"#,
        r#"{"required":"a"}"#,
        r#"{"description":1}"#,
        r#"{"anyOf":[]}"#,
        r#"{"minimum":"0"}"#,
        r#"{"minLength":-1}"#,
    ];

    fn parse(schema: &str) -> Value {
        serde_json::from_str(schema).unwrap()
    }

    #[test]
    fn what_is_taken_for_plain_is_valid_and_compiles() {
        for schema in PLAIN {
            assert!(is_plain(&parse(schema)), "{schema}");
            jsonschema::validator_for(&parse(schema)).expect(schema);
        }
    }

    #[test]
    fn what_is_bad_is_not_taken_for_plain() {
        for schema in BAD {
            assert!(!is_plain(&parse(schema)), "{schema}");
            assert!(
                jsonschema::validator_for(&parse(schema)).is_err(),
                "{schema}"
            );
        }
    }
}
