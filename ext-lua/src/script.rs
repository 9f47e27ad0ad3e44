//! One extension: its place, its globals, and what it registered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use haft_api::ToolSpec;
use mlua::{Function, Table};

use crate::config::Limits;
use crate::grants::Grants;
use haft_script_host::{Level, LogSink};

/// Where pure Lua libraries of the system are.
const SYSTEM_MODULES: [&str; 2] = ["/usr/local/share/lua/5.4", "/usr/share/lua/5.4"];

/// An extension's place on disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Its name: the file's without its ending, or the folder's.
    pub(crate) name: String,
    /// The file that is run.
    pub(crate) main: PathBuf,
    /// The folder, or the single file.
    pub(crate) own: PathBuf,
}

impl Place {
    /// Finds out what a path is. An `init.lua` stands for its folder.
    ///
    /// # Errors
    /// If it is neither a `.lua` file nor a folder with an `init.lua`.
    pub(crate) fn of(path: &Path) -> Result<Self, String> {
        let path = path
            .canonicalize()
            .map_err(|e| format!("{}: {e}", path.display()))?;
        let name = |stem: Option<&std::ffi::OsStr>| {
            stem.map_or_else(|| "script".to_owned(), |s| s.to_string_lossy().into_owned())
        };
        let path = match path.file_name().zip(path.parent()) {
            Some((name, folder)) if name == "init.lua" => folder.to_owned(),
            _ => path,
        };
        if path.is_dir() {
            let main = path.join("init.lua");
            if !main.is_file() {
                return Err(format!("{}: the folder has no init.lua", path.display()));
            }
            return Ok(Self {
                name: name(path.file_name()),
                main,
                own: path,
            });
        }
        if path.extension().is_some_and(|ending| ending == "lua") {
            return Ok(Self {
                name: name(path.file_stem()),
                main: path.clone(),
                own: path,
            });
        }
        Err(format!(
            "{}: neither a .lua file nor a folder with an init.lua",
            path.display()
        ))
    }

    /// What is in a folder of extensions, by name. One that isn't there is
    /// empty; a hidden entry is left out.
    pub(crate) fn within(folder: &Path) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let hidden = path
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with('.'));
                let script = path.extension().is_some_and(|ending| ending == "lua");
                !hidden && (script || path.join("init.lua").is_file())
            })
            .collect();
        paths.sort();
        paths
    }

    /// The folder modules are looked for in.
    pub(crate) fn root(&self) -> &Path {
        match self.own == self.main {
            true => self.main.parent().unwrap_or(Path::new("/")),
            false => &self.own,
        }
    }

    /// A file's name in messages: relative to the extension.
    pub(crate) fn chunk_name(&self, file: &Path) -> String {
        match (file.strip_prefix(self.root()), self.own == self.main) {
            (Ok(inner), true) => inner.display().to_string(),
            (Ok(inner), false) => format!("{}/{}", self.name, inner.display()),
            (Err(_), _) => file.display().to_string(),
        }
    }

    /// Where `require` looks.
    pub(crate) fn module_path(&self) -> String {
        let mut path = String::new();
        let root = self.root().display().to_string();
        for folder in std::iter::once(root.as_str()).chain(SYSTEM_MODULES) {
            path.push_str(&format!("{folder}/?.lua;{folder}/?/init.lua;"));
        }
        path.pop();
        path
    }

    /// Where `require` looks for C modules.
    pub(crate) fn library_path(&self) -> String {
        let root = self.root().display();
        let suffix = std::env::consts::DLL_SUFFIX;
        let arch = std::env::consts::ARCH;
        let system = [
            "/usr/local/lib/lua/5.4".to_owned(),
            format!("/usr/lib/{arch}-linux-gnu/lua/5.4"),
            "/usr/lib/lua/5.4".to_owned(),
        ];
        let mut path = format!("{root}/?{suffix}");
        for folder in system {
            path.push_str(&format!(";{folder}/?{suffix}"));
        }
        path
    }

    fn may_load(&self, file: &Path) -> bool {
        let Ok(file) = file.canonicalize() else {
            return false;
        };
        file.starts_with(self.root()) || SYSTEM_MODULES.iter().any(|root| file.starts_with(root))
    }
}

/// A function of a script that the host calls.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) function: Function,
    /// What it is, for messages.
    pub(crate) what: Rc<str>,
    /// Whether it takes a second argument, the call's context.
    pub(crate) takes_context: bool,
}

impl Handler {
    pub(crate) fn new(function: Function, what: &str) -> Self {
        let info = function.info();
        Self {
            takes_context: info.what == "C" || info.is_vararg || info.num_params > 1,
            function,
            what: what.into(),
        }
    }
}

/// A tool of an extension.
#[derive(Clone)]
pub(crate) struct ScriptTool {
    pub(crate) spec: ToolSpec,
    pub(crate) handler: Handler,
}

/// A command of an extension.
#[derive(Clone)]
pub(crate) struct ScriptCommand {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) handler: Handler,
}

/// What an extension may use.
#[derive(Default)]
pub(crate) struct ScriptLimits {
    pub(crate) all: Limits,
    /// How long its calls may take, where it or the settings say so.
    pub(crate) call_ms: Option<u64>,
}

/// An extension in a state.
pub(crate) struct Script {
    pub(crate) place: Place,
    pub(crate) grants: Grants,
    pub(crate) limits: ScriptLimits,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) state_file: Option<PathBuf>,
    /// Timers, processes and connections that are open.
    pub(crate) handles: Cell<usize>,
    /// Told when one of them is closed.
    pub(crate) closed: tokio::sync::Notify,
    /// Coroutines that haven't ended.
    pub(crate) tasks: Cell<usize>,
    /// About how many bytes of the state's memory are its own.
    pub(crate) memory: Cell<usize>,
    /// True while its main file runs: only then it may register.
    pub(crate) loading: Cell<bool>,
    pub(crate) tools: RefCell<Vec<ScriptTool>>,
    pub(crate) commands: RefCell<Vec<ScriptCommand>>,
    pub(crate) listeners: RefCell<BTreeMap<String, Vec<Function>>>,
    pub(crate) env: RefCell<Option<Table>>,
}

impl Script {
    pub(crate) fn new(
        place: Place,
        grants: Grants,
        limits: ScriptLimits,
        log: Arc<dyn LogSink>,
        state_dir: Option<&Path>,
    ) -> Rc<Self> {
        let state_file = state_dir.map(|dir| dir.join(format!("{}.json", place.name)));
        Rc::new(Self {
            place,
            grants,
            limits,
            log,
            state_file,
            handles: Cell::new(0),
            closed: tokio::sync::Notify::new(),
            tasks: Cell::new(0),
            memory: Cell::new(0),
            loading: Cell::new(true),
            tools: RefCell::default(),
            commands: RefCell::default(),
            listeners: RefCell::default(),
            env: RefCell::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.place.name
    }

    pub(crate) fn say(&self, level: Level, message: &str) {
        self.log.log(self.name(), level, message);
    }

    pub(crate) fn check_path(&self, path: &str, write: bool) -> Result<PathBuf, String> {
        self.grants
            .check_path(self.name(), Path::new(path), write, &self.place.own)
    }

    pub(crate) fn may_load(&self, file: &Path) -> bool {
        self.place.may_load(file)
            || file
                .to_str()
                .is_some_and(|file| self.check_path(file, false).is_ok())
    }
}

/// Counts a timer, process or connection while it is open.
pub(crate) struct OpenHandle(Rc<Script>);

impl OpenHandle {
    pub(crate) fn new(script: &Rc<Script>) -> Self {
        script.handles.set(script.handles.get() + 1);
        Self(Rc::clone(script))
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.0.handles.set(self.0.handles.get() - 1);
        self.0.closed.notify_waiters();
    }
}
