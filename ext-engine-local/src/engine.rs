//! The engine `local`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_api::{
    EngineRequest, EngineStream, Error, ErrorKind, ExtensionId, InferenceEngine, ModelInfo,
    Readiness, Result, async_trait,
};
use haft_ext_engine_openai::{OpenAiConfig, OpenAiEngine};

use crate::model::{ModelName, WeightsFile};
use crate::profile;
use crate::provision::{LocalModels, find_python};
use crate::server::{ServerSettings, ServerUse, Servers};
use crate::settings::{LocalSettings, ServerChoice};
use crate::stream;

/// The engine's id.
pub const ENGINE_ID: &str = "local";

/// What a user should know when the default model is about to run.
pub const TINY_MODEL_HINT: &str = "this is a tiny model (135M parameters) that shows the machinery \
     and isn't good for work: choose a real one with `--engine` and `--model`, \
     or give the path of a larger .gguf file as `--model`";

/// Tokens of context where the settings don't say.
const SMALL_CONTEXT: u32 = 4_096;
const LARGE_CONTEXT: u32 = 16_384;

/// A slow machine may take minutes to read a long prompt before its first word.
const SILENCE: Duration = Duration::from_secs(1_800);

/// Runs a model on this machine, in a llama.cpp server that it supervises.
///
/// The server is started at the first request, shared by all that want the same
/// model, and dead when this is dropped or the process ends in whatever way.
pub struct LocalEngine {
    id: ExtensionId,
    settings: LocalSettings,
    models: LocalModels,
    servers: Servers,
}

impl LocalEngine {
    /// An engine with these settings. Touches nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for settings that can't be.
    pub fn new(settings: LocalSettings) -> Result<Self> {
        for (key, value) in [
            ("threads", settings.threads),
            ("context_tokens", settings.context_tokens),
        ] {
            if value == Some(0) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!("`{key}` can't be 0"),
                ));
            }
        }
        let mut models = match &settings.home {
            Some(home) => LocalModels::new(absolute(home)?),
            None => LocalModels::without_home(),
        };
        if let Some(python) = &settings.python {
            models = models.with_python(python);
        }
        models = match &settings.server {
            ServerChoice::Auto => models,
            ServerChoice::Fetched => models.without_native_server(),
            ServerChoice::Program(program) => models.with_native_server(absolute(program)?),
        };
        let idle = settings.idle_shutdown_seconds;
        let servers = Servers::new(
            Duration::from_secs(settings.start_timeout_seconds),
            (idle > 0).then(|| Duration::from_secs(idle)),
        );
        Ok(Self {
            id: ExtensionId::new(ENGINE_ID)?,
            settings,
            models,
            servers,
        })
    }

    fn name_of(&self, name: Option<&str>) -> ModelName {
        let name = name.or(self.settings.model.as_deref());
        ModelName::parse(name.unwrap_or_else(|| self.models.default_model()))
    }

    /// The weights of a model and the server's settings, with everything that
    /// was missing fetched.
    async fn prepare(&self, name: &ModelName) -> Result<(WeightsFile, ServerSettings)> {
        let path = match name {
            ModelName::Catalog(name) => {
                let missing = self.models.find(name)?.missing_bytes;
                self.may_fetch(missing, name)?;
                self.models.get(name, &|_| {}).await?
            }
            ModelName::File(path) => {
                // Before anything is fetched for a file that can't be run.
                WeightsFile::open(path)?;
                self.may_fetch(
                    self.models.missing_server_bytes(),
                    &path.display().to_string(),
                )?;
                self.models.get_server(&|_| {}).await?;
                path.clone()
            }
        };
        let weights = WeightsFile::open(&path)?;
        let program = self.models.server_program().ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                "the model server vanished after it was set up",
            )
        })?;
        let settings = ServerSettings {
            program,
            model: weights.path.clone(),
            threads: self.threads(&weights),
            context_tokens: self.context_tokens(&weights),
        };
        Ok((weights, settings))
    }

    fn may_fetch(&self, missing: u64, model: &str) -> Result<()> {
        let why = if missing == 0 {
            return Ok(());
        } else if self.settings.home.is_none() {
            "there is no home folder to fetch it into: set `home`, \
             or put `llama-server` on the PATH and give the path of a .gguf file"
        } else if !self.settings.download {
            "it has to be fetched first, with `haft models get`"
        } else {
            return Ok(());
        };
        let message = format!(
            "{} are missing to run this model, and {why}",
            megabytes(missing)
        );
        Err(Error::new(ErrorKind::Unavailable, message)
            .permanent()
            .context("model", model))
    }

    fn threads(&self, weights: &WeightsFile) -> u32 {
        self.settings.threads.unwrap_or_else(|| {
            if weights.is_small(self.settings.profile) {
                return 1;
            }
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            u32::try_from(processors / 2).unwrap_or(1).max(1)
        })
    }

    fn context_tokens(&self, weights: &WeightsFile) -> u32 {
        let small = weights.is_small(self.settings.profile);
        let usual = if small { SMALL_CONTEXT } else { LARGE_CONTEXT };
        self.settings.context_tokens.unwrap_or(usual)
    }

    async fn ask(
        &self,
        server: ServerUse,
        request: EngineRequest,
        small: bool,
    ) -> Result<EngineStream> {
        let mut config = OpenAiConfig::new(server.base_url());
        config.api_key = Some(server.key().to_owned());
        config.idle_timeout_ms = u64::try_from(SILENCE.as_millis()).unwrap_or(u64::MAX);
        config.max_tokens_field = Some("max_tokens".to_owned());
        let mut sent = request;
        let mut is_call = false;
        if small {
            let plan = profile::plan(&sent)?;
            sent = plan.request;
            if let Some(grammar) = plan.grammar {
                is_call = true;
                config
                    .extra_body
                    .insert("grammar".to_owned(), grammar.into());
            }
        }
        // The server has one model, whatever it is called.
        sent.model = Some(ENGINE_ID.to_owned());
        let stream = match OpenAiEngine::new(self.id.clone(), config)?
            .stream_turn(sent)
            .await
        {
            Ok(stream) => stream,
            Err(error) => return Err(server.explain(error).await),
        };
        let stream = stream::hold(stream, server);
        Ok(if is_call {
            stream::read_calls(stream)
        } else {
            stream
        })
    }
}

#[async_trait]
impl InferenceEngine for LocalEngine {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn readiness(&self) -> Readiness {
        let name = self.name_of(None);
        let (missing, what) = match &name {
            ModelName::Catalog(name) => match self.models.find(name) {
                Ok(status) => (status.missing_bytes, name.clone()),
                Err(error) => {
                    return Readiness::Unavailable {
                        reason: error.to_string(),
                    };
                }
            },
            ModelName::File(path) => {
                if let Err(error) = WeightsFile::open(path) {
                    return Readiness::Unavailable {
                        reason: error.to_string(),
                    };
                }
                (
                    self.models.missing_server_bytes(),
                    path.display().to_string(),
                )
            }
        };
        if missing == 0 {
            return Readiness::Ready;
        }
        if let Err(error) = self.may_fetch(missing, &what) {
            return Readiness::Unavailable {
                reason: error.to_string(),
            };
        }
        if let Err(error) = find_python(self.settings.python.as_deref()).await {
            return Readiness::Unavailable {
                reason: error.message().to_owned(),
            };
        }
        Readiness::NeedsSetup {
            reason: format!("{} have to be downloaded to run {what}", megabytes(missing)),
            download_bytes: Some(missing),
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>> {
        let default = self.model(None).await?;
        let mut models = vec![default];
        for status in self.models.list() {
            if models.iter().all(|model| model.name != status.name) {
                models.push(self.model(Some(status.name)).await?);
            }
        }
        Ok(models)
    }

    async fn model(&self, name: Option<&str>) -> Result<ModelInfo> {
        let (shown, small) = match self.name_of(name) {
            ModelName::Catalog(name) => {
                // Every model of the catalog is a small one.
                self.models.find(&name)?;
                (name, true)
            }
            ModelName::File(path) => {
                let weights = WeightsFile::open(&path)?;
                (
                    path.to_string_lossy().into_owned(),
                    weights.is_small(self.settings.profile),
                )
            }
        };
        let mut info = ModelInfo::new(shown);
        let usual = if small { SMALL_CONTEXT } else { LARGE_CONTEXT };
        info.context_tokens = Some(self.settings.context_tokens.unwrap_or(usual).into());
        if info.name == self.models.default_model() {
            info.hint = Some(TINY_MODEL_HINT.to_owned());
        }
        Ok(info)
    }

    async fn stream_turn(&self, request: EngineRequest) -> Result<EngineStream> {
        let name = self.name_of(request.model.as_deref());
        let (weights, settings) = self.prepare(&name).await?;
        let server = self.servers.get(&settings).await?;
        self.ask(server, request, weights.is_small(self.settings.profile))
            .await
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|e| Error::io(e, "not a path").context("path", path.display()))
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
