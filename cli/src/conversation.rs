//! A thread, and turns on it that are shown as they run.

use std::io::{self, Write as _};

use haft_api::{Error, ErrorKind, Event, EventBody, ExtensionId, PolicyMode, RequestId, ThreadId};
use haft_core::{RunnerSelection, Runtime, Subscription, Thread, ThreadOptions, Turn, TurnRequest};
use tokio_util::sync::CancellationToken;

use crate::assembly;
use crate::config::Settings;
use crate::console::Console;
use crate::failure::{DONE, FAILED, Failure, INTERRUPTED, Outcome, one_line};
use crate::instructions::instructions;
use crate::output::{End, Output};
use crate::render::{EventLines, Looks, Style, TextView, call_summary, failure_line, visible};
use crate::signals::Signals;

/// How many pieces of text or of tools' output may wait for a slow reader.
const LOSSY_EVENTS: usize = 4_096;
/// Most characters of a title.
const TITLE: usize = 80;

/// What a conversation is made of.
pub(crate) struct Parts {
    pub(crate) runtime: Runtime,
    pub(crate) settings: Settings,
    pub(crate) engine: ExtensionId,
    /// The folder; `None` where the thread is bound elsewhere.
    pub(crate) workspace: Option<String>,
    /// The folder elsewhere, of a thread that is bound there, or will be.
    pub(crate) bound: Option<String>,
    /// The thread to continue; `None` begins one with the first turn.
    pub(crate) thread: Option<Thread>,
}

/// See the module's description.
pub(crate) struct Conversation {
    parts: Parts,
    instructions: String,
    console: Console,
    signals: Signals,
    output: Output,
    view: View,
}

enum View {
    Text(TextView<End, End>),
    Json(EventLines<End>),
}

impl Conversation {
    /// A conversation that is shown as text, or as JSON.
    pub(crate) fn new(parts: Parts, json: bool, console: &Console, signals: &Signals) -> Self {
        let output = Output::default();
        let view = if json {
            View::Json(EventLines::new(output.stdout()))
        } else {
            let looks = Looks {
                answers: console.shows_answers,
                progress: console.progress_width,
                colour: console.colour,
            };
            View::Text(TextView::new(output.stdout(), output.stderr(), looks))
        };
        let own = parts.settings.instructions.as_deref();
        let place = parts.bound.as_deref().or(parts.workspace.as_deref());
        Self {
            instructions: instructions(place, own),
            parts,
            console: console.clone(),
            signals: signals.clone(),
            output,
            view,
        }
    }

    /// The thread, once there is one.
    pub(crate) fn thread(&self) -> Option<&ThreadId> {
        self.parts.thread.as_ref().map(Thread::id)
    }

    /// What the conversation is held by.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.parts.runtime
    }

    /// Shows a text that is no part of a turn: where answers go, or beside them
    /// where those are for programs.
    ///
    /// # Errors
    /// What standard output fails with.
    pub(crate) async fn tell(&mut self, text: &str) -> Outcome<()> {
        let text = match self.console.shows_answers {
            true => visible(text),
            false => text.into(),
        };
        let mut end = match self.view {
            View::Text(_) => self.output.stdout(),
            View::Json(_) => self.output.stderr(),
        };
        // Writing to the queue can't fail.
        writeln!(end, "{}", text.trim_end_matches('\n')).ok();
        self.output.drain().await.map_err(|e| Failure::output(&e))
    }

    /// Runs a turn to its end and shows it. Returns the exit status it means.
    pub(crate) async fn turn(&mut self, input: String) -> Outcome {
        self.run(input, false).await
    }

    /// Summarises the conversation so far, and shows how that goes.
    pub(crate) async fn compact(&mut self) -> Outcome {
        match self.parts.thread {
            Some(_) => self.run(String::new(), true).await,
            None => {
                self.aside("there is nothing to summarise yet");
                Ok(DONE)
            }
        }
    }

    async fn run(&mut self, input: String, compact: bool) -> Outcome {
        let interruptible = self.signals.interruptible();
        let (thread, is_new) = match &self.parts.thread {
            Some(thread) => (thread.clone(), false),
            None => (self.create(&input).await?, true),
        };
        let mut events = thread.subscribe(LOSSY_EVENTS);
        let approvals = (!self.can_ask()).then(|| thread.subscribe(0));
        if is_new {
            // It came into being before anybody could listen.
            for event in thread.events(0, u64::MAX).await? {
                self.view.event(&event).map_err(|e| Failure::output(&e))?;
            }
        }
        let request = self.request(input);
        let started = match compact {
            true => thread.compact(request).await,
            false => thread.start_turn(request).await,
        };
        let turn = started.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Failure::usage(error),
            _ => Failure::failed(error),
        })?;
        // Tasks of their own: whoever shows the turn may have to wait for
        // somebody who doesn't read.
        let (token, running) = (interruptible.token().clone(), turn.clone());
        let interrupter = tokio::spawn(async move {
            token.cancelled().await;
            running.interrupt();
        });
        if let Some(approvals) = approvals {
            tokio::spawn(deny_all(turn.clone(), approvals));
        }
        let status = self.show(&turn, &mut events, interruptible.token()).await;
        interrupter.abort();
        status
    }

    async fn create(&mut self, input: &str) -> Outcome<Thread> {
        let mut options = ThreadOptions::default();
        options.title = title(input);
        options.workspace.clone_from(&self.parts.workspace);
        options.runner = self.runner()?;
        let thread = self.parts.runtime.create_thread(options).await?;
        self.parts.thread = Some(thread.clone());
        Ok(thread)
    }

    /// A runner other than the local one gets threads bound to it.
    fn runner(&self) -> Outcome<Option<RunnerSelection>> {
        let Some(workspace) = &self.parts.bound else {
            return Ok(None);
        };
        let runner = assembly::runner(&self.parts.settings, self.parts.runtime.registry())?;
        Ok(Some(RunnerSelection::new(
            runner.id().clone(),
            workspace.clone(),
        )))
    }

    fn request(&self, input: String) -> TurnRequest {
        let settings = &self.parts.settings;
        let mut request = TurnRequest::text(input)
            .engine(self.parts.engine.clone())
            .mode(PolicyMode::from(settings.approve))
            .instructions(&self.instructions);
        request.model.clone_from(&settings.model);
        request.time_limit = settings.deadline;
        request
    }

    async fn show(
        &mut self,
        turn: &Turn,
        events: &mut Subscription,
        interrupted: &CancellationToken,
    ) -> Outcome {
        self.view.begin(turn);
        let mut heard = Ok(());
        loop {
            let mut next = Some(events.next().await);
            while let Some(event) = next {
                if heard.is_ok() && self.view.tells_of(&event, turn) {
                    heard = self.view.event(&event);
                }
                if event.turn.as_ref() == Some(turn.id()) {
                    if event.body.is_turn_end() {
                        let drained = self.output.drain().await;
                        return self.ended(&event.body, heard.and(drained)).await;
                    }
                    self.answer(turn, &event.body, interrupted).await;
                }
                if self.output.is_long() {
                    break;
                }
                next = events.try_next();
            }
            let drained = self.output.drain().await;
            if heard.is_ok() && drained.is_err() {
                heard = drained;
                turn.interrupt();
            }
        }
    }

    async fn ended(&self, end: &EventBody, heard: io::Result<()>) -> Outcome {
        match heard {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(Failure::output(&e)),
            _ => {}
        }
        Ok(match end {
            EventBody::TurnCompleted { .. } => DONE,
            EventBody::TurnInterrupted { .. } => INTERRUPTED,
            EventBody::TurnFailed { error, .. } => {
                // The text view has said so already.
                if let View::Json(_) = self.view {
                    let message = one_line(&Error::from(error.clone()).to_string());
                    self.console
                        .say(&failure_line(&message, self.console.colour));
                }
                FAILED
            }
            _ => FAILED,
        })
    }

    /// Whether there is somebody to ask for approvals.
    fn can_ask(&self) -> bool {
        self.console.can_ask && matches!(self.view, View::Text(_))
    }

    /// Asks for an approval if the event does.
    async fn answer(&mut self, turn: &Turn, body: &EventBody, interrupted: &CancellationToken) {
        let EventBody::ApprovalRequested {
            request_id,
            name,
            arguments,
            reason,
            ..
        } = body
        else {
            return;
        };
        let call = format!("{} {}", one_line(name), call_summary(arguments.get()));
        let (call, reason) = (call.trim_end(), one_line(reason));
        if !self.can_ask() {
            return self.aside(&format!(
                "denied: {call} ({reason}); nobody can be asked. `--approve edits` allows changes \
                 of files, `--approve all` everything"
            ));
        }
        if interrupted.is_cancelled() {
            return;
        }
        let style = Style::new(self.console.colour);
        self.aside(&format!("{} {}", style.warning("?"), style.bold(call)));
        // What standard output fails with is told of when it is next written to.
        self.output.drain().await.ok();
        let question = format!("  {}: allow it?", style.dim(&reason));
        let approved = tokio::select! {
            approved = self.console.confirm(&question) => approved,
            () = interrupted.cancelled() => return self.aside(""),
            _ = turn.ended() => return self.aside(""),
        };
        resolve(turn, request_id, approved).await;
    }

    /// Says something on standard error, after what was said so far.
    fn aside(&mut self, line: &str) {
        // Writing to the queue can't fail.
        match &mut self.view {
            View::Text(view) => view.aside(line).ok(),
            View::Json(_) => writeln!(self.output.stderr(), "{line}").ok(),
        };
    }
}

/// Denies whatever is asked for, until the turn ends.
async fn deny_all(turn: Turn, mut events: Subscription) {
    loop {
        let event = events.next().await;
        if event.turn.as_ref() != Some(turn.id()) {
            continue;
        }
        match &event.body {
            EventBody::ApprovalRequested { request_id, .. } => {
                resolve(&turn, request_id, false).await;
            }
            body if body.is_turn_end() => return,
            _ => {}
        }
    }
}

async fn resolve(turn: &Turn, id: &RequestId, approved: bool) {
    match turn.thread().answer_approval(id, approved).await {
        Ok(()) => {}
        // The turn was interrupted meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // The turn would wait for an answer for ever; that the store fails is
        // told of as the turn's own end can't be stored either.
        Err(_) => turn.interrupt(),
    }
}

impl View {
    fn begin(&mut self, turn: &Turn) {
        if let Self::Text(view) = self {
            view.begin(turn.id().clone());
        }
    }

    /// Whether an event belongs to what is shown of this turn. What closes a
    /// turn that a crash left open comes before it, and isn't part of it.
    fn tells_of(&self, event: &Event, turn: &Turn) -> bool {
        let of_another = event.turn.as_ref().is_some_and(|id| id != turn.id());
        match self {
            Self::Json(_) => !of_another,
            Self::Text(_) => !of_another || event.body.is_turn_end(),
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match self {
            Self::Text(view) => view.event(event),
            Self::Json(lines) => lines.event(event),
        }
    }
}

/// A thread's title: the first line of what was said first.
fn title(input: &str) -> Option<String> {
    let line = input.lines().find(|line| !line.trim().is_empty())?;
    let title: String = one_line(line).chars().take(TITLE).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        let check = |input: &str, expected: Option<&str>| {
            assert_eq!(title(input).as_deref(), expected, "{input:?}");
        };
        check("What does it say?", Some("What does it say?"));
        check("\n  a  b\u{1b}\nc", Some("a b"));
        check(&"中".repeat(100), Some(&"中".repeat(80)));
        check(" \n\u{1b}", None);
    }
}
