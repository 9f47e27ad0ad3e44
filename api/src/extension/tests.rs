use super::*;
use crate::{ToolRegistry, async_trait};

struct Named(ExtensionId);

#[async_trait]
impl PolicyContributor for Named {
    fn id(&self) -> &ExtensionId {
        &self.0
    }
    async fn review(&self, _: crate::PolicyRequest) -> Result<crate::Decision> {
        Ok(crate::Decision::Allow)
    }
}

struct NoTools;

impl ToolContributor for NoTools {
    fn contribute(&self, _: &mut ToolRegistry) -> Result<()> {
        Ok(())
    }
}

struct Fixture {
    id: &'static str,
    api_version: &'static str,
    register: fn(&mut ExtensionRegistryBuilder) -> Result<()>,
}

impl Fixture {
    fn new(id: &'static str, register: fn(&mut ExtensionRegistryBuilder) -> Result<()>) -> Self {
        Self {
            id,
            api_version: API_VERSION,
            register,
        }
    }
}

impl Extension for Fixture {
    fn manifest(&self) -> Result<Manifest> {
        let mut manifest = Manifest::new(self.id, "1.0.0", "a fixture")?;
        manifest.api_version = self.api_version.to_owned();
        Ok(manifest)
    }
    fn register(&self, _: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
        (self.register)(to)
    }
}

fn policy(id: &str) -> Arc<dyn PolicyContributor> {
    Arc::new(Named(ExtensionId::new(id).unwrap()))
}

fn add(builder: &mut ExtensionRegistryBuilder, fixture: &Fixture) -> Result<()> {
    builder.extension(fixture, &ExtensionConfig::empty())
}

#[test]
fn order_of_registration_leaves_no_trace() {
    let one = Fixture::new("one", |to| {
        to.policy(policy("z"));
        Ok(())
    });
    let two = Fixture::new("two", |to| {
        to.policy(policy("a"));
        Ok(())
    });
    for order in [[&one, &two], [&two, &one]] {
        let mut builder = ExtensionRegistryBuilder::new();
        order
            .iter()
            .try_for_each(|fixture| add(&mut builder, fixture))
            .unwrap();
        let registry = builder.build().unwrap();
        let ids: Vec<_> = registry
            .policies()
            .iter()
            .map(|p| p.part.id().to_string())
            .collect();
        assert_eq!(ids, ["a", "z"]);
        let ids: Vec<_> = registry
            .manifests()
            .iter()
            .map(|m| m.id.to_string())
            .collect();
        assert_eq!(ids, ["one", "two"]);
    }
}

#[test]
fn a_failing_extension_registers_nothing_and_is_named() {
    let check = |register: fn(&mut ExtensionRegistryBuilder) -> Result<()>, word: &str| {
        let mut builder = ExtensionRegistryBuilder::new();
        add(
            &mut builder,
            &Fixture::new("first", |to| {
                to.policy(policy("taken"));
                Ok(())
            }),
        )
        .unwrap();
        let error = add(&mut builder, &Fixture::new("bad", register)).unwrap_err();
        assert_eq!(error.context_value("extension"), Some("bad"));
        assert!(error.to_string().contains(word), "{error}");
        let registry = builder.build().unwrap();
        assert_eq!(registry.policies().len(), 1);
        assert!(registry.tools().is_empty());
        assert_eq!(registry.manifests().len(), 1);
    };
    check(
        |to| {
            to.tools(Arc::new(NoTools));
            Err(Error::new(ErrorKind::InvalidInput, "no such key"))
        },
        "no such key",
    );
    check(
        |to| {
            to.tools(Arc::new(NoTools));
            panic!("boom")
        },
        "boom",
    );
    check(
        |to| {
            to.policy(policy("taken"));
            Ok(())
        },
        "two parts of one id (policy)",
    );
}

#[test]
fn ids_and_api_versions_are_checked() {
    let mut builder = ExtensionRegistryBuilder::new();
    let nothing: fn(&mut ExtensionRegistryBuilder) -> Result<()> = |_| Ok(());
    add(&mut builder, &Fixture::new("same", nothing)).unwrap();
    let error = add(&mut builder, &Fixture::new("same", nothing)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let old = Fixture {
        id: "old",
        api_version: "99.0.0",
        register: nothing,
    };
    let error = add(&mut builder, &old).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.context_value("offered"), Some("99.0.0"));
}

#[test]
fn compatibility_is_semantic_versionings() {
    let check = |offered, wanted, expected| {
        assert_eq!(
            compatible(offered, wanted),
            expected,
            "{offered} for {wanted}"
        );
    };
    check("0.1.0", "0.1.9", true);
    check("0.1.0", "0.2.0", false);
    check("1.2.3", "1.9.0", true);
    check("2.0.0", "1.9.0", false);
    check("1.0.0-rc.1", "1.0.0", true);
    check("", "1.0.0", false);
    check("garbage", "1.0.0", false);
}
