//! What is known of OpenAI's models.

use haft_api::ModelInfo;

/// The model of OpenAI's own API where none is named.
pub(crate) const OPENAI_DEFAULT: &str = "gpt-5-mini";

/// Context windows of OpenAI's models by the beginning of their names, the
/// longer beginning first. All of these see images. As of late 2026.
const OPENAI_CONTEXT: [(&str, u64); 8] = [
    ("gpt-5-chat", 128_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("o4-mini", 200_000),
    ("o3-mini", 200_000),
    ("o3", 200_000),
];

/// Adds what OpenAI's list doesn't say.
pub(crate) fn complete_openai(info: &mut ModelInfo) {
    let known = OPENAI_CONTEXT
        .iter()
        .find(|(name, _)| info.name.starts_with(name));
    if let Some((name, context)) = known {
        info.context_tokens.get_or_insert(*context);
        info.images |= *name != "o3-mini";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openais_models_are_known_by_the_beginning_of_their_names() {
        let check = |name: &str, context: Option<u64>, images: bool| {
            let mut info = ModelInfo::new(name);
            complete_openai(&mut info);
            assert_eq!(
                (info.context_tokens, info.images),
                (context, images),
                "{name}"
            );
        };
        check(OPENAI_DEFAULT, Some(400_000), true);
        check("gpt-5-chat-latest", Some(128_000), true);
        check("gpt-4.1-nano", Some(1_047_576), true);
        check("o3-mini", Some(200_000), false);
        check("o3-pro", Some(200_000), true);
        check("whatever", None, false);
    }
}
