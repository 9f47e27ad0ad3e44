//! An extension, wherever its code is.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Registry, linked_extensions,
};
use haft_plugin::{LoadOptions, Plugin, PluginStats, load};

/// What running the suites may fail with: a text for people.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long what a suite left on its way may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// The extension that is tested. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Host {
    extension: Arc<dyn Extension>,
    plugin: Option<(Arc<Plugin>, PluginStats)>,
}

/// An extension to be handed on.
struct Shared(Arc<dyn Extension>);

impl Extension for Shared {
    fn manifest(&self) -> haft_api::Result<Manifest> {
        self.0.manifest()
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> haft_api::Result<()> {
        self.0.register(config, registry)
    }
}

/// The one extension of a plug-in.
struct Loaded(Arc<Plugin>);

impl Loaded {
    fn extension(&self) -> &dyn Extension {
        let first = self.0.extensions().next();
        first.expect("a plug-in without an extension isn't loaded")
    }
}

impl Extension for Loaded {
    fn manifest(&self) -> haft_api::Result<Manifest> {
        self.extension().manifest()
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> haft_api::Result<()> {
        self.extension().register(config, registry)
    }
}

impl Host {
    /// The extension of a package that is linked into this program.
    pub(crate) fn linked(package: &str) -> Result<Self> {
        let all = linked_extensions();
        let found = all.iter().find(|linked| linked.package == package);
        let found = found.ok_or_else(|| format!("{package} isn't linked into this program"))?;
        Ok(Self {
            extension: Arc::from((found.make)()),
            plugin: None,
        })
    }

    /// The extension of a shared object.
    pub(crate) fn loaded(path: &Path) -> Result<Self> {
        let plugin = Arc::new(load(path, &LoadOptions::default())?);
        let ids: Vec<_> = plugin
            .extensions()
            .map(|extension| Ok(extension.manifest()?.id.to_string()))
            .collect::<haft_api::Result<_>>()?;
        if ids.len() != 1 {
            let ids = ids.join(", ");
            return Err(format!("{} has several extensions: {ids}", path.display()).into());
        }
        let stats = plugin.stats();
        Ok(Self {
            extension: Arc::new(Loaded(Arc::clone(&plugin))),
            plugin: Some((plugin, stats)),
        })
    }

    /// The extension itself.
    pub(crate) fn extension(&self) -> impl Extension + use<> {
        Shared(Arc::clone(&self.extension))
    }

    /// The extension's parts, registered anew with these settings.
    pub(crate) fn registry(&self, config: &str) -> Registry {
        let config = ExtensionConfig::from_json(config).expect("settings of a subject");
        let mut builder = ExtensionRegistryBuilder::new();
        let registered = builder.extension(&*self.extension, &config);
        registered.unwrap_or_else(|error| panic!("can't be registered: {error}"));
        builder.build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until the boundary holds as little as before the first suite.
    pub(crate) async fn at_rest(&self) -> Result<()> {
        let Some((plugin, before)) = &self.plugin else {
            return Ok(());
        };
        let began = Instant::now();
        loop {
            let now = plugin.stats();
            if now == *before {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("left behind at the boundary: {now:?}, not {before:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
