//! Server-sent events: bytes in, events out.

use memchr::memchr2;

/// The largest event that is accepted, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its name: the `event` field, empty where there was none.
    pub name: &'a [u8],
    /// Its `data` fields, joined by line feeds.
    pub data: &'a [u8],
}

/// An event is larger than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge;

/// Splits a stream of bytes into events, as the HTML standard describes it.
///
/// The work is linear in the bytes, however they are cut into chunks. Lines end
/// with CR, LF or both; a byte order mark at the start, comments, and fields
/// other than `event` and `data` are skipped, but for `error`, which some
/// servers write instead of `data`: it makes an event of that name.
///
/// ```
/// use haft_engine_http::SseDecoder;
///
/// let mut decoder = SseDecoder::new();
/// let mut seen = Vec::new();
/// for chunk in ["da", "ta: a\r", "\ndata:b\n", "\n: ping\n\n"] {
///     decoder.push(chunk.as_bytes(), |event| seen.push(event.data.to_vec())).unwrap();
/// }
/// assert_eq!(seen, [b"a\nb"]);
/// ```
#[derive(Debug, Clone)]
pub struct SseDecoder {
    /// The line that isn't whole yet.
    line: Vec<u8>,
    /// The last byte was a CR that ended a line; an LF now belongs to it.
    after_cr: bool,
    /// No line has been seen yet.
    at_start: bool,
    event: Event,
    limit: usize,
}

/// The event that isn't whole yet.
#[derive(Debug, Clone, Default)]
struct Event {
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl SseDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: Event::default(),
            limit,
        }
    }

    /// Takes the next bytes and hands over the events that they complete.
    ///
    /// # Errors
    /// [`EventTooLarge`]; the decoder is of no further use then.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(SseEvent<'_>),
    ) -> Result<(), EventTooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (line, ending) = bytes.split_at(end);
            if self.line.is_empty() {
                self.check_size(line.len())?;
                take_line(line, &mut self.at_start, &mut self.event, &mut each);
            } else {
                self.check_size(line.len())?;
                self.line.extend_from_slice(line);
                take_line(&self.line, &mut self.at_start, &mut self.event, &mut each);
                self.line.clear();
            }
            bytes = match ending {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.check_size(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the stream. A last event that no blank line closed is handed over
    /// all the same: servers forget it after their last one.
    pub fn finish(&mut self, mut each: impl FnMut(SseEvent<'_>)) {
        if !self.line.is_empty() {
            take_line(&self.line, &mut self.at_start, &mut self.event, &mut each);
            self.line.clear();
        }
        self.event.dispatch(&mut each);
    }

    fn check_size(&self, more: usize) -> Result<(), EventTooLarge> {
        let held = self.line.len() + self.event.data.len();
        match held.saturating_add(more) > self.limit {
            true => Err(EventTooLarge),
            false => Ok(()),
        }
    }
}

fn take_line(
    line: &[u8],
    at_start: &mut bool,
    event: &mut Event,
    each: &mut impl FnMut(SseEvent<'_>),
) {
    let line = match std::mem::take(at_start) {
        true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
        false => line,
    };
    if line.is_empty() {
        event.dispatch(each);
        return;
    }
    let (field, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => (line, &[][..]),
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    match field {
        b"data" => event.add_data(value),
        b"event" => {
            event.name.clear();
            event.name.extend_from_slice(value);
        }
        b"error" => {
            event.name = b"error".to_vec();
            event.add_data(value);
        }
        // A comment, or a field that means nothing here.
        _ => {}
    }
}

impl Event {
    fn add_data(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }

    fn dispatch(&mut self, each: &mut impl FnMut(SseEvent<'_>)) {
        if std::mem::take(&mut self.has_data) {
            each(SseEvent {
                name: &self.name,
                data: &self.data,
            });
            self.data.clear();
        }
        self.name.clear();
    }
}

#[cfg(test)]
mod tests;
