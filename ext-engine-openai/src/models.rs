//! What is known of models.

use haft_api::{Error, ErrorKind, ModelInfo, Result};
use reqwest::Response;
use serde::Deserialize;
use serde_json::Value;

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

/// The most of a list that is read, in bytes.
const MOST_BYTES: usize = 16 * 1024 * 1024;

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

#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    // Where servers say how much fits in: vLLM, OpenRouter, Groq, llama.cpp.
    #[serde(default)]
    max_model_len: Value,
    #[serde(default)]
    context_length: Value,
    #[serde(default)]
    context_window: Value,
    #[serde(default)]
    meta: Value,
    #[serde(default)]
    architecture: Value,
}

impl Model {
    fn info(self) -> ModelInfo {
        let mut info = ModelInfo::new(self.id);
        info.context_tokens = [
            &self.max_model_len,
            &self.context_length,
            &self.context_window,
            &self.meta["n_ctx"],
        ]
        .into_iter()
        .find_map(Value::as_u64)
        .filter(|tokens| *tokens > 0);
        let modalities = self.architecture["input_modalities"].as_array();
        info.images = modalities.is_some_and(|list| list.iter().any(|m| m == "image"));
        info
    }
}

/// Reads an answer that lists models, in the server's order.
pub(crate) async fn read(mut response: Response) -> Result<Vec<ModelInfo>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(crate::transport::broken)? {
        body.extend_from_slice(&chunk);
        if body.len() > MOST_BYTES {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the server's list of models is larger than 16 MiB",
            ));
        }
    }
    parse(&body)
}

fn parse(body: &[u8]) -> Result<Vec<ModelInfo>> {
    let list: List = serde_json::from_slice(body).map_err(|e| {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "the server's list of models can't be read ({e}): {}",
                crate::failure::quote(&String::from_utf8_lossy(&body[..body.len().min(2_000)]))
            ),
        )
    })?;
    Ok(list.data.into_iter().map(Model::info).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_servers_list_is_read() {
        let check = |model: &str, context: Option<u64>, images: bool| {
            let body = format!(r#"{{"object":"list","data":[{model}]}}"#);
            let list = parse(body.as_bytes()).unwrap();
            assert_eq!(list[0].name, "m");
            assert_eq!((list[0].context_tokens, list[0].images), (context, images));
        };
        check(r#"{"id":"m","object":"model"}"#, None, false);
        check(r#"{"id":"m","max_model_len":4096}"#, Some(4096), false);
        check(
            r#"{"id":"m","context_length":8192,"architecture":{"input_modalities":["text","image"]}}"#,
            Some(8192),
            true,
        );
        check(
            r#"{"id":"m","context_window":131072}"#,
            Some(131_072),
            false,
        );
        check(
            r#"{"id":"m","meta":{"n_ctx":2048,"n_ctx_train":32768}}"#,
            Some(2048),
            false,
        );
        check(
            r#"{"id":"m","meta":null,"context_length":null}"#,
            None,
            false,
        );
        let error = parse(b"<html>no list</html>").unwrap_err();
        assert!(error.message().contains("<html>no list"), "{error}");
    }

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
