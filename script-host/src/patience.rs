//! Waiting for another thread without falling asleep at once.

use std::time::{Duration, Instant};

/// How long a thread looks again. It takes about as long to fall asleep and be
/// woken, on another core and more so in a virtual machine, and most answers of
/// a script's thread are there sooner.
const PATIENCE: Duration = Duration::from_micros(20);

/// Looks for something that another thread is about to give, again and again for
/// 20 µs, and lets other threads have the core in between. For the time right
/// after one has asked or answered; never where nothing is expected.
///
/// ```
/// let (give, take) = std::sync::mpsc::channel();
/// give.send(7).unwrap();
/// assert_eq!(haft_script_host::look_again(|| take.try_recv().ok()), Some(7));
/// assert_eq!(haft_script_host::look_again(|| take.try_recv().ok()), None);
/// ```
pub fn look_again<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    if let Some(found) = look() {
        return Some(found);
    }
    let until = Instant::now() + PATIENCE;
    loop {
        std::thread::yield_now();
        let found = look();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
    }
}
