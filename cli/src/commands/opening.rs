//! From a command line to a conversation.

use std::path::PathBuf;
use std::sync::Arc;

use haft_api::{ErrorKind, ListThreads, ThreadId, ThreadMetadata, ThreadStore};

use crate::args::{PlaceArgs, TurnArgs};
use crate::assembly;
use crate::config::{self, Environment, Layer, Settings, Sources};
use crate::console::Console;
use crate::conversation::Parts;
use crate::engine_choice;
use crate::failure::{Failure, Outcome};
use crate::scripts;

/// The names under which the runtime keeps a thread's place.
const WORKSPACE: &str = "workspace";
const BINDING: &str = "binding";

/// Reads the settings, chooses the engine, opens the thread if one is to be
/// continued.
pub(crate) async fn open(args: &TurnArgs, place: &PlaceArgs, console: &Console) -> Outcome<Parts> {
    let environment = Environment::of_process();
    let flags = Layer::from_flags(args);
    let load = |workspace: Option<&str>| -> Outcome<Settings> {
        let sources = Sources {
            place,
            environment: &environment,
            workspace: workspace.map(std::path::Path::new),
            flags: flags.clone(),
        };
        let mut settings = Settings::load(sources)?;
        engine_choice::equip(&mut settings, &environment)?;
        scripts::equip(&mut settings, place, &environment, &args.ext)?;
        Ok(settings)
    };
    let continued = match &args.thread {
        None => None,
        Some(name) => {
            // The thread knows its workspace, and only then is it known which
            // workspace's file counts.
            let settings = load(None)?;
            let store = assembly::store(&settings, &assembly::registry(&settings)?).await?;
            let metadata = find_thread(&*store, name).await?;
            Some((store, metadata))
        }
    };
    let workspace = match &continued {
        None => Some(path_text(config::workspace(args.workspace.as_deref())?)),
        Some((_, metadata)) => continued_workspace(metadata, args)?,
    };
    let mut settings = load(workspace.as_deref())?;
    let engine = engine_choice::choose(&mut settings, &environment).await?;
    let registry = assembly::registry(&settings)?;
    let engine = assembly::engine_id(&engine, &registry)?;
    super::models::prepare(&registry, &engine, &settings, args, console).await?;
    let bound = match &continued {
        Some((_, metadata)) => bound_workspace(metadata),
        None => assembly::bound_workspace(&settings, &registry, workspace.as_deref())?,
    };
    let (store, id) = match continued {
        Some((store, metadata)) => (store, Some(metadata.id)),
        None => (assembly::store(&settings, &registry).await?, None),
    };
    let runtime = assembly::runtime(&settings, registry, store)?;
    let thread = match id {
        Some(id) => Some(runtime.open_thread(&id).await?),
        None => None,
    };
    Ok(Parts {
        runtime,
        settings,
        engine,
        workspace,
        bound,
        thread,
    })
}

/// The settings of a command that has no workspace.
pub(crate) fn settings(place: &PlaceArgs) -> Outcome<Settings> {
    let environment = Environment::of_process();
    let sources = Sources {
        place,
        environment: &environment,
        workspace: None,
        flags: Layer::default(),
    };
    let mut settings = Settings::load(sources)?;
    engine_choice::equip(&mut settings, &environment)?;
    Ok(settings)
}

/// A store, opened by a command that has no workspace.
pub(crate) async fn open_store(place: &PlaceArgs) -> Outcome<(Settings, Arc<dyn ThreadStore>)> {
    let settings = settings(place)?;
    let store = assembly::store(&settings, &assembly::registry(&settings)?).await?;
    Ok((settings, store))
}

/// The thread of that id; `last` is the one changed last.
pub(crate) async fn find_thread(store: &dyn ThreadStore, name: &str) -> Outcome<ThreadMetadata> {
    if name == "last" {
        let page = store.list(ListThreads::default().limit(1)).await?;
        return page
            .threads
            .into_iter()
            .next()
            .ok_or_else(|| Failure::usage("there is no thread yet"));
    }
    let id = ThreadId::new(name).map_err(Failure::usage)?;
    store
        .metadata(&id)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::usage(format!(
                "there is no thread `{id}`; `haft threads list` shows those there are"
            )),
            _ => error.into(),
        })
}

/// A thread stays where it began: its history speaks of the files there.
fn continued_workspace(metadata: &ThreadMetadata, args: &TurnArgs) -> Outcome<Option<String>> {
    let stored = metadata
        .extra
        .get(WORKSPACE)
        .filter(|_| !metadata.extra.contains_key(BINDING))
        .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let Some(named) = &args.workspace else {
        return Ok(stored);
    };
    let named = path_text(config::workspace(Some(named))?);
    match stored {
        Some(stored) if stored == named => Ok(Some(stored)),
        other => {
            let place = other.map_or("no local folder".to_owned(), |stored| stored);
            Err(Failure::usage(format!(
                "the thread {} works in {place}, not in {named}; leave --workspace out, or begin \
                 a new thread",
                metadata.id
            )))
        }
    }
}

/// Where a thread works that is bound elsewhere.
fn bound_workspace(metadata: &ThreadMetadata) -> Option<String> {
    let binding = metadata.extra.get(BINDING)?;
    let binding: haft_api::Binding = serde_json::from_str(binding.get()).ok()?;
    Some(binding.workspace)
}

fn path_text(path: PathBuf) -> String {
    // Refused before if it isn't UTF-8.
    path.to_string_lossy().into_owned()
}
