//! From a skill's files to code: scripts, modules, TypeScript.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Exception, Function, Module, Object, Value};

use crate::core::Core;
use crate::native::Native;
use crate::vm::Vm;

/// Lets modules import others of the same skill, and nothing else.
pub(crate) fn equip(vm: &Vm, native: &Native) {
    let package = &native.setup.package;
    let root = Rc::new(Root {
        skill: package.manifest.id.clone(),
        folder: package.folder.clone(),
    });
    vm.runtime
        .set_loader(Within(Rc::clone(&root)), Within(root));
}

/// Runs the skill's entry, finds the skill in what it left behind, and answers
/// with its hooks and its lists as far as they can be read.
///
/// # Errors
/// What it threw, or what is wrong with the file.
pub(crate) fn load(ctx: &Ctx<'_>, core: &Core, native: &Native, call: u64) -> rquickjs::Result<()> {
    let package = &native.setup.package;
    let root = Root {
        skill: package.manifest.id.clone(),
        folder: package.folder.clone(),
    };
    let source = read(&package.entry).map_err(|words| Exception::throw_message(ctx, &words))?;
    let name = root.name(&package.entry);
    if is_module(ctx, &package.entry, &source) {
        let module = Module::declare(ctx.clone(), name, source)?;
        let (module, evaluated) = module.eval()?;
        let exported: Object<'_> = module.namespace()?;
        return core.loaded(ctx, call, evaluated.into_value(), exported.into_value());
    }
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name);
    let _: Value<'_> = ctx.eval_with_options(source, options)?;
    core.adopt(ctx, call)
}

/// Whether a file is a module: by its name, or because it is no script.
fn is_module(ctx: &Ctx<'_>, path: &Path, source: &str) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if matches!(ending, Some("mjs" | "mts")) {
        return true;
    }
    if !["import", "export", "await"]
        .iter()
        .any(|word| source.contains(word))
    {
        return false;
    }
    // Compiled, never run.
    let compile = || -> rquickjs::Result<()> {
        let function: Function<'_> = ctx.globals().get("Function")?;
        let _: Value<'_> = rquickjs::function::Constructor::from_value(function.into_value())?
            .construct((source,))?;
        Ok(())
    };
    let is_script = compile().is_ok();
    if !is_script {
        ctx.catch();
    }
    !is_script
}

/// A script's text, without types.
fn read(path: &Path) -> Result<String, String> {
    let at = |words: String| format!("{}: {words}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| at(e.to_string()))?;
    let ending = path.extension().and_then(|ending| ending.to_str());
    match ending {
        Some("ts" | "mts" | "cts") => crate::typescript::strip(&text).map_err(at),
        _ => Ok(text),
    }
}

/// A skill's folder, and the names of its files.
#[derive(Clone)]
struct Root {
    skill: String,
    folder: PathBuf,
}

impl Root {
    /// A file's name in errors: `skill/index.js`.
    fn name(&self, path: &Path) -> String {
        let inner = path.strip_prefix(&self.folder).unwrap_or(path);
        format!("{}/{}", self.skill, inner.display())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let inner = name.strip_prefix(&self.skill)?.strip_prefix('/')?;
        Some(self.folder.join(inner))
    }
}

struct Within(Rc<Root>);

const ENDINGS: &[&str] = &["", ".js", ".mjs", ".ts", ".mts", "/index.js", "/index.ts"];

impl Resolver for Within {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let refuse = |words: &str| {
            let words = format!("can't import `{name}` from {base}: {words}");
            Exception::throw_message(ctx, &words)
        };
        if !name.starts_with("./") && !name.starts_with("../") {
            return Err(refuse(
                "only files of the skill can be imported (`./…`); bundle packages into the entry",
            ));
        }
        let base = self
            .0
            .path(base)
            .ok_or_else(|| refuse("an unknown place"))?;
        let wanted = base.parent().unwrap_or(&self.0.folder).join(name);
        let found = ENDINGS.iter().find_map(|ending| {
            let mut path = wanted.clone().into_os_string();
            path.push(ending);
            let path = PathBuf::from(path).canonicalize().ok()?;
            path.is_file().then_some(path)
        });
        match found {
            Some(path) if path.starts_with(&self.0.folder) => Ok(self.0.name(&path)),
            Some(_) => Err(refuse("it leads out of the skill's folder")),
            None => Err(refuse("there is no such file")),
        }
    }
}

impl Loader for Within {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        let path = self.0.path(name).ok_or_else(|| Error::new_loading(name))?;
        let text = read(&path).map_err(|words| Exception::throw_message(ctx, &words))?;
        let kind = match attributes {
            Some(attributes) => attributes.get_type()?,
            None => None,
        };
        if kind.as_deref() == Some("json") || name.ends_with(".json") {
            let json = serde_json::from_str::<&serde_json::value::RawValue>(&text)
                .map_err(|e| Exception::throw_syntax(ctx, &format!("{name}: {e}")))?;
            let quoted = serde_json::Value::from(json.get()).to_string();
            return Module::declare(
                ctx.clone(),
                name,
                format!("export default JSON.parse({quoted});"),
            );
        }
        Module::declare(ctx.clone(), name, text)
    }
}
