//! Rounds that nobody wants any more.

use futures::{FutureExt, StreamExt};

use super::subject::Subject;
use crate::suite::Checked;
use crate::suite::expect::ok;

pub(in crate::suite) async fn a_dropped_stream_harms_nothing(subject: Subject) -> Checked {
    for events in 0..20 {
        let stream = subject.engine().stream_turn(subject.request()).await;
        let mut stream = ok("starting a round", stream)?;
        for _ in 0..events % 3 {
            if let Some(event) = stream.next().await {
                ok("an event of a round", event)?;
            }
        }
    }
    subject.answered(subject.request()).await.map(drop)
}

pub(in crate::suite) async fn a_dropped_request_harms_nothing(subject: Subject) -> Checked {
    for polls in 0..20 {
        let mut starting = subject.engine().stream_turn(subject.request());
        for _ in 0..polls % 5 {
            if (&mut starting).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    subject.answered(subject.request()).await.map(drop)
}
