use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use haft_api::{ErrorKind, Part, ThreadId, ToolCall, ToolResult, raw_json};

use super::*;

/// Both streams in one, `1|` before what went to standard output and `2|`
/// before what went to standard error.
#[derive(Clone, Default)]
struct Tape(Rc<RefCell<Vec<(char, String)>>>);

struct End(Tape, char);

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let mut tape = self.0.0.borrow_mut();
        match tape.last_mut() {
            Some((stream, last)) if *stream == self.1 => last.push_str(&text),
            _ => tape.push((self.1, text)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn shown(bodies: impl IntoIterator<Item = EventBody>, looks: Looks) -> String {
    let tape = Tape::default();
    let mut view = TextView::new(End(tape.clone(), '1'), End(tape.clone(), '2'), looks);
    let turn = TurnId::new("t1").unwrap();
    view.begin(turn.clone());
    for (seq, body) in bodies.into_iter().enumerate() {
        let thread = ThreadId::new("t").unwrap();
        view.event(&Event::new(seq as u64, thread, Some(turn.clone()), 0, body))
            .unwrap();
    }
    let tape = tape.0.borrow();
    tape.iter()
        .map(|(stream, text)| format!("{stream}|{text}"))
        .collect()
}

fn delta(text: &str) -> EventBody {
    EventBody::MessageDelta {
        text: text.to_owned(),
    }
}

fn item(item: Item) -> EventBody {
    EventBody::ItemAppended {
        item: Arc::new(item),
    }
}

fn id(id: &str) -> CallId {
    CallId::new(id).unwrap()
}

fn call(call: &str, name: &str, arguments: &str) -> EventBody {
    item(Item::ToolCall(ToolCall {
        id: id(call),
        name: name.to_owned(),
        arguments: raw_json(arguments).unwrap(),
        state: None,
    }))
}

fn started(call: &str) -> EventBody {
    EventBody::ToolStarted {
        call_id: id(call),
        name: "x".to_owned(),
    }
}

fn completed(call: &str, is_error: bool, text: &str) -> Vec<EventBody> {
    let result = ToolResult {
        call_id: id(call),
        name: "read_file".to_owned(),
        is_error,
        parts: vec![Part::text(text)],
    };
    let (call_id, name, parts) = (
        result.call_id.clone(),
        result.name.clone(),
        result.parts.clone(),
    );
    vec![
        item(Item::ToolResult(result)),
        EventBody::ToolCompleted {
            call_id,
            name,
            is_error,
            parts,
        },
    ]
}

fn end(input: Option<u64>) -> EventBody {
    EventBody::TurnCompleted {
        usage: Usage {
            input,
            ..Usage::default()
        },
    }
}

#[test]
fn a_turn_is_the_answer_and_terse_lines_beside_it() {
    let mut events = vec![
        delta("Let me "),
        delta("look."),
        item(Item::assistant("Let me look.")),
        call("c1", "read_file", r#"{"path":"notes.txt"}"#),
        started("c1"),
    ];
    events.extend(completed("c1", false, "milk\neggs"));
    events.extend([
        delta("Milk."),
        item(Item::assistant("Milk.")),
        end(Some(1_200)),
    ]);
    assert_eq!(
        shown(events, Looks::default()),
        "1|Let me look.\n2|• read_file notes.txt\n  2 lines, 9 B\n1|Milk.\n2|1,200 tokens in\n"
    );
}

#[test]
fn calls_that_run_together_are_told_apart() {
    let mut events = vec![
        call("c1", "read_file", r#"{"path":"a"}"#),
        call("c2", "read_file", r#"{"path":"b"}"#),
        started("c1"),
        started("c2"),
    ];
    events.extend(completed("c1", true, "no such file\nnear: c"));
    events.extend(completed("c2", false, "b"));
    assert_eq!(
        shown(events, Looks::default()),
        "2|• read_file a\n• read_file b\n  read_file a: ✗ no such file\n  b\n"
    );
}

#[test]
fn a_call_that_never_started_is_shown_all_the_same() {
    let mut events = vec![call("c1", "rm", r#"{"path":"/"}"#)];
    events.extend(completed("c1", true, "denied"));
    assert_eq!(shown(events, Looks::default()), "2|• rm /\n  ✗ denied\n");
}

#[test]
fn how_it_ended_is_the_last_word() {
    let error = Error::new(ErrorKind::Denied, "no\nkey").to_data();
    let usage = Usage::default();
    let failed = EventBody::TurnFailed { error, usage };
    assert_eq!(
        shown([delta("hm"), failed], Looks::default()),
        "1|hm\n2|error: no key\n"
    );
    let interrupted = EventBody::TurnInterrupted { usage };
    assert_eq!(
        shown([delta("hm"), interrupted], Looks::default()),
        "1|hm\n2|interrupted\n"
    );
    assert_eq!(shown([delta("hm"), end(None)], Looks::default()), "1|hm\n");
}

#[test]
fn progress_is_for_terminals_only_and_leaves_no_trace() {
    let progress = |text: &str| EventBody::ToolProgress {
        call_id: id("c1"),
        channel: haft_api::OutputChannel::Stdout,
        text: text.to_owned(),
    };
    let events = || {
        let mut events = vec![
            call("c1", "shell", "{}"),
            started("c1"),
            progress("a\nb\u{1b}[2J\n"),
        ];
        events.extend(completed("c1", false, "ok"));
        events
    };
    assert_eq!(shown(events(), Looks::default()), "2|• shell\n  ok\n");
    let looks = Looks {
        progress: Some(80),
        ..Looks::default()
    };
    assert_eq!(
        shown(events(), looks),
        "2|• shell\n\r\u{1b}[K  b␛[2J\r\u{1b}[K  ok\n"
    );
}

#[test]
fn the_end_of_a_turn_that_a_crash_left_is_not_this_ones() {
    let tape = Tape::default();
    let mut view = TextView::new(
        End(tape.clone(), '1'),
        End(tape.clone(), '2'),
        Looks::default(),
    );
    view.begin(TurnId::new("t2").unwrap());
    let body = EventBody::TurnInterrupted {
        usage: Usage::default(),
    };
    let (thread, earlier) = (ThreadId::new("t").unwrap(), TurnId::new("t1").unwrap());
    view.event(&Event::new(0, thread, Some(earlier), 0, body))
        .unwrap();
    assert!(tape.0.borrow()[0].1.contains("was cut off"));
}
