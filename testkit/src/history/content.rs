//! What a provider refuses within one block.

use serde_json::Value;

/// Reads JSON as a provider's parser would: raw text that was only checked for
/// its shape may still hold lone surrogates or be nested too deeply.
pub(crate) fn json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

/// Arguments are an object, or a string of what the model wrote instead.
pub(crate) fn arguments(text: &str) -> Result<(), String> {
    let found = match json(text) {
        Ok(Value::Object(_) | Value::String(_)) => return Ok(()),
        Ok(Value::Null) => "null",
        Ok(Value::Bool(_)) => "a boolean",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::Array(_)) => "an array",
        Err(error) => return Err(format!("aren't JSON: {error}")),
    };
    Err(format!(
        "must be an object, or a string of what the model wrote; found {found}"
    ))
}

/// The types that all three wires take.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) fn image(media_type: &str, data: &str) -> Result<(), String> {
    if !IMAGE_TYPES.contains(&media_type) {
        return Err(format!("of type {media_type:?}, which models don't read"));
    }
    if data.is_empty() {
        return Err("without data".to_owned());
    }
    if !is_base64(data) {
        return Err("whose data isn't standard base64".to_owned());
    }
    Ok(())
}

/// RFC 4648, section 4, with padding.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/'))
}
