//! Files of a session.

use haft_api::{
    DirEntry, Error, ErrorKind, FileData, FileKind, FileMetadata, ListOptions, Listing,
    ReadOptions, Result, WriteMode, WriteOptions,
};

use crate::link::Call;
use crate::quote::quote;
use crate::session::SshSession;
use crate::wire::Answer;

/// Entries of a page where the caller named no number.
const LIST_PAGE: usize = 1000;
/// Most entries of a page.
const LIST_MAX: usize = 100_000;
/// The far side's numbers are signed.
const FURTHEST: u64 = 1 << 62;

impl SshSession {
    async fn on_path(&self, path: &str, call: Call) -> Result<Answer> {
        let answer = self.link.ask(call).await?;
        match answer.code {
            0 => Ok(answer),
            _ => Err(refused(path, &answer)),
        }
    }

    pub(crate) async fn read(&self, path: &str, options: ReadOptions) -> Result<FileData> {
        check(path)?;
        let most = self.link.config.max_read_bytes;
        let wanted = options.limit.unwrap_or(u64::MAX);
        let asked = wanted.min(most.saturating_add(1)).min(FURTHEST);
        let offset = options.offset.min(FURTHEST);
        let prelude = self.place.prelude();
        let line = format!("{prelude}; file_read {} {offset} {asked}", quote(path));
        let call = Call::new(line).most(asked.saturating_add(64 * 1024));
        let mut answer = self.on_path(path, call).await?;
        let head = answer.body.iter().position(|&byte| byte == b'\n');
        let head = head.ok_or_else(|| odd(path))?;
        let metadata = describe(&answer.body[..head]).ok_or_else(|| odd(path))?;
        answer.body.drain(..=head);
        if answer.body.len() as u64 > most {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the file is too large to be read at once; read it in ranges",
            )
            .context("path", path)
            .context("limit", most));
        }
        Ok(FileData {
            bytes: answer.body,
            metadata,
        })
    }

    pub(crate) async fn write(
        &self,
        path: &str,
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<FileMetadata> {
        check(path)?;
        if path.ends_with('/') {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the path names a folder, not a file",
            )
            .context("path", path));
        }
        let (mode, version) = match &options.mode {
            WriteMode::Any => ("any", ""),
            WriteMode::CreateNew => ("new", ""),
            WriteMode::IfVersion(version) => ("version", version.as_str()),
        };
        let permissions = options
            .permissions
            .map(|mode| format!("{:o}", mode & 0o7777));
        let line = format!(
            "{}; file_write {} {mode} {} {} {} {}",
            self.place.prelude(),
            quote(path),
            quote(version),
            quote(&permissions.unwrap_or_default()),
            quote(if options.create_parents { "make" } else { "" }),
            bytes.len()
        );
        let call = Call::new(line).body(bytes).once();
        let answer = self.on_path(path, call).await?;
        describe(&answer.body).ok_or_else(|| odd(path))
    }

    pub(crate) async fn describe(&self, path: &str) -> Result<FileMetadata> {
        check(path)?;
        let line = format!("{}; file_metadata {}", self.place.prelude(), quote(path));
        let answer = self.on_path(path, Call::new(line)).await?;
        describe(&answer.body).ok_or_else(|| odd(path))
    }

    pub(crate) async fn page(&self, path: &str, options: ListOptions) -> Result<Listing> {
        check(path)?;
        let line = format!("{}; file_list {}", self.place.prelude(), quote(path));
        let answer = self.on_path(path, Call::new(line)).await?;
        let mut entries = entries(&answer.body);
        if let Some(after) = &options.after {
            entries.retain(|entry| entry.name > *after);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let limit = options.limit.unwrap_or(LIST_PAGE).clamp(1, LIST_MAX);
        let more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().filter(|_| more);
        Ok(Listing {
            next: last.map(|entry| entry.name.clone()),
            entries,
        })
    }

    pub(crate) async fn remove_one(&self, path: &str) -> Result<()> {
        check(path)?;
        let line = format!("{}; file_remove {}", self.place.prelude(), quote(path));
        self.on_path(path, Call::new(line).once()).await.map(drop)
    }

    pub(crate) async fn make_folder(&self, path: &str) -> Result<()> {
        check(path)?;
        let line = format!("{}; folder_make {}", self.place.prelude(), quote(path));
        self.on_path(path, Call::new(line)).await.map(drop)
    }
}

fn check(path: &str) -> Result<()> {
    let message = match path {
        "" => "the path is empty",
        path if path.contains('\0') => "the path contains a NUL byte",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidInput, message).context("path", path.escape_debug()))
}

fn refused(path: &str, answer: &Answer) -> Error {
    let text = answer.text();
    let error = match answer.kind() {
        ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, "no such file or folder").context("found", text)
        }
        ErrorKind::Denied => Error::new(
            ErrorKind::Denied,
            "the path leads out of what the session may touch, or isn't permitted",
        )
        .context("leads to", text),
        ErrorKind::Busy => Error::new(
            ErrorKind::Busy,
            "the file was changed by somebody else since it was read; read it again",
        )
        .context("found", text),
        ErrorKind::Unexpected if text.is_empty() => {
            Error::new(ErrorKind::Unexpected, "it failed on the far side")
                .context("code", answer.code)
        }
        kind => Error::new(kind, text),
    };
    error.context("path", path)
}

fn odd(path: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the far side's answer can't be understood",
    )
    .context("path", path)
}

fn kind(mode: u32) -> FileKind {
    match mode & 0o170_000 {
        0o100_000 => FileKind::File,
        0o040_000 => FileKind::Dir,
        0o120_000 => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// A line of mode (hexadecimal), size, time and version.
fn describe(line: &[u8]) -> Option<FileMetadata> {
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
    let mode = u32::from_str_radix(words.next()?, 16).ok()?;
    let size = words.next()?.parse().ok()?;
    let seconds: i64 = words.next()?.parse().ok()?;
    let mut metadata = FileMetadata::new(kind(mode), size, words.next()?);
    metadata.modified_ms = u64::try_from(seconds).ok().map(|s| s.saturating_mul(1000));
    metadata.mode = Some(mode & 0o7777);
    Some(metadata)
}

/// Lines up to the first zero, records ended by zeros after it.
fn entries(body: &[u8]) -> Vec<DirEntry> {
    let end = body
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(body.len());
    let (lines, odd) = body.split_at(end);
    let lines = lines.split(|&byte| byte == b'\n');
    let odd = odd.split(|&byte| byte == 0);
    lines.chain(odd).filter_map(entry).collect()
}

fn entry(record: &[u8]) -> Option<DirEntry> {
    let text = String::from_utf8_lossy(record);
    let (mode, rest) = text.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    Some(DirEntry {
        name: name.strip_prefix("./")?.to_owned(),
        kind: kind(u32::from_str_radix(mode, 16).ok()?),
        size: size.parse().ok()?,
    })
}
