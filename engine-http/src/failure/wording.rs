//! How servers word what the runtime tells apart. All lower case.

/// Codes and types of a request that is too long for the model.
pub(super) const CONTEXT_CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "string_above_max_length",
    "tokens_limit_reached",
];

/// Phrases that say the same.
pub(super) const CONTEXT: &[&str] = &[
    "context length",
    "context size",
    "context window",
    "context overflow",
    "context the overflows",
    "exceeds the maximum number of tokens",
    "exceeded max context",
    "input is too long",
    "input token count",
    "input tokens exceed",
    "maximum prompt length",
    "prompt is too long",
    "prompt too long",
    "prompt token count",
    "range of input length",
    "reduce the length of the messages",
    "too many input tokens",
    "too many tokens",
];

/// Codes of being asked to slow down.
pub(super) const RATE_CODES: &[&str] = &[
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limited",
    "rate_limit_reached",
    "resource_exhausted",
    "too_many_requests",
];

/// Codes of an account that has used up what it may use: waiting doesn't help.
pub(super) const QUOTA_CODES: &[&str] = &[
    "access_terminated",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "insufficient_credits",
    "insufficient_quota",
    "quota_exceeded",
];

/// Phrases that say the same.
pub(super) const QUOTA: &[&str] = &[
    "billing details",
    "credit balance",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credit",
    "insufficient_quota",
    "spending limit",
];

/// Codes of a model that isn't there.
pub(super) const MODEL_CODES: &[&str] = &["invalid_model", "model_not_found", "not_found_error"];

/// Phrases that say the same.
pub(super) const MODEL: &[&str] = &["is not a valid model", "model not found", "unknown model"];

/// Codes of a request that isn't one the server can take.
pub(super) const REQUEST_CODES: &[&str] = &["invalid_request_error", "invalid_prompt"];

/// Codes of a key that isn't accepted.
pub(super) const KEY_CODES: &[&str] = &[
    "authentication_error",
    "invalid_api_key",
    "permission_denied",
    "permission_error",
    "unauthenticated",
];

/// Phrases of llama.cpp's server, which answers 500 to what it never can do.
pub(super) const UNSUPPORTED: &[&str] = &["input is not supported", "requires --jinja"];
