//! The wire Chat Completions.

pub(crate) mod decode;
pub(crate) mod encode;
