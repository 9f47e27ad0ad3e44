//! The suite for [`Extension`]s.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{
    ErrorKind, Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Registry, Result,
    ToolRegistry,
};

use super::Case;
use super::Unmet;
use super::declare::collect_cases;
use super::expect::ok;

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __extension_cases {
    ($callback:path [$($arguments:tt)*]) => {
        $callback! {
            [$($arguments)*]
            the_manifest_is_constant: "the manifest is the same at every call",
            the_manifest_says_what_it_must: "the manifest has a version and a line for people",
            it_brings_something: "registering with the right settings brings at least one part",
            registering_again_gives_the_same: "the same settings give the same parts, to the byte",
            registering_starts_nothing: "registering needs no runtime, and ends at once",
            its_tools_can_be_contributed: "its tools can be contributed, and have names of their own",
            an_unknown_setting_is_refused: "a setting that isn't known is refused as invalid, and named",
        }
    };
}

/// An extension to be tested, and settings that are right for it.
pub struct ExtensionFixture {
    extension: Arc<dyn Extension>,
    config: ExtensionConfig,
}

impl ExtensionFixture {
    /// An extension that needs no settings.
    pub fn new(extension: impl Extension) -> Self {
        Self {
            extension: Arc::new(extension),
            config: ExtensionConfig::empty(),
        }
    }

    /// Gives it these settings, as JSON text.
    ///
    /// # Panics
    /// If the text is no JSON object.
    #[must_use]
    pub fn config(mut self, json: &str) -> Self {
        self.config = ExtensionConfig::from_json(json)
            .unwrap_or_else(|error| panic!("{json} stands in a test as settings: {error}"));
        self
    }
}

impl fmt::Debug for ExtensionFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionFixture")
            .field("manifest", &self.extension.manifest())
            .field("config", &self.config)
            .finish()
    }
}

/// All cases for an extension as a whole. Its parts have suites of their own.
///
/// For one test per case use
/// [`extension_conformance!`](crate::extension_conformance).
pub fn extension_suite(make: impl Fn() -> ExtensionFixture + Send + Sync + 'static) -> Vec<Case> {
    crate::__extension_cases! { collect_cases [make] }
}

/// Declares one test for each promise of an [`Extension`]. The argument makes
/// an [`ExtensionFixture`].
///
/// ```
/// use std::sync::Arc;
/// use haft_api::*;
/// use haft_testkit::{EchoTool, ExtensionFixture, Tools};
///
/// struct Echoes;
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Settings {
///     name: String,
/// }
///
/// impl Extension for Echoes {
///     fn manifest(&self) -> Result<Manifest> {
///         Manifest::new("echoes", "1.0.0", "Says things back")
///     }
///     fn register(&self, config: &ExtensionConfig, to: &mut ExtensionRegistryBuilder) -> Result<()> {
///         let Settings { name } = config.parse()?;
///         to.tools(Arc::new(Tools::new().with(EchoTool::new(&name))));
///         Ok(())
///     }
/// }
///
/// haft_testkit::extension_conformance!(|| {
///     ExtensionFixture::new(Echoes).config(r#"{"name":"echo"}"#)
/// });
/// # #[tokio::main]
/// # async fn main() {
/// # haft_testkit::run_all(extension_conformance::cases()).await.assert_kept();
/// # }
/// ```
#[macro_export]
macro_rules! extension_conformance {
    ($make:expr) => {
        $crate::__extension_cases! {
            $crate::__declare_tests [extension_conformance, $crate::extension_suite, $make]
        }
    };
}

impl ExtensionFixture {
    fn manifest(&self) -> Result<Manifest, Unmet> {
        ok("asking for the manifest", self.extension.manifest())
    }

    fn register(&self, config: &ExtensionConfig) -> Result<Registry> {
        let mut builder = ExtensionRegistryBuilder::new();
        builder.extension(&*self.extension, config)?;
        builder.build()
    }

    fn registered(&self) -> Result<Registry, Unmet> {
        ok("registering", self.register(&self.config))
    }
}

/// Every tool of a registry.
fn tools(registry: &Registry) -> Result<ToolRegistry, Unmet> {
    let mut tools = ToolRegistry::new();
    for contributor in registry.tools() {
        ok(
            "contributing tools",
            contributor.part.contribute(&mut tools),
        )?;
    }
    Ok(tools)
}

/// What a registry is made of, one line a part.
fn parts(registry: &Registry) -> Result<Vec<String>, Unmet> {
    let mut parts = Vec::new();
    let mut add = |what: &str, id: &dyn fmt::Display| parts.push(format!("{what} {id}"));
    for part in registry.engines() {
        add("engine", part.part.id());
    }
    for part in registry.tool_sources() {
        add("tool source", part.part.id());
    }
    for part in registry.runners() {
        add("runner", part.part.id());
    }
    for part in registry.stores() {
        add("store", part.part.id());
    }
    for part in registry.policies() {
        add("policy", part.part.id());
    }
    for (number, _) in registry.event_sinks().iter().enumerate() {
        add("event sink", &number);
    }
    for tool in tools(registry)?.iter() {
        let spec = serde_json::to_string(tool.spec())
            .map_err(|e| format!("expected a tool to be writable as JSON, got: {e}"))?;
        add("tool", &spec);
    }
    Ok(parts)
}

/// Registering is a matter of microseconds, on a machine that has time.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The functions behind the names of the list.
mod cases {
    use super::*;
    use crate::suite::Checked;
    use crate::suite::expect::{ensure, same};

    pub(super) async fn the_manifest_is_constant(fixture: ExtensionFixture) -> Checked {
        let first = fixture.manifest()?;
        same("the manifest, asked again", &first, &fixture.manifest()?)?;
        fixture.registered()?;
        same(
            "the manifest after registering",
            &first,
            &fixture.manifest()?,
        )
    }

    pub(super) async fn the_manifest_says_what_it_must(fixture: ExtensionFixture) -> Checked {
        let Manifest {
            version,
            description,
            ..
        } = fixture.manifest()?;
        let starts_with_a_digit = version.starts_with(|c: char| c.is_ascii_digit());
        ensure!(
            starts_with_a_digit,
            "expected a version such as 1.0.0, got {version:?}"
        );
        ensure!(
            !description.trim().is_empty() && !description.contains('\n'),
            "expected a description of one line, got {description:?}"
        );
        Ok(())
    }

    pub(super) async fn it_brings_something(fixture: ExtensionFixture) -> Checked {
        let parts = parts(&fixture.registered()?)?;
        ensure!(!parts.is_empty(), "expected at least one part, got none");
        Ok(())
    }

    pub(super) async fn registering_again_gives_the_same(fixture: ExtensionFixture) -> Checked {
        let first = parts(&fixture.registered()?)?;
        same(
            "the parts, registered again",
            &first,
            &parts(&fixture.registered()?)?,
        )
    }

    pub(super) async fn registering_starts_nothing(fixture: ExtensionFixture) -> Checked {
        // A thread of its own is in no runtime: whatever would be started there
        // panics, which the registry makes an error.
        let registering = std::thread::spawn(move || {
            let began = Instant::now();
            let registered = fixture.registered().map(drop);
            (registered, began.elapsed())
        });
        let (registered, took) = registering.join().map_err(|panic| {
            format!(
                "expected no panic, got: {}",
                haft_api::panic_message(&*panic)
            )
        })?;
        registered?;
        ensure!(
            took < AT_ONCE,
            "expected registering to end at once, got an end after {took:?}"
        );
        Ok(())
    }

    pub(super) async fn its_tools_can_be_contributed(fixture: ExtensionFixture) -> Checked {
        let registry = fixture.registered()?;
        let (first, again) = (tools(&registry)?, tools(&registry)?);
        let specs = |tools: &ToolRegistry| tools.iter().map(|tool| tool.spec().clone()).collect();
        let (first, again): (Vec<_>, Vec<_>) = (specs(&first), specs(&again));
        crate::suite::schema::same_specs("the tools, contributed again", &first, &again)
    }

    pub(super) async fn an_unknown_setting_is_refused(fixture: ExtensionFixture) -> Checked {
        let name = "haft_conformance_unknown";
        let mut settings: serde_json::Map<String, serde_json::Value> =
            ok("reading the settings", fixture.config.parse())?;
        settings.insert(name.to_owned(), true.into());
        let config = ok("making settings", ExtensionConfig::from_value(&settings))?;
        match fixture.register(&config) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                let text = error.to_string();
                ensure!(
                    text.contains(name),
                    "expected an error that names {name}, got: {text}"
                );
                Ok(())
            }
            Err(error) => {
                Err(format!("expected invalid_input, got {}: {error}", error.kind()).into())
            }
            Ok(_) => Err(format!("expected the setting {name} to be refused, got success").into()),
        }
    }
}
