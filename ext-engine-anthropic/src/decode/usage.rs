//! Tokens used. Each event that tells of them may tell of some only.

use haft_api::Usage;
use haft_engine_http::raw::{self, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_creation_input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_read_input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_tokens_details: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    thinking_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_tokens: Option<&'a RawValue>,
}

/// The last word on each number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UsageSoFar {
    /// Without what was read from a cache or written to one.
    uncached: Option<u64>,
    cache_write: Option<u64>,
    cached: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl UsageSoFar {
    /// Takes a usage object. What can't be read counts as not said: no answer
    /// fails for its accounting.
    pub(super) fn take(&mut self, raw: Option<&RawValue>) {
        let object = raw.filter(|raw| raw::kind(raw) == Kind::Object);
        let Some(Ok(fields)) = object.map(|raw| serde_json::from_str::<Fields<'_>>(raw.get()))
        else {
            return;
        };
        let number = |field: Option<&RawValue>| field.and_then(raw::number);
        let uncached = number(fields.input_tokens);
        let write = number(fields.cache_creation_input_tokens);
        let cached = number(fields.cache_read_input_tokens);
        // A server that tells the input where the message starts may say nothing
        // but zeros of it where the message ends.
        if [uncached, write, cached]
            .into_iter()
            .flatten()
            .any(|n| n > 0)
        {
            self.uncached = uncached.or(self.uncached);
            self.cache_write = write.or(self.cache_write);
            self.cached = cached.or(self.cached);
        } else {
            self.uncached = self.uncached.or(uncached);
            self.cache_write = self.cache_write.or(write);
            self.cached = self.cached.or(cached);
        }
        self.output = number(fields.output_tokens).or(self.output);
        let details = fields.output_tokens_details;
        let details = details.and_then(|raw| serde_json::from_str::<Details<'_>>(raw.get()).ok());
        if let Some(details) = details {
            let thinking = number(details.thinking_tokens).or(number(details.reasoning_tokens));
            self.thinking = thinking.or(self.thinking);
        }
    }

    /// As the runtime counts: what was read from a cache or written to one is
    /// part of the input.
    pub(super) fn normalised(self) -> Usage {
        let parts = [self.uncached, self.cache_write, self.cached];
        let input = parts.into_iter().flatten().reduce(u64::saturating_add);
        Usage {
            input,
            cached: self.cached,
            cache_write: self.cache_write,
            output: self.output,
            reasoning: self.thinking,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_each_number_counts() {
        let check = |told: &[&str], expected: [Option<u64>; 5]| {
            let mut usage = UsageSoFar::default();
            for json in told {
                let raw = RawValue::from_string((*json).to_owned()).unwrap();
                usage.take(Some(&raw));
            }
            let [input, cached, cache_write, output, reasoning] = expected;
            let expected = Usage {
                input,
                cached,
                cache_write,
                output,
                reasoning,
            };
            assert_eq!(usage.normalised(), expected, "{told:?}");
        };
        check(&[], [None; 5]);
        check(&["null", "[]", r#"{"input_tokens":"x"}"#], [None; 5]);
        check(
            &[
                r#"{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":3,"output_tokens":1}"#,
                r#"{"output_tokens":9}"#,
            ],
            [Some(18), Some(3), Some(5), Some(9), None],
        );
        check(
            &[
                r#"{"input_tokens":408,"output_tokens":1}"#,
                r#"{"input_tokens":412,"cache_read_input_tokens":0,"output_tokens":264,
                   "output_tokens_details":{"thinking_tokens":7}}"#,
            ],
            [Some(412), Some(0), None, Some(264), Some(7)],
        );
        check(
            &[
                r#"{"input_tokens":17,"output_tokens":1}"#,
                r#"{"input_tokens":0,"output_tokens":2}"#,
            ],
            [Some(17), None, None, Some(2), None],
        );
        check(
            &[
                r#"{"input_tokens":null,"output_tokens":0}"#,
                r#"{"input_tokens":17,"output_tokens":4}"#,
            ],
            [Some(17), None, None, Some(4), None],
        );
    }
}
