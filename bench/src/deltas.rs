//! Pieces of text on their way from the server to a subscriber.

use std::rc::Rc;

use haft_api::EventBody;
use haft_bench::{Pair, Result, Sample};
use haft_ext_store_jsonl::DurabilityPolicy;

use crate::agent::{self, Agent, ReadLineTool};
use crate::chat_server::ChatServer;
use crate::hand_written::{self, Connection};

/// The pieces of an answer.
const DELTAS: u32 = 20_000;

/// A piece of text, received and decoded by the engine and seen by a
/// subscriber; the floor receives it and adds it to the answer.
pub(crate) fn end_to_end() -> Result<Pair> {
    let server = ChatServer::start()?;
    let tokio = Rc::new(agent::one_thread()?);
    let engine = agent::engine(server.address())?;
    let agent = Agent::new(engine, ReadLineTool::new(|_| ())?, DurabilityPolicy::Os)?;
    let model = format!("deltas-{DELTAS}");
    let (floor_tokio, floor_model) = (Rc::clone(&tokio), model.clone());
    let mut connection = tokio.block_on(Connection::open(server.address()))?;
    Ok(Pair::of_samples(
        move || {
            let _server = &server;
            let thread = tokio.block_on(agent.thread())?;
            let mut events = thread.subscribe(DELTAS as usize);
            let subscriber = tokio.spawn(async move {
                let (mut deltas, mut length) = (0, 0);
                loop {
                    match events.next().await.body {
                        EventBody::MessageDelta { text } => {
                            deltas += 1;
                            length += text.len();
                        }
                        EventBody::TurnCompleted { .. } => return (deltas, length),
                        _ => {}
                    }
                }
            });
            Sample::take(DELTAS, || {
                let end = tokio.block_on(agent::turn(&thread, &model))?;
                let (deltas, length) = tokio.block_on(subscriber)?;
                match (deltas, length) == (DELTAS, end.answer.len()) {
                    true => Ok(()),
                    false => Err(format!("{deltas} pieces of {length} bytes came").into()),
                }
            })
        },
        move || {
            Sample::take(DELTAS, || {
                let conversation = hand_written::converse(&mut connection, &floor_model);
                floor_tokio.block_on(conversation)?;
                Ok(())
            })
        },
    ))
}
