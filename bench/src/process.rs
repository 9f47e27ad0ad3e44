//! The whole life of the `haft` command.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;

use haft_bench::{Pair, Result, Sample};
use serde::Deserialize;
use tempfile::TempDir;

/// The argument that makes the bench's program the floor.
pub(crate) const ARGUMENT: &str = "play-script";

/// A turn of one line of text, from a script; the floor is a process that plays
/// the script and writes down what was said.
pub(crate) fn text_turn() -> Result<Pair> {
    let haft = build()?;
    let folder = Rc::new(tempfile::tempdir()?);
    let script = folder.path().join("one-line.jsonl");
    std::fs::write(
        &script,
        "{\"events\":[{\"type\":\"text\",\"text\":\"Hello!\"}]}\n",
    )?;
    let floor_script = script.clone();
    let floor_folder = Rc::clone(&folder);
    let floor = std::env::current_exe()?;
    Ok(Pair::of_samples(
        move || {
            let script = script.display().to_string();
            let mut command = alone(&haft, &folder);
            command.args(["run", "--engine", "replay", "--model", &script, "hi"]);
            Sample::of_process(&mut command)
        },
        move || {
            let mut command = alone(&floor, &floor_folder);
            command.arg(ARGUMENT).arg(&floor_script).arg("hi");
            Sample::of_process(&mut command)
        },
    ))
}

/// A command that sees nothing of the user's settings.
fn alone(program: &Path, folder: &TempDir) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder.path());
    for name in ["HOME", "HAFT_HOME", "XDG_CONFIG_HOME"] {
        command.env(name, folder.path().join("home"));
    }
    command
}

/// Builds the command as it is shipped, and says where it is.
fn build() -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "haft",
            "--bin",
            "haft",
        ])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit());
    let built = command.output()?;
    if !built.status.success() {
        return Err(format!("the command can't be built: {}", built.status).into());
    }
    let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<Message>();
    let mut executables = messages.filter_map(|message| message.ok()?.executable);
    let haft = executables.find(|path| path.file_stem().is_some_and(|name| name == "haft"));
    haft.ok_or_else(|| "cargo doesn't say where it put the command".into())
}

/// Plays a script of one line: stores what was said and prints the answer.
pub(crate) fn main() -> ExitCode {
    match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Deserialize)]
struct Script {
    events: Vec<Text>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

fn play() -> Result<()> {
    let mut arguments = std::env::args().skip(2);
    let script = arguments.next().ok_or("no script")?;
    let prompt = arguments.next().ok_or("no prompt")?;
    let script: Script = serde_json::from_str(&std::fs::read_to_string(script)?)?;
    let answer: String = script.events.into_iter().map(|event| event.text).collect();
    let home = std::env::var_os("HAFT_HOME").ok_or("no home")?;
    std::fs::create_dir_all(&home)?;
    let name = format!("floor-{}.jsonl", std::process::id());
    let mut log = std::fs::File::create_new(Path::new(&home).join(name))?;
    for (role, text) in [("user", &prompt), ("assistant", &answer)] {
        let mut line = serde_json::to_vec(&serde_json::json!({ "role": role, "text": text }))?;
        line.push(b'\n');
        log.write_all(&line)?;
        log.sync_data()?;
    }
    println!("{answer}");
    Ok(())
}
