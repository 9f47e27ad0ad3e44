//! How long the collector keeps a script waiting.

use std::time::Duration;

use haft_bench::{Pair, Result, Sample};
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, Lua};

use super::{Host, said, tool};

/// Fills a heap of 88 MB and works in it; the sample is the longest of a
/// thousand pieces of work (p99.9).
const HEAP: &str = r"
local heap = {}
for i = 1, 500000 do heap[i] = { i, i + 1, i + 2, i + 3 } end
local function piece(now)
  local began = now()
  for i = 1, 20 do heap[#heap] = { i, { i } } end
  return now() - began
end
local function longest(now)
  local times = {}
  for i = 1, 20000 do times[i] = piece(now) end
  table.sort(times)
  return times[#times - #times // 1000]
end
";

/// In a host's state; the floor is a bare one with the incremental collector.
pub(crate) fn pauses() -> Result<Pair> {
    let script = HEAP.to_owned() + &tool("longest", "return ('%.9f'):format(longest(haft.now))");
    let host = Host::new(&script)?;
    let lua = Lua::new();
    lua.gc_set_mode(GcMode::Incremental(GcIncParams::default()));
    let now = said(lua.create_function({
        let began = std::time::Instant::now();
        move |_, ()| Ok(began.elapsed().as_secs_f64() * 1000.0)
    }))?;
    let chunk = lua.load(format!(
        "{HEAP} local now = ... return function() return longest(now) end"
    ));
    let floor: Function = said(chunk.call(now))?;
    Ok(Pair::of_samples(
        move || {
            let told = host.outcomes(&["longest"], Duration::from_secs(60))?;
            let text = match told.into_values().next() {
                Some(Ok(output)) if !output.is_error => haft_api::join_text(&output.parts),
                other => return Err(format!("no pause was measured: {other:?}").into()),
            };
            paused(text.parse()?)
        },
        move || {
            let _keep = &lua;
            paused(said(floor.call::<f64>(()))?)
        },
    ))
}

/// A pause in milliseconds as a sample; a script can't tell one thread's work
/// from another's, so it counts as both.
fn paused(ms: f64) -> Result<Sample> {
    let mut sample = Sample::take(1, || Ok(()))?;
    sample.wall = Duration::from_secs_f64(ms / 1000.0);
    sample.cpu = sample.wall;
    Ok(sample)
}
