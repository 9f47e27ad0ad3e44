//! What tokens cost.
//!
//! Prices change, and only some models are known here: a sum is an estimate,
//! for people. What is known can be replaced and added to.

use std::collections::BTreeMap;

use haft_api::Usage;
use serde::{Deserialize, Serialize};

/// The month whose published list prices the table has.
pub const AS_OF: &str = "November 2025";

/// Prices of a model in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    pub input: f64,
    /// Tokens read from a cache; `None`: as other input.
    #[serde(default)]
    pub cached: Option<f64>,
    /// Tokens written to a cache; `None`: as other input.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Tokens written.
    pub output: f64,
}

/// A row of the table.
type Known = (&'static str, f64, Option<f64>, Option<f64>, f64);

/// Names or beginnings of names, the price of input, of cached input, of input
/// that is written to a cache, and of output.
const KNOWN: [Known; 25] = [
    ("gpt-5.1", 1.25, Some(0.125), None, 10.0),
    ("gpt-5-pro", 15.0, None, None, 120.0),
    ("gpt-5-mini", 0.25, Some(0.025), None, 2.0),
    ("gpt-5-nano", 0.05, Some(0.005), None, 0.4),
    ("gpt-5", 1.25, Some(0.125), None, 10.0),
    ("gpt-4.1-mini", 0.4, Some(0.1), None, 1.6),
    ("gpt-4.1-nano", 0.1, Some(0.025), None, 0.4),
    ("gpt-4.1", 2.0, Some(0.5), None, 8.0),
    ("gpt-4o-mini", 0.15, Some(0.075), None, 0.6),
    ("gpt-4o", 2.5, Some(1.25), None, 10.0),
    ("o3-mini", 1.1, Some(0.55), None, 4.4),
    ("o3", 2.0, Some(0.5), None, 8.0),
    ("o4-mini", 1.1, Some(0.275), None, 4.4),
    ("claude-opus-4-5", 5.0, Some(0.5), Some(6.25), 25.0),
    ("claude-opus-4", 15.0, Some(1.5), Some(18.75), 75.0),
    ("claude-sonnet-4", 3.0, Some(0.3), Some(3.75), 15.0),
    ("claude-haiku-4-5", 1.0, Some(0.1), Some(1.25), 5.0),
    ("claude-3-7-sonnet", 3.0, Some(0.3), Some(3.75), 15.0),
    ("claude-3-5-haiku", 0.8, Some(0.08), Some(1.0), 4.0),
    ("gemini-2.5-flash-lite", 0.1, Some(0.01), None, 0.4),
    ("gemini-2.5-flash", 0.3, Some(0.03), None, 2.5),
    ("gemini-2.5-pro", 1.25, Some(0.125), None, 10.0),
    ("deepseek-chat", 0.28, Some(0.028), None, 0.42),
    ("deepseek-reasoner", 0.28, Some(0.028), None, 0.42),
    ("grok-4", 3.0, Some(0.75), None, 15.0),
];

/// Prices by the beginnings of models' names.
///
/// ```
/// use haft_api::Usage;
/// use haft_core::prices::{Price, PriceTable};
///
/// let mut prices = PriceTable::known();
/// prices.set("my-model", Price { input: 1.0, cached: None, cache_write: None, output: 4.0 });
/// let usage = Usage { input: Some(2_000_000), output: Some(500_000), ..Usage::default() };
/// assert_eq!(prices.cost("my-model-v2", &usage), Some(4.0));
/// assert_eq!(prices.cost("unheard-of", &usage), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    prices: BTreeMap<String, Price>,
}

impl PriceTable {
    /// A table that knows no model.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The published prices of some models, as of [`AS_OF`].
    pub fn known() -> Self {
        let prices = KNOWN
            .iter()
            .map(|(name, input, cached, cache_write, output)| {
                let price = Price {
                    input: *input,
                    cached: *cached,
                    cache_write: *cache_write,
                    output: *output,
                };
                ((*name).to_owned(), price)
            });
        Self {
            prices: prices.collect(),
        }
    }

    /// Sets the price of all models whose names begin so; a longer beginning
    /// goes before a shorter one.
    pub fn set(&mut self, name: impl Into<String>, price: Price) {
        self.prices.insert(name.into(), price);
    }

    /// The price of a model, if it is known. What routers put before a name
    /// (`vendor/`) isn't looked at, unless a price was set with it.
    pub fn price(&self, model: &str) -> Option<&Price> {
        let longest = |model: &str| {
            let fits = self
                .prices
                .iter()
                .filter(|(name, _)| model.starts_with(&***name));
            fits.max_by_key(|(name, _)| name.len())
                .map(|(_, price)| price)
        };
        longest(model).or_else(|| longest(model.rsplit('/').next()?))
    }

    /// What these tokens cost, in US dollars; `None` if the model's price isn't
    /// known or nobody counted.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let price = self.price(model)?;
        if usage.input.is_none() && usage.output.is_none() {
            return None;
        }
        let count = |tokens: Option<u64>| tokens.unwrap_or(0) as f64;
        let (cached, written) = (count(usage.cached), count(usage.cache_write));
        let plain = (count(usage.input) - cached - written).max(0.0);
        let dollars = plain * price.input
            + cached * price.cached.unwrap_or(price.input)
            + written * price.cache_write.unwrap_or(price.input)
            + count(usage.output) * price.output;
        Some(dollars / 1_000_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_price_is_that_of_the_longest_beginning() {
        let table = PriceTable::known();
        let check = |model: &str, input: Option<f64>| {
            assert_eq!(
                table.price(model).map(|price| price.input),
                input,
                "{model}"
            );
        };
        check("gpt-5", Some(1.25));
        check("gpt-5-mini-2025-08-07", Some(0.25));
        check("openai/gpt-5-nano", Some(0.05));
        check("anthropic/claude-opus-4-5-20251101", Some(5.0));
        check("claude-opus-4-1", Some(15.0));
        check("smollm2-135m", None);
        check("", None);
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let table = PriceTable::known();
        let check = |model: &str, counts: [u64; 4], dollars: f64| {
            let [input, cached, cache_write, output] = counts.map(|n| Some(n * 1_000_000));
            let usage = Usage {
                input,
                cached,
                cache_write,
                output,
                reasoning: None,
            };
            let cost = table.cost(model, &usage).unwrap();
            assert!((cost - dollars).abs() < 1e-9, "{model}: {cost}");
        };
        check("claude-sonnet-4-5", [10, 0, 0, 1], 45.0);
        check("claude-sonnet-4-5", [10, 6, 2, 0], 6.0 + 1.8 + 7.5);
        check("gpt-5", [2, 1, 0, 1], 1.25 + 0.125 + 10.0);
        // Written to a cache at no extra charge.
        check("gpt-5", [2, 1, 1, 0], 1.375);
        assert_eq!(table.cost("gpt-5", &Usage::default()), None);
    }
}
