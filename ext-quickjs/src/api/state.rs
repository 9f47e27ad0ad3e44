//! `state`: values that survive, and that the host can read without the script.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rquickjs::{Ctx, Function, Object, Value};
use serde_json::value::RawValue;

use super::raise;
use crate::credentials::Credentials;
use crate::json;
use crate::native::Native;
use crate::worker::Raised;

/// Most bytes of all values together.
const MOST: usize = 16 * 1024 * 1024;
const FILE: &str = "state.json";

/// A skill's published values.
pub(crate) struct State {
    values: BTreeMap<String, Box<RawValue>>,
    size: usize,
    changed: bool,
    file: Option<PathBuf>,
    folder: Option<PathBuf>,
    credentials: Arc<Credentials>,
}

impl State {
    /// Reads what was kept in the skill's folder of data.
    ///
    /// # Errors
    /// If there is a file that can't be read.
    pub(crate) fn open(
        folder: Option<&Path>,
        credentials: &Arc<Credentials>,
    ) -> Result<Self, String> {
        let file = folder.map(|folder| folder.join(FILE));
        let values = match &file {
            Some(file) => read(file).map_err(|words| format!("{}: {words}", file.display()))?,
            None => BTreeMap::new(),
        };
        Ok(Self {
            size: values.iter().map(|(k, v)| k.len() + v.get().len()).sum(),
            values,
            // What was kept is to be seen from the start.
            changed: true,
            file,
            folder: folder.map(Path::to_owned),
            credentials: Arc::clone(credentials),
        })
    }

    /// What was kept, as it is published.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn kept(
        folder: Option<&Path>,
        credentials: &Arc<Credentials>,
    ) -> Result<Arc<str>, String> {
        Self::open(folder, credentials)?.shown()
    }

    fn shown(&self) -> Result<Arc<str>, String> {
        let json = serde_json::to_string(&self.values).map_err(|e| e.to_string())?;
        Ok(self.credentials.redact(&json).into())
    }

    fn set(&mut self, key: String, value: Option<Box<RawValue>>) -> Result<(), Raised> {
        let before = self.values.get(&key);
        let old = before.map_or(0, |value| key.len() + value.get().len());
        let new = value.as_ref().map_or(0, |v| key.len() + v.get().len());
        if self.size - old + new > MOST {
            let words = format!("the state would be larger than {MOST} bytes; use `db` or `data`");
            return Err(Raised::new("QuotaExceededError", words));
        }
        if before.map(|v| v.get()) == value.as_ref().map(|v| v.get()) {
            return Ok(());
        }
        self.size = self.size - old + new;
        self.changed = true;
        match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(&key),
        };
        Ok(())
    }

    /// Whether something has changed that isn't kept yet.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Keeps what has changed since the last time; returns all of it, without
    /// secrets.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn publish(&mut self) -> Result<Option<Arc<str>>, String> {
        if !std::mem::take(&mut self.changed) {
            return Ok(None);
        }
        let json = serde_json::to_string(&self.values).map_err(|e| e.to_string())?;
        if let (Some(file), Some(folder)) = (&self.file, &self.folder)
            && (!self.values.is_empty() || file.exists())
        {
            super::files::replace(folder, file, json.as_bytes())
                .map_err(|e| format!("the state can't be kept in {}: {e}", file.display()))?;
        }
        self.shown().map(Some)
    }
}

fn read(file: &Path) -> Result<BTreeMap<String, Box<RawValue>>, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| e.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    native: &Rc<Native>,
) -> rquickjs::Result<()> {
    let host = Rc::clone(native);
    let get = move |ctx: Ctx<'js>, key: String| -> rquickjs::Result<Value<'js>> {
        let state = host.state.borrow();
        match state.values.get(&key) {
            Some(json) => ctx.json_parse(json.get()),
            None => Ok(Value::new_undefined(ctx)),
        }
    };
    table.set("stateGet", Function::new(ctx.clone(), get)?)?;

    let host = Rc::clone(native);
    let set = move |ctx: Ctx<'js>, key: String, value: Value<'js>| -> rquickjs::Result<()> {
        let most = host.setup.settings.limits.result_bytes;
        let value = json::stringify(&ctx, &value, most)?;
        let value = value.map(haft_api::raw_json).transpose();
        let value = raise(
            &ctx,
            value.map_err(|e| Raised::new("TypeError", e.to_string())),
        )?;
        let outcome = host.state.borrow_mut().set(key, value);
        raise(&ctx, outcome)
    };
    table.set("stateSet", Function::new(ctx.clone(), set)?)?;

    let host = Rc::clone(native);
    let keys = move || -> Vec<String> { host.state.borrow().values.keys().cloned().collect() };
    table.set("stateKeys", Function::new(ctx.clone(), keys)?)
}
