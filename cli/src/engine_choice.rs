//! Which engine serves where none was chosen: the first one that is ready.

mod probe;

use crate::config::{self, Environment, Settings};
use crate::failure::{Failure, Outcome};

pub(crate) use probe::local_servers;

/// An engine over a provider's wire, and what chooses it.
struct Remote {
    engine: &'static str,
    extension: &'static str,
    /// The variable that says where the server is.
    base_url: &'static str,
    /// The variable that holds the key.
    api_key: &'static str,
}

/// In the order in which they are preferred.
const REMOTE: &[Remote] = &[
    #[cfg(feature = "engine-anthropic")]
    Remote {
        engine: "anthropic",
        extension: "engine-anthropic",
        base_url: "ANTHROPIC_BASE_URL",
        api_key: "ANTHROPIC_API_KEY",
    },
    #[cfg(feature = "engine-openai")]
    Remote {
        engine: OPENAI,
        extension: OPENAI_EXTENSION,
        base_url: "OPENAI_BASE_URL",
        api_key: "OPENAI_API_KEY",
    },
];

/// The extension and the engine that servers of this machine are reached by.
const OPENAI_EXTENSION: &str = "engine-openai";
const OPENAI: &str = "openai";
/// The extension and the engine of the embedded model.
const LOCAL_EXTENSION: &str = "engine-local";
const LOCAL: &str = "local";

/// Gives the extensions what they need of the environment and of Haft's own
/// folder.
pub(crate) fn equip(settings: &mut Settings, environment: &Environment) -> Outcome<()> {
    for remote in REMOTE {
        if let Some(url) = environment.text(remote.base_url)? {
            settings.set(remote.extension, "base_url", url);
        }
        // The engine reads it itself: no secret passes through here.
        let named = ["api_key", "api_key_env"]
            .iter()
            .any(|key| settings.has(remote.extension, key));
        if environment.has(remote.api_key) && !named {
            settings.set(remote.extension, "api_key_env", remote.api_key);
        }
        // A library reads no environment; a command does, as all others do.
        settings.set_default(remote.extension, "proxy", "environment");
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

/// The engine that serves: the chosen one; one that is configured, or has a key or an
/// address in the environment; a server on a usual port of this machine; the embedded one.
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
    let configured = REMOTE
        .iter()
        .find(|r| r.is_configured(settings, environment));
    let has_variable = |r: &&Remote| [r.api_key, r.base_url].iter().any(|v| environment.has(v));
    if let Some(remote) = configured.or_else(|| REMOTE.iter().find(has_variable)) {
        return Ok(remote.engine.to_owned());
    }
    if cfg!(feature = "engine-openai")
        && let Some(server) = local_servers().await.into_iter().next()
    {
        settings.set(OPENAI_EXTENSION, "base_url", server.base_url());
        return Ok(OPENAI.to_owned());
    }
    if cfg!(feature = "engine-local") {
        return Ok(LOCAL.to_owned());
    }
    Err(Failure::usage(
        "no engine is chosen, and none is ready; `haft engines` says why",
    ))
}

impl Remote {
    /// Whether a file gives it a key or an address, and not just the environment.
    fn is_configured(&self, settings: &Settings, environment: &Environment) -> bool {
        let has = |key| settings.has(self.extension, key);
        has("api_key")
            || (has("api_key_env") && !environment.has(self.api_key))
            || (has("base_url") && !environment.has(self.base_url))
    }
}
