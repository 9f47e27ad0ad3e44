//! What a log comes to, read from its end.
//!
//! A log may be long; its end, back to the last checkpoint, isn't. That much
//! says what the thread's metadata are, which number comes next, and whether
//! the last write was cut off.

use std::fs::File;
use std::io;
use std::path::Path;

use haft_api::{MetadataPatch, ThreadId, ThreadMetadata};

use crate::frame::Frame;
use crate::kinds::{CHECKPOINT, Checkpoint, HEADER, Header, METADATA};
use crate::order::{Fate, Order};
use crate::reverse::Blocks;
use crate::scan::{Damage, Piece, Scanner, Span};

/// What a log's end says.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    pub(crate) metadata: ThreadMetadata,
    /// Where the last record ends.
    pub(crate) end: u64,
    /// Whether it has its line break.
    pub(crate) broken: bool,
    /// What follows it and is no record. Blank lines don't count.
    pub(crate) torn: Option<Span>,
    /// Records and bytes since the last checkpoint.
    pub(crate) since_checkpoint: (u64, u64),
}

/// Reads the tail of a log of this size. `None` if there is no record in it at
/// all.
pub(crate) fn read_tail(
    file: &File,
    path: &Path,
    size: u64,
    id: &ThreadId,
) -> io::Result<Option<Tail>> {
    match backwards(file, size, id)? {
        Backwards::Found(tail) => Ok(tail.map(|tail| *tail)),
        Backwards::OutOfOrder => forwards(file, path, size, id),
    }
}

/// A record, as far as this module cares.
struct Seen {
    seq: u64,
    time_ms: u64,
    verified: bool,
    span: Span,
    broken: bool,
    content: Content,
}

enum Content {
    Header(Box<Header>),
    Checkpoint(Box<Checkpoint>),
    Patch(MetadataPatch),
    Other,
}

impl Content {
    /// Data that don't fit their kind are as good as another kind.
    fn of(frame: &Frame<'_>) -> Self {
        let found = match &*frame.kind {
            HEADER => serde_json::from_str(frame.data).map(Self::Header),
            CHECKPOINT => serde_json::from_str(frame.data).map(Self::Checkpoint),
            METADATA => serde_json::from_str(frame.data).map(Self::Patch),
            _ => return Self::Other,
        };
        found.unwrap_or(Self::Other)
    }
}

fn see(piece: Piece<'_>) -> Result<Seen, Damage> {
    match piece {
        Piece::Record {
            frame,
            span,
            broken,
        } => Ok(Seen {
            seq: frame.seq,
            time_ms: frame.time_ms,
            verified: frame.verified,
            content: Content::of(&frame),
            span,
            broken,
        }),
        Piece::Damage(damage) => Err(damage),
    }
}

enum Backwards {
    Found(Option<Box<Tail>>),
    /// Numbers are used twice, or there are some that nothing vouches for. Which
    /// records stand can be said only from the beginning on.
    OutOfOrder,
}

fn backwards(file: &File, size: u64, id: &ThreadId) -> io::Result<Backwards> {
    let mut blocks = Blocks::new(file, 0..size);
    let mut torn: Option<Span> = None;
    let mut last: Option<Seen> = None;
    let mut patches = Vec::new();
    let mut base = None;
    // Where what was read begins: at the checkpoint, or with the log.
    let mut begin = 0;
    let (mut records, mut first_time) = (0, 0);
    let mut later: Option<(u64, bool)> = None;
    'log: while let Some(block) = blocks.next(see)? {
        for seen in block.into_iter().rev() {
            let mut seen = match seen {
                Ok(seen) => seen,
                Err(damage) if last.is_none() => {
                    torn = Some(damage.span.start..torn.map_or(damage.span.end, |t| t.end));
                    continue;
                }
                Err(_) => continue,
            };
            match later.replace((seen.seq, seen.verified)) {
                Some((seq, _)) if seen.seq >= seq => return Ok(Backwards::OutOfOrder),
                Some((seq, false)) if seen.seq + 1 != seq => return Ok(Backwards::OutOfOrder),
                _ => {}
            }
            records += 1;
            first_time = seen.time_ms;
            let start = seen.span.start;
            let content = std::mem::replace(&mut seen.content, Content::Other);
            last.get_or_insert(seen);
            match content {
                Content::Header(header) => {
                    base = Some(header.to_metadata());
                    if start == 0 {
                        break 'log;
                    }
                }
                Content::Checkpoint(checkpoint) if checkpoint.offset == start => {
                    base = Some(checkpoint.metadata);
                    begin = start;
                    break 'log;
                }
                Content::Checkpoint(_) => return Ok(Backwards::OutOfOrder),
                Content::Patch(patch) => patches.push(patch),
                Content::Other => {}
            }
        }
    }
    let Some(last) = last else {
        return Ok(Backwards::Found(None));
    };
    let mut metadata = base.unwrap_or_else(|| ThreadMetadata::new(id.clone(), first_time));
    for patch in patches.iter().rev() {
        metadata.apply(patch);
    }
    metadata.id = id.clone();
    metadata.updated_ms = last.time_ms;
    metadata.next_seq = last.seq.saturating_add(1);
    Ok(Backwards::Found(Some(Box::new(Tail {
        metadata,
        end: last.span.end,
        broken: last.broken,
        torn,
        since_checkpoint: (records, last.span.end - begin),
    }))))
}

/// The same by reading all of the log, for one whose numbers don't rise.
fn forwards(file: &File, path: &Path, size: u64, id: &ThreadId) -> io::Result<Option<Tail>> {
    let mut scanner = Scanner::new(file, 0..size);
    let mut order: Option<Order<'_>> = None;
    let mut metadata: Option<ThreadMetadata> = None;
    let (mut end, mut broken, mut torn) = (0, true, None::<Span>);
    while let Some(piece) = scanner.next()? {
        let (frame, span, line_break) = match piece {
            Piece::Record {
                frame,
                span,
                broken,
            } => (frame, span, broken),
            Piece::Damage(damage) => {
                torn = Some(torn.map_or(damage.span.start, |t| t.start)..damage.span.end);
                continue;
            }
        };
        // What is left out is left in the file: the last record ends after it.
        (end, broken, torn) = (span.end, line_break, None);
        let order = order.get_or_insert_with(|| Order::new(file, path, frame.seq, frame.seq));
        if order.judge(&frame, &span)? == Fate::Drop {
            continue;
        }
        let now = metadata.get_or_insert_with(|| ThreadMetadata::new(id.clone(), frame.time_ms));
        match Content::of(&frame) {
            Content::Header(header) => *now = header.to_metadata(),
            Content::Checkpoint(checkpoint) => *now = checkpoint.metadata,
            Content::Patch(patch) => now.apply(&patch),
            Content::Other => {}
        }
        now.id = id.clone();
        now.updated_ms = frame.time_ms;
        now.next_seq = order.expected();
    }
    Ok(metadata.map(|metadata| {
        let records = metadata.next_seq;
        Tail {
            metadata,
            end,
            broken,
            torn,
            since_checkpoint: (records, end),
        }
    }))
}
