//! Tool calls, put together from pieces.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// A piece of a call, as it came.
#[derive(Debug, Default)]
pub(super) struct Fragment<'a> {
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) index: Option<u64>,
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) arguments: Option<Cow<'a, str>>,
    pub(super) state: Option<&'a RawValue>,
}

/// What a piece added, for display.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Added<'c> {
    /// The call's place among the round's calls.
    pub(super) index: u32,
    /// Its name, if this piece brought it.
    pub(super) name: Option<&'c str>,
    /// The piece of its arguments.
    pub(super) arguments: &'c str,
}

/// One call.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    index: Option<u64>,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) state: Option<Box<RawValue>>,
    nesting: Nesting,
}

/// The calls of an answer.
///
/// A piece belongs to the call that bears its id, else to the latest one at its
/// index, else to the last one. Within a call the first non-empty name counts,
/// and arguments are appended. After whole arguments nothing more can be
/// appended to them, which tells apart what some servers do: a new call without
/// an id of its own, arguments sent again as a whole, or a placeholder before
/// the real ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

impl Calls {
    /// Adds a piece; `None` if there was nothing in it.
    pub(super) fn add(&mut self, fragment: Fragment<'_>) -> Option<Added<'_>> {
        let id = fragment.id.filter(|id| !id.is_empty());
        let name = fragment.name.filter(|name| !name.is_empty());
        let arguments = fragment.arguments.unwrap_or_default();
        if id.is_none() && name.is_none() && arguments.is_empty() && fragment.state.is_none() {
            return None;
        }
        let found = self.find(id.as_deref(), fragment.index, name.as_deref(), &arguments);
        let place = found.unwrap_or(self.calls.len());
        if found.is_none() {
            self.calls.push(Call {
                index: fragment.index,
                ..Call::default()
            });
        }
        let call = &mut self.calls[place];
        if call.id.is_none() {
            call.id = id.map(Cow::into_owned);
        }
        if let Some(state) = fragment.state {
            call.state = Some(super::own(state));
        }
        let named = name.is_some() && call.name.is_empty();
        if let Some(name) = name.filter(|_| named) {
            call.name = name.into_owned();
        }
        let from = call.append(&arguments);
        let call = &self.calls[place];
        Some(Added {
            index: u32::try_from(place).unwrap_or(u32::MAX),
            name: named.then_some(&call.name),
            arguments: &call.arguments[from..],
        })
    }

    /// The call that a piece belongs to.
    fn find(
        &self,
        id: Option<&str>,
        index: Option<u64>,
        name: Option<&str>,
        arguments: &str,
    ) -> Option<usize> {
        let by_id = |id| self.calls.iter().rposition(|c| c.id.as_deref() == Some(id));
        if let Some(place) = id.and_then(by_id) {
            let call = &self.calls[place];
            let again = arguments == call.arguments || arguments.trim().is_empty();
            return (again || !call.is_over(name, arguments)).then_some(place);
        }
        let place = match index {
            Some(_) => self.calls.iter().rposition(|c| c.index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[place];
        // A call's id may come after its first piece, but there it stays.
        let other_id = id.is_some() && call.id.is_some();
        (!other_id && !call.is_over(name, arguments)).then_some(place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the end of the stream came within a call's arguments.
    pub(super) fn cut_off(&self) -> bool {
        self.calls.iter().any(|call| {
            let arguments = call.arguments.trim();
            !arguments.is_empty()
                && serde_json::from_str::<serde::de::IgnoredAny>(arguments)
                    .is_err_and(|e| e.is_eof())
        })
    }

    pub(super) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }
}

impl Call {
    /// Whether a named piece can't be a part of this call any more.
    fn is_over(&self, name: Option<&str>, arguments: &str) -> bool {
        self.nesting.closed
            && name.is_some_and(|name| {
                !self.name.is_empty() && (name != self.name || !arguments.trim().is_empty())
            })
    }

    /// Appends to the arguments, and says from where on they are new.
    fn append(&mut self, piece: &str) -> usize {
        if self.nesting.closed && !piece.trim().is_empty() {
            if piece == self.arguments {
                return self.arguments.len();
            }
            if self.arguments.trim() == "{}" {
                self.arguments.clear();
                self.nesting = Nesting::default();
            }
        }
        let from = self.arguments.len();
        self.arguments.push_str(piece);
        self.nesting.read(piece);
        from
    }
}

/// Follows a JSON object's nesting, to know when it is whole without reading
/// it again for every piece.
#[derive(Debug, Clone, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl Nesting {
    fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.closed = false;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.closed = self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
