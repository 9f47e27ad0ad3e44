//! Which files a command may open, by Landlock.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

/// What every command may use as a file: no disks, no memory.
pub(super) const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// What to allow.
pub(super) struct Rules {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// Keep signals and abstract sockets in, because no namespace does.
    pub(super) scope_signals: bool,
    pub(super) scope_sockets: bool,
}

/// Versions, from the first whose rights are asked of the kernel.
const VERSIONS: [(u32, ABI); 6] = [
    (6, ABI::V6),
    (5, ABI::V5),
    (4, ABI::V4),
    (3, ABI::V3),
    (2, ABI::V2),
    (1, ABI::V1),
];

/// The version that the kernel has, as far as it is made use of; or why it has
/// none.
pub(super) fn version() -> Result<u32, String> {
    let grants = |abi: ABI| -> Result<(), RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?;
        if !Scope::from_all(abi).is_empty() {
            ruleset = ruleset.scope(Scope::from_all(abi))?;
        }
        ruleset.create().map(drop)
    };
    let mut refusal = String::new();
    for (version, abi) in VERSIONS {
        match grants(abi) {
            Ok(()) => return Ok(version),
            Err(e) => refusal = e.to_string(),
        }
    }
    Err(format!(
        "Landlock isn't in this kernel or isn't enabled (it is from 5.13 on, with `landlock` among the `lsm=` of its command line): {refusal}"
    ))
}

/// Whether signals and abstract sockets can be kept in.
pub(super) fn scopes(version: u32) -> bool {
    version >= 6
}

/// Makes the rules ready, to be entered by each command.
pub(super) fn prepare(rules: &Rules) -> io::Result<RulesetCreated> {
    // Of what a later version handles, nothing is forbidden unknowingly.
    let all = AccessFs::from_all(ABI::V6);
    let read = AccessFs::from_read(ABI::V6);
    let devices =
        AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .map_err(refused)?;
    if rules.scope_signals {
        ruleset = ruleset.scope(Scope::Signal).map_err(refused)?;
    }
    if rules.scope_sockets {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket).map_err(refused)?;
    }
    let terminals: &[&str] = &["/dev/pts", "/dev/ptmx"];
    let shared: &[&str] = &["/dev/shm"];
    ruleset
        .create()
        .map_err(refused)?
        .add_rules(path_beneath_rules(&rules.read, read))
        .map_err(refused)?
        .add_rules(path_beneath_rules(&rules.write, all))
        .map_err(refused)?
        .add_rules(path_beneath_rules(DEVICES, devices))
        .map_err(refused)?
        .add_rules(path_beneath_rules(
            own(terminals, rules),
            devices | AccessFs::ReadDir,
        ))
        .map_err(refused)?
        .add_rules(path_beneath_rules(own(shared, rules), all & !special()))
        .map_err(refused)
}

/// What is the session's own only where it has its own view.
fn own<'a>(paths: &'a [&'a str], rules: &Rules) -> impl Iterator<Item = &'a Path> {
    let whole_view = rules.read.iter().any(|path| path == Path::new("/"));
    paths.iter().filter(move |_| whole_view).map(Path::new)
}

fn special() -> BitFlags<AccessFs> {
    AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock
}

fn refused(error: impl std::error::Error) -> io::Error {
    io::Error::other(format!("Landlock refused its rules: {error}"))
}
