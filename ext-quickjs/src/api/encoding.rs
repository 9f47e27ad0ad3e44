//! Text from bytes and back.

use std::rc::Rc;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encoding_rs::Encoding;
use rquickjs::{Ctx, Function, Object, TypedArray};

use super::{bytes, raise};
use crate::native::Native;
use crate::thrown::text_from;
use crate::worker::Raised;

/// As the Infra standard's "forgiving" decoder has it.
const FORGIVING: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    _: &Rc<Native>,
) -> rquickjs::Result<()> {
    let encode = |ctx: Ctx<'js>, text: rquickjs::String<'js>| {
        let text = text_from(&ctx, &text)?;
        TypedArray::<u8>::new(ctx, text.into_bytes())
    };
    table.set("encode", Function::new(ctx.clone(), encode)?)?;

    // The standard's name of an encoding, by any of its labels.
    let label = |label: String| -> Option<String> {
        let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
        Some(encoding.name().to_ascii_lowercase())
    };
    table.set("label", Function::new(ctx.clone(), label)?)?;

    let decode = |ctx: Ctx<'js>,
                  label: String,
                  data: TypedArray<'js, u8>,
                  fatal: bool,
                  keep_mark: bool|
     -> rquickjs::Result<String> {
        let data = bytes(&ctx, &data)?;
        let encoding = Encoding::for_label(label.as_bytes()).unwrap_or(encoding_rs::UTF_8);
        let (text, broken) = match keep_mark {
            true => encoding.decode_without_bom_handling(&data),
            false => encoding.decode_with_bom_removal(&data),
        };
        match fatal && broken {
            true => {
                let words = format!("the bytes aren't {label}");
                raise(&ctx, Err(Raised::new("TypeError", words)))
            }
            false => Ok(text.into_owned()),
        }
    };
    table.set("decode", Function::new(ctx.clone(), decode)?)?;

    // Both take and give strings of one character a byte.
    let from_base64 = |ctx: Ctx<'js>, text: String| -> rquickjs::Result<String> {
        let text: String = text
            .chars()
            .filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r'))
            .collect();
        let padded = text.ends_with('=') && !text.len().is_multiple_of(4);
        let decoded = FORGIVING.decode(&text).ok().filter(|_| !padded);
        let words = || Raised::new("InvalidCharacterError", "the text isn't base64");
        let decoded = raise(&ctx, decoded.ok_or_else(words))?;
        Ok(decoded.into_iter().map(char::from).collect())
    };
    table.set("fromBase64", Function::new(ctx.clone(), from_base64)?)?;
    let to_base64 = |ctx: Ctx<'js>, text: rquickjs::String<'js>| -> rquickjs::Result<String> {
        let text = text_from(&ctx, &text)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(|c| u8::try_from(u32::from(c))).collect();
        let words = "the text has a character that is no byte; encode it first";
        let bytes = bytes.map_err(|_| Raised::new("InvalidCharacterError", words));
        Ok(FORGIVING.encode(raise(&ctx, bytes)?))
    };
    table.set("toBase64", Function::new(ctx.clone(), to_base64)?)
}
