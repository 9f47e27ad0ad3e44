//! What differs from provider to provider, and isn't for users to find out.

use haft_engine_http::KeyHeader;

/// The provider behind a server, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// OpenAI's own API.
    OpenAi,
    /// OpenAI's models at Azure.
    Azure,
    Mistral,
    DeepSeek,
    Moonshot,
    /// Any other, and any server of the user's own.
    Other,
}

/// The domains that Azure's resources are under.
const AZURE: [&str; 3] = [
    ".cognitiveservices.azure.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
];

impl Provider {
    pub(crate) fn of(host: &str) -> Self {
        match host {
            "api.openai.com" => Self::OpenAi,
            "api.mistral.ai" => Self::Mistral,
            "api.deepseek.com" => Self::DeepSeek,
            "api.moonshot.ai" | "api.moonshot.cn" => Self::Moonshot,
            _ if AZURE.iter().any(|domain| host.ends_with(domain)) => Self::Azure,
            _ => Self::Other,
        }
    }

    /// The field for the most tokens of output.
    pub(crate) fn max_tokens_field(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Azure => "max_completion_tokens",
            _ => "max_tokens",
        }
    }

    /// The field that takes reasoning back, where the models want it within a
    /// turn.
    pub(crate) fn reasoning_field(self) -> Option<&'static str> {
        matches!(self, Self::DeepSeek | Self::Moonshot).then_some("reasoning_content")
    }

    /// Mistral tells the usage unasked, and refuses to be asked for it.
    pub(crate) fn refuses_stream_options(self) -> bool {
        self == Self::Mistral
    }

    /// Mistral takes ids of nine letters and digits alone.
    pub(crate) fn wants_short_call_ids(self) -> bool {
        self == Self::Mistral
    }

    /// Azure wants a key in a header of its own.
    pub(crate) fn key_header(self) -> KeyHeader {
        match self {
            Self::Azure => KeyHeader::Named("api-key"),
            _ => KeyHeader::Bearer,
        }
    }
}
