//! The supervisor's life.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, getpid, wait};

use super::wire::{Descriptors, Met, Report, Status, receive_launch};
use crate::processes::table;
use crate::sandbox::{Cgroups, Confinement, Usage};

/// How long what a command leaves behind has to end by itself, as the rest of a
/// pipeline does within a moment.
const SETTLE: Duration = Duration::from_millis(100);
/// How long leftovers have between the polite signal and the final one.
const LEFTOVER_GRACE: Duration = Duration::from_millis(100);
/// How long the ending is held back for leftovers that don't die at once.
const KILL_WAIT: Duration = Duration::from_secs(1);

/// Runs as a supervisor to the end of the command and of all it started.
/// Returns the exit code.
pub(super) fn supervise(
    descriptors: Descriptors,
    confinement: &Arc<Confinement>,
    cgroups: &Cgroups,
) -> i32 {
    // The host sees its end of the socket close, and says that it was lost.
    prepare(descriptors, confinement, cgroups).unwrap_or(2)
}

fn prepare(
    descriptors: Descriptors,
    confinement: &Arc<Confinement>,
    cgroups: &Cgroups,
) -> io::Result<i32> {
    let control = UnixStream::from(descriptors.control);
    let output = (descriptors.stdout, descriptors.stderr);
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let _ = rustix::process::setsid();
    rustix::thread::set_name(c"haft-supervisor")?;
    let (launch, input) = receive_launch(&control)?;
    let before = cgroups.usage();
    let main = match super::launch::start(&launch, input, output, confinement) {
        Ok(pid) => pid,
        Err(e) => {
            let errno = e.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            report(&control, &Report::Failed { errno });
            return Ok(1);
        }
    };
    report(&control, &Report::Started { pid: main });
    let supervisor = Supervisor {
        main,
        detach: launch.detach,
        before,
        // Not before the start, which it would hold up.
        oom_kills: oom_kills(),
        ending: Arc::new(AtomicBool::new(false)),
    };
    let ending = Arc::clone(&supervisor.ending);
    let orders = control.try_clone()?;
    let grace = Duration::from_millis(launch.grace_ms.into());
    std::thread::Builder::new().spawn(move || obey(orders, &ending, grace))?;
    supervisor.watch(&control, cgroups);
    Ok(0)
}

/// Tells the host; if that is gone, there is nobody to tell.
fn report(control: &UnixStream, report: &Report) {
    let _ = (&*control).write_all(&report.encode());
}

/// Sends on what the host says, until it says no more; then ends everything.
/// The process exits beneath this as soon as nothing is left.
fn obey(mut orders: UnixStream, ending: &AtomicBool, grace: Duration) {
    let mut bytes = [0; 64];
    loop {
        match orders.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                for &byte in &bytes[..count] {
                    if let Some(signal) = Signal::from_named_raw(byte.into()) {
                        signal_all(signal);
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    ending.store(true, Ordering::Release);
    signal_all(Signal::TERM);
    // A stopped process can't take the hint.
    signal_all(Signal::CONT);
    std::thread::sleep(grace);
    let mut pause = Duration::from_millis(1);
    loop {
        signal_all(Signal::KILL);
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Signals everything beneath this process.
fn signal_all(signal: Signal) {
    table::signal_descendants(signal);
}

struct Supervisor {
    main: u32,
    detach: bool,
    /// What the session's control groups had counted at the start.
    before: Usage,
    /// How often the system had run out of memory at the start.
    oom_kills: Option<u64>,
    /// Whether the host said, or showed by its death, that all is to end.
    ending: Arc<AtomicBool>,
}

impl Supervisor {
    fn watch(&self, control: &UnixStream, cgroups: &Cgroups) {
        let status = self.wait_for_main();
        let mut leftovers = Vec::new();
        if !reap_for(SETTLE) {
            leftovers = table::descendants();
            if !self.detach || self.ending.load(Ordering::Acquire) {
                end_leftovers();
            }
        }
        let killed = status == Status::Signal(Signal::KILL.as_raw());
        let met = self.met(status, cgroups);
        let out_of_memory = killed && (met.memory || oom_kills() > self.oom_kills);
        report(
            control,
            &Report::Exited {
                status,
                out_of_memory,
                met,
                leftovers,
            },
        );
        if self.detach && !self.ending.load(Ordering::Acquire) {
            // The other thread ends them when the time has come.
            while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
        }
        while !reap_for(Duration::from_millis(100)) {
            // What could not be killed within the wait may be by now.
            signal_all(Signal::KILL);
        }
    }

    /// Which limits were met. A shell passes on as its exit code that a signal
    /// ended what it ran.
    fn met(&self, status: Status, cgroups: &Cgroups) -> Met {
        let now = cgroups.usage();
        let by = |signal: Signal| {
            let number = signal.as_raw();
            status == Status::Signal(number) || status == Status::Code(128 + number)
        };
        Met {
            cpu: by(Signal::XCPU),
            memory: now.oom_kills > self.before.oom_kills,
            processes: now.refused_processes > self.before.refused_processes,
            file_size: by(Signal::XFSZ),
        }
    }

    fn wait_for_main(&self) -> Status {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status)))
                    if pid.as_raw_nonzero().get().cast_unsigned() == self.main =>
                {
                    return ended(status);
                }
                // An orphan that was handed over. It, too, must be reaped.
                Ok(_) | Err(Errno::INTR) => {}
                // Can't be: the command is a child until it was waited for.
                Err(_) => return Status::Code(-1),
            }
        }
    }
}

fn ended(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => Status::Signal(signal),
        (code, None) => Status::Code(code.unwrap_or(-1)),
    }
}

fn end_leftovers() {
    signal_all(Signal::TERM);
    signal_all(Signal::CONT);
    if reap_for(LEFTOVER_GRACE) {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < KILL_WAIT {
        signal_all(Signal::KILL);
        if reap_for(Duration::from_millis(5)) {
            return;
        }
    }
}

/// Reaps whatever ends, for so long at most. True once nothing is left.
fn reap_for(time: Duration) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(100);
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return true,
            Ok(Some(_)) | Err(Errno::INTR) => continue,
            Ok(None) | Err(_) => {}
        }
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// How often the system ran out of memory and killed somebody.
fn oom_kills() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}
