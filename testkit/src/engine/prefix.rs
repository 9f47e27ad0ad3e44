//! Whether requests extend one another, as prompt caches need them to.

use std::collections::BTreeMap;

use haft_api::{EngineRequest, ThreadId};

/// Checks that, thread by thread, each request extends the one before it:
/// same instructions, same tools to the byte, and a history that begins with
/// all of the earlier one's items, as long as its generation is the same.
///
/// # Errors
/// What differs, and between which two requests of the list.
pub fn check_prefixes(requests: &[EngineRequest]) -> Result<(), String> {
    let mut latest: BTreeMap<&ThreadId, (usize, &EngineRequest)> = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        if let Some((before, earlier)) = latest.insert(&request.thread, (index, request)) {
            compare(earlier, request).map_err(|difference| {
                format!(
                    "thread {}: requests {before} and {index}: {difference}",
                    request.thread
                )
            })?;
        }
    }
    Ok(())
}

fn compare(earlier: &EngineRequest, later: &EngineRequest) -> Result<(), String> {
    if earlier.instructions != later.instructions {
        return Err("the instructions differ".to_owned());
    }
    let tools = |request: &EngineRequest| {
        serde_json::to_string(&request.tools).map_err(|e| format!("a tool isn't JSON: {e}"))
    };
    if tools(earlier)? != tools(later)? {
        return Err("the tools differ".to_owned());
    }
    if earlier.history.generation() != later.history.generation() {
        return Ok(());
    }
    let (old, new) = (earlier.history.items(), later.history.items());
    if new.len() < old.len() {
        return Err(format!("{} items became {}", old.len(), new.len()));
    }
    match old.iter().zip(new).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(place) => Err(format!(
            "item {place} was {:?} and is {:?}, in one generation",
            old[place], new[place]
        )),
    }
}
