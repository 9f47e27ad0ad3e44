//! Descriptors that a keeper was started with.

use std::io;

/// Closes all but the three standard ones. They are the host's, or of whoever started
/// the host, and every command would inherit them: a way past every wall.
///
/// # Errors
/// If it can't be told which there are.
pub(super) fn close_all() -> io::Result<()> {
    const FIRST: libc::c_int = 3;
    // SAFETY: this is the first thing that the process does, and it never goes back
    // to what it would have been: nobody in it relies on a descriptor.
    #[allow(unsafe_code)]
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    // Before Linux 5.9, or where a container doesn't allow the call.
    let names: Vec<_> = std::fs::read_dir("/proc/self/fd")?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    for number in numbers.filter(|&number| number >= FIRST) {
        // SAFETY: as above. The folder that was read is closed already.
        #[allow(unsafe_code)]
        unsafe {
            libc::close(number);
        }
    }
    Ok(())
}
