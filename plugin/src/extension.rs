//! An extension of a plug-in, for the host.

use std::fmt;
use std::sync::Arc;

use haft_api::boundary::wire::{
    ContributedEngine, ContributedPart, ContributedRunner, ContributedSink, ContributedTools,
    ContributionKind, RegisterArgs, Registered,
};
use haft_api::boundary::{Link, LogLevel, MessageRef, Remote};
use haft_api::{
    Extension, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder, Manifest, Result,
};
use serde::de::DeserializeOwned;

use crate::lend::Lender;
use crate::proxy;

/// One extension of a plug-in. It is registered like one that is linked in.
pub struct PluginExtension {
    manifest: Manifest,
    link: Arc<Link>,
    lender: Lender,
}

impl PluginExtension {
    pub(crate) fn new(manifest: Manifest, link: Arc<Link>, lender: Lender) -> Self {
        Self {
            manifest,
            link,
            lender,
        }
    }

    pub(crate) fn id(&self) -> &ExtensionId {
        &self.manifest.id
    }
}

impl fmt::Debug for PluginExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginExtension")
            .field("manifest", &self.manifest)
            .field("file", &self.link.name())
            .finish()
    }
}

impl Extension for PluginExtension {
    fn manifest(&self) -> Result<Manifest> {
        Ok(self.manifest.clone())
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        let arguments = RegisterArgs {
            extension: self.manifest.id.clone(),
            config: config.clone(),
        };
        let registered: Registered = self.link.root().now("register", &arguments)?;
        for contribution in &registered.contributions {
            self.add(contribution.get(), registry).map_err(|error| {
                error
                    .operation("read a contribution")
                    .context("plug-in", self.link.name())
            })?;
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T> {
    MessageRef {
        json: json.as_bytes(),
        blob: &[],
    }
    .read()
}

impl PluginExtension {
    fn given(&self, object: u64) -> Remote {
        Remote::given(Arc::clone(&self.link), object)
    }

    fn add(&self, json: &str, registry: &mut ExtensionRegistryBuilder) -> Result<()> {
        let ContributionKind { kind, object } = read(json)?;
        let lender = || self.lender.clone();
        match &*kind {
            "tools" => {
                let ContributedTools { tools } = read(json)?;
                let tools = tools
                    .into_iter()
                    .map(|tool| (self.given(tool.object), tool.spec));
                registry.tools(Arc::new(proxy::Tools::new(tools, &self.lender)));
            }
            "tool_source" => {
                let ContributedPart { object, id } = read(json)?;
                let source = proxy::Source::new(self.given(object), id, lender());
                registry.tool_source(Arc::new(source));
            }
            "engine" => {
                let engine: ContributedEngine = read(json)?;
                let remote = self.given(engine.object);
                registry.engine(Arc::new(proxy::Engine::new(remote, engine)));
            }
            "runner" => {
                let runner: ContributedRunner = read(json)?;
                let remote = self.given(runner.object);
                registry.runner(Arc::new(proxy::Provider::new(remote, runner)));
            }
            "store" => {
                let ContributedPart { object, id } = read(json)?;
                registry.store(Arc::new(proxy::Factory::new(self.given(object), id)));
            }
            "policy" => {
                let ContributedPart { object, id } = read(json)?;
                registry.policy(Arc::new(proxy::Policy::new(self.given(object), id)));
            }
            "event_sink" => {
                let ContributedSink { object } = read(json)?;
                registry.event_sink(Arc::new(proxy::Sink::new(self.given(object))));
            }
            later => {
                // Let go of at once: nobody will call it.
                drop(object.map(|object| self.given(object)));
                let text = format!(
                    "extension {} contributes a `{later}`, which this version doesn't know; \
                     it is left out",
                    self.manifest.id
                );
                self.link.server().log(LogLevel::Warn, &text);
            }
        }
        Ok(())
    }
}
