//! The wire Responses.

pub(crate) mod decode;
pub(crate) mod encode;

/// Whose state the items of this wire bear, where `host` is the server's. Its
/// shape differs from that of the same server's other wire.
pub(crate) fn provider(host: &str) -> String {
    format!("{host}/responses")
}
