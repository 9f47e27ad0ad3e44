//! Content blocks, as the wires of OpenAI and Anthropic and pi write them.

use haft_api::Part;
use serde_json::Value;

use crate::losses::Losses;
use crate::text_of;

/// The parts of a message's or a result's content: a text, or a list of blocks.
pub(crate) fn parts(content: &Value, line: usize, losses: &mut Losses) -> Vec<Part> {
    match content {
        Value::String(text) => text_part(text).into_iter().collect(),
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| part(block, line, losses))
            .collect(),
        Value::Null => Vec::new(),
        other => text_part(&other.to_string()).into_iter().collect(),
    }
}

fn text_part(text: &str) -> Option<Part> {
    (!text.trim().is_empty()).then(|| Part::text(text))
}

fn part(block: &Value, line: usize, losses: &mut Losses) -> Option<Part> {
    if let Some(text) = block.as_str() {
        return text_part(text);
    }
    let kind = text_of(block, "type").unwrap_or_default();
    let image = match kind {
        "text" | "input_text" | "output_text" => {
            return text_part(text_of(block, "text").unwrap_or_default());
        }
        "input_image" => text_of(block, "image_url").and_then(data_url),
        "image" => embedded(block.get("source").unwrap_or(block)),
        _ => {
            losses.add(line, format!("content of the kind `{kind}` was left out"));
            return None;
        }
    };
    if image.is_none() {
        losses.add(line, "an image that isn't in the file was left out");
    }
    image
}

/// An image with its bytes in base64.
fn embedded(source: &Value) -> Option<Part> {
    let media_type = text_of(source, "media_type").or_else(|| text_of(source, "mimeType"))?;
    let data = text_of(source, "data").filter(|data| !data.is_empty())?;
    Some(Part::Image {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}

/// An image in a URL (RFC 2397).
fn data_url(url: &str) -> Option<Part> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Part::Image {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}

/// All text of a content.
pub(crate) fn text(content: &Value) -> String {
    let mut ignored = Losses::default();
    haft_api::join_text(&parts(content, 0, &mut ignored))
}

/// A call's arguments as a text.
pub(crate) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
