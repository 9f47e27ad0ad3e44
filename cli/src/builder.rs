//! From the linked extensions to a registry.

use std::collections::{BTreeMap, BTreeSet};

use haft_api::{
    Error, ErrorKind, Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Registry,
    Result, linked_extensions,
};

/// Begins a registry of the extensions that are linked into this program.
pub fn builder() -> Builder {
    Builder::default()
}

/// Registers the linked extensions, each with its settings.
///
/// ```
/// use haft::ExtensionConfig;
///
/// let mut registry = haft::builder();
/// # if cfg!(feature = "engine-replay") {
/// registry = registry
///     .configure("engine-replay", ExtensionConfig::from_json(r#"{"script":"hello.jsonl"}"#)?)
///     .without("engine-local");
/// # }
/// let registry = registry.build()?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    settings: BTreeMap<String, ExtensionConfig>,
    left_out: BTreeSet<String>,
}

impl Builder {
    /// Gives an extension its settings; the last ones given hold.
    #[must_use]
    pub fn configure(mut self, extension: impl Into<String>, settings: ExtensionConfig) -> Self {
        self.settings.insert(extension.into(), settings);
        self
    }

    /// Leaves an extension out. One that isn't linked is left out already.
    #[must_use]
    pub fn without(mut self, extension: impl Into<String>) -> Self {
        self.left_out.insert(extension.into());
        self
    }

    /// What the linked extensions say of themselves, by id, those that are
    /// left out not among them.
    ///
    /// # Errors
    /// If an extension's id isn't a valid one.
    pub fn manifests(&self) -> Result<Vec<Manifest>> {
        let mut manifests: Vec<_> = self.chosen()?.into_iter().map(|(m, _)| m).collect();
        manifests.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(manifests)
    }

    fn chosen(&self) -> Result<Vec<(Manifest, Box<dyn Extension>)>> {
        let mut chosen = Vec::new();
        for linked in linked_extensions() {
            let extension = (linked.make)();
            let manifest = extension
                .manifest()
                .map_err(|e| e.context("package", linked.package))?;
            if !self.left_out.contains(manifest.id.as_str()) {
                chosen.push((manifest, extension));
            }
        }
        Ok(chosen)
    }

    /// Registers the extensions, and returns the builder to which parts and
    /// extensions of the program's own can be added.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for settings of an extension that isn't linked;
    /// what an extension says of its settings.
    pub fn register(self) -> Result<ExtensionRegistryBuilder> {
        let chosen = self.chosen()?;
        let known = |id: &str| chosen.iter().any(|(manifest, _)| manifest.id == *id);
        if let Some(id) = self.settings.keys().find(|id| !known(id)) {
            let ids: Vec<_> = chosen.iter().map(|(m, _)| m.id.as_str()).collect();
            return Err(Error::new(
                ErrorKind::NotFound,
                "there are settings for an extension that isn't linked",
            )
            .operation("register")
            .context("extension", id)
            .context("linked", ids.join(", ")));
        }
        let empty = ExtensionConfig::empty();
        let mut registry = ExtensionRegistryBuilder::new();
        for (manifest, extension) in chosen {
            let settings = self.settings.get(manifest.id.as_str()).unwrap_or(&empty);
            registry.extension(&*extension, settings)?;
        }
        Ok(registry)
    }

    /// Registers the extensions and nothing else.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn build(self) -> Result<Registry> {
        self.register()?.build()
    }
}
