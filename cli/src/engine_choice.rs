//! Which engine serves where none was chosen: the first one that is ready.

mod probe;

use crate::config::{self, Environment, Settings};
use crate::failure::{Failure, Outcome};

pub(crate) use probe::local_servers;

/// The extension and the engine that speak OpenAI's wire.
const OPENAI_EXTENSION: &str = "engine-openai";
const OPENAI: &str = "openai";
/// The extension and the engine of the embedded model.
const LOCAL_EXTENSION: &str = "engine-local";
const LOCAL: &str = "local";

/// Gives the extensions what they need of the environment and of Haft's own
/// folder.
pub(crate) fn equip(settings: &mut Settings, environment: &Environment) -> Outcome<()> {
    if cfg!(feature = "engine-openai") {
        if let Some(url) = environment.text("OPENAI_BASE_URL")? {
            settings.set(OPENAI_EXTENSION, "base_url", url);
        }
        // The engine reads it itself: no secret passes through here.
        let named = ["api_key", "api_key_env"]
            .iter()
            .any(|key| settings.has(OPENAI_EXTENSION, key));
        if environment.has("OPENAI_API_KEY") && !named {
            settings.set(OPENAI_EXTENSION, "api_key_env", "OPENAI_API_KEY");
        }
        // A library reads no environment; a command does, as all others do.
        settings.set_default(OPENAI_EXTENSION, "proxy", "environment");
    }
    if cfg!(feature = "engine-local") {
        let home = settings.home.to_string_lossy().into_owned();
        settings.set_default(LOCAL_EXTENSION, "home", home);
    }
    if cfg!(feature = "runner-local") {
        // Threads, keys in the configuration: nothing of a command's.
        let home = settings.home.to_string_lossy().into_owned();
        settings.push(config::RUNNER_EXTENSION, "hide", home);
    }
    Ok(())
}

/// The engine that serves: the chosen one; one with a key or an address; a
/// server on a usual port of this machine; the embedded one.
pub(crate) async fn choose(settings: &mut Settings, environment: &Environment) -> Outcome<String> {
    let engine = match settings.engine.clone() {
        Some(engine) => engine,
        None => first_ready(settings, environment).await?,
    };
    // The embedded engine is asked whether this very model is ready.
    let embedded = cfg!(feature = "engine-local") && engine == LOCAL;
    if let Some(model) = settings.model.clone().filter(|_| embedded) {
        settings.set(LOCAL_EXTENSION, "model", model);
    }
    Ok(engine)
}

async fn first_ready(settings: &mut Settings, environment: &Environment) -> Outcome<String> {
    if cfg!(feature = "engine-openai") {
        if is_configured(settings, environment) {
            return Ok(OPENAI.to_owned());
        }
        if let Some(server) = local_servers().await.into_iter().next() {
            settings.set(OPENAI_EXTENSION, "base_url", server.base_url());
            return Ok(OPENAI.to_owned());
        }
    }
    if cfg!(feature = "engine-local") {
        return Ok(LOCAL.to_owned());
    }
    Err(Failure::usage(
        "no engine is chosen, and none is ready; `haft engines` says why",
    ))
}

/// Whether the engine `openai` has a key or an address.
fn is_configured(settings: &Settings, environment: &Environment) -> bool {
    let variables = ["OPENAI_API_KEY", "OPENAI_BASE_URL"];
    let keys = ["base_url", "api_key", "api_key_env"];
    variables.iter().any(|name| environment.has(name))
        || keys.iter().any(|key| settings.has(OPENAI_EXTENSION, key))
}
