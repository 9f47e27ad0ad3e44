//! A state that was just made, and one with nothing to do.

use std::time::{Duration, Instant};

use haft_api::ToolSource as _;
use haft_bench::{Pair, Result, Sample};
use haft_ext_lua::{LuaHost, Settings};
use mlua::Lua;

use super::{Host, tool};
use crate::agent;

/// A host's state, its thread included, up to the first answer; the floor is a
/// bare state. The memory is the state's.
pub(crate) fn fresh() -> Result<Pair> {
    const TIMES: u32 = 10;
    let tokio = agent::one_thread()?;
    Ok(Pair::of_samples(
        move || {
            let before = threads()?;
            let mut hosts = Vec::new();
            for _ in 0..TIMES {
                let mut settings = Settings::default();
                settings.reload = Some(false);
                hosts.push(LuaHost::new(settings)?);
            }
            let mut sample = Sample::take(TIMES, || {
                hosts.iter().try_for_each(|host| {
                    tokio.block_on(host.tools())?;
                    Ok(())
                })
            })?;
            let memory = tokio.block_on(hosts[0].memory())?;
            sample.peak_memory = Some(memory.state);
            drop(hosts);
            // Else the end of these would count as the start of the next.
            end_of_threads(before)?;
            Ok(sample)
        },
        || {
            Sample::take(TIMES, || {
                for _ in 0..TIMES {
                    drop(std::hint::black_box(Lua::new()));
                }
                Ok(())
            })
        },
    ))
}

/// How many threads this process has.
fn threads() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Waits until there are no more threads than that.
fn end_of_threads(most: usize) -> Result<()> {
    let began = Instant::now();
    while threads()? > most {
        if began.elapsed() > Duration::from_secs(10) {
            return Err("the states' threads didn't end".into());
        }
    }
    Ok(())
}

/// Half a second in which nobody calls; the floor is a process without a host.
pub(crate) fn idle() -> Result<Pair> {
    const TIME: Duration = Duration::from_millis(500);
    let host = Host::new(&tool("call", ""))?;
    host.run(Host::calls("call", "{}", 1)?)?;
    let wait = || {
        Sample::take(1, || {
            std::thread::sleep(TIME);
            Ok(())
        })
    };
    Ok(Pair::of_samples(
        move || {
            let _keep = &host;
            wait()
        },
        wait,
    ))
}
