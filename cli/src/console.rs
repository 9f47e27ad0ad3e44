//! Standard error and standard input: what is said beside the answer, and what
//! is asked.

use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use tokio::sync::{mpsc, oneshot};

/// The three standard streams, as far as it matters who is at their ends.
#[derive(Clone)]
pub(crate) struct Console {
    /// Whether somebody watches standard output.
    pub(crate) shows_answers: bool,
    /// How many columns there are to show progress in, where somebody watches
    /// standard error.
    pub(crate) progress_width: Option<usize>,
    /// Whether standard error may be coloured.
    pub(crate) colour: bool,
    /// Whether there is somebody to ask.
    pub(crate) can_ask: bool,
    lines: Lines,
}

impl Console {
    /// That of this process.
    pub(crate) fn of_process() -> Self {
        let stderr = io::stderr();
        let progress_width = stderr.is_terminal().then(width);
        Self {
            shows_answers: io::stdout().is_terminal(),
            progress_width,
            colour: AutoStream::choice(&stderr) != ColorChoice::Never,
            can_ask: progress_width.is_some() && io::stdin().is_terminal(),
            lines: Lines::default(),
        }
    }

    /// Says a line on standard error.
    pub(crate) fn say(&self, line: &str) {
        // Nowhere else to say it.
        writeln!(io::stderr().lock(), "{line}").ok();
    }

    /// Asks a question that is answered by yes or no; everything but yes is no.
    /// Cancel safe as far as can be: a line that is typed for a question that
    /// was given up goes to whoever asks next.
    pub(crate) async fn confirm(&self, question: &str) -> bool {
        let mut stderr = io::stderr();
        write!(stderr, "{question} [y/N] ")
            .and_then(|()| stderr.flush())
            .ok();
        let answer = self.line().await;
        matches!(
            answer.as_deref().map(str::trim),
            Some("y" | "Y" | "yes" | "Yes")
        )
    }

    /// The next line of standard input without its end; `None` at the end.
    pub(crate) async fn line(&self) -> Option<String> {
        self.lines.next().await
    }
}

/// The columns of the terminal that standard error goes to.
fn width() -> usize {
    #[cfg(unix)]
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    #[cfg(not(unix))]
    let columns = 0;
    if columns == 0 {
        80
    } else {
        usize::from(columns)
    }
}

/// Asks for a line. The answer is `None` at the end of standard input.
type Wish = oneshot::Sender<Option<String>>;

/// Lines of standard input, read by a thread of their own so that nobody has to
/// wait for one that never comes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Option<mpsc::UnboundedSender<Wish>>>>);

impl Lines {
    async fn next(&self) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = reader.get_or_insert_with(start);
            reader.send(answer).ok()?;
        }
        answered.await.ok().flatten()
    }
}

/// Starts the thread. It ends with the process: nothing can end a read from a
/// terminal.
fn start() -> mpsc::UnboundedSender<Wish> {
    let (reader, mut wishes) = mpsc::unbounded_channel::<Wish>();
    std::thread::spawn(move || {
        let mut kept: Option<Option<String>> = None;
        while let Some(wish) = wishes.blocking_recv() {
            // Whoever wished may have gone away before or while it was read.
            if wish.is_closed() {
                continue;
            }
            let line = kept.take().unwrap_or_else(read_line);
            if let Err(line) = wish.send(line) {
                kept = Some(line);
            }
        }
    });
    reader
}

fn read_line() -> Option<String> {
    let mut bytes = Vec::new();
    match io::stdin().lock().read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            let text = String::from_utf8_lossy(&bytes);
            Some(text.trim_end_matches(['\n', '\r']).to_owned())
        }
    }
}
