//! How much dearer than a copy it is to write an item as JSON.

use std::hint::black_box;

use haft_api::{CallId, Item, Part, ToolResult};
use haft_bench::{Pair, Result};

/// Lines as tools print them, with some that JSON must escape.
const LINES: &str = "test a::b ... ok\nsay \"hello\"\n\tlet path = r\"C:\\x\";\n";

/// A tool's result, serialised; the floor allocates and copies what comes out.
pub(crate) fn to_json() -> Result<Pair> {
    let text: String = LINES.chars().cycle().take(4096).collect();
    let item = Item::ToolResult(ToolResult {
        call_id: CallId::new("call_1")?,
        name: "read_file".to_owned(),
        is_error: false,
        parts: vec![Part::text(text)],
    });
    let bytes = serde_json::to_vec(&item)?;
    Pair::of_operations(
        move || Ok(serde_json::to_vec(black_box(&item))?),
        move || Ok(black_box(&bytes).clone()),
    )
}
