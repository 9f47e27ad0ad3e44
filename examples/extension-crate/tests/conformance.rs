//! Each part keeps every promise of its trait.

use std::sync::Arc;

use extension_crate::Example;
use haft_api::{
    Binding, Destination, DestinationId, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder,
    Registry, StoreOptions, raw_json,
};
use haft_testkit::RunnerFixture;

fn registry(config: &str) -> Registry {
    let mut builder = ExtensionRegistryBuilder::new();
    let config = ExtensionConfig::from_json(config).unwrap();
    builder.extension(&Example, &config).unwrap();
    builder.build().unwrap()
}

mod store {
    use super::*;

    haft_testkit::store_conformance!(|| {
        let factory = Arc::clone(registry("{}").store("ephemeral").unwrap());
        move || {
            let factory = Arc::clone(&factory);
            async move { factory.open(StoreOptions::new("/nowhere")).await }
        }
    });
}

mod runner {
    use super::*;

    haft_testkit::runner_conformance!(|| {
        let provider = Arc::clone(registry("{}").runner("scratch").unwrap());
        let binding = Binding {
            destination: Destination {
                id: DestinationId::new("here").unwrap(),
                provider_id: ExtensionId::new("scratch").unwrap(),
                config: raw_json("{}").unwrap(),
                manifest: None,
            },
            workspace: "/scratch".to_owned(),
            read_roots: Vec::new(),
        };
        RunnerFixture::new(provider, binding)
    });
}
