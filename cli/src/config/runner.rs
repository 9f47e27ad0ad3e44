//! The runner: its name alone, or a table with what its commands may do.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The extension that the table's keys besides `id` are settings of.
pub(crate) const EXTENSION: &str = "runner-local";

/// What one source says of the runner: `runner = "local"`, or a `[runner]` table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Runner {
    /// Which one.
    pub(crate) id: Option<String>,
    /// `require`, `prefer` or `off`.
    pub(crate) sandbox: Option<String>,
    /// Whether commands reach the network.
    pub(crate) network: Option<bool>,
    /// What they may read besides.
    pub(crate) read: Option<Vec<String>>,
    /// What they never see.
    pub(crate) hide: Option<Vec<String>>,
    /// What they may use up.
    pub(crate) limits: Map<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Table {
    id: Option<String>,
    sandbox: Option<String>,
    network: Option<bool>,
    read: Option<Vec<String>>,
    hide: Option<Vec<String>>,
    limits: Map<String, Value>,
}

impl Runner {
    /// That one, and nothing said of it.
    pub(crate) fn named(id: impl Into<Option<String>>) -> Self {
        Self {
            id: id.into(),
            ..Self::default()
        }
    }

    /// This over an earlier one, key by key.
    pub(crate) fn over(self, earlier: Self) -> Self {
        let mut limits = earlier.limits;
        limits.extend(self.limits);
        Self {
            id: self.id.or(earlier.id),
            sandbox: self.sandbox.or(earlier.sandbox),
            network: self.network.or(earlier.network),
            read: self.read.or(earlier.read),
            hide: self.hide.or(earlier.hide),
            limits,
        }
    }

    /// The first key by which a workspace would free commands from something, or
    /// show them something.
    pub(crate) fn loosened(&self) -> Option<&'static str> {
        // `require` can only tighten, and so can a network that is off.
        if self
            .sandbox
            .as_ref()
            .is_some_and(|sandbox| sandbox != "require")
        {
            return Some("runner.sandbox");
        }
        if self.network == Some(true) {
            return Some("runner.network");
        }
        if self.read.is_some() {
            return Some("runner.read");
        }
        if self.hide.is_some() {
            return Some("runner.hide");
        }
        (!self.limits.is_empty()).then_some("runner.limits")
    }

    /// The extension's settings.
    pub(crate) fn settings(self) -> Map<String, Value> {
        let mut settings = Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                settings.insert(key.to_owned(), value);
            }
        };
        set("sandbox", self.sandbox.map(Value::from));
        set("network", self.network.map(Value::from));
        set("read", self.read.map(Value::from));
        set("hide", self.hide.map(Value::from));
        set(
            "limits",
            Some(self.limits)
                .filter(|limits| !limits.is_empty())
                .map(Value::from),
        );
        settings
    }
}

impl<'de> Deserialize<'de> for Runner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Runner;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a runner's name, or a table")
            }

            fn visit_str<E>(self, id: &str) -> Result<Runner, E> {
                Ok(Runner::named(id.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Runner, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Runner {
                    id: table.id,
                    sandbox: table.sandbox,
                    network: table.network,
                    read: table.read,
                    hide: table.hide,
                    limits: table.limits,
                })
            }
        }

        deserializer.deserialize_any(Either)
    }
}
