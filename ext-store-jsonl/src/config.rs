//! The store's settings.

use haft_api::{Durability, Error, ErrorKind, NewRecord, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The kind of record that ends a turn; the policy [`DurabilityPolicy::Turn`]
/// looks for it.
const TURN_ENDED: &str = "turn_ended";

/// When the store waits for the disk. A caller's [`Durability`] is a wish; this
/// decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DurabilityPolicy {
    /// At every append.
    EveryItem,
    /// At every append that asks for a barrier, at creation and at changes of
    /// metadata.
    #[default]
    Barriers,
    /// At an append that ends a turn, and at closing. A power cut may cost the
    /// turn that was running.
    Turn,
    /// Never: the operating system writes when it likes. What was appended
    /// survives the end of the process, not a power cut.
    Os,
}

impl DurabilityPolicy {
    /// Whether a payload is on the disk before the line that refers to it. It is
    /// waited for at once: a later barrier knows of the log alone.
    pub(crate) fn syncs_blobs(self) -> bool {
        self != Self::Os
    }

    /// Whether an append of this group waits for the disk.
    pub(crate) fn syncs_append(self, wish: Durability, group: &[NewRecord]) -> bool {
        match self {
            Self::EveryItem => true,
            Self::Barriers => wish == Durability::Barrier,
            Self::Turn => group.iter().any(|record| record.kind == TURN_ENDED),
            Self::Os => false,
        }
    }

    /// Whether a change of metadata waits for the disk.
    pub(crate) fn syncs_metadata(self) -> bool {
        matches!(self, Self::EveryItem | Self::Barriers)
    }

    /// Whether creating, deleting, repairing and closing wait for the disk.
    pub(crate) fn syncs_life_cycle(self) -> bool {
        self != Self::Os
    }

    /// Whether what a barrier acknowledged survives a power cut.
    pub(crate) fn keeps_barriers(self) -> bool {
        matches!(self, Self::EveryItem | Self::Barriers)
    }
}

/// How a [`JsonlStore`](crate::JsonlStore) behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonlConfig {
    /// When the store waits for the disk.
    pub durability: DurabilityPolicy,
}

impl JsonlConfig {
    /// Sets when the store waits for the disk.
    #[must_use]
    pub fn durability(mut self, durability: DurabilityPolicy) -> Self {
        self.durability = durability;
        self
    }

    /// These settings, changed by what stands in a JSON object.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an unknown key or a wrong value, naming
    /// it.
    pub(crate) fn overlay(mut self, json: &RawValue) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Settings {
            durability: Option<DurabilityPolicy>,
        }
        let settings: Settings = serde_json::from_str(json.get()).map_err(|e| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("the settings of the jsonl store don't fit: {e}"),
            )
        })?;
        if let Some(durability) = settings.durability {
            self.durability = durability;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_misspelt_ones_named() {
        let check = |json: &str, expected: Result<DurabilityPolicy, &str>| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            match (JsonlConfig::default().overlay(&raw), expected) {
                (Ok(config), Ok(expected)) => assert_eq!(config.durability, expected, "{json}"),
                (Err(error), Err(word)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert!(error.to_string().contains(word), "{error}");
                }
                (outcome, _) => panic!("{json}: {outcome:?}"),
            }
        };
        check("{}", Ok(DurabilityPolicy::Barriers));
        check(
            r#"{"durability":"every-item"}"#,
            Ok(DurabilityPolicy::EveryItem),
        );
        check(
            r#"{"durability":"barriers"}"#,
            Ok(DurabilityPolicy::Barriers),
        );
        check(r#"{"durability":"turn"}"#, Ok(DurabilityPolicy::Turn));
        check(r#"{"durability":"os"}"#, Ok(DurabilityPolicy::Os));
        check(r#"{"durability":"sometimes"}"#, Err("sometimes"));
        check(r#"{"durabilty":"os"}"#, Err("durabilty"));
        check("[]", Err("settings"));
    }

    #[test]
    fn the_policy_decides_what_a_wish_comes_to() {
        use Durability::{Barrier, Buffered};
        let group = |kind: &str| vec![NewRecord::new(kind, &1).unwrap()];
        let check = |policy: DurabilityPolicy, wish, kind: &str, syncs: bool| {
            assert_eq!(
                policy.syncs_append(wish, &group(kind)),
                syncs,
                "{policy:?} {wish:?} {kind}"
            );
        };
        check(DurabilityPolicy::EveryItem, Buffered, "item", true);
        check(DurabilityPolicy::Barriers, Buffered, "item", false);
        check(DurabilityPolicy::Barriers, Barrier, "item", true);
        check(DurabilityPolicy::Turn, Barrier, "item", false);
        check(DurabilityPolicy::Turn, Buffered, "turn_ended", true);
        check(DurabilityPolicy::Os, Barrier, "turn_ended", false);
    }
}
