//! Programs: functions that a sandbox in memory runs as processes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use haft_api::OutputChannel;
use tokio::sync::mpsc;

use super::process::Process;
use super::world::Sandbox;

/// A program, by whose exit code it ends.
pub(super) type Program = dyn Fn(ProgramIo) -> BoxFuture<'static, i32> + Send + Sync;

/// What a program of a [`MemoryRunner`](crate::MemoryRunner) is given.
///
/// ```
/// use haft_testkit::MemoryRunner;
///
/// let runner = MemoryRunner::new().program("wc", |mut io| async move {
///     let mut count = 0;
///     while let Some(bytes) = io.read().await {
///         count += bytes.len();
///     }
///     io.print(count.to_string());
///     0
/// });
/// ```
pub struct ProgramIo {
    /// Name and arguments. Of a shell's line: the line's words.
    pub argv: Vec<String>,
    /// The folder it was started in.
    pub cwd: String,
    /// The variables it was given.
    pub env: BTreeMap<String, String>,
    pub(super) stdin: mpsc::UnboundedReceiver<Vec<u8>>,
    pub(super) process: Arc<Process>,
    pub(super) sandbox: Arc<Sandbox>,
}

impl ProgramIo {
    /// Writes to standard output.
    pub fn print(&self, bytes: impl AsRef<[u8]>) {
        self.process.write(OutputChannel::Stdout, bytes.as_ref());
    }

    /// Writes to standard error.
    pub fn print_error(&self, bytes: impl AsRef<[u8]>) {
        self.process.write(OutputChannel::Stderr, bytes.as_ref());
    }

    /// Reads some of standard input; `None` is its end.
    pub async fn read(&mut self) -> Option<Vec<u8>> {
        self.stdin.recv().await
    }

    /// The content of a file of the sandbox, by a path from where it was
    /// started.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.sandbox.content(&self.path(path))
    }

    /// A path from where it was started, as an absolute one.
    pub(super) fn path(&self, path: &str) -> String {
        match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("{}/{path}", self.cwd.trim_end_matches('/')),
        }
    }

    /// Writes a file of the sandbox, by a path from where it was started.
    ///
    /// # Panics
    /// If the file can't be there; the process then ends with code 101.
    pub fn write_file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.sandbox.put(&self.path(path), bytes.into());
    }
}

impl fmt::Debug for ProgramIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramIo")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// The words of a shell's line, if it is one: `sh -c LINE`.
fn line(argv: &[String]) -> Option<&str> {
    match argv {
        [shell, flag, line] if shell.ends_with("sh") && flag == "-c" => Some(line),
        _ => None,
    }
}

/// Finds the program for a command, and what its `argv` is.
pub(super) fn find(
    programs: &BTreeMap<String, Arc<Program>>,
    argv: &[String],
) -> Option<(Arc<Program>, Vec<String>)> {
    let Some(line) = line(argv) else {
        let program = programs.get(argv.first()?)?;
        return Some((Arc::clone(program), argv.to_vec()));
    };
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if let Some(program) = programs.get(line) {
        return Some((Arc::clone(program), words));
    }
    let plain = !line.contains([
        '|', '&', ';', '<', '>', '(', ')', '$', '`', '"', '\'', '\\', '*',
    ]);
    match words.first().and_then(|name| programs.get(name)) {
        Some(program) if plain => Some((Arc::clone(program), words)),
        // A shell is always there; it is the line that it can't run.
        _ => Some((Arc::new(|io| Box::pin(not_found(io))), words)),
    }
}

async fn not_found(io: ProgramIo) -> i32 {
    io.print_error(format!("sh: {}: not found\n", io.argv.join(" ")));
    127
}

pub(super) fn add<R: Future<Output = i32> + Send + 'static>(
    programs: &mut BTreeMap<String, Arc<Program>>,
    name: &str,
    run: impl Fn(ProgramIo) -> R + Send + Sync + 'static,
) {
    let program: Arc<Program> = Arc::new(move |io| Box::pin(run(io)));
    programs.insert(name.to_owned(), program);
}

/// The programs that every sandbox has.
pub(super) fn builtin() -> BTreeMap<String, Arc<Program>> {
    let mut programs = BTreeMap::new();
    add(&mut programs, "true", async |_| 0);
    add(&mut programs, "false", async |_| 1);
    add(&mut programs, "pwd", async |io: ProgramIo| {
        io.print(format!("{}\n", io.cwd));
        0
    });
    add(&mut programs, "echo", async |io: ProgramIo| {
        io.print(format!("{}\n", io.argv[1..].join(" ")));
        0
    });
    add(&mut programs, "cat", async |mut io: ProgramIo| {
        if io.argv.len() < 2 {
            while let Some(bytes) = io.read().await {
                io.print(bytes);
            }
            return 0;
        }
        let mut code = 0;
        for path in &io.argv[1..] {
            match io.file(path) {
                Some(bytes) => io.print(bytes),
                None => {
                    io.print_error(format!("cat: {path}: No such file or directory\n"));
                    code = 1;
                }
            }
        }
        code
    });
    add(&mut programs, "sleep", async |io: ProgramIo| {
        let seconds = io.argv.get(1).and_then(|text| text.parse::<f64>().ok());
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(time) => tokio::time::sleep(time).await,
            None => {
                io.print_error("sleep: invalid time interval\n");
                return 1;
            }
        }
        0
    });
    super::probe::add_programs(&mut programs);
    programs
}
