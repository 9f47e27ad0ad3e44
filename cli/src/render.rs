//! What people and programs see.

mod answer;
mod call;
mod json;
mod style;
mod text;
mod transcript;
mod units;

pub(crate) use call::{call_summary, result_summary};
pub(crate) use json::{EventLines, write_line};
pub(crate) use style::{Style, failure_line, visible};
pub(crate) use text::{Looks, TextView};
pub(crate) use transcript::{markdown, transcript};
pub(crate) use units::{age, bytes, count, dollars, tokens};
