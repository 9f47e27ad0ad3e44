//! JSON text from values, and what it can't say.

use rquickjs::{Ctx, Value};

use crate::thrown::text_from;

/// A value as JSON text; nothing for what JSON has no word for (`undefined`,
/// functions, symbols).
///
/// # Errors
/// What a cycle or a `toJSON` throws.
pub(crate) fn stringify<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
) -> rquickjs::Result<Option<String>> {
    let Some(text) = ctx.json_stringify(value.clone())? else {
        return Ok(None);
    };
    Ok(Some(well_formed(text_from(ctx, &text)?)))
}

/// JavaScript writes half a surrogate pair as an escape that other readers of
/// JSON refuse; it becomes U+FFFD.
fn well_formed(json: String) -> String {
    if !json.contains("\\ud") {
        return json;
    }
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        if bytes.get(escape + 1) != Some(&b'u') {
            at = escape + 2;
            continue;
        }
        let unit = |from: usize| {
            let digits = json.get(from + 2..from + 6)?;
            json[from..].starts_with("\\u").then_some(())?;
            u16::from_str_radix(digits, 16).ok()
        };
        match unit(escape) {
            Some(0xD800..=0xDBFF) if matches!(unit(escape + 6), Some(0xDC00..=0xDFFF)) => {
                at = escape + 12;
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str(&json[copied..escape]);
                out.push_str("\\ufffd");
                at = escape + 6;
                copied = at;
            }
            _ => at = escape + 6,
        }
    }
    out.push_str(&json[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::well_formed;

    #[test]
    fn halves_of_pairs_are_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#""a\ud800b""#, r#""a\ufffdb""#),
            (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\u0001\n\\\ud801""#, r#""\u0001\n\\\ufffd""#),
            (r#""plain""#, r#""plain""#),
        ] {
            assert_eq!(well_formed(text.to_owned()), expected);
        }
    }
}
