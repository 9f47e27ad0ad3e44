//! The host's own JavaScript, compiled once in this process: to read it anew took
//! most of a skill's start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rquickjs::module::Declared;
use rquickjs::{Ctx, FromJs, Module, WriteOptions};

/// What was compiled so far, by name.
static COMPILED: Mutex<BTreeMap<&'static str, Arc<[u8]>>> = Mutex::new(BTreeMap::new());

/// The value of an expression of the host's own.
///
/// # Errors
/// If there isn't the memory for it.
pub(crate) fn evaluate<'js, T: FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &'static str,
    source: &str,
) -> rquickjs::Result<T> {
    let (module, _) = module(ctx, name, source)?.eval()?;
    module.get("default")
}

fn module<'js>(
    ctx: &Ctx<'js>,
    name: &'static str,
    source: &str,
) -> rquickjs::Result<Module<'js, Declared>> {
    let known = {
        let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.get(name).cloned()
    };
    if let Some(code) = known {
        // SAFETY: this very engine wrote it, in this process, from the host's
        // own source; nobody else can write into the map.
        #[allow(unsafe_code, reason = "the engine can't check what it reads")]
        return unsafe { Module::load(ctx.clone(), &code) };
    }
    // On one line, so that errors name the lines of the file.
    let whole = format!("export default {source}");
    let module = Module::declare(ctx.clone(), format!("haft:{name}"), whole)?;
    // Errors name lines without it, and each function would keep its own text.
    let options = WriteOptions {
        strip_source: true,
        ..WriteOptions::default()
    };
    let code: Arc<[u8]> = module.write(options)?.into();
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.insert(name, code);
    Ok(module)
}
