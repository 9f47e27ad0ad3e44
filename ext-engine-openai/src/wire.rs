//! The two wires, as the engine uses them.

use std::borrow::Cow;
use std::sync::Arc;

use haft_api::{EngineRequest, Result};
use haft_engine_http::AnswerDecoder;
use haft_engine_http::tool_names::ToolNames;

use crate::chat;
use crate::chat::decode::{ChatDecoder, ChatRules};
use crate::config::{OpenAiConfig, Wire};
use crate::provider::Provider;
use crate::responses;
use crate::responses::decode::{ResponsesDecoder, ResponsesRules};

/// Makes the bodies of requests, and the decoders of their answers.
pub(crate) enum Encoder {
    Chat(Arc<chat::encode::EncodeSettings>),
    Responses(Arc<responses::encode::EncodeSettings>),
}

impl Encoder {
    pub(crate) fn new(config: &OpenAiConfig, provider: Provider, host: &str) -> Self {
        match config.wire() {
            Wire::Chat => Self::Chat(Arc::new(chat_settings(config, provider, host))),
            Wire::Responses => Self::Responses(Arc::new(responses::encode::EncodeSettings {
                provider: responses::provider(host),
                is_strict: matches!(provider, Provider::OpenAi | Provider::Azure),
                reasoning_summary: config.reasoning_summary.clone(),
                extra_body: config.extra_body.clone(),
            })),
        }
    }

    pub(crate) fn body(&self, request: &EngineRequest, model: &str) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Chat(settings) => chat::encode::encode(request, model, settings)?.body,
            Self::Responses(settings) => responses::encode::encode(request, model, settings)?.body,
        })
    }

    /// A decoder that gives tools their own names back.
    pub(crate) fn decoder(&self, names: ToolNames) -> Box<dyn AnswerDecoder> {
        match self {
            Self::Chat(settings) => {
                let rules = ChatRules::new(names, &settings.provider);
                Box::new(ChatDecoder::new(rules))
            }
            Self::Responses(settings) => {
                let rules = ResponsesRules::new(names, settings.provider.clone());
                Box::new(ResponsesDecoder::new(rules))
            }
        }
    }
}

fn chat_settings(
    config: &OpenAiConfig,
    provider: Provider,
    host: &str,
) -> chat::encode::EncodeSettings {
    let mut extra_body = config.extra_body.clone();
    if provider.refuses_stream_options() {
        extra_body
            .entry("stream_options")
            .or_insert(serde_json::Value::Null);
    }
    let max_tokens_field = match &config.max_tokens_field {
        Some(field) => Cow::Owned(field.clone()),
        None => Cow::Borrowed(provider.max_tokens_field()),
    };
    let reasoning_field = match &config.reasoning_field {
        Some(field) if field.is_empty() => None,
        Some(field) => Some(Cow::Owned(field.clone())),
        None => provider.reasoning_field().map(Cow::Borrowed),
    };
    chat::encode::EncodeSettings {
        provider: host.to_owned(),
        max_tokens_field,
        reasoning_field,
        short_call_ids: provider.wants_short_call_ids(),
        extra_body,
    }
}
