//! The one owner of a thread's items, and of the rule that they are valid.
//!
//! All items stay; what a model is shown of them is the window, which a
//! compaction shortens.
//!
//! Valid means: every tool call has exactly one result; the results of a round
//! stand after its calls, in call order, before anything else; ids are unique;
//! no text is empty. Nothing gets past [`ThreadHistory::push`].

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_api::{
    CallId, EngineToolCall, Error, ErrorKind, History, Item, Part, Result, ToolCall, ToolResult,
    TurnId,
};

use super::arguments;

/// A process-wide source of generations: equal ones must mean equal prefixes.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// A generation that no other history has.
pub(crate) fn fresh_generation() -> u64 {
    GENERATIONS.fetch_add(1, Ordering::Relaxed)
}

/// Longest call id that every provider takes: OpenAI's Chat Completions refuse
/// longer ones.
const WIRE_ID: usize = 40;

/// A call that waits for its result, or has it but not yet its turn.
struct OpenCall {
    /// The item, which is a call.
    item: Arc<Item>,
    result: Option<(Arc<Item>, Place)>,
}

impl OpenCall {
    fn call(&self) -> Option<&ToolCall> {
        match &*self.item {
            Item::ToolCall(call) => Some(call),
            _ => None,
        }
    }
}

/// Where an item stands in the log.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) turn: Option<TurnId>,
}

/// A summary, and the settled items behind what it summarises.
struct Window {
    history: History,
    /// The first settled item that stands in it.
    start: usize,
}

/// See the module's description.
pub(crate) struct ThreadHistory {
    settled: History,
    /// One for each settled item.
    places: Vec<Place>,
    /// What a model is shown, once it isn't all of it.
    window: Option<Window>,
    /// The calls of the round under way, in call order.
    open: Vec<OpenCall>,
    used_ids: HashSet<CallId>,
    next_id: u64,
}

impl ThreadHistory {
    pub(crate) fn new() -> Self {
        Self {
            settled: History::new(fresh_generation(), Vec::new()),
            places: Vec::new(),
            window: None,
            open: Vec::new(),
            used_ids: HashSet::new(),
            next_id: 0,
        }
    }

    /// What a model is shown, if no call is open.
    pub(crate) fn settled(&self) -> Option<&History> {
        self.open.is_empty().then(|| self.shown())
    }

    /// What a model is shown, without results of a round that is under way.
    pub(crate) fn shown(&self) -> &History {
        match &self.window {
            Some(window) => &window.history,
            None => &self.settled,
        }
    }

    /// The record of the last item that would be left out if only the items of
    /// [`shown`](Self::shown) from the position `keep` on were kept; `None` if
    /// none would.
    pub(crate) fn left_out(&self, keep: usize) -> Option<u64> {
        let behind = match &self.window {
            Some(window) => window.start + keep.checked_sub(1)?,
            None => keep,
        };
        self.places
            .get(behind.checked_sub(1)?)
            .map(|place| place.seq)
    }

    /// Shows a model `summary` in place of all items up to the record `through`.
    /// A result never stands there without its call.
    pub(crate) fn compact(&mut self, summary: Arc<Item>, through: u64) {
        let items = self.settled.items();
        let later = |place: &Place| place.seq > through;
        let mut start = self.places.iter().position(later).unwrap_or(items.len());
        while matches!(
            items.get(start).map(|item| &**item),
            Some(Item::ToolResult(_))
        ) {
            start += 1;
        }
        let mut kept = vec![summary];
        kept.extend(items[start..].iter().cloned());
        self.window = Some(Window {
            history: History::new(fresh_generation(), kept),
            start,
        });
    }

    /// All items that have their place, and where each stands. Results of a
    /// round that is under way are left out until all of its calls have one.
    pub(crate) fn placed(&self) -> impl DoubleEndedIterator<Item = (&Arc<Item>, &Place)> {
        self.settled.items().iter().zip(&self.places)
    }

    /// The calls without a result, in call order.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.open
            .iter()
            .filter(|open| open.result.is_none())
            .filter_map(OpenCall::call)
    }

    /// The calls of the round under way, in call order, with the results that
    /// are there.
    pub(crate) fn open_round(
        &self,
    ) -> impl Iterator<Item = (&ToolCall, Option<&(Arc<Item>, Place)>)> {
        self.open
            .iter()
            .filter_map(|open| Some((open.call()?, open.result.as_ref())))
    }

    /// Makes calls of what a model wrote: each gets an id of its own and
    /// arguments in their stored form.
    pub(crate) fn admit(&mut self, calls: Vec<EngineToolCall>) -> Vec<ToolCall> {
        let mut batch = HashSet::new();
        calls
            .into_iter()
            .map(|call| ToolCall {
                id: self.own_id(call.id.as_deref(), &mut batch),
                name: call.name,
                arguments: arguments::stored(&call.arguments),
                state: call.state,
            })
            .collect()
    }

    /// The provider's id if it is fit for every wire and wasn't used before.
    fn own_id(&mut self, given: Option<&str>, batch: &mut HashSet<CallId>) -> CallId {
        let given = given
            .filter(|id| id.len() <= WIRE_ID)
            .and_then(|id| CallId::new(id).ok());
        if let Some(id) = given.filter(|id| !self.used_ids.contains(id) && !batch.contains(id)) {
            batch.insert(id.clone());
            return id;
        }
        loop {
            self.next_id += 1;
            let id = CallId::new(format!("call_{}", self.next_id))
                .expect("`call_` and digits are a valid call id");
            if !self.used_ids.contains(&id) && batch.insert(id.clone()) {
                return id;
            }
        }
    }

    /// Whether [`push`](Self::push) would take these, one after the other.
    pub(crate) fn check<'a>(&self, items: impl IntoIterator<Item = &'a Item>) -> Result<()> {
        // A handful at most, and nearly always none: a list is the faster map.
        let mut open: Vec<(&str, bool)> = self
            .open
            .iter()
            .filter_map(|o| Some((o.call()?.id.as_str(), o.result.is_none())))
            .collect();
        for item in items {
            let waiting = open.iter().any(|(_, waiting)| *waiting);
            let answered = open.iter().any(|(_, waiting)| !*waiting);
            match item {
                Item::UserMessage { .. } if waiting => {
                    return Err(invalid(
                        "a user message between a call and its result",
                        item,
                    ));
                }
                Item::UserMessage { parts } if !has_content(parts) => {
                    return Err(invalid("an empty message", item));
                }
                Item::AssistantMessage { text, .. } if text.trim().is_empty() => {
                    return Err(invalid("an empty message", item));
                }
                Item::AssistantMessage { .. } | Item::Reasoning { .. } | Item::ToolCall(_)
                    if waiting && answered =>
                {
                    return Err(invalid("a model's item between results", item));
                }
                Item::ToolCall(call) => {
                    let id = call.id.as_str();
                    if self.used_ids.contains(&call.id) || open.iter().any(|(o, _)| *o == id) {
                        return Err(invalid("two calls of one id", item));
                    }
                    open.push((id, true));
                }
                Item::ToolResult(result) => match open
                    .iter_mut()
                    .find(|(id, _)| *id == result.call_id.as_str())
                    .map(|(_, waiting)| waiting)
                {
                    Some(waiting) if *waiting && has_content(&result.parts) => *waiting = false,
                    Some(true) => return Err(invalid("an empty result", item)),
                    Some(false) => return Err(invalid("a second result of one call", item)),
                    None => return Err(invalid("a result without a call", item)),
                },
                _ => {}
            }
            if open.iter().all(|(_, waiting)| !*waiting) {
                open.clear();
            }
        }
        Ok(())
    }

    /// Takes an item.
    ///
    /// # Errors
    /// If the history wouldn't be valid any more; nothing has changed then.
    pub(crate) fn push(&mut self, item: Arc<Item>, place: Place) -> Result<()> {
        self.check([&*item])?;
        match &*item {
            Item::ToolCall(call) => {
                self.used_ids.insert(call.id.clone());
                self.open.push(OpenCall {
                    item: Arc::clone(&item),
                    result: None,
                });
                self.settle(item, place);
            }
            Item::ToolResult(result) => {
                let of = |open: &OpenCall| open.call().is_some_and(|c| c.id == result.call_id);
                if let Some(at) = self.open.iter().position(of) {
                    self.open[at].result = Some((item, place));
                }
                if self.open.iter().all(|open| open.result.is_some()) {
                    let round = std::mem::take(&mut self.open);
                    for (result, place) in round.into_iter().filter_map(|open| open.result) {
                        self.settle(result, place);
                    }
                }
            }
            _ => self.settle(item, place),
        }
        Ok(())
    }

    fn settle(&mut self, item: Arc<Item>, place: Place) {
        if let Some(window) = &mut self.window {
            window.history.push(Arc::clone(&item));
        }
        self.settled.push(item);
        self.places.push(place);
    }
}

/// Some providers refuse text that is white space only as they do no text.
fn has_content(parts: &[Part]) -> bool {
    let blank = |part: &Part| part.as_text().is_some_and(|text| text.trim().is_empty());
    !parts.is_empty() && !parts.iter().any(blank)
}

fn invalid(what: &str, item: &Item) -> Error {
    let mut error = Error::new(ErrorKind::Corrupt, format!("the history can't take {what}"))
        .context("item", item.type_name());
    if let Item::ToolCall(ToolCall { id, .. }) | Item::ToolResult(ToolResult { call_id: id, .. }) =
        item
    {
        error = error.context("call", id);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, arguments: &str) -> EngineToolCall {
        EngineToolCall {
            id: Some(id.to_owned()),
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
            state: None,
        }
    }

    fn result(id: &str) -> Arc<Item> {
        Arc::new(Item::ToolResult(ToolResult {
            call_id: CallId::new(id).unwrap(),
            name: "f".to_owned(),
            is_error: false,
            parts: vec![Part::text(id)],
        }))
    }

    fn push(history: &mut ThreadHistory, item: Arc<Item>) -> Result<()> {
        history.push(item, Place { seq: 0, turn: None })
    }

    fn with_calls(ids: &[&str]) -> ThreadHistory {
        let mut history = ThreadHistory::new();
        push(&mut history, Arc::new(Item::user("hi"))).unwrap();
        for admitted in history.admit(ids.iter().map(|id| call(id, "{}")).collect()) {
            push(&mut history, Arc::new(Item::ToolCall(admitted))).unwrap();
        }
        history
    }

    #[test]
    fn every_call_gets_an_id_of_its_own() {
        let check = |given: &[&str], expected: &[&str]| {
            let mut history = ThreadHistory::new();
            let calls = history.admit(given.iter().map(|id| call(id, "")).collect());
            let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids, expected, "{given:?}");
        };
        check(&["a", "b"], &["a", "b"]);
        check(&["", "", "x", "x"], &["call_1", "call_2", "x", "call_3"]);
        check(&["call_1", ""], &["call_1", "call_2"]);
        check(&["bad id!", "toolu_01-A"], &["call_1", "toolu_01-A"]);
        check(
            &[&"x".repeat(41), &"y".repeat(40)],
            &["call_1", &"y".repeat(40)],
        );
    }

    #[test]
    fn an_id_is_never_used_again_later() {
        let mut history = with_calls(&["a"]);
        push(&mut history, result("a")).unwrap();
        assert_eq!(history.admit(vec![call("a", "{}")])[0].id, "call_1");
    }

    #[test]
    fn results_take_their_place_in_call_order() {
        let mut history = with_calls(&["a", "b", "c"]);
        for id in ["c", "a"] {
            push(&mut history, result(id)).unwrap();
            assert!(history.settled().is_none());
        }
        assert_eq!(
            history
                .open_calls()
                .map(|c| c.id.as_str())
                .collect::<Vec<_>>(),
            ["b"]
        );
        push(&mut history, result("b")).unwrap();
        let order: Vec<_> = history.settled().unwrap().items()[4..]
            .iter()
            .map(|item| match &**item {
                Item::ToolResult(result) => result.call_id.as_str(),
                other => other.type_name(),
            })
            .collect();
        assert_eq!(order, ["a", "b", "c"]);
    }

    #[test]
    fn what_would_break_the_history_is_refused() {
        let refuse = |history: &mut ThreadHistory, item: Arc<Item>, word: &str| {
            let before = history.placed().count();
            let error = push(history, item).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
            assert_eq!(history.placed().count(), before);
        };
        let mut open = with_calls(&["a", "b"]);
        refuse(&mut open, Arc::new(Item::user("next")), "between");
        refuse(&mut open, result("z"), "without a call");
        push(&mut open, result("a")).unwrap();
        refuse(&mut open, result("a"), "second result");
        refuse(&mut open, Arc::new(Item::assistant("x")), "between results");
        push(&mut open, result("b")).unwrap();
        refuse(&mut open, result("b"), "without a call");
        refuse(&mut open, Arc::new(Item::assistant("")), "empty");
        refuse(
            &mut open,
            Arc::new(Item::UserMessage { parts: vec![] }),
            "empty",
        );
        refuse(&mut open, Arc::new(Item::user("")), "empty");
    }

    #[test]
    fn a_compaction_shortens_what_is_shown_and_nothing_else() {
        let text = |item: &Arc<Item>| match &**item {
            Item::UserMessage { parts } => haft_api::join_text(parts),
            Item::ToolResult(result) => format!("={}", result.call_id),
            Item::ToolCall(call) => format!("{}()", call.id),
            other => other.type_name().to_owned(),
        };
        let shown = |history: &ThreadHistory| -> Vec<String> {
            history.shown().items().iter().map(text).collect()
        };
        let mut history = ThreadHistory::new();
        let call = |id: &str| {
            Item::ToolCall(ToolCall {
                id: CallId::new(id).unwrap(),
                name: "f".to_owned(),
                arguments: haft_api::raw_json("{}").unwrap(),
                state: None,
            })
        };
        let items = [
            Arc::new(Item::user("a")),
            Arc::new(call("x")),
            result("x"),
            Arc::new(call("y")),
            result("y"),
        ];
        for (seq, item) in (1..).zip(items) {
            history.push(item, Place { seq, turn: None }).unwrap();
        }
        assert_eq!(history.left_out(3), Some(3));
        let before = history.shown().generation();
        history.compact(Arc::new(Item::user("so far")), 3);
        assert_ne!(history.shown().generation(), before);
        assert_eq!(shown(&history), ["so far", "y()", "=y"]);
        assert_eq!(history.left_out(1), Some(3));
        assert_eq!(history.left_out(3), Some(5));
        assert_eq!(history.left_out(0), None);
        let next = Arc::new(Item::user("b"));
        history.push(next, Place { seq: 9, turn: None }).unwrap();
        assert_eq!(shown(&history), ["so far", "y()", "=y", "b"]);
        assert_eq!(history.placed().count(), 6);
        // Not a result without its call, whatever the number says.
        history.compact(Arc::new(Item::user("more")), 4);
        assert_eq!(shown(&history), ["more", "b"]);
    }
}
