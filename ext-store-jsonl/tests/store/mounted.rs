//! File systems of the tests' own, each in an image, mounted for one child
//! process alone: they are gone when it is, however it ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What a child's program runs under: `$1` is the image, `$2` where it is
/// mounted, the rest is the program.
const MOUNT: &str = r#"mount -o loop "$1" "$2" && shift 2 && exec "$@""#;

/// Makes an image with an empty ext4 in it.
pub(crate) fn image(path: &Path, bytes: u64) -> Result<(), String> {
    let file = std::fs::File::create(path).map_err(|e| format!("no image: {e}"))?;
    file.set_len(bytes).map_err(|e| format!("no image: {e}"))?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-m", "0"]).arg(path);
    succeed(mkfs)
}

/// A child with an image mounted.
pub(crate) fn mounted(child: &Command, image: &Path, at: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", MOUNT, "sh"])
        .arg(image)
        .arg(at)
        .arg(child.get_program())
        .args(child.get_args());
    for (name, value) in child.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Why nothing can be mounted here.
pub(crate) fn unavailable() -> Option<String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can mount an image".to_owned());
        }
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let (path, at) = (folder.path().join("image"), folder.path().join("at"));
        std::fs::create_dir(&at).map_err(|e| e.to_string())?;
        image(&path, 1 << 20)?;
        succeed(mounted(&Command::new("true"), &path, &at))
    });
    tried.clone().err()
}

fn succeed(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|e| format!("{program} can't be run: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
