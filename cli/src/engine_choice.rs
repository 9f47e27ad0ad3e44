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

/// The engine that serves: the chosen one; one that is configured, or has a key
/// or an address in the environment; a server on a usual port of this machine;
/// the embedded one.
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
    if let Some(remote) = Remote::chosen(settings, environment) {
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
    /// The one that a file configures, else the one that the environment does.
    fn chosen(settings: &Settings, environment: &Environment) -> Option<&'static Self> {
        let is_named = |r: &&Self| environment.has(r.api_key) || environment.has(r.base_url);
        let mut remote = REMOTE.iter();
        let configured = remote.find(|r| r.is_configured(settings, environment));
        configured.or_else(|| REMOTE.iter().find(is_named))
    }

    /// Whether a file gives it a key or an address, and not just the environment.
    fn is_configured(&self, settings: &Settings, environment: &Environment) -> bool {
        let has = |key| settings.has(self.extension, key);
        has("api_key")
            || (has("api_key_env") && !environment.has(self.api_key))
            || (has("base_url") && !environment.has(self.base_url))
    }
}

#[cfg(test)]
#[cfg(all(feature = "engine-anthropic", feature = "engine-openai"))]
mod tests {
    use super::*;
    use crate::args::PlaceArgs;
    use crate::config::{Layer, Sources};

    fn remote<const N: usize>(config: &str, variables: [(&str, &str); N]) -> Option<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, config).unwrap();
        let place = PlaceArgs {
            home: Some(folder.path().join("home")),
            config: Some(file),
        };
        let environment = Environment::from(variables);
        let mut settings = Settings::load(Sources {
            place: &place,
            environment: &environment,
            workspace: None,
            flags: Layer::default(),
        })
        .unwrap();
        equip(&mut settings, &environment).unwrap();
        Remote::chosen(&settings, &environment).map(|remote| remote.engine)
    }

    #[test]
    fn what_a_file_configures_comes_before_the_environment() {
        let anthropic = Some("anthropic");
        let openai = Some(OPENAI);
        assert_eq!(remote("", []), None);
        assert_eq!(remote("", [("ANTHROPIC_API_KEY", "k")]), anthropic);
        assert_eq!(remote("", [("ANTHROPIC_BASE_URL", "http://x")]), anthropic);
        assert_eq!(remote("", [("OPENAI_API_KEY", "k")]), openai);
        assert_eq!(remote("", [("OPENAI_BASE_URL", "http://x")]), openai);
        let both = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
        assert_eq!(remote("", both), anthropic);
        let url = "[ext.engine-openai]\nbase_url = \"http://x\"\n";
        assert_eq!(remote(url, both), openai);
        let key = "[ext.engine-anthropic]\napi_key_env = \"MY_KEY\"\n";
        assert_eq!(remote(key, [("OPENAI_API_KEY", "k")]), anthropic);
        // A setting that is neither a key nor an address chooses nothing.
        let tokens = "[ext.engine-anthropic]\nmax_tokens = 9\n";
        assert_eq!(remote(tokens, [("OPENAI_API_KEY", "k")]), openai);
    }
}
