use super::*;
use crate::error::ErrorKind;
use crate::item::{ToolCall, ToolResult, raw_json};

fn call_id() -> CallId {
    CallId::new("c1").unwrap()
}

fn request_id() -> RequestId {
    RequestId::new("r1").unwrap()
}

fn item(item: Item) -> EventBody {
    EventBody::ItemAppended {
        item: Arc::new(item),
    }
}

fn image() -> Part {
    Part::Image {
        media_type: "image/png".to_owned(),
        data: "AAAA".to_owned(),
    }
}

/// One of each kind of event. The match makes the compiler name this test when
/// a kind is added.
fn all() -> Vec<EventBody> {
    use EventBody as Body;
    let usage = Usage {
        input: Some(3),
        ..Usage::default()
    };
    let name = || "add".to_owned();
    let arguments = || raw_json(r#"{"a":1.50}"#).unwrap();
    let bodies = vec![
        Body::ThreadCreated { parent: None },
        Body::ThreadCreated {
            parent: Some(ThreadId::new("p").unwrap()),
        },
        Body::TurnStarted {
            engine: ExtensionId::new("e").unwrap(),
            model: Some("m".to_owned()),
        },
        item(Item::user("hello")),
        item(Item::ToolCall(ToolCall {
            id: call_id(),
            name: name(),
            arguments: arguments(),
            state: None,
        })),
        item(Item::ToolResult(ToolResult {
            call_id: call_id(),
            name: name(),
            is_error: false,
            parts: vec![Part::text("x"), image()],
        })),
        Body::MessageDelta {
            text: "x".to_owned(),
        },
        Body::ReasoningDelta {
            text: "x".to_owned(),
        },
        Body::ToolStarted {
            call_id: call_id(),
            name: name(),
        },
        Body::ToolProgress {
            call_id: call_id(),
            channel: OutputChannel::Stderr,
            text: "x".to_owned(),
        },
        Body::ToolCompleted {
            call_id: call_id(),
            name: name(),
            is_error: true,
            parts: vec![image(), Part::Json { value: arguments() }],
        },
        Body::ApprovalRequested {
            request_id: request_id(),
            call_id: call_id(),
            name: name(),
            arguments: arguments(),
            reason: "because".to_owned(),
        },
        Body::ApprovalResolved {
            request_id: request_id(),
            approved: true,
        },
        Body::ExternalCallRequested {
            request_id: request_id(),
            call_id: call_id(),
            name: name(),
            arguments: arguments(),
        },
        Body::Usage {
            round: usage,
            turn_total: usage,
        },
        Body::EngineRetry {
            attempt: 2,
            delay_ms: 500,
            error: Error::new(ErrorKind::Unavailable, "gone").to_data(),
        },
        Body::CompactionStarted {
            tokens: Some(9_000),
            window: None,
        },
        Body::ThreadUpdated {
            fields: vec!["title".to_owned()],
        },
        Body::Lagged { from: 1, to: 2 },
        Body::TurnCompleted { usage },
        Body::TurnFailed {
            error: Error::new(ErrorKind::Busy, "m").to_data(),
            usage,
        },
        Body::TurnInterrupted { usage },
    ];
    for body in &bodies {
        match body {
            Body::ThreadCreated { .. }
            | Body::TurnStarted { .. }
            | Body::ItemAppended { .. }
            | Body::MessageDelta { .. }
            | Body::ReasoningDelta { .. }
            | Body::ToolStarted { .. }
            | Body::ToolProgress { .. }
            | Body::ToolCompleted { .. }
            | Body::ApprovalRequested { .. }
            | Body::ApprovalResolved { .. }
            | Body::ExternalCallRequested { .. }
            | Body::Usage { .. }
            | Body::EngineRetry { .. }
            | Body::CompactionStarted { .. }
            | Body::ThreadUpdated { .. }
            | Body::Lagged { .. }
            | Body::TurnCompleted { .. }
            | Body::TurnFailed { .. }
            | Body::TurnInterrupted { .. } => {}
        }
    }
    bodies
}

#[test]
fn every_event_comes_back_as_it_was() {
    for (seq, body) in (1..).zip(all()) {
        let turn = (seq % 2 == 0).then(|| TurnId::new("t1").unwrap());
        let event = Event::new(seq, ThreadId::new("th").unwrap(), turn, 99, body);
        let mut blob = Vec::new();
        let sent = write_event(&event, &mut blob).unwrap();
        assert!(!sent.event.get().contains("AAAA"), "{}", sent.event);
        let sent = serde_json::to_string(&sent).unwrap();
        let back = read_event(&serde_json::from_str(&sent).unwrap(), &blob);
        let back = back.unwrap().expect("a known kind");
        assert_eq!(
            serde_json::to_string(&back).unwrap(),
            serde_json::to_string(&event).unwrap()
        );
    }
}

#[test]
fn an_event_of_a_later_version_is_skipped_and_a_broken_one_is_not() {
    let read = |json: &str| {
        let arguments = PublishArgs {
            event: raw_json(json).unwrap(),
            images: Vec::new(),
        };
        read_event(&arguments, &[]).map_err(|e| e.to_string())
    };
    let later = r#"{"seq":1,"thread":"t","at":2,"type":"moon.rose","height":3}"#;
    assert!(matches!(read(later), Ok(None)));
    let lacking = r#"{"seq":1,"thread":"t","at":2,"type":"lagged","from":3}"#;
    assert!(read(lacking).unwrap_err().contains("field: to"));
}
