//! What is given up of root's powers.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// What root keeps: to work on files of other owners, as it is used to. It holds
/// within the user namespace, and for nothing outside the view.
fn kept() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
}

/// Gives up everything else, for good together with `no_new_privs`.
pub(super) fn drop_privileges() -> io::Result<()> {
    let have = rustix::thread::capabilities(None)?;
    let keep = match rustix::process::geteuid().is_root() {
        true => have.permitted & kept(),
        false => CapabilitySet::empty(),
    };
    rustix::thread::set_no_new_privs(true)?;
    if have.permitted.is_empty() && have.inheritable.is_empty() {
        return Ok(());
    }
    let sets = CapabilitySets {
        effective: keep,
        permitted: keep,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// Whether this process may map any user into a namespace that it makes.
pub(super) fn may_map_users() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|have| {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        rustix::process::geteuid().is_root() && have.effective.contains(needed)
    })
}
