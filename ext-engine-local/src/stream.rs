//! Streams on their way from the server to the runtime.

use std::collections::VecDeque;

use futures::StreamExt as _;
use futures::stream::{try_unfold, unfold};
use haft_api::{EngineEvent, EngineStream, FinishReason};

use crate::profile;
use crate::server::ServerUse;

/// Makes a call of the text that a grammar held to the form of one.
pub(crate) fn read_calls(stream: EngineStream) -> EngineStream {
    let start = (stream, String::new(), VecDeque::new());
    Box::pin(try_unfold(
        start,
        |(mut stream, mut text, mut ready)| async move {
            loop {
                if let Some(event) = ready.pop_front() {
                    return Ok(Some((event, (stream, text, ready))));
                }
                match stream.next().await.transpose()? {
                    None => return Ok(None),
                    Some(EngineEvent::TextDelta { text: piece }) => text.push_str(&piece),
                    Some(EngineEvent::TextEnd { .. }) => {}
                    Some(EngineEvent::Finished {
                        reason: FinishReason::End,
                    }) => {
                        ready.push_back(EngineEvent::Call(profile::call(&text)?));
                        ready.push_back(EngineEvent::Finished {
                            reason: FinishReason::ToolCalls,
                        });
                    }
                    Some(other) => ready.push_back(other),
                }
            }
        },
    ))
}

/// Keeps the server in use until the stream ends or is dropped, and says what
/// happened to the server where that is why the stream broke off.
pub(crate) fn hold(stream: EngineStream, server: ServerUse) -> EngineStream {
    Box::pin(unfold(Some((stream, server)), |state| async {
        let (mut stream, server) = state?;
        match stream.next().await? {
            Ok(event) => Some((Ok(event), Some((stream, server)))),
            Err(error) => Some((Err(server.explain(error).await), None)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use haft_api::{EngineToolCall, Error, ErrorKind, Usage, engine_stream};

    use super::*;

    fn text(text: &str) -> EngineEvent {
        EngineEvent::TextDelta {
            text: text.to_owned(),
        }
    }

    fn finished(reason: FinishReason) -> EngineEvent {
        EngineEvent::Finished { reason }
    }

    #[tokio::test]
    async fn text_becomes_one_call() {
        let usage = EngineEvent::Usage(Usage {
            input: Some(3),
            ..Usage::default()
        });
        let stream = engine_stream([
            text("{\"tool\": \"re"),
            text("ad\", \"path\": \"a.txt\"}"),
            EngineEvent::TextEnd { state: None },
            usage.clone(),
            finished(FinishReason::End),
        ]);
        let events: Vec<_> = read_calls(stream).map(Result::unwrap).collect().await;
        let call = EngineToolCall {
            id: None,
            name: "read".to_owned(),
            arguments: r#"{"path":"a.txt"}"#.to_owned(),
            state: None,
        };
        assert_eq!(
            events,
            [
                usage,
                EngineEvent::Call(call),
                finished(FinishReason::ToolCalls)
            ]
        );
    }

    #[tokio::test]
    async fn half_a_call_is_none() {
        let events = [text("{\"tool\": \"re"), finished(FinishReason::Length)];
        let events: Vec<_> = read_calls(engine_stream(events))
            .map(Result::unwrap)
            .collect()
            .await;
        assert_eq!(events, [finished(FinishReason::Length)]);

        let broken: EngineStream = Box::pin(futures::stream::iter([
            Ok(text("{\"tool\": \"list\"}")),
            Err(Error::new(ErrorKind::Unavailable, "broke off")),
        ]));
        let events: Vec<_> = read_calls(broken).collect().await;
        assert_eq!(events.len(), 1);
        assert_eq!(
            events[0].as_ref().unwrap_err().kind(),
            ErrorKind::Unavailable
        );

        let garbled = engine_stream([text("{\"tool\""), finished(FinishReason::End)]);
        let events: Vec<_> = read_calls(garbled).collect().await;
        assert_eq!(events[0].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
