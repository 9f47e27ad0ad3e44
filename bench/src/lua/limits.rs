//! What the limits cost honest programs, and how soon they end the others.

use std::time::Duration;

use haft_bench::{Pair, Result, Sample};
use mlua::{Function, Lua};

use super::{Host, said, tool};

const FIB: &str =
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end";
const DEADLINE: Duration = Duration::from_millis(100);

/// Calls of a function of its own, and nothing else; the floor is a bare state.
pub(crate) fn recursion() -> Result<Pair> {
    beside_bare_lua(&format!("{FIB} fib(24)"))
}

/// What tools do most: texts taken apart and put together, tables made and
/// sorted, a little arithmetic.
pub(crate) fn loops() -> Result<Pair> {
    beside_bare_lua(
        "local lines, words, count = {}, {}, {}\n\
         for i = 1, 4000 do lines[i] = ('line %d has some words, %x of them'):format(i, i * 7) end\n\
         local text = table.concat(lines, '\\n')\n\
         for word in text:gmatch('%w+') do\n\
           local lower = word:lower()\n\
           if not count[lower] then words[#words + 1] = lower end\n\
           count[lower] = (count[lower] or 0) + 1\n\
         end\n\
         table.sort(words)\n\
         local sum = 0\n\
         for i, word in ipairs(words) do sum = sum + i % 7 + #word:gsub('[aeiou]', '_') end\n\
         assert(#text:upper() == #text and text:find('line 3999', 1, true) and sum > 0)",
    )
}

fn beside_bare_lua(body: &str) -> Result<Pair> {
    let host = Host::new(&tool("work", body))?;
    let lua = Lua::new();
    let floor: Function = said(lua.load(format!("return function() {body} end")).eval())?;
    Ok(Pair::of_samples(
        move || {
            let calls = Host::calls("work", "{}", 1)?;
            Sample::take(1, || host.run(calls))
        },
        move || {
            Sample::take(1, || {
                let thread = said(lua.create_thread(floor.clone()))?;
                said(thread.resume::<()>(()))?;
                Ok(())
            })
        },
    ))
}

/// Programs that never end by themselves.
const HOSTILE: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(error, 'x') end",
    "xpcall(function() while true do end end, function() while true do end end)",
    "string.gsub('x', '.', function() while true do pcall(function() while true do end end) end end)",
    "table.sort({ 3, 2, 1 }, function() while true do end end)",
    "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "setmetatable({}, { __index = function() while true do end end }).x()",
    "local x <close> = setmetatable({}, { __close = function() while true do end end }) haft.sleep(1e6)",
    "local function f() return f() end f()",
    "haft.sleep(1e6)",
];

/// Each of them beside a sleeper; the sample is the one that ended last after
/// its deadline, from its start. The floor is the deadline.
pub(crate) fn hostile() -> Result<Pair> {
    let mut script = tool("nap", "haft.sleep(5) return 'fine'");
    for (index, body) in HOSTILE.iter().enumerate() {
        script += &tool(&format!("hostile{index}"), body);
    }
    let host = Host::new(&script)?;
    Ok(Pair::of_samples(
        move || {
            let mut worst = Sample::take(1, || Ok(()))?;
            for (index, body) in HOSTILE.iter().enumerate() {
                let name = format!("hostile{index}");
                let sample = Sample::take(1, || {
                    let told = host.outcomes(&[&name, "nap"], DEADLINE)?;
                    let mut told = told.into_values();
                    let ended = told.next().is_some_and(|o| o.is_ok_and(|o| o.is_error));
                    let fine = told.next().is_some_and(|o| o.is_ok_and(|o| !o.is_error));
                    match ended && fine {
                        true => Ok(()),
                        false => {
                            Err(format!("`{body}` or its sibling ended as it should not").into())
                        }
                    }
                })?;
                if sample.wall > worst.wall {
                    worst = sample;
                }
            }
            Ok(worst)
        },
        || {
            Sample::take(1, || {
                std::thread::sleep(DEADLINE);
                Ok(())
            })
        },
    ))
}
