//! News of running processes: one question at a time for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::connection::Use;
use crate::ending;
use crate::link::{Call, Link};
use crate::process::Process;
use crate::quote::quote;

/// Asks for news as long as there are processes that may have some.
#[derive(Debug)]
pub(crate) struct Watch {
    link: Arc<Link>,
    /// The name of the file by which a start interrupts the question.
    pub(crate) kick: String,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    by_path: HashMap<String, Weak<Process>>,
    asking: bool,
}

impl Watch {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            kick: format!("kick-{}", uuid::Uuid::new_v4().simple()),
            watched: Mutex::default(),
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        // Every change under this lock is a whole one.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a process until it has ended, is released or dropped.
    pub(crate) fn add(self: &Arc<Self>, process: &Arc<Process>) {
        let mut watched = self.watched();
        watched
            .by_path
            .insert(process.path.clone(), Arc::downgrade(process));
        if !watched.asking {
            watched.asking = true;
            let watch = Arc::clone(self);
            tokio::spawn(async move { watch.run().await });
        }
    }

    /// Those to be asked about; the end of the task if there are none.
    fn current(&self) -> Vec<Arc<Process>> {
        let mut watched = self.watched();
        let mut current = Vec::new();
        watched.by_path.retain(|_, process| {
            let live = process.upgrade().filter(|process| !process.is_settled());
            current.extend(live.clone());
            live.is_some()
        });
        current.sort_by(|a, b| a.path.cmp(&b.path));
        if current.is_empty() {
            watched.asking = false;
        }
        current
    }

    async fn run(&self) {
        let mut old = String::new();
        loop {
            let processes = self.current();
            if processes.is_empty() {
                return;
            }
            let mut line = format!("watch {} {}", quote(&old), quote(&self.kick));
            for process in &processes {
                line += &format!(" {}", quote(&process.path));
            }
            match self.link.ask(Call::new(line).on(Use::Watch)).await {
                Ok(answer) if answer.code == 0 => {
                    old = String::from_utf8_lossy(&answer.body).into_owned();
                    self.tell(&processes, &old).await;
                }
                Ok(answer) => {
                    let error = haft_api::Error::new(answer.kind(), answer.text());
                    self.trouble(&processes, &error).await;
                }
                Err(error) => self.trouble(&processes, &error).await,
            }
        }
    }

    async fn trouble(&self, processes: &[Arc<Process>], error: &haft_api::Error) {
        for process in processes {
            process.in_trouble(error);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    async fn tell(&self, processes: &[Arc<Process>], answer: &str) {
        let mut states = HashMap::new();
        let mut sizes: HashMap<&str, [u64; 2]> = HashMap::new();
        for line in answer.lines() {
            let Some((first, second)) = line.trim().split_once(' ') else {
                continue;
            };
            match (first.parse::<u64>(), second.rsplit_once('/')) {
                (Ok(size), Some((path, "out"))) => sizes.entry(path).or_default()[0] = size,
                (Ok(size), Some((path, "err"))) => sizes.entry(path).or_default()[1] = size,
                (Ok(_), _) => {}
                (Err(_), _) => drop(states.insert(second, first)),
            }
        }
        for process in processes {
            let path = process.path.as_str();
            match states.get(path) {
                Some(&"exit") => self.ended(process).await,
                // It may be on its way out, or not yet there.
                Some(&"gone") => {
                    if process.starting.try_lock().is_ok() {
                        process.lost("it was released, or its session was ended, by somebody else");
                    }
                }
                Some(&"lost") => {
                    process.grown(sizes.get(path).copied().unwrap_or_default());
                    process.lost("its supervisor on the far side was killed");
                }
                _ => process.grown(sizes.get(path).copied().unwrap_or_default()),
            }
        }
    }

    async fn ended(&self, process: &Process) {
        let folder = process.path.rsplit_once("/p/").map_or("", |(s, _)| s);
        let line = format!(
            "S=$HOMEDIR/{folder}; process_ending {}",
            quote(&process.name())
        );
        // A failure is asked about again.
        if let Ok(answer) = self.link.ask(Call::new(line)).await
            && answer.code == 0
        {
            match ending::parse(&answer.text()) {
                Some(ended) => process.ended(ended),
                None => process.lost("its supervisor's last note can't be read"),
            }
        }
    }
}
