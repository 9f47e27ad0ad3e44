//! The host as a source of tools.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use haft_api::{
    BatchCall, BatchOutcomes, CallId, Error, ErrorKind, ExtensionId, Result, SlashCommand,
    SlashCommandCall, SlashCommandOutput, ToolSource, ToolSpec, async_trait,
};
use haft_script_host::look_again;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::host::{Inner, QuickJsHost};
use crate::skill::{Asked, ON_ITS_WAY, Skill, lost};
use crate::worker::{Answer, CallFacts, Entry, Message, Reply, Request};

/// So few calls may be over before their caller is asleep.
const FEW: usize = 4;

#[async_trait]
impl ToolSource for QuickJsHost {
    fn id(&self) -> &ExtensionId {
        self.inner.id()
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>> {
        self.inner.begin().await;
        let mut tools = Vec::new();
        for skill in self.inner.all() {
            skill.refresh(&self.inner).await;
            tools.extend(skill.lists().tools.iter().map(|tool| tool.spec.clone()));
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tools)
    }

    async fn problems(&self) -> Vec<Error> {
        QuickJsHost::problems(self).await
    }

    async fn call_batch(
        &self,
        calls: Vec<BatchCall>,
        outcomes: Arc<dyn BatchOutcomes>,
    ) -> Result<()> {
        self.inner.begin().await;
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for call in calls {
            match self.inner.tool(&call.call.name) {
                Ok((skill, tool)) => {
                    let group = groups.entry(skill.id.clone()).or_insert_with(|| Group {
                        skill,
                        calls: Vec::new(),
                    });
                    group.calls.push((tool, call));
                }
                Err(error) => {
                    outcomes.complete(&call.call.id, Err(error));
                }
            }
        }
        let groups = groups.into_values();
        join_all(groups.map(|group| group.run(&self.inner, &outcomes))).await;
        Ok(())
    }

    async fn commands(&self) -> Result<Vec<SlashCommand>> {
        let mut commands = QuickJsHost::commands(self).await;
        // Sorted by name, then by skill; `problems` tells of the others.
        commands.dedup_by(|later, first| later.name == first.name);
        let commands = commands.into_iter();
        Ok(commands
            .map(|command| SlashCommand::new(command.name, command.description))
            .collect())
    }

    async fn run_command(&self, call: SlashCommandCall) -> Result<SlashCommandOutput> {
        let text = QuickJsHost::run_command(self, &call.name, &call.text).await?;
        let mut output = SlashCommandOutput::default();
        output.text = text;
        Ok(output)
    }
}

impl Inner {
    /// The skill that a tool's outside name belongs to, and the tool's own
    /// name. No skill's id has two underscores in a row.
    fn tool(&self, name: &str) -> Result<(Arc<Skill>, String)> {
        let refuse = || Error::new(ErrorKind::NotFound, "no skill has such a tool");
        let (id, tool) = name
            .split_once("__")
            .ok_or_else(|| refuse().context("tool", name))?;
        let skill = self.skill(id).map_err(|e| e.context("tool", name))?;
        Ok((skill, tool.to_owned()))
    }
}

/// A round's calls of one skill.
struct Group {
    skill: Arc<Skill>,
    calls: Vec<(String, BatchCall)>,
}

/// Counts the answers of a group.
struct Count {
    left: AtomicUsize,
    /// Whether nobody takes answers any more.
    over: AtomicBool,
    done: Mutex<Option<oneshot::Sender<()>>>,
}

impl Count {
    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let done = self
                .done
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(done) = done {
                // Nobody waits any more.
                done.send(()).ok();
            }
        }
    }
}

/// Ends the taking of answers when the batch ends, or is dropped.
struct Over(Arc<Count>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

impl Group {
    async fn run(self, host: &Arc<Inner>, outcomes: &Arc<dyn BatchOutcomes>) {
        let worker = match self.skill.running() {
            Ok(worker) => worker,
            Err(failure) => {
                for (_, call) in &self.calls {
                    let error = failure.clone().into_error();
                    outcomes.complete(&call.call.id, Err(error));
                }
                return;
            }
        };
        let (done, mut all) = oneshot::channel();
        let few = self.calls.len() <= FEW;
        let count = Arc::new(Count {
            left: AtomicUsize::new(self.calls.len()),
            over: AtomicBool::new(false),
            done: Mutex::new(Some(done)),
        });
        let _over = Over(Arc::clone(&count));
        let mut asked = Asked {
            worker: Arc::clone(&worker),
            numbers: Vec::with_capacity(self.calls.len()),
        };
        let mut waiting: Vec<(Instant, CallId, String)> = Vec::with_capacity(self.calls.len());
        let mut requests = Vec::with_capacity(self.calls.len());
        let now = Instant::now();
        for (tool, call) in self.calls {
            let own = || host.limit_of(&self.skill, &tool);
            let limit = call.context.deadline.map_or_else(own, |at| at.remaining());
            let deadline = now + limit;
            let number = host.next_number();
            asked.numbers.push(number);
            waiting.push((deadline, call.call.id.clone(), tool.clone()));
            requests.push(Request {
                number,
                deadline,
                reply: reply(
                    call.call.id.clone(),
                    Arc::clone(outcomes),
                    Arc::clone(&count),
                ),
                entry: Entry::Tool {
                    name: tool.clone(),
                    arguments: call.call.arguments,
                    facts: Some(Arc::new(CallFacts {
                        call: call.call.id,
                        tool,
                        context: call.context,
                    })),
                },
            });
        }
        worker.say(Message::Requests(requests));
        waiting.sort_by_key(|(deadline, ..)| *deadline);
        let overdue = async {
            // The skill answers what is late by itself, unless its thread is
            // busy.
            for (deadline, id, tool) in &waiting {
                tokio::time::sleep_until((*deadline + ON_ITS_WAY).into()).await;
                let failure = Failure::deadline(&format!("the tool `{tool}`"));
                outcomes.complete(id, Ok(failure.output(tool)));
            }
        };
        // Most calls take microseconds.
        if few && look_again(|| all.try_recv().ok()).is_some() {
            asked.numbers.clear();
            return;
        }
        let whole = tokio::select! {
            biased;
            all = all => all.is_ok(),
            () = worker.lost.cancelled() => false,
            () = overdue => return,
        };
        asked.numbers.clear();
        if !whole {
            if !worker.lost.is_cancelled() {
                tokio::time::timeout(Duration::from_secs(1), worker.lost.cancelled())
                    .await
                    .ok();
            }
            let failure = lost(&self.skill.id, &worker);
            for (_, id, tool) in &waiting {
                outcomes.complete(id, Ok(failure.output(tool)));
            }
        }
    }
}

fn reply(id: CallId, outcomes: Arc<dyn BatchOutcomes>, count: Arc<Count>) -> Reply {
    Box::new(move |answer| {
        let outcome = match answer {
            Ok(Answer::Output(output)) => Ok(output),
            Ok(Answer::Missing | Answer::Json(_)) => Ok(haft_api::ToolOutput::default()),
            Err(failure) => Err(failure.into_error()),
        };
        if !count.over.load(Ordering::Acquire) {
            outcomes.complete(&id, outcome);
        }
        count.one();
    })
}
