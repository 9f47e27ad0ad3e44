//! What a tool produces: shown live, bounded for the model, kept whole on disk.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use haft_api::{OutputChannel, OutputSink, Part};

/// Shows output live; called with valid UTF-8.
pub(crate) type Progress = Box<dyn Fn(OutputChannel, String) + Send + Sync>;

/// How much is kept, and where the rest goes.
#[derive(Clone)]
pub(crate) struct Bounds {
    /// Most bytes that the model gets.
    pub(crate) shown: usize,
    /// Most bytes of a spill file.
    pub(crate) spilled: u64,
    /// The spill files' common beginning: folder and call id. `None`: no disk.
    pub(crate) spill: Option<PathBuf>,
}

/// The output of one call, as it arises.
pub(crate) struct Spool {
    bounds: Bounds,
    progress: Progress,
    state: Mutex<State>,
}

struct State {
    closed: bool,
    stdout: Channel,
    stderr: Channel,
}

impl Spool {
    pub(crate) fn new(bounds: Bounds, progress: Progress) -> Self {
        let state = State {
            closed: false,
            stdout: Channel::default(),
            stderr: Channel::default(),
        };
        Self {
            bounds,
            progress,
            state: Mutex::new(state),
        }
    }

    /// Ends the spool: what comes later is dropped. Returns what the model gets.
    pub(crate) fn finish(&self) -> Vec<Part> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let State { stdout, stderr, .. } = &mut *state;
        let out = stdout.finish(&self.bounds);
        let err = stderr.finish(&self.bounds);
        let err = err.map(|text| {
            if out.is_some() {
                format!("stderr:\n{text}")
            } else {
                text
            }
        });
        out.into_iter().chain(err).map(Part::text).collect()
    }

    /// Bounds the text of parts that a tool returned, all of them together.
    pub(crate) fn bound(&self, parts: Vec<Part>) -> Vec<Part> {
        let mut left = self.bounds.shown;
        let mut bounded = Vec::with_capacity(parts.len());
        for (index, part) in parts.into_iter().enumerate() {
            let text = match &part {
                Part::Text { text } => text,
                // Cut JSON is no JSON: it goes on as text.
                Part::Json { value } if value.get().len() > left => value.get(),
                _ => {
                    bounded.push(part);
                    continue;
                }
            };
            if text.is_empty() {
                continue;
            }
            let mut channel = Channel::default();
            let bounds = Bounds {
                shown: left,
                spill: self
                    .bounds
                    .spill
                    .as_ref()
                    .map(|path| with_suffix(path, &index.to_string())),
                ..self.bounds
            };
            channel.take(text.as_bytes(), &bounds, "txt");
            left = left.saturating_sub(text.len());
            if let Some(text) = channel.finish(&bounds) {
                bounded.push(Part::text(text));
            }
        }
        bounded
    }
}

impl OutputSink for Spool {
    fn write(&self, channel: OutputChannel, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return;
        }
        let (kept, name) = match channel {
            OutputChannel::Stdout => (&mut state.stdout, "stdout"),
            OutputChannel::Stderr => (&mut state.stderr, "stderr"),
        };
        kept.take(bytes, &self.bounds, name);
        let text = kept.decoder.decode(bytes);
        drop(state);
        if !text.is_empty() {
            (self.progress)(channel, text);
        }
    }
}

#[derive(Default)]
struct Channel {
    total: u64,
    /// All of it, or its beginning once it is too long.
    head: Vec<u8>,
    /// Its end, once it is too long.
    tail: VecDeque<u8>,
    long: bool,
    spill: Spill,
    decoder: Decoder,
}

#[derive(Default)]
enum Spill {
    #[default]
    None,
    Open {
        file: File,
        path: PathBuf,
        written: u64,
    },
    Failed {
        reason: String,
    },
}

impl Channel {
    fn take(&mut self, bytes: &[u8], bounds: &Bounds, name: &str) {
        self.total += bytes.len() as u64;
        if !self.long {
            self.head.extend_from_slice(bytes);
            if self.head.len() <= bounds.shown {
                return;
            }
            self.long = true;
            self.open_spill(bounds, name);
            let all = std::mem::take(&mut self.head);
            self.spill(&all, bounds);
            let (head, rest) = all.split_at(bounds.shown / 2);
            self.head = head.to_vec();
            self.keep_tail(rest, bounds);
        } else {
            self.spill(bytes, bounds);
            self.keep_tail(bytes, bounds);
        }
    }

    fn keep_tail(&mut self, bytes: &[u8], bounds: &Bounds) {
        let room = bounds.shown - bounds.shown / 2;
        let bytes = &bytes[bytes.len().saturating_sub(room)..];
        let excess = (self.tail.len() + bytes.len()).saturating_sub(room);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    fn open_spill(&mut self, bounds: &Bounds, name: &str) {
        let Some(base) = &bounds.spill else { return };
        let path = with_suffix(base, name);
        self.spill = match create(&path) {
            Ok(file) => Spill::Open {
                file,
                path,
                written: 0,
            },
            Err(error) => Spill::Failed {
                reason: format!("{}: {error}", path.display()),
            },
        };
    }

    fn spill(&mut self, bytes: &[u8], bounds: &Bounds) {
        let Spill::Open {
            file,
            path,
            written,
        } = &mut self.spill
        else {
            return;
        };
        let room = bounds.spilled.saturating_sub(*written);
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if let Err(error) = file.write_all(bytes) {
            self.spill = Spill::Failed {
                reason: format!("{}: {error}", path.display()),
            };
        } else {
            *written += bytes.len() as u64;
        }
    }

    fn finish(&mut self, bounds: &Bounds) -> Option<String> {
        if self.total == 0 {
            return None;
        }
        if !self.long {
            return Some(String::from_utf8_lossy(&self.head).into_owned());
        }
        let head = lossy_head(&self.head, bounds.shown / 2);
        let tail = lossy_tail(self.tail.make_contiguous(), bounds.shown - bounds.shown / 2);
        let whole = match &self.spill {
            Spill::None => "the rest was not kept".to_owned(),
            Spill::Open { path, written, .. } if *written == self.total => {
                format!("all of it is in {}", path.display())
            }
            Spill::Open { path, written, .. } => {
                format!("the first {written} bytes are in {}", path.display())
            }
            Spill::Failed { reason } => format!("the rest could not be kept: {reason}"),
        };
        let shown = head.len() + tail.len();
        let total = self.total;
        Some(format!(
            "{head}\n[{shown} of {total} bytes shown; {whole}]\n{tail}"
        ))
    }
}

fn with_suffix(base: &Path, name: &str) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    PathBuf::from(path)
}

fn create(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes a folder that only its owner can look into, and those above it.
pub(crate) fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// As much of the beginning as fits into `limit` bytes of valid UTF-8. A
/// character that the cut split is left out.
fn lossy_head(bytes: &[u8], limit: usize) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    };
    let mut text = String::from_utf8_lossy(whole).into_owned();
    text.truncate(text.floor_char_boundary(limit));
    text
}

/// As much of the end as fits into `limit` bytes of valid UTF-8.
fn lossy_tail(bytes: &[u8], limit: usize) -> String {
    let split = bytes
        .iter()
        .take(3)
        .take_while(|byte| (0x80..0xc0).contains(*byte))
        .count();
    let text = String::from_utf8_lossy(&bytes[split..]).into_owned();
    let start = text.ceil_char_boundary(text.len().saturating_sub(limit));
    text[start..].to_owned()
}

/// Makes valid UTF-8 of bytes that are cut anywhere.
#[derive(Default)]
struct Decoder {
    /// The beginning of a character whose end is still to come.
    partial: Vec<u8>,
}

impl Decoder {
    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        Some(bad) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = &after[bad..];
                        }
                        None => {
                            self.partial = after.to_vec();
                            return text;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn spool(shown: usize, dir: &Path) -> (Spool, Arc<Mutex<String>>) {
        let live = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&live);
        let bounds = Bounds {
            shown,
            spilled: 1 << 30,
            spill: Some(dir.join("call")),
        };
        let progress = move |_, text: String| seen.lock().unwrap().push_str(&text);
        (Spool::new(bounds, Box::new(progress)), live)
    }

    fn text(parts: &[Part]) -> String {
        haft_api::join_text(parts)
    }

    #[test]
    fn long_output_keeps_head_and_tail_and_spills_every_byte() {
        let check = |bytes: &[u8], shown: usize, piece: usize| {
            let dir = tempfile::tempdir().unwrap();
            let (spool, live) = spool(shown, dir.path());
            for piece in bytes.chunks(piece) {
                spool.write(OutputChannel::Stdout, piece);
            }
            let text = text(&spool.finish());
            let spilled = dir.path().join("call.stdout");
            assert!(
                text.contains(&format!("of {} bytes shown", bytes.len())),
                "{shown}"
            );
            assert!(text.contains(spilled.to_str().unwrap()));
            assert!(text.len() <= shown + 200, "{} of {shown}", text.len());
            assert_eq!(std::fs::read(spilled).unwrap(), bytes);
            let whole = String::from_utf8_lossy(bytes);
            let (head, tail) = text.split_once("\n[").unwrap();
            let (_, tail) = tail.split_once("]\n").unwrap();
            assert!(whole.starts_with(head), "head");
            assert!(whole.ends_with(tail), "tail");
            assert!(head.len() + 4 > shown / 2 && tail.len() + 4 > shown / 2);
            assert_eq!(*live.lock().unwrap(), whole);
        };
        let chinese = "中".repeat(40_000);
        let emoji = "🦀👩‍🚀".repeat(9_000);
        for shown in [25_000, 30_000, 16_384] {
            for piece in [1, 7, 4_096, 1 << 20] {
                check(chinese.as_bytes(), shown, piece);
                check(emoji.as_bytes(), shown, piece);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_become_valid_text() {
        let dir = tempfile::tempdir().unwrap();
        let (spool, live) = spool(1_000, dir.path());
        let bytes: Vec<u8> = (0..5_000u32)
            .map(|n| (n.wrapping_mul(97) % 256) as u8)
            .collect();
        spool.write(OutputChannel::Stdout, &bytes);
        let text = text(&spool.finish());
        assert!(text.len() < 1_200, "{}", text.len());
        assert!(live.lock().unwrap().contains(char::REPLACEMENT_CHARACTER));
        assert_eq!(
            std::fs::read(dir.path().join("call.stdout")).unwrap(),
            bytes
        );
    }

    #[test]
    fn short_output_stays_as_it_is_and_touches_no_disk() {
        let dir = tempfile::tempdir().unwrap();
        let (spool, _) = spool(100, &dir.path().join("not-made"));
        spool.write(OutputChannel::Stdout, b"out\n");
        spool.write(OutputChannel::Stderr, b"err\n");
        assert_eq!(text(&spool.finish()), "out\n\nstderr:\nerr\n");
        spool.write(OutputChannel::Stdout, b"late");
        assert!(!dir.path().join("not-made").exists());
    }

    #[test]
    fn returned_text_is_bounded_too() {
        let dir = tempfile::tempdir().unwrap();
        let (spool, _) = spool(100, dir.path());
        let long = "x".repeat(1_000);
        let parts = spool.bound(vec![
            Part::text("short"),
            Part::text(""),
            Part::text(&*long),
        ]);
        assert_eq!(parts.len(), 2);
        assert!(text(&parts).contains("of 1000 bytes shown"));
        assert_eq!(
            std::fs::read_to_string(dir.path().join("call.2.txt")).unwrap(),
            long
        );
    }

    #[test]
    fn a_spill_that_cannot_be_written_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (spool, _) = spool(10, &file);
        spool.write(OutputChannel::Stdout, &[b'x'; 50]);
        assert!(text(&spool.finish()).contains("could not be kept"));
    }
}
