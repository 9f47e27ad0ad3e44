//! How an answer that follows a schema is asked for.

use haft_engine_http::schema::is_strict;
use serde::Serialize;
use serde_json::value::RawValue;

/// The wish for an answer that follows a schema.
#[derive(Serialize)]
pub(super) struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    schema: &'a RawValue,
}

impl<'a> ResponseFormat<'a> {
    pub(super) fn new(schema: &'a RawValue) -> Self {
        let strict = serde_json::from_str(schema.get()).is_ok_and(|schema| is_strict(&schema));
        Self {
            r#type: "json_schema",
            json_schema: NamedSchema {
                name: "answer",
                strict,
                schema,
            },
        }
    }
}
