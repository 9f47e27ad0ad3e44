//! What is known of Anthropic's models.

use haft_api::ModelInfo;

/// The model of Anthropic's own API where none is named.
pub(crate) const DEFAULT: &str = "claude-sonnet-5-5";

/// The most tokens of output that are asked for where nobody says.
const MOST_BY_DEFAULT: u64 = 32_000;

/// What a model can do, by its name. As of late 2026.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Tokens that fit into a request and its answer, if known.
    pub(crate) context_tokens: Option<u64>,
    /// The most tokens of output.
    pub(crate) output_tokens: u64,
    pub(crate) thinking: Thinking,
}

/// How a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// It can't, or nobody knows.
    Never,
    /// Up to a number of tokens.
    Budget,
    /// As much as it sees fit, at an effort.
    Adaptive,
}

impl Traits {
    pub(crate) fn of(model: &str) -> Self {
        let known = |context_tokens, output_tokens, thinking| Self {
            context_tokens: Some(context_tokens),
            output_tokens,
            thinking,
        };
        let Some(name) = model.find("claude-").map(|at| &model[at..]) else {
            return Self {
                context_tokens: None,
                output_tokens: 8_192,
                thinking: Thinking::Never,
            };
        };
        let is_opus = name.contains("opus");
        match version(name) {
            Some((major, _)) if major >= 5 => known(1_000_000, 128_000, Thinking::Adaptive),
            Some((4, minor)) if minor >= 6 => {
                let most = if is_opus { 128_000 } else { 64_000 };
                known(1_000_000, most, Thinking::Adaptive)
            }
            Some((4, 5)) => known(200_000, 64_000, Thinking::Budget),
            Some((4, _)) if is_opus => known(200_000, 32_000, Thinking::Budget),
            Some((4, _)) => known(200_000, 64_000, Thinking::Budget),
            Some((3, 7)) => known(200_000, 64_000, Thinking::Budget),
            Some((3, 5)) => known(200_000, 8_192, Thinking::Never),
            Some((3, _)) => known(200_000, 4_096, Thinking::Never),
            // A name without a version is that of a model to come.
            _ => known(200_000, MOST_BY_DEFAULT, Thinking::Adaptive),
        }
    }

    /// The most tokens of output that are asked for where nobody says.
    pub(crate) fn default_max_tokens(self) -> u64 {
        self.output_tokens.min(MOST_BY_DEFAULT)
    }
}

/// A model's version: its name's first number and the one behind it, wherever
/// they stand. A date is no version.
fn version(name: &str) -> Option<(u32, u32)> {
    let numbers = name
        .split(['-', '@', '.', ':'])
        .map(|word| word.parse::<u32>().ok().filter(|n| *n < 100));
    let mut numbers = numbers.skip_while(Option::is_none);
    let major = numbers.next().flatten()?;
    Some((major, numbers.next().flatten().unwrap_or(0)))
}

/// Adds what a server's list doesn't say.
pub(crate) fn complete(info: &mut ModelInfo) {
    let known = Traits::of(&info.name);
    if known.context_tokens.is_some() {
        info.context_tokens = info.context_tokens.or(known.context_tokens);
        info.images = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_their_names() {
        let check = |name: &str, context: Option<u64>, output: u64, thinking: Thinking| {
            let expected = Traits {
                context_tokens: context,
                output_tokens: output,
                thinking,
            };
            assert_eq!(Traits::of(name), expected, "{name}");
        };
        check(DEFAULT, Some(1_000_000), 128_000, Thinking::Adaptive);
        check(
            "claude-fable-5-1",
            Some(1_000_000),
            128_000,
            Thinking::Adaptive,
        );
        check(
            "claude-opus-5",
            Some(1_000_000),
            128_000,
            Thinking::Adaptive,
        );
        check(
            "claude-opus-4-7",
            Some(1_000_000),
            128_000,
            Thinking::Adaptive,
        );
        check(
            "claude-sonnet-4-6",
            Some(1_000_000),
            64_000,
            Thinking::Adaptive,
        );
        check(
            "claude-haiku-4-5-20251001",
            Some(200_000),
            64_000,
            Thinking::Budget,
        );
        check(
            "claude-opus-4-1-20250805",
            Some(200_000),
            32_000,
            Thinking::Budget,
        );
        check(
            "claude-sonnet-4-20250514",
            Some(200_000),
            64_000,
            Thinking::Budget,
        );
        check(
            "claude-3-7-sonnet-20250219",
            Some(200_000),
            64_000,
            Thinking::Budget,
        );
        check(
            "claude-3-5-haiku-latest",
            Some(200_000),
            8_192,
            Thinking::Never,
        );
        check(
            "claude-3-haiku-20240307",
            Some(200_000),
            4_096,
            Thinking::Never,
        );
        check(
            "anthropic/claude-haiku-4.5",
            Some(200_000),
            64_000,
            Thinking::Budget,
        );
        check(
            "anthropic.claude-opus-4-6-v1",
            Some(1_000_000),
            128_000,
            Thinking::Adaptive,
        );
        check(
            "claude-mythos-preview",
            Some(200_000),
            32_000,
            Thinking::Adaptive,
        );
        check("qwen", None, 8_192, Thinking::Never);
    }

    #[test]
    fn a_list_is_completed_where_a_model_is_known() {
        let check = |name: &str, context: Option<u64>, images: bool| {
            let mut info = ModelInfo::new(name);
            complete(&mut info);
            assert_eq!(
                (info.context_tokens, info.images),
                (context, images),
                "{name}"
            );
        };
        check(DEFAULT, Some(1_000_000), true);
        check("qwen", None, false);
    }
}
