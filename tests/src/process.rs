//! A process under test, and what it printed.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest life of a process under test.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it lived.
    pub took: Duration,
}

impl Finished {
    /// Standard output as JSON, one value a line.
    ///
    /// # Panics
    /// If a line isn't JSON.
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
        };
        self.stdout.lines().map(parse).collect()
    }

    /// Asserts the exit status, and shows everything if it is another.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Asserts that it ended with this status and one clear line that has all
    /// of these words.
    pub fn expect_error(&self, code: i32, words: &[&str]) {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        let lines: Vec<_> = self
            .stderr
            .lines()
            .filter(|line| line.to_lowercase().contains("error"))
            .collect();
        assert_eq!(
            lines.len(),
            1,
            "one line says what happened:\n{}",
            self.stderr
        );
        for word in words {
            assert!(
                self.stderr.contains(word),
                "`{word}` is missing in:\n{}",
                self.stderr
            );
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

/// A process that runs. It is killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    began: Instant,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
    stdout: Option<JoinHandle<()>>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts it without standard input.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(command: Command) -> Self {
        Self::with_input(command, Stdio::null())
    }

    /// Starts one that is talked to: see [`say`](Self::say).
    ///
    /// # Panics
    /// If it can't be started.
    pub fn talk(command: Command) -> Self {
        Self::with_input(command, Stdio::piped())
    }

    fn with_input(mut command: Command, stdin: Stdio) -> Self {
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the process starts");
        let stdout = child.stdout.take().expect("its output is piped");
        let mut stderr = child.stderr.take().expect("its errors are piped");
        let (send, lines) = mpsc::channel();
        let stdout = std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|count| count > 0)
            {
                send.send(String::from_utf8_lossy(&line).into_owned()).ok();
                line.clear();
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).ok();
            String::from_utf8_lossy(&text).into_owned()
        });
        let began = Instant::now();
        Self {
            child,
            began,
            lines,
            seen: Vec::new(),
            stdout: Some(stdout),
            stderr: Some(stderr),
        }
    }

    /// Waits for a line of its output that has this text.
    ///
    /// # Panics
    /// If its output ends, or nothing comes for long.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no `{text}` in {:?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Writes a line to its standard input.
    ///
    /// # Panics
    /// If it takes none.
    pub fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is talked to");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .expect("it listens");
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    ///
    /// # Panics
    /// If there is no `kill`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .expect("`kill` runs");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it lives longer than a test may.
    pub fn finish(mut self) -> Finished {
        drop(self.child.stdin.take());
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            if self.began.elapsed() > PATIENCE {
                self.child.kill().ok();
                panic!("the process hangs; so far: {:?}", self.seen);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = self.began.elapsed();
        let join = |text: Option<JoinHandle<String>>| text.and_then(|t| t.join().ok());
        if let Some(stdout) = self.stdout.take() {
            stdout.join().ok();
        }
        let stderr = join(self.stderr.take()).unwrap_or_default();
        let mut stdout = self.seen.concat();
        stdout.extend(self.lines.try_iter());
        Finished {
            code: status.code(),
            stdout,
            stderr,
            took,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The ids of the processes that have this text in their command line: what a
/// command left behind.
pub fn marked_processes(marker: &str) -> Vec<u32> {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            // Zombies have an empty command line.
            String::from_utf8_lossy(&line).contains(marker)
        })
        .collect()
}
