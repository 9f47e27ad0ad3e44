//! From what a tool returned to what the model reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft_api::{Part, ToolOutput};
use rquickjs::{Array, Ctx, Object, Value};

use crate::failure::Failure;
use crate::json;
use crate::thrown::{caught, text_from};

/// A tool's value as its output: nothing for `undefined`, a text, a JSON value,
/// a part or a list of parts, or `{content: parts, isError}`.
///
/// # Errors
/// What can't be said.
pub(crate) fn output<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
    limit: usize,
) -> Result<ToolOutput, Failure> {
    let read = || -> rquickjs::Result<Result<ToolOutput, String>> {
        if value.is_undefined() {
            return Ok(Ok(ToolOutput::parts(Vec::new())));
        }
        if let Some(object) = value.as_object()
            && let Some((content, is_error)) = wrapped(object)?
        {
            return Ok(parts_of(ctx, &content, limit)?.map(|parts| {
                let mut output = ToolOutput::parts(parts);
                output.is_error = is_error;
                output
            }));
        }
        Ok(parts_of(ctx, value, limit)?.map(ToolOutput::parts))
    };
    let mut output = read()
        .map_err(|error| {
            let mut failure = caught(ctx, &error);
            failure.message = format!("the result can't be passed on: {}", failure.message);
            failure
        })?
        .map_err(Failure::error)?;
    // An empty text says nothing, and no result has one.
    output
        .parts
        .retain(|part| part.as_text().is_none_or(|text| !text.is_empty()));
    let size: usize = output.parts.iter().map(size_of).sum();
    if size > limit {
        return Err(Failure::error(format!(
            "the result has {size} bytes; at most {limit} are taken"
        )));
    }
    Ok(output)
}

fn size_of(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.len(),
        Part::Json { value } => value.get().len(),
        Part::Image { data, .. } => data.len(),
        _ => 0,
    }
}

fn wrapped<'js>(object: &Object<'js>) -> rquickjs::Result<Option<(Value<'js>, bool)>> {
    if object.as_value().is_array() {
        return Ok(None);
    }
    let content: Value<'js> = object.get("content")?;
    let Some(list) = content.as_array() else {
        return Ok(None);
    };
    if list.is_empty() || as_parts(list)?.is_none() {
        return Ok(None);
    }
    let truth = |value: Value<'js>| value.as_bool() == Some(true);
    let is_error = truth(object.get("isError")?) || truth(object.get("is_error")?);
    Ok(Some((content, is_error)))
}

fn parts_of<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
    limit: usize,
) -> rquickjs::Result<Result<Vec<Part>, String>> {
    if let Some(text) = value.as_string() {
        return Ok(Ok(vec![Part::text(text_from(ctx, text)?)]));
    }
    let parts = match (value.as_array(), value.as_object()) {
        (Some(list), _) if !list.is_empty() => as_parts(list)?,
        (None, Some(object)) if is_part(object)? => Some(vec![object.clone()]),
        _ => None,
    };
    match parts {
        Some(parts) => parts
            .iter()
            .map(|object| part(ctx, object, limit))
            .collect(),
        None => as_json(ctx, value, limit).map(|part| part.map(|part| vec![part])),
    }
}

fn as_json<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
    limit: usize,
) -> rquickjs::Result<Result<Part, String>> {
    let Some(text) = json::stringify(ctx, value, limit)? else {
        let kind = value.type_name();
        return Ok(Err(format!("the result is a {kind}, which JSON can't say")));
    };
    Ok(haft_api::known_json(text)
        .map(|value| Part::Json { value })
        .map_err(|error| error.to_string()))
}

/// The parts, if it is a list of nothing else.
fn as_parts<'js>(list: &Array<'js>) -> rquickjs::Result<Option<Vec<Object<'js>>>> {
    let mut parts = Vec::new();
    for value in list.iter::<Value<'js>>() {
        match value?.into_object() {
            Some(object) if is_part(&object)? => parts.push(object),
            _ => return Ok(None),
        }
    }
    Ok(Some(parts))
}

fn kind_of(object: &Object<'_>) -> rquickjs::Result<Option<String>> {
    let kind: Value<'_> = object.get("type")?;
    Ok(kind.as_string().and_then(|kind| kind.to_string().ok()))
}

fn is_part(object: &Object<'_>) -> rquickjs::Result<bool> {
    Ok(match kind_of(object)?.as_deref() {
        Some("text") => object.get::<_, Value<'_>>("text")?.is_string(),
        Some("image") => object.get::<_, Value<'_>>("data")?.is_string(),
        Some("json") => object.contains_key("value")?,
        _ => false,
    })
}

fn part<'js>(
    ctx: &Ctx<'js>,
    object: &Object<'js>,
    limit: usize,
) -> rquickjs::Result<Result<Part, String>> {
    let text = |name: &str| -> rquickjs::Result<Option<String>> {
        let value: Value<'js> = object.get(name)?;
        value
            .as_string()
            .map(|text| text_from(ctx, text))
            .transpose()
    };
    Ok(match kind_of(object)?.as_deref() {
        Some("text") => Ok(Part::text(text("text")?.unwrap_or_default())),
        Some("image") => {
            let media = match text("mimeType")? {
                None => text("media_type")?,
                media => media,
            };
            let data = text("data")?.unwrap_or_default();
            match media {
                Some(media_type) if STANDARD.decode(&data).is_ok() => {
                    Ok(Part::Image { media_type, data })
                }
                Some(_) => Err("an image's `data` must be base64".to_owned()),
                None => Err("an image needs `mimeType` and `data`".to_owned()),
            }
        }
        _ => return as_json(ctx, &object.get("value")?, limit),
    })
}
