use std::sync::Arc;

use haft_api::{Event, EventBody, ThreadId, Usage};

use super::{EventHub, Unnumbered};

fn hub() -> EventHub {
    EventHub::new(ThreadId::new("t").unwrap(), 0, Arc::from([]))
}

fn delta(text: &str) -> EventBody {
    EventBody::MessageDelta {
        text: text.to_owned(),
    }
}

fn lossless() -> EventBody {
    EventBody::TurnCompleted {
        usage: Usage::default(),
    }
}

fn show(event: &Event) -> String {
    match &event.body {
        EventBody::Lagged { from, to } => format!("lagged {from}-{to}"),
        EventBody::MessageDelta { text } => format!("{}:{text}", event.seq),
        _ => format!("{}!", event.seq),
    }
}

fn drain(subscription: &mut super::Subscription) -> Vec<String> {
    std::iter::from_fn(|| subscription.try_next())
        .map(|event| show(&event))
        .collect()
}

#[test]
fn a_slow_reader_is_told_what_it_missed_and_misses_nothing_lossless() {
    let hub = hub();
    let mut slow = hub.subscribe(2);
    for text in ["a", "b", "c", "d"] {
        hub.publish(None, delta(text));
    }
    hub.publish(None, lossless());
    hub.publish(None, delta("e"));
    hub.publish(None, lossless());
    assert_eq!(
        drain(&mut slow),
        ["0:a", "1:b", "lagged 2-3", "4!", "lagged 5-5", "6!"]
    );
    hub.publish(None, delta("f"));
    assert_eq!(drain(&mut slow), ["7:f"]);
}

#[test]
fn what_arises_during_an_append_is_shown_after_it() {
    let hub = hub();
    let mut reader = hub.subscribe(16);
    let pending = hub.begin_append();
    assert_eq!(pending.first_seq(), 0);
    hub.publish(None, delta("meanwhile"));
    assert_eq!(drain(&mut reader), [""; 0]);
    pending.commit(vec![Unnumbered {
        turn: None,
        body: lossless(),
    }]);
    assert_eq!(drain(&mut reader), ["0!", "1:meanwhile"]);
}

#[test]
fn a_failed_append_leaves_no_gap() {
    let hub = hub();
    let mut reader = hub.subscribe(16);
    let pending = hub.begin_append();
    hub.publish(None, delta("meanwhile"));
    drop(pending);
    hub.publish(None, lossless());
    assert_eq!(drain(&mut reader), ["0:meanwhile", "1!"]);
}

#[tokio::test]
async fn a_waiting_reader_wakes() {
    let hub = Arc::new(hub());
    let mut reader = hub.subscribe(16);
    let task = tokio::spawn(async move { reader.next().await.seq });
    tokio::task::yield_now().await;
    hub.publish(None, lossless());
    assert_eq!(task.await.unwrap(), 0);
}
