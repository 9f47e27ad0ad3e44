//! Which system calls a command may make.
//!
//! What is refused fails with `EPERM`, as it would for want of a privilege;
//! `clone3`, whose flags no filter can see, with `ENOSYS`, so that libraries fall
//! back to `clone`.

use std::collections::BTreeMap;
use std::io;

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET,
    CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, ENOSYS, EPERM,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Sockets that commands may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Of the internet, and of this machine: the network is granted, or their own.
    Usual,
    /// None but connected pairs: nothing else keeps the host's sockets away.
    Pairs,
}

/// Refused, whatever the arguments.
const REFUSED: &[libc::c_long] = &[
    // Around the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // The kernel's inside.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_syslog,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

const NAMESPACES: i32 = CLONE_NEWCGROUP
    | CLONE_NEWIPC
    | CLONE_NEWNET
    | CLONE_NEWNS
    | CLONE_NEWPID
    | CLONE_NEWUSER
    | CLONE_NEWUTS;

/// On x86 each call has a second number, of an interface that few kernels have.
const SECOND_INTERFACE: Option<i64> = if cfg!(target_arch = "x86_64") {
    Some(0x4000_0000)
} else {
    None
};

/// Makes the filters ready, to be installed in this order.
pub(super) fn prepare(sockets: Sockets) -> Result<Vec<BpfProgram>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("no system call filter for {}", std::env::consts::ARCH))?;
    let build = |rules, errno| {
        let action = SeccompAction::Errno(errno as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
            .and_then(BpfProgram::try_from)
            .map_err(|e| format!("the system call filter can't be made: {e}"))
    };
    let mut absent = BTreeMap::new();
    insert(&mut absent, libc::SYS_clone3, Vec::new());
    let refused = refused(sockets).map_err(|e| e.to_string())?;
    Ok(vec![build(absent, ENOSYS)?, build(refused, EPERM)?])
}

fn refused(sockets: Sockets) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules = BTreeMap::new();
    for &call in REFUSED {
        insert(&mut rules, call, Vec::new());
    }
    let flags = [NAMESPACES];
    let made: Result<Vec<_>, _> = flags
        .iter()
        .flat_map(|flags| (0..32).map(move |bit| flags & (1 << bit)))
        .filter(|&flag| flag != 0)
        .map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])
        })
        .collect();
    insert(&mut rules, libc::SYS_clone, made?);
    // Typing into somebody's terminal.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX];
    let typing: Result<Vec<_>, _> = typing
        .iter()
        .map(|&order| rule(&[(1, SeccompCmpOp::Eq, order as u32 as u64)]))
        .collect();
    insert(&mut rules, libc::SYS_ioctl, typing?);
    let socket = match sockets {
        Sockets::Pairs => Vec::new(),
        Sockets::Usual => {
            let families = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];
            let others = families.map(|family| (0, SeccompCmpOp::Ne, family as u64));
            vec![rule(&others)?]
        }
    };
    insert(&mut rules, libc::SYS_socket, socket);
    Ok(rules)
}

/// All conditions of (argument, comparison, value) must hold.
fn rule(all: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions: Result<Vec<_>, _> = all
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect();
    SeccompRule::new(conditions?)
}

#[allow(clippy::useless_conversion)] // Not as wide everywhere.
fn insert(
    rules: &mut BTreeMap<i64, Vec<SeccompRule>>,
    call: libc::c_long,
    matching: Vec<SeccompRule>,
) {
    let call = i64::from(call);
    if let Some(offset) = SECOND_INTERFACE {
        rules.insert(call | offset, matching.clone());
    }
    rules.insert(call, matching);
}

/// Installs them for this process, which has one thread, and all it will start;
/// not to be undone.
pub(super) fn enter(filters: &[BpfProgram]) -> io::Result<()> {
    filters.iter().try_for_each(|filter| {
        seccompiler::apply_filter(filter)
            .map_err(|e| io::Error::other(format!("the system call filter was refused: {e}")))
    })
}

/// Whether the kernel has filters at all.
pub(super) fn available() -> Result<(), String> {
    rustix::thread::secure_computing_mode()
        .map(drop)
        .map_err(|e| format!("this kernel has no seccomp ({e})"))
}
