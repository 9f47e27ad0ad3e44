//! Whose a piece is.

use std::collections::HashMap;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Message,
    /// Reasoning, told in summaries.
    Reasoning,
    /// Reasoning, told as it is.
    RawReasoning,
    Call,
    /// What the server does by itself.
    Other,
}

impl Kind {
    pub(super) fn of(type_name: &str) -> Self {
        match type_name {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }

    /// What pieces of this kind belong to.
    fn item(self) -> Self {
        match self {
            Self::RawReasoning => Self::Reasoning,
            other => other,
        }
    }
}

/// How much of something an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Delta,
    Whole,
}

/// One item so far.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    index: Option<u64>,
    id: Option<String>,
    /// It was told of, and not just of pieces of it.
    added: bool,
    pub(super) done: bool,
    /// What was told of its text.
    pub(super) text: String,
    /// The part that was told last, and where it begins in the text.
    pub(super) part: Option<(u64, usize)>,
}

/// The items so far.
///
/// A piece belongs to the item that bears its id at its index, else to the
/// latest one at its index, else to the one that bears its id, else (where it
/// has neither) to the last one; and to none that is of another kind. So ids may
/// change on the way, and indexes may be missing or all the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Items {
    slots: Vec<Slot>,
    /// The latest of each kind at an index.
    by_index: HashMap<(Kind, u64), usize>,
    by_id: HashMap<String, usize>,
}

impl Items {
    pub(super) fn slot(&mut self, slot: usize) -> &mut Slot {
        &mut self.slots[slot]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.slots
            .iter()
            .any(|slot| slot.kind.item() == kind.item())
    }

    fn find(&self, kind: Kind, index: Option<u64>, id: Option<&str>) -> Option<usize> {
        let fits = |slot: &usize| self.slots[*slot].kind.item() == kind.item();
        let by_id = || id.and_then(|id| self.by_id.get(id).copied()).filter(fits);
        let by_index = || self.by_index.get(&(kind.item(), index?)).copied();
        let at_index = |slot: &usize| index.is_none() || self.slots[*slot].index == index;
        by_id()
            .filter(at_index)
            .or_else(by_index)
            .or_else(by_id)
            .or_else(|| match (index, id) {
                (None, None) => self.slots.len().checked_sub(1).filter(fits),
                _ => None,
            })
    }

    /// The item of a piece, made if there is none.
    pub(super) fn of_piece(&mut self, kind: Kind, index: Option<u64>, id: Option<&str>) -> usize {
        let found = self.find(kind, index, id);
        found.unwrap_or_else(|| self.add(kind, index, id))
    }

    /// The item that is added: a new one, unless pieces or another such event
    /// came before it.
    pub(super) fn added(&mut self, kind: Kind, index: Option<u64>, id: Option<&str>) -> usize {
        let same = |slot: &usize| {
            let slot = &self.slots[*slot];
            let again = slot.id.is_some() && slot.id.as_deref() == id;
            !slot.done && slot.is(id) && slot.index == index && (again || !slot.added)
        };
        let found = self.find(kind, index, id).filter(same);
        let slot = found.unwrap_or_else(|| self.add(kind, index, id));
        self.slots[slot].added = true;
        slot
    }

    /// A new item.
    pub(super) fn add(&mut self, kind: Kind, index: Option<u64>, id: Option<&str>) -> usize {
        let slot = self.slots.len();
        self.slots.push(Slot {
            kind,
            index,
            id: id.map(str::to_owned),
            added: false,
            done: false,
            text: String::new(),
            part: None,
        });
        if let Some(index) = index {
            self.by_index.insert((kind.item(), index), slot);
        }
        if let Some(id) = id {
            self.by_id.insert(id.to_owned(), slot);
        }
        slot
    }
}

impl Slot {
    /// Whether it may be the item of this id.
    pub(super) fn is(&self, id: Option<&str>) -> bool {
        self.id.is_none() || id.is_none() || self.id.as_deref() == id
    }

    /// Takes a piece of a part's text, and gives what is new of it. Whole text
    /// that isn't what came in pieces is left alone: that was shown.
    pub(super) fn take<'t>(&mut self, part: u64, piece: Piece, text: &'t str) -> &'t str {
        let begin = match self.part {
            Some((known, begin)) if known == part => begin,
            // A part that was left isn't told again.
            Some((known, _)) if piece == Piece::Whole && part < known => return "",
            _ => {
                self.part = Some((part, self.text.len()));
                self.text.len()
            }
        };
        let new = match piece {
            Piece::Delta => text,
            Piece::Whole => text.strip_prefix(&self.text[begin..]).unwrap_or_default(),
        };
        self.text.push_str(new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_finds_its_item() {
        let mut items = Items::default();
        let a = items.added(Kind::Call, Some(0), Some("a"));
        let b = items.added(Kind::Call, Some(1), Some("b"));
        let mut check = |index, id, expected| {
            assert_eq!(
                items.of_piece(Kind::Call, index, id),
                expected,
                "{index:?} {id:?}"
            );
        };
        check(Some(0), Some("a"), a);
        check(Some(0), Some("changed"), a);
        check(None, Some("a"), a);
        check(None, Some("b"), b);
        check(None, None, b);
        check(Some(7), Some("a"), a);
        check(Some(7), Some("new"), 2);
        check(Some(7), None, 2);
        // Nothing of another kind takes it.
        assert_eq!(items.of_piece(Kind::Message, None, None), 3);
        assert_eq!(items.of_piece(Kind::Message, Some(0), None), 4);
        // Indexes that are all the same.
        let c = items.added(Kind::Call, Some(9), Some("c"));
        let d = items.added(Kind::Call, Some(9), Some("d"));
        assert_eq!(items.of_piece(Kind::Call, Some(9), Some("c")), c);
        assert_eq!(items.of_piece(Kind::Call, Some(9), Some("d")), d);
        // Told twice, added after its pieces.
        assert_eq!(items.added(Kind::Call, Some(9), Some("d")), d);
        let e = items.of_piece(Kind::Call, Some(10), None);
        assert_eq!(items.added(Kind::Call, Some(10), Some("e")), e);
    }

    #[test]
    fn whole_text_adds_what_pieces_did_not_have() {
        let mut items = Items::default();
        let slot = items.added(Kind::Message, None, None);
        let slot = items.slot(slot);
        let mut check = |part, piece, text, new| assert_eq!(slot.take(part, piece, text), new);
        check(0, Piece::Delta, "ab", "ab");
        check(0, Piece::Whole, "abc", "c");
        check(0, Piece::Whole, "abc", "");
        check(0, Piece::Whole, "something else", "");
        check(1, Piece::Whole, "d", "d");
        check(0, Piece::Whole, "abc", "");
        assert_eq!(slot.text, "abcd");
    }
}
