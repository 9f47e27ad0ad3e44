//! Limits that the system keeps for each process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Limits;

/// Sets them for this process and all it starts. What is lower already stays.
/// `memory` says whether memory is to be limited here, because nothing else
/// does; `processes` the same of processes.
pub(super) fn apply(limits: &Limits, memory: bool, processes: bool) -> io::Result<()> {
    // A dump of a command's memory is no output of it.
    lower(Resource::Core, 0, 0)?;
    if let Some(seconds) = limits.cpu_seconds {
        // The signal first, which says what happened; a second later the end.
        lower(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    }
    let each = [
        (Resource::Data, limits.memory_bytes.filter(|_| memory)),
        (Resource::Nproc, limits.processes.filter(|_| processes)),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
    ];
    for (resource, limit) in each {
        if let Some(limit) = limit {
            lower(resource, limit, limit)?;
        }
    }
    Ok(())
}

fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let hard = now.maximum.map_or(hard, |now| now.min(hard));
    let soft = now.current.map_or(soft, |now| now.min(soft)).min(hard);
    let new = Rlimit {
        current: Some(soft),
        maximum: Some(hard),
    };
    Ok(setrlimit(resource, new)?)
}
