//! An engine's models, from all who know of them.

use std::fmt;
use std::sync::Arc;

use haft_api::{Error, ErrorKind, ModelInfo, Readiness, Result};

use crate::models::{ModelList, ModelSettings};
use crate::transport::Transport;

/// The models of an engine over one server: the default one, those of its
/// settings, and those that the server lists.
///
/// ```
/// use haft_engine_http::{Catalogue, ModelList, ModelSettings, ServerConfig, Transport};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let transport = Transport::new(ServerConfig::new("https://api.example.com/v1", "chat/completions"))?;
/// let models = Catalogue::new(ModelList::new("after"))
///     .hosted(Some("large"))
///     .settings(vec![ModelSettings::new("small")]);
/// assert_eq!(models.model(&transport, None).await?.name, "large");
/// # Ok::<_, haft_api::Error>(()) }).unwrap();
/// ```
pub struct Catalogue {
    listed: ModelList,
    default: Option<String>,
    settings: Vec<ModelSettings>,
    hosted: bool,
    by_name: fn(&mut ModelInfo),
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue")
            .field("default", &self.default)
            .field("settings", &self.settings)
            .field("hosted", &self.hosted)
            .finish_non_exhaustive()
    }
}

impl Catalogue {
    /// The models of some server, which alone knows which they are.
    pub fn new(listed: ModelList) -> Self {
        Self {
            listed,
            default: None,
            settings: Vec::new(),
            hosted: false,
            by_name: |_| (),
        }
    }

    /// The provider's own API: it is always there, and what a model can do is
    /// known without asking. Its default model, unless the settings say another.
    #[must_use]
    pub fn hosted(mut self, default: Option<&str>) -> Self {
        self.hosted = true;
        self.default = self.default.or_else(|| default.map(str::to_owned));
        self
    }

    /// The model where a request names none.
    #[must_use]
    pub fn default_model(mut self, model: Option<String>) -> Self {
        self.default = model.or(self.default);
        self
    }

    /// What the settings say of models.
    #[must_use]
    pub fn settings(mut self, models: Vec<ModelSettings>) -> Self {
        self.settings = models;
        self
    }

    /// What is known of a model by its name. The settings go before it.
    #[must_use]
    pub fn by_name(mut self, complete: fn(&mut ModelInfo)) -> Self {
        self.by_name = complete;
        self
    }

    /// Whether requests can be answered: the provider's own API is ready once
    /// there is a key; any other server is asked whether it is there.
    pub async fn readiness(&self, transport: &Transport) -> Readiness {
        match transport.missing_key() {
            Some(reason) => Readiness::Unavailable { reason },
            None if self.hosted => Readiness::Ready,
            None => transport.readiness().await,
        }
    }

    /// The name of the model where a request names none: the default, or else
    /// the first that the server lists.
    ///
    /// # Errors
    /// Those of the server's list; [`ErrorKind::NotFound`] if that is empty.
    pub async fn default_name(&self, transport: &Transport) -> Result<String> {
        if let Some(model) = &self.default {
            return Ok(model.clone());
        }
        // Boxed, for it is large and rare: every request would carry its room.
        let listed = Box::pin(self.listed.kept(transport)).await?;
        let first = listed.first().map(|model| model.name.clone());
        first.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "the server lists no model: load one there, or name one",
            )
        })
    }

    /// The default model, those of the settings, and those that the server lists
    /// if it can be reached; each once.
    ///
    /// # Errors
    /// Those of the server's list, where no model is known without it.
    pub async fn all(&self, transport: &Transport) -> Result<Vec<ModelInfo>> {
        let settings = self.settings.iter().map(|model| model.name.as_str());
        let known: Vec<&str> = self
            .default
            .as_deref()
            .into_iter()
            .chain(settings)
            .collect();
        let listed = match self.listed.fresh(transport).await {
            Ok(listed) => listed,
            Err(error) if known.is_empty() => return Err(error),
            Err(_) => Arc::default(),
        };
        let mut all: Vec<ModelInfo> = Vec::new();
        let listed_names = listed.iter().map(|info| &*info.name);
        for name in known.into_iter().chain(listed_names) {
            if !all.iter().any(|info| info.name == name) {
                all.push(self.complete(info_of(&listed, name)));
            }
        }
        Ok(all)
    }

    /// What is known of a model; of the default one without a name. A server
    /// that doesn't list it may still have it.
    ///
    /// # Errors
    /// As [`default_name`](Self::default_name).
    pub async fn model(&self, transport: &Transport, name: Option<&str>) -> Result<ModelInfo> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.default_name(transport).await?,
        };
        // What the settings or the names tell needs no question to the server.
        if self.hosted || self.settings.iter().any(|model| model.name == name) {
            return Ok(self.complete(ModelInfo::new(name)));
        }
        let listed = self.listed.kept(transport).await.unwrap_or_default();
        Ok(self.complete(info_of(&listed, &name)))
    }

    /// Adds what is known of a model from elsewhere.
    fn complete(&self, mut info: ModelInfo) -> ModelInfo {
        (self.by_name)(&mut info);
        if let Some(known) = self.settings.iter().find(|m| m.name == info.name) {
            known.apply(&mut info);
        }
        info
    }
}

fn info_of(listed: &[ModelInfo], name: &str) -> ModelInfo {
    let info = listed.iter().find(|info| info.name == name);
    info.cloned().unwrap_or_else(|| ModelInfo::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ServerConfig;

    /// A server that isn't there.
    fn nowhere() -> Transport {
        Transport::new(ServerConfig::new(
            "http://127.0.0.1:9/v1",
            "chat/completions",
        ))
        .unwrap()
    }

    fn catalogue() -> Catalogue {
        Catalogue::new(ModelList::new("after"))
    }

    fn sized(name: &str, tokens: u64) -> ModelSettings {
        let mut model = ModelSettings::new(name);
        model.context_tokens = Some(tokens);
        model
    }

    #[tokio::test]
    async fn what_is_known_here_needs_no_server() {
        let models = catalogue()
            .default_model(Some("a".to_owned()))
            .settings(vec![sized("b", 7), ModelSettings::new("a")]);
        let all = models.all(&nowhere()).await.unwrap();
        let names: Vec<_> = all.iter().map(|info| &*info.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(models.default_name(&nowhere()).await.unwrap(), "a");
        let b = models.model(&nowhere(), Some("b")).await.unwrap();
        assert_eq!(b.context_tokens, Some(7));
    }

    #[tokio::test]
    async fn without_any_model_the_servers_failure_is_told() {
        let models = catalogue();
        for failed in [
            models.all(&nowhere()).await.map(drop),
            models.default_name(&nowhere()).await.map(drop),
            models.model(&nowhere(), None).await.map(drop),
        ] {
            assert_eq!(failed.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        // Named, it may be there all the same.
        let named = models.model(&nowhere(), Some("x")).await.unwrap();
        assert_eq!(named.name, "x");
    }

    #[tokio::test]
    async fn names_tell_of_a_hosted_model_and_settings_go_before() {
        let models = catalogue()
            .default_model(Some("mine".to_owned()))
            .hosted(Some("theirs"))
            .settings(vec![sized("b", 7)])
            .by_name(|info| info.context_tokens = Some(1));
        for (name, expected, tokens) in
            [(None, "mine", 1), (Some("b"), "b", 7), (Some("c"), "c", 1)]
        {
            let info = models.model(&nowhere(), name).await.unwrap();
            assert_eq!((&*info.name, info.context_tokens), (expected, Some(tokens)));
        }
        assert!(matches!(
            models.readiness(&nowhere()).await,
            Readiness::Ready
        ));
    }
}
