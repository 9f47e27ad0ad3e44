//! `crypto`: random numbers and digests.

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, TypedArray};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use super::{bytes, raise};
use crate::native::Native;
use crate::worker::Raised;

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    _: &Rc<Native>,
) -> rquickjs::Result<()> {
    let random = |ctx: Ctx<'js>, length: u32| -> rquickjs::Result<TypedArray<'js, u8>> {
        let length = usize::try_from(length.min(65_536)).unwrap_or(0);
        let mut random = vec![0; length];
        let filled = getrandom::fill(&mut random);
        raise(&ctx, filled.map_err(|e| Raised::error(e.to_string())))?;
        TypedArray::new(ctx, random)
    };
    table.set("random", Function::new(ctx.clone(), random)?)?;
    let uuid = || uuid::Uuid::new_v4().to_string();
    table.set("uuid", Function::new(ctx.clone(), uuid)?)?;
    let digest = |ctx: Ctx<'js>, name: String, data: TypedArray<'js, u8>| {
        let data = bytes(&ctx, &data)?;
        let digest = match &*name {
            "SHA-1" => Ok(Sha1::digest(data).to_vec()),
            "SHA-256" => Ok(Sha256::digest(data).to_vec()),
            "SHA-384" => Ok(Sha384::digest(data).to_vec()),
            "SHA-512" => Ok(Sha512::digest(data).to_vec()),
            _ => {
                let words =
                    format!("there is no digest `{name}` (SHA-1, SHA-256, SHA-384, SHA-512)");
                Err(Raised::new("NotSupportedError", words))
            }
        };
        TypedArray::new(ctx.clone(), raise(&ctx, digest)?)
    };
    table.set("digest", Function::new(ctx.clone(), digest)?)
}
