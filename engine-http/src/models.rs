//! What is known of models.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_api::{Error, ErrorKind, ModelInfo, Result};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use url::form_urlencoded;

use crate::failure;
use crate::transport::{Response, Transport};

/// How long a server may take to list its models.
const TIME: Duration = Duration::from_secs(10);

/// How long a server's list of models is taken to be right.
const KEPT: Duration = Duration::from_secs(60);

/// The most of a list that is read, in bytes.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Its name, as it is asked for.
    pub name: String,
    /// Tokens that fit into a request and its answer.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// Whether it can call tools. By default it can.
    #[serde(default)]
    pub tools: Option<bool>,
    /// Whether it can see images. By default it can't.
    #[serde(default)]
    pub images: Option<bool>,
}

impl ModelSettings {
    /// A model of which only the name is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            context_tokens: None,
            tools: None,
            images: None,
        }
    }

    /// Says what is known here over what is known elsewhere.
    pub fn apply(&self, info: &mut ModelInfo) {
        if self.context_tokens.is_some() {
            info.context_tokens = self.context_tokens;
        }
        info.tools = self.tools.unwrap_or(info.tools);
        info.images = self.images.unwrap_or(info.images);
    }
}

/// A server's list of models (`GET models`), all pages of it, kept for a minute.
#[derive(Debug)]
pub struct ModelList {
    /// The parameter that asks for what comes after a model.
    after: &'static str,
    /// The list, and when it was asked for.
    kept: Mutex<Option<(Instant, Arc<[ModelInfo]>)>>,
}

impl ModelList {
    /// The list of a server that may give it in pages: where an answer says that
    /// it `has_more`, this parameter asks for what comes after the last model.
    /// It is `after` with OpenAI's API, and `after_id` with Anthropic's.
    pub fn new(after: &'static str) -> Self {
        Self {
            after,
            kept: Mutex::default(),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<(Instant, Arc<[ModelInfo]>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list as it was not long ago.
    ///
    /// # Errors
    /// As [`fresh`](Self::fresh).
    pub async fn kept(&self, transport: &Transport) -> Result<Arc<[ModelInfo]>> {
        let kept = self.slot().clone();
        match kept {
            Some((at, models)) if at.elapsed() < KEPT => Ok(models),
            _ => self.fresh(transport).await,
        }
    }

    /// The list as it is now, in the server's order.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if there is no key, [`ErrorKind::Timeout`] after
    /// ten seconds for all pages, what the server says if it refuses one, and
    /// [`ErrorKind::Corrupt`] for what is no list.
    pub async fn fresh(&self, transport: &Transport) -> Result<Arc<[ModelInfo]>> {
        if let Some(reason) = transport.missing_key() {
            return Err(Error::new(ErrorKind::Denied, reason));
        }
        let pages = self.pages(transport);
        let models = tokio::time::timeout(TIME, pages)
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Timeout,
                    "the server didn't list its models in time",
                )
                .temporary())
            })?;
        let models: Arc<[ModelInfo]> = models.into();
        *self.slot() = Some((Instant::now(), Arc::clone(&models)));
        Ok(models)
    }

    /// All pages. A server that gives the same page whatever it is asked for is
    /// not asked for ever.
    async fn pages(&self, transport: &Transport) -> Result<Vec<ModelInfo>> {
        let mut all: Vec<ModelInfo> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        let mut left = MOST_BYTES;
        let mut path = "models".to_owned();
        loop {
            let body = read(transport.get(&path).await?, &mut left).await?;
            let page = parse(&body)?;
            let next = page.next();
            let known = all.len();
            let models = page.data.into_iter().map(Model::info);
            all.extend(models.filter(|info| names.insert(info.name.clone())));
            match next {
                Some(last) if all.len() > known => {
                    let last: String = form_urlencoded::byte_serialize(last.as_bytes()).collect();
                    path = format!("models?{}={last}", self.after);
                }
                _ => return Ok(all),
            }
        }
    }
}

#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
    #[serde(default)]
    has_more: Value,
    #[serde(default)]
    last_id: Value,
}

impl List {
    /// The model after which the next page begins, if there is one.
    fn next(&self) -> Option<String> {
        if self.has_more != Value::Bool(true) {
            return None;
        }
        let last = self.last_id.as_str().filter(|id| !id.is_empty());
        let last = last.or_else(|| self.data.last().map(|model| model.id.as_str()));
        last.map(str::to_owned)
    }
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

/// Reads an answer's body, of which so many bytes may come still.
async fn read(mut response: Response, left: &mut usize) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        *left = left.checked_sub(chunk.len()).ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                "the server's list of models is larger than 16 MiB",
            )
        })?;
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn parse(body: &[u8]) -> Result<List> {
    serde_json::from_slice(body).map_err(|e| {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "the server's list of models can't be read ({e}): {}",
                failure::quote(&String::from_utf8_lossy(&body[..body.len().min(2_000)]))
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_servers_list_is_read() {
        let check = |model: &str, context: Option<u64>, images: bool| {
            let body = format!(r#"{{"object":"list","data":[{model}]}}"#);
            let list = parse(body.as_bytes()).unwrap();
            assert_eq!(list.next(), None);
            let info = list.data.into_iter().next().unwrap().info();
            assert_eq!(info.name, "m");
            assert_eq!((info.context_tokens, info.images), (context, images));
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
        let error = parse(b"<html>no list</html>").err().unwrap();
        assert!(error.message().contains("<html>no list"), "{error}");
    }

    #[test]
    fn a_page_says_whether_another_one_follows() {
        let check = |fields: &str, models: &str, next: Option<&str>| {
            let body = format!(r#"{{"data":[{models}]{fields}}}"#);
            assert_eq!(parse(body.as_bytes()).unwrap().next().as_deref(), next);
        };
        let models = r#"{"id":"a"},{"id":"b"}"#;
        check("", models, None);
        check(r#","has_more":false,"last_id":"b""#, models, None);
        check(r#","has_more":null"#, models, None);
        check(r#","has_more":true,"last_id":"x""#, models, Some("x"));
        check(r#","has_more":true,"last_id":null"#, models, Some("b"));
        check(r#","has_more":true"#, models, Some("b"));
        check(r#","has_more":true"#, "", None);
    }
}
