//! Rounds of a turn against a server: the model's call, the tool, the log.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use haft_bench::{Mark, Pair, Result, Sample};
use haft_ext_store_jsonl::DurabilityPolicy;

use crate::agent::{self, Agent, ReadLineTool};
use crate::chat_server::ChatServer;
use crate::hand_written::{self, Connection};

/// The rounds of a sample.
const ROUNDS: u32 = 100;

/// A round whose records are handed to the operating system.
pub(crate) fn buffered() -> Result<Pair> {
    one_thread(DurabilityPolicy::Os)
}

/// A round whose records are on the disk before they are told of.
pub(crate) fn durable() -> Result<Pair> {
    one_thread(DurabilityPolicy::Barriers)
}

fn one_thread(durability: DurabilityPolicy) -> Result<Pair> {
    let server = ChatServer::start()?;
    let tokio = Rc::new(agent::one_thread()?);
    let engine = agent::engine(server.address())?;
    let agent = Agent::new(engine, ReadLineTool::new(|_| ())?, durability)?;
    let model = format!("rounds-{ROUNDS}");
    let (floor_tokio, floor_model) = (Rc::clone(&tokio), model.clone());
    let mut connection = Some(tokio.block_on(Connection::open(server.address()))?);
    Ok(Pair::of_samples(
        move || {
            // Held here so that it serves as long as there are samples.
            let _server = &server;
            let thread = tokio.block_on(agent.thread())?;
            Sample::take(ROUNDS, || {
                tokio.block_on(agent::turn(&thread, &model))?;
                Ok(())
            })
        },
        move || {
            let (kept, model) = (connection.take(), floor_model.clone());
            let mut kept = kept.ok_or("an earlier conversation failed")?;
            Sample::take(ROUNDS, || {
                let conversation = floor_tokio.spawn(async move {
                    hand_written::converse(&mut kept, &model).await?;
                    Ok::<_, Error>(kept)
                });
                connection = Some(floor_tokio.block_on(conversation)??);
                Ok(())
            })
        },
    ))
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The calls between which is measured, early and late in a turn.
const EARLY: [u32; 2] = [50, 100];
const LATE: [u32; 2] = [450, 500];

/// A late round of a long turn, and an early one of the same turn.
pub(crate) fn flat() -> Result<Pair> {
    let server = ChatServer::start()?;
    let tokio = agent::one_thread()?;
    let marks = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&marks);
    let tool = ReadLineTool::new(move |line| {
        if EARLY.contains(&line) || LATE.contains(&line) {
            let mut marks = seen.lock().unwrap_or_else(PoisonError::into_inner);
            marks.push(Mark::now());
        }
    })?;
    let agent = Agent::new(agent::engine(server.address())?, tool, DurabilityPolicy::Os)?;
    let model = format!("rounds-{}", LATE[1]);
    // One turn serves both sides, whichever is asked first.
    let turns = Rc::new(RefCell::new((VecDeque::new(), VecDeque::new())));
    let run = {
        let turns = Rc::clone(&turns);
        move || -> Result<()> {
            let _server = &server;
            let thread = tokio.block_on(agent.thread())?;
            tokio.block_on(agent::turn(&thread, &model))?;
            let mut marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
            let [a, b, c, d] = marks[..] else {
                return Err(format!("{} marks instead of four", marks.len()).into());
            };
            marks.clear();
            let mut turns = turns.borrow_mut();
            turns.0.push_back(c.to(&d, LATE[1] - LATE[0]));
            turns.1.push_back(a.to(&b, EARLY[1] - EARLY[0]));
            Ok(())
        }
    };
    let run = Rc::new(run);
    let (late_turns, late_run) = (Rc::clone(&turns), Rc::clone(&run));
    let late = move || {
        if late_turns.borrow().0.is_empty() {
            late_run()?;
        }
        let sample = late_turns.borrow_mut().0.pop_front();
        sample.ok_or_else(|| "no turn was run".into())
    };
    let early = move || {
        if turns.borrow().1.is_empty() {
            run()?;
        }
        let sample = turns.borrow_mut().1.pop_front();
        sample.ok_or_else(|| "no turn was run".into())
    };
    Ok(Pair::of_samples(late, early))
}

const CONVERSATIONS: u32 = 100;
const ROUNDS_OF_EACH: u32 = 10;

/// A round of one of many conversations at once, the beginnings and ends of their
/// turns included.
pub(crate) fn conversations() -> Result<Pair> {
    let server = ChatServer::start()?;
    let address = server.address();
    let tokio = Rc::new(agent::many_threads()?);
    let tool = ReadLineTool::new(|_| ())?;
    let agent = Agent::new(agent::engine(address)?, tool, DurabilityPolicy::Os)?;
    let model: Arc<str> = Arc::from(format!("rounds-{ROUNDS_OF_EACH}"));
    let (floor_tokio, floor_model) = (Rc::clone(&tokio), Arc::clone(&model));
    let open = (0..CONVERSATIONS).map(|_| tokio.block_on(Connection::open(address)));
    let mut connections: Vec<_> = open.collect::<Result<_>>()?;
    Ok(Pair::of_samples(
        move || {
            let _server = &server;
            let create = (0..CONVERSATIONS).map(|_| tokio.block_on(agent.thread()));
            let threads = create.collect::<Result<Vec<_>>>()?;
            Sample::take(CONVERSATIONS * ROUNDS_OF_EACH, || {
                let conversations: Vec<_> = threads
                    .into_iter()
                    .map(|thread| {
                        let model = Arc::clone(&model);
                        tokio.spawn(async move {
                            agent::turn(&thread, &model).await?;
                            Ok::<_, Error>(())
                        })
                    })
                    .collect();
                for conversation in conversations {
                    tokio.block_on(conversation)??;
                }
                Ok(())
            })
        },
        move || {
            Sample::take(CONVERSATIONS * ROUNDS_OF_EACH, || {
                let conversations: Vec<_> = std::mem::take(&mut connections)
                    .into_iter()
                    .map(|mut connection| {
                        let model = Arc::clone(&floor_model);
                        floor_tokio.spawn(async move {
                            hand_written::converse(&mut connection, &model).await?;
                            Ok::<_, Error>(connection)
                        })
                    })
                    .collect();
                for conversation in conversations {
                    connections.push(floor_tokio.block_on(conversation)??);
                }
                Ok(())
            })
        },
    ))
}
