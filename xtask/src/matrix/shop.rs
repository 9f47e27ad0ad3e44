//! What lines share: commands, and what is built once for several of them.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Verdict;
use crate::Result;
use crate::child::{self, Event};
use crate::dylib;
use crate::progress::Progress;
use crate::workspace::{Workspace, cargo};

/// At most so many lines of a failed command are shown: the last ones.
const SHOWN: usize = 80;

/// Settings that have external crates built just as the workspace builds them, so
/// that what is there already serves again.
pub(super) const PROFILE: [&str; 2] = [
    "profile.dev.package.\"*\".opt-level=1",
    "profile.dev.package.\"*\".debug=false",
];

/// The place where lines work.
pub(super) struct Shop {
    pub(super) workspace: Workspace,
    objects: RefCell<BTreeMap<(String, String), PathBuf>>,
    haft: OnceCell<PathBuf>,
    packaged: OnceCell<BTreeMap<String, PathBuf>>,
}

/// How a command ended, and what it printed.
pub(super) struct Done {
    pub(super) success: bool,
    pub(super) lines: Vec<String>,
}

impl Done {
    /// Passed if it succeeded.
    pub(super) fn verdict(self) -> Verdict {
        if self.success {
            return Verdict::Passed;
        }
        let hidden = self.lines.len().saturating_sub(SHOWN);
        Verdict::Failed(self.lines[hidden..].to_vec())
    }

    /// What it printed, if it succeeded.
    pub(super) fn output(self) -> Result<String> {
        if self.success {
            return Ok(self.lines.join("\n"));
        }
        let hidden = self.lines.len().saturating_sub(SHOWN);
        Err(self.lines[hidden..].join("\n").into())
    }
}

/// Runs a command to its end.
pub(super) fn run(command: Command) -> Result<Done> {
    let mut progress = Progress::new();
    let mut lines: Vec<String> = Vec::new();
    let shown = format!("{command:?}");
    let ended = child::run(command, |event| match event {
        Event::Line(line) => {
            progress.show(line);
            lines.push(line.to_owned());
        }
        Event::Silence => progress.show(lines.last().map_or("", String::as_str)),
    })?;
    if !ended.status.success() {
        lines.push(format!("{shown}: {}", ended.status));
    }
    Ok(Done {
        success: ended.status.success(),
        lines,
    })
}

/// Whether a program is installed.
pub(super) fn has(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

impl Shop {
    pub(super) fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            objects: RefCell::default(),
            haft: OnceCell::new(),
            packaged: OnceCell::new(),
        }
    }

    /// A folder for a line, empty.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.workspace.target.join("matrix").join(name);
        let at = |e: std::io::Error| format!("{}: {e}", folder.display());
        match std::fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(at(e).into()),
            _ => {}
        }
        std::fs::create_dir_all(&folder).map_err(at)?;
        Ok(folder)
    }

    /// `cargo` in the workspace.
    pub(super) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo();
        command.args(arguments).current_dir(&self.workspace.root);
        command
    }

    /// The nightly `cargo` in the workspace, which builds into a folder of its
    /// own.
    pub(super) fn nightly(&self, arguments: &[&str], folder: &str) -> Command {
        // By the path, since the cargo of this task is of another toolchain.
        let mut command = Command::new("cargo");
        command
            .arg("+nightly")
            .args(arguments)
            .current_dir(&self.workspace.root)
            .env("CARGO_TARGET_DIR", self.workspace.target.join(folder));
        for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(variable);
        }
        command
    }

    /// An extension crate of the workspace as a shared object.
    pub(super) fn object(&self, package: &str, profile: &str) -> Result<PathBuf> {
        let key = (package.to_owned(), profile.to_owned());
        if let Some(path) = self.objects.borrow().get(&key) {
            return Ok(path.clone());
        }
        let options = dylib::Options {
            package: package.to_owned(),
            out: Some(self.workspace.target.join("matrix/objects").join(profile)),
            profile: profile.to_owned(),
            manifest: None,
            features: None,
        };
        let mut command = dylib::build_command(&options);
        command.current_dir(&self.workspace.root);
        let path = dylib::kept(&options, &run(command)?.output()?)?;
        self.objects.borrow_mut().insert(key, path.clone());
        Ok(path)
    }

    /// The command with the default features.
    pub(super) fn haft(&self) -> Result<PathBuf> {
        if let Some(path) = self.haft.get() {
            return Ok(path.clone());
        }
        let path = self.build_haft("default", &["--features", "default"])?;
        Ok(self.haft.get_or_init(|| path).clone())
    }

    /// The command with such features, in a place where it stays.
    pub(super) fn build_haft(&self, name: &str, features: &[&str]) -> Result<PathBuf> {
        let mut build = self.cargo(&["build", "--package", "haft", "--bin", "haft"]);
        build.arg("--no-default-features").args(features);
        run(build)?.output()?;
        let program = format!("haft{}", std::env::consts::EXE_SUFFIX);
        let kept = self.folder(&format!("haft-{name}"))?.join(&program);
        let built = self.workspace.target.join("debug").join(&program);
        std::fs::copy(&built, &kept).map_err(|e| format!("{}: {e}", built.display()))?;
        Ok(kept)
    }

    /// The crates as they would be published, unpacked: names and folders.
    pub(super) fn packaged(&self) -> Result<&BTreeMap<String, PathBuf>> {
        if self.packaged.get().is_none() {
            let unpacked = super::packages::unpack(self)?;
            // Nobody else could have set it.
            let _ = self.packaged.set(unpacked);
        }
        Ok(self.packaged.get().expect("it was set just now"))
    }

    /// The arguments that put packaged crates in the registry's place.
    pub(super) fn patches(&self, names: &[String]) -> Result<Vec<String>> {
        let packaged = self.packaged()?;
        let mut arguments = Vec::new();
        for setting in PROFILE {
            arguments.extend(["--config".to_owned(), setting.to_owned()]);
        }
        for name in names {
            let folder = packaged
                .get(name)
                .ok_or_else(|| format!("{name} is no package of ours"))?;
            let path = toml::Value::from(folder.display().to_string());
            let setting = format!("patch.crates-io.{name}.path={path}");
            arguments.extend(["--config".to_owned(), setting]);
        }
        Ok(arguments)
    }

    /// A command with a home and a configuration of its own, in a folder.
    pub(super) fn command(&self, program: &Path, place: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(place)
            .env("HAFT_HOME", place.join("home"))
            .env("XDG_CONFIG_HOME", place.join("config"));
        for variable in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"] {
            command.env_remove(variable);
        }
        command
    }
}
