//! Tokens used, in the words of all servers.

use haft_api::Usage;
use haft_engine_http::raw::{self, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields<'a> {
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    total_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens_details: Option<&'a RawValue>,
    // Responses
    #[serde(borrow)]
    input_tokens_details: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens_details: Option<&'a RawValue>,
    // DeepSeek
    #[serde(borrow)]
    prompt_cache_hit_tokens: Option<&'a RawValue>,
    // Anthropic's models behind routers
    #[serde(borrow)]
    cache_read_input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_creation_input_tokens: Option<&'a RawValue>,
    // Moonshot
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    // Perplexity
    #[serde(borrow)]
    reasoning_tokens: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_write_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_tokens: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Groq<'a> {
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

/// Usage that stands in Groq's own field.
pub(super) fn parse_groq(raw: &RawValue) -> Option<Usage> {
    let groq: Groq<'_> = serde_json::from_str(raw.get()).ok()?;
    parse(groq.usage?)
}

/// A usage object; `None` where it says nothing. What can't be read counts as
/// not said: no answer fails for its accounting.
pub(crate) fn parse(raw: &RawValue) -> Option<Usage> {
    if raw::kind(raw) != Kind::Object {
        return None;
    }
    let fields: Fields<'_> = serde_json::from_str(raw.get()).ok()?;
    let number = |field: Option<&RawValue>| field.and_then(raw::number);
    let details = |field: Option<&'_ RawValue>| -> (Option<u64>, Option<u64>, Option<u64>) {
        let details: Details<'_> = field
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        (
            number(details.cached_tokens),
            number(details.cache_write_tokens),
            number(details.reasoning_tokens),
        )
    };
    let (cached, cache_write, _) =
        details(fields.prompt_tokens_details.or(fields.input_tokens_details));
    let (_, _, reasoning) = details(
        fields
            .completion_tokens_details
            .or(fields.output_tokens_details),
    );
    let input = number(fields.prompt_tokens).or(number(fields.input_tokens));
    let reasoning = reasoning.or(number(fields.reasoning_tokens));
    let mut output = number(fields.completion_tokens).or(number(fields.output_tokens));
    // Some leave reasoning out of the completion, which only the total shows.
    if let (Some(input), Some(said), Some(thought), Some(total)) =
        (input, output, reasoning, number(fields.total_tokens))
        && thought > 0
        && input.checked_add(said).and_then(|n| n.checked_add(thought)) == Some(total)
    {
        output = Some(said + thought);
    }
    let usage = Usage {
        input,
        cached: cached
            .or(number(fields.prompt_cache_hit_tokens))
            .or(number(fields.cache_read_input_tokens))
            .or(number(fields.cached_tokens)),
        cache_write: cache_write.or(number(fields.cache_creation_input_tokens)),
        output,
        reasoning,
    };
    (!usage.is_empty()).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_servers_words_are_normalised() {
        let check = |json: &str, expected: Option<[Option<u64>; 5]>| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let expected = expected.map(|[input, cached, cache_write, output, reasoning]| Usage {
                input,
                cached,
                cache_write,
                output,
                reasoning,
            });
            assert_eq!(parse(&raw), expected, "{json}");
        };
        check("null", None);
        check("{}", None);
        check("[]", None);
        check(
            r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,
               "prompt_tokens_details":{"cached_tokens":4},
               "completion_tokens_details":{"reasoning_tokens":1}}"#,
            Some([Some(10), Some(4), None, Some(2), Some(1)]),
        );
        check(
            r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8}"#,
            Some([Some(10), Some(8), None, Some(2), None]),
        );
        check(
            r#"{"prompt_tokens":10,"completion_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":5}"#,
            Some([Some(10), Some(3), Some(5), Some(2), None]),
        );
        check(
            r#"{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":6}}"#,
            Some([Some(10), Some(0), Some(6), None, None]),
        );
        check(
            r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":19,
               "completion_tokens_details":{"reasoning_tokens":7}}"#,
            Some([Some(10), None, None, Some(9), Some(7)]),
        );
        check(
            r#"{"prompt_tokens":10.0,"completion_tokens":"2","prompt_tokens_details":null,"completion_tokens_details":[]}"#,
            Some([Some(10), None, None, Some(2), None]),
        );
        check(
            r#"{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},
               "output_tokens":8,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":17}"#,
            Some([Some(9), Some(4), None, Some(8), Some(5)]),
        );
        check(
            r#"{"input_tokens":1,"output_tokens":2}"#,
            Some([Some(1), None, None, Some(2), None]),
        );
    }
}
