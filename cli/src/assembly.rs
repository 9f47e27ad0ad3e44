//! From settings to a runtime.

use std::sync::Arc;

use haft::core::FallbackEngine;
use haft::{Registry, Runtime, RuntimeOptions, StoreOptions};
use haft_api::{ErrorKind, ExtensionConfig, ExtensionId, RemoteRunnerProvider, ThreadStore};

use crate::config::{Settings, explain, nearest};
use crate::failure::{Failure, Outcome};
use crate::plugins;

/// The runner that works in local folders.
pub(crate) const LOCAL_RUNNER: &str = "local";

/// Registers what is linked and what the user named, each extension with its
/// settings.
pub(crate) fn registry(settings: &Settings) -> Outcome<Registry> {
    let mut builder = haft::builder();
    let linked = builder.manifests()?;
    let loaded: Vec<_> = plugins::load(&settings.plugins)?
        .into_iter()
        .map(|extension| Ok((extension.manifest()?, extension)))
        .collect::<haft_api::Result<_>>()?;
    let twice =
        |(manifest, _): &&(haft_api::Manifest, _)| linked.iter().any(|m| m.id == manifest.id);
    if let Some((manifest, _)) = loaded.iter().find(twice) {
        return Err(Failure::usage(format!(
            "a shared object brings the extension `{}`, which this program has already; take it \
             out of the configuration or off the command line",
            manifest.id
        )));
    }
    let manifests = linked
        .iter()
        .chain(loaded.iter().map(|(manifest, _)| manifest));
    settings.check_extensions(manifests.map(|manifest| manifest.id.as_str()))?;
    let mut configs = std::collections::BTreeMap::new();
    for (id, config) in settings.extensions()? {
        if linked.iter().any(|manifest| manifest.id == *id) {
            builder = builder.configure(id, config);
        } else {
            configs.insert(id, config);
        }
    }
    let mut registry = builder.register().map_err(refused)?;
    for (manifest, extension) in &loaded {
        let config = configs.remove(manifest.id.as_str());
        let config = config.unwrap_or_else(ExtensionConfig::empty);
        registry.extension(&**extension, &config).map_err(refused)?;
    }
    registry.build().map_err(refused)
}

/// An extension's complaint, as one about the configuration where it is.
fn refused(error: haft_api::Error) -> Failure {
    let extension = error.context_value("extension").unwrap_or("?");
    match error.kind() {
        ErrorKind::InvalidInput => {
            let why = explain(&error.to_string());
            Failure::usage(format!("the configuration's `ext.{extension}`: {why}"))
        }
        _ => error.into(),
    }
}

/// Opens the store that was chosen.
pub(crate) async fn store(
    settings: &Settings,
    registry: &Registry,
) -> Outcome<Arc<dyn ThreadStore>> {
    let factory = registry.store(&settings.store).ok_or_else(|| {
        let known = registry
            .stores()
            .iter()
            .map(|store| store.part.id().as_str());
        unknown("store", &settings.store, known)
    })?;
    let home = settings.home.to_string_lossy();
    Ok(factory.open(StoreOptions::new(home)).await?)
}

/// Makes the runtime.
pub(crate) fn runtime(
    settings: &Settings,
    registry: Registry,
    store: Arc<dyn ThreadStore>,
) -> Outcome<Runtime> {
    let runner = runner(settings, &registry)?.id().clone();
    let mut options = RuntimeOptions::default();
    options.local_runner = Some(runner);
    options.spill_dir = Some(settings.home.join("spill"));
    options.fallbacks = fallbacks(settings, &registry)?;
    if let Some(share) = settings.compact_at {
        options.compact_at = share;
    }
    Ok(Runtime::builder(registry).options(options).build(store)?)
}

/// The engines to fall back on.
fn fallbacks(settings: &Settings, registry: &Registry) -> Outcome<Vec<FallbackEngine>> {
    let fallback = |name: &String| {
        let (engine, model) = match name.split_once(':') {
            Some((engine, model)) => (engine, Some(model.to_owned())),
            None => (name.as_str(), None),
        };
        let engine = engine_id(engine, registry)?;
        Ok(FallbackEngine { engine, model })
    };
    settings.fallback.iter().map(fallback).collect()
}

/// The runner that was chosen.
pub(crate) fn runner<'r>(
    settings: &Settings,
    registry: &'r Registry,
) -> Outcome<&'r Arc<dyn RemoteRunnerProvider>> {
    registry.runner(&settings.runner).ok_or_else(|| {
        let known = registry
            .runners()
            .iter()
            .map(|runner| runner.part.id().as_str());
        unknown("runner", &settings.runner, known)
    })
}

/// The folder that tools work in where the runner is another than the local one:
/// the runner's own, else the one that was named here.
pub(crate) fn bound_workspace(
    settings: &Settings,
    registry: &Registry,
    named: Option<&str>,
) -> Outcome<Option<String>> {
    if settings.runner == LOCAL_RUNNER {
        return Ok(None);
    }
    let own = runner(settings, registry)?.default_workspace();
    Ok(own.or_else(|| named.map(str::to_owned)))
}

/// The id of an engine that is there.
pub(crate) fn engine_id(name: &str, registry: &Registry) -> Outcome<ExtensionId> {
    match registry.engine(name) {
        Some(engine) => Ok(engine.id().clone()),
        None => {
            let known = registry
                .engines()
                .iter()
                .map(|engine| engine.part.id().as_str());
            Err(unknown("engine", name, known))
        }
    }
}

fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Failure {
    let known: Vec<_> = known.collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? There are {}", known.join(", ")),
        None if known.is_empty() => format!("this program has no {what} at all"),
        None => format!("there are {}", known.join(", ")),
    };
    Failure::usage(format!("there is no {what} `{name}`; {hint}"))
}
