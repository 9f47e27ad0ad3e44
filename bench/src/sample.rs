//! One measurement.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wait4::Wait4;

use crate::Result;

/// What some operations took together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// How many there were; at least 1.
    pub operations: u32,
    /// On all threads, in user and in kernel mode.
    pub cpu: Duration,
    /// On the clock.
    pub wall: Duration,
    /// The most memory that a child process held at once, in bytes; or what one
    /// operation added to a process's memory, where that is what is measured.
    pub peak_memory: Option<u64>,
}

impl Sample {
    /// Measures work of this process that does `operations` of what the
    /// benchmark is about.
    ///
    /// # Errors
    /// What the work failed with.
    pub fn take(operations: u32, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let start = Mark::now();
        work()?;
        Ok(start.to(&Mark::now(), operations))
    }

    /// Measures the whole life of a child process, as one operation. It gets no
    /// input, and what it prints is thrown away.
    ///
    /// Its peak memory is at least this process's own: until the child becomes
    /// another program, they are the same to the system.
    ///
    /// # Errors
    /// If it can't be started, or fails.
    pub fn of_process(command: &mut Command) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let start = Instant::now();
        let child = command
            .spawn()
            .map_err(|e| format!("cannot run {command:?}: {e}"))?;
        let used = child.wait4()?;
        let wall = start.elapsed();
        if !used.status.success() {
            return Err(format!("{command:?} failed: {}", used.status).into());
        }
        Ok(Self {
            operations: 1,
            cpu: used.rusage.utime + used.rusage.stime,
            wall,
            peak_memory: Some(used.rusage.maxrss),
        })
    }
}

/// A moment in this process's life.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    cpu: Duration,
    wall: Instant,
}

impl Mark {
    /// This moment.
    pub fn now() -> Self {
        Self {
            cpu: cpu_time(),
            wall: Instant::now(),
        }
    }

    /// What was used from here to a later moment, for so many operations.
    pub fn to(&self, later: &Self, operations: u32) -> Sample {
        Sample {
            operations,
            cpu: later.cpu.saturating_sub(self.cpu),
            wall: later.wall.saturating_duration_since(self.wall),
            peak_memory: None,
        }
    }
}

/// The CPU time that this process has used so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a process never used less than no time")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Duration = Duration::from_millis(50);

    #[test]
    fn cpu_time_is_work_on_any_thread_and_not_waiting() {
        let sample = Sample::take(2, || {
            let worker = std::thread::spawn(|| {
                let start = cpu_time();
                while cpu_time() - start < BUSY {}
            });
            worker.join().map_err(|_| "the worker panicked")?;
            Ok(())
        });
        let sample = sample.unwrap();
        assert!(sample.cpu >= BUSY, "{sample:?}");
        assert_eq!((sample.operations, sample.peak_memory), (2, None));
    }

    #[test]
    fn a_failure_is_passed_on() {
        assert!(Sample::take(1, || Err("no".into())).is_err());
    }

    #[test]
    fn a_process_is_measured_for_itself() {
        let shell = |script: &str| Sample::of_process(Command::new("sh").args(["-c", script]));
        let busy = shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").unwrap();
        let idle = shell("sleep 0.3").unwrap();
        assert!(busy.cpu > idle.cpu, "{busy:?} {idle:?}");
        assert!(idle.wall >= Duration::from_millis(300), "{idle:?}");
        assert!(
            idle.peak_memory.is_some_and(|bytes| bytes > 100_000),
            "{idle:?}"
        );
        let error = shell("exit 3").unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }
}
