//! Each part keeps every promise of its trait.

use std::sync::Arc;

use extension_crate::Example;
use haft_api::{
    Binding, Destination, DestinationId, ExtensionConfig, ExtensionId, ExtensionRegistryBuilder,
    Registry, StoreOptions, raw_json,
};
use haft_testkit::{EngineFixture, ExtensionFixture, RunnerFixture, SourceFixture, ToolFixture};

fn registry(config: &str) -> Registry {
    let mut builder = ExtensionRegistryBuilder::new();
    let config = ExtensionConfig::from_json(config).unwrap();
    builder.extension(&Example, &config).unwrap();
    builder.build().unwrap()
}

haft_testkit::extension_conformance!(|| ExtensionFixture::new(Example));

haft_testkit::tool_conformance!(|| {
    ToolFixture::new(Arc::clone(&registry("{}").tools()[0].part))
        .example("word_count", r#"{"text":"one two"}"#)
});

haft_testkit::tool_source_conformance!(|| {
    SourceFixture::new(Arc::clone(&registry("{}").tool_sources()[0].part))
        .example("miles_to_km", r#"{"value":2}"#)
});

haft_testkit::engine_conformance!(|| {
    EngineFixture::new(Arc::clone(registry("{}").engine("parrot").unwrap()))
});

haft_testkit::policy_conformance!(|| Arc::clone(&registry("{}").policies()[0].part));

haft_testkit::event_sink_conformance!(|| Arc::clone(&registry("{}").event_sinks()[0].part));

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
