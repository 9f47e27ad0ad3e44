//! A process's standard input, seen from the host.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

/// What a terminal takes for the end of input.
#[cfg(target_os = "linux")]
const END_OF_INPUT: u8 = 4;

/// Where to write.
#[derive(Debug)]
pub(crate) struct Input {
    writer: pipe::Sender,
    /// The terminal itself, where it is one.
    #[cfg(target_os = "linux")]
    terminal: Option<OwnedFd>,
}

impl Input {
    /// Into a pipe.
    ///
    /// # Errors
    /// If the runtime can't take it.
    pub(crate) fn pipe(writer: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            writer: pipe::Sender::from_owned_fd(writer)?,
            #[cfg(target_os = "linux")]
            terminal: None,
        })
    }

    /// Into a terminal.
    ///
    /// # Errors
    /// If the runtime can't take it.
    #[cfg(target_os = "linux")]
    pub(crate) fn terminal(terminal: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&terminal, true)?;
        Ok(Self {
            writer: pipe::Sender::from_owned_fd_unchecked(terminal.try_clone()?)?,
            terminal: Some(terminal),
        })
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await
    }

    /// Says that nothing more will come. A pipe says so by being closed.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.terminal.is_some() {
            return self.writer.write_all(&[END_OF_INPUT]).await;
        }
        self.writer.shutdown().await
    }

    /// The terminal, if it is one.
    #[cfg(target_os = "linux")]
    pub(crate) fn as_terminal(&self) -> Option<&OwnedFd> {
        self.terminal.as_ref()
    }
}
