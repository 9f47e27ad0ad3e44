//! The engines of a runtime, each within its layers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use haft_api::{Durability, EventBody, ExtensionId, InferenceEngine, Item, NoticeLevel, Registry};

use super::Shared;
use crate::layers::{
    Choice, Fallback, IdleTimeout, Retry, RetryObserver, RetryPolicy, Switch, SwitchObserver,
};
use crate::options::RuntimeOptions;
use crate::thread::records::ThreadRecord;

type Engines = BTreeMap<ExtensionId, Arc<dyn InferenceEngine>>;

/// All engines: none may fall silent, each is asked again where that may help,
/// and where that is in vain the engines to fall back on are.
pub(super) fn layered(
    registry: &Registry,
    options: &RuntimeOptions,
    shared: &Weak<Shared>,
) -> Engines {
    let engines = registry.engines().iter().map(|engine| {
        let id = engine.part.id().clone();
        let engine = patient(Arc::clone(&engine.part), options, Weak::clone(shared));
        (id, engine)
    });
    let engines: Engines = engines.collect();
    if options.fallbacks.is_empty() {
        return engines;
    }
    let choice = |id: &ExtensionId| {
        let others = options.fallbacks.iter().filter(|other| other.engine != *id);
        let others = others.filter_map(|other| {
            Some(Choice {
                engine: Arc::clone(engines.get(&other.engine)?),
                model: other.model.clone(),
            })
        });
        others.collect::<Vec<_>>()
    };
    let with_fallbacks = engines.iter().map(|(id, engine)| {
        let others = choice(id);
        let engine: Arc<dyn InferenceEngine> = match others.is_empty() {
            true => Arc::clone(engine),
            false => Arc::new(Fallback::new(
                Arc::clone(engine),
                others,
                tell_of_switches(Weak::clone(shared)),
            )),
        };
        (id.clone(), engine)
    });
    with_fallbacks.collect()
}

/// An engine that may not fall silent and is asked again.
fn patient(
    engine: Arc<dyn InferenceEngine>,
    options: &RuntimeOptions,
    shared: Weak<Shared>,
) -> Arc<dyn InferenceEngine> {
    let policy = RetryPolicy {
        retries: options.engine_retries,
        delay: options.retry_delay,
        max_delay: options.max_retry_delay,
    };
    let observer: RetryObserver = Arc::new(move |request, attempt, delay, error| {
        let thread = shared
            .upgrade()
            .and_then(|shared| shared.open(&request.thread));
        let Some(thread) = thread else { return };
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let body = EventBody::EngineRetry {
            attempt,
            delay_ms,
            error: error.to_data(),
        };
        thread.inner.hub.publish(Some(request.turn.clone()), body);
    });
    let engine = Arc::new(IdleTimeout::new(engine, options.engine_idle_timeout));
    Arc::new(Retry::new(engine, policy, observer))
}

/// Writes into the thread that another engine answers, and why.
fn tell_of_switches(shared: Weak<Shared>) -> SwitchObserver {
    Arc::new(move |switch: Switch<'_>| {
        let Switch {
            request,
            from,
            to,
            model,
            error,
            ..
        } = switch;
        let thread = shared
            .upgrade()
            .and_then(|shared| shared.open(&request.thread));
        let Some(thread) = thread else {
            return Box::pin(async {});
        };
        let model = model.map_or(String::new(), |model| format!(" (model {model})"));
        let notice = Item::Notice {
            level: NoticeLevel::Warning,
            code: "engine_fallback".to_owned(),
            text: format!("the engine `{from}` failed, `{to}`{model} is asked instead: {error}"),
        };
        let turn = request.turn.clone();
        Box::pin(async move {
            let record = ThreadRecord::Item(Arc::new(notice));
            let written = thread.inner.undisturbed(|thread| async move {
                let mut log = thread.log.lock().await;
                thread
                    .append(&mut log, Some(&turn), &[record], Durability::Buffered)
                    .await
            });
            // A store that fails will fail the turn with its next write.
            written.await.ok();
        })
    })
}
