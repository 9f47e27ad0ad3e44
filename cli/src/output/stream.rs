//! One of the streams, written to without waiting in a write.

use std::io;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Writes all of it, as fast as it is taken.
    ///
    /// # Errors
    /// What the stream fails with.
    pub(super) async fn write_all(self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_some(bytes)? {
                0 => self.until_writable().await?,
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    use super::Stream;

    /// What a pipe that can be written to takes without a wait (`PIPE_BUF` of
    /// Linux; elsewhere it is smaller, and such a pipe may hold us up for the
    /// rest).
    const CHUNK: usize = 4_096;

    impl Stream {
        fn with<T>(self, act: impl FnOnce(&dyn AsFd) -> T) -> T {
            match self {
                Self::Stdout => act(&io::stdout()),
                Self::Stderr => act(&io::stderr()),
            }
        }

        /// Writes what can be written at once; 0 if nothing can.
        pub(super) fn write_some(self, bytes: &[u8]) -> io::Result<usize> {
            let chunk = &bytes[..bytes.len().min(CHUNK)];
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            self.with(|fd| {
                let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
                match poll(&mut polled, Some(&now)) {
                    Ok(0) | Err(Errno::INTR) => return Ok(0),
                    Ok(_) => {}
                    Err(e) => return Err(e.into()),
                }
                match rustix::io::write(fd, chunk) {
                    Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => Ok(written),
                    // Somebody made it non-blocking.
                    Err(Errno::INTR | Errno::AGAIN) => Ok(0),
                    Err(e) => Err(e.into()),
                }
            })
        }

        pub(super) async fn until_writable(self) -> io::Result<()> {
            let waited = tokio::task::spawn_blocking(move || {
                self.with(
                    |fd| match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None) {
                        Ok(_) | Err(Errno::INTR) => Ok(()),
                        Err(e) => Err(io::Error::from(e)),
                    },
                )
            });
            waited.await.map_err(io::Error::other)?
        }
    }
}

#[cfg(not(unix))]
impl Stream {
    /// Writes all of it; here it has to wait for the reader.
    fn write_some(self, bytes: &[u8]) -> io::Result<usize> {
        use std::io::Write as _;
        let written = match self {
            Self::Stdout => io::stdout()
                .write_all(bytes)
                .and_then(|()| io::stdout().flush()),
            Self::Stderr => io::stderr().write_all(bytes),
        };
        written.map(|()| bytes.len())
    }

    async fn until_writable(self) -> io::Result<()> {
        Ok(())
    }
}
