//! The way to standard output and standard error: in order, and without holding
//! up anybody but the reader.
//!
//! Everything runs on one thread, so nothing may wait in a write for somebody
//! who doesn't read. What is written is queued; [`Output::drain`] hands it on
//! as fast as it is taken.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;

mod stream;

use stream::Stream;

/// How much may wait before it is handed on, in bytes.
const LONG: usize = 64 * 1024;

/// Both streams.
#[derive(Clone, Default)]
pub(crate) struct Output(Rc<Queue>);

#[derive(Default)]
struct Queue {
    segments: RefCell<VecDeque<Segment>>,
    bytes: Cell<usize>,
}

struct Segment {
    stream: Stream,
    bytes: Vec<u8>,
}

/// Takes what goes to one of the streams. Never fails: what a stream fails with
/// is told by [`Output::drain`].
pub(crate) struct End {
    queue: Rc<Queue>,
    stream: Stream,
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut segments = self.queue.segments.borrow_mut();
        match segments.back_mut() {
            Some(last) if last.stream == self.stream => last.bytes.extend_from_slice(bytes),
            _ => segments.push_back(Segment {
                stream: self.stream,
                bytes: bytes.to_vec(),
            }),
        }
        self.queue.bytes.set(self.queue.bytes.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// The way to standard output.
    pub(crate) fn stdout(&self) -> End {
        End {
            queue: Rc::clone(&self.0),
            stream: Stream::Stdout,
        }
    }

    /// The way to standard error.
    pub(crate) fn stderr(&self) -> End {
        End {
            queue: Rc::clone(&self.0),
            stream: Stream::Stderr,
        }
    }

    /// Whether so much waits that it should be handed on before more is written.
    pub(crate) fn is_long(&self) -> bool {
        self.0.bytes.get() >= LONG
    }

    /// Hands on all that was written.
    ///
    /// # Errors
    /// What standard output fails with; what was left for it is dropped, and
    /// the rest is handed on. There is nowhere to tell of a failing standard
    /// error.
    pub(crate) async fn drain(&self) -> io::Result<()> {
        let mut failed = None;
        loop {
            let Some(segment) = self.0.segments.borrow_mut().pop_front() else {
                return failed.map_or(Ok(()), Err);
            };
            self.0
                .bytes
                .set(self.0.bytes.get().saturating_sub(segment.bytes.len()));
            if segment.stream == Stream::Stdout && failed.is_some() {
                continue;
            }
            let written = segment.stream.write_all(&segment.bytes).await;
            if segment.stream == Stream::Stdout {
                failed = written.err();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_keeps_its_order_and_its_stream() {
        let output = Output::default();
        let (mut out, mut err) = (output.stdout(), output.stderr());
        out.write_all(b"a").unwrap();
        out.write_all(b"b").unwrap();
        err.write_all(b"c").unwrap();
        out.write_all(b"d").unwrap();
        let segments = output.0.segments.borrow();
        let seen: Vec<_> = segments
            .iter()
            .map(|s| (s.stream, s.bytes.as_slice()))
            .collect();
        assert_eq!(
            seen,
            [
                (Stream::Stdout, b"ab".as_slice()),
                (Stream::Stderr, b"c"),
                (Stream::Stdout, b"d")
            ]
        );
        assert_eq!(output.0.bytes.get(), 4);
        assert!(!output.is_long());
    }
}
