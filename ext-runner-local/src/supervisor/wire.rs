//! What host, keeper and supervisor say to each other, over stream sockets.
//!
//! Host to keeper: a profile as JSON, which is answered, then one byte with
//! three descriptors for each command: the socket of its supervisor, and where
//! its output goes. Host to supervisor: one [`Launch`], then one byte for each signal to send
//! on. The end of the stream means: end everything. Supervisor to host:
//! [`Report`]s. Lengths and numbers are little-endian `u32`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

const MAGIC: [u8; 4] = *b"HAF2";

/// What to start, and how to treat it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Whether what the command leaves behind may live on.
    pub(crate) detach: bool,
    pub(crate) grace_ms: u32,
    /// The folder to start in; absolute.
    pub(crate) cwd: PathBuf,
    /// Whether standard input is a terminal that is to be the command's own.
    pub(crate) terminal: bool,
}

impl Launch {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.detach)];
        put_u32(&mut bytes, self.grace_ms);
        bytes.push(u8::from(self.terminal));
        put_bytes(&mut bytes, self.cwd.as_os_str().as_bytes());
        put_u32(&mut bytes, self.argv.len() as u32);
        for argument in &self.argv {
            put_bytes(&mut bytes, argument.as_bytes());
        }
        put_u32(&mut bytes, self.env.len() as u32);
        for (name, value) in &self.env {
            put_bytes(&mut bytes, name.as_bytes());
            put_bytes(&mut bytes, value.as_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let detach = take_u8(&mut rest)? != 0;
        let grace_ms = take_u32(&mut rest)?;
        let terminal = take_u8(&mut rest)? != 0;
        let cwd = take_text(&mut rest)?.into();
        let arguments = take_u32(&mut rest)?;
        let argv = (0..arguments)
            .map(|_| take_text(&mut rest))
            .collect::<Option<_>>()?;
        let variables = take_u32(&mut rest)?;
        let env = (0..variables)
            .map(|_| Some((take_text(&mut rest)?, take_text(&mut rest)?)))
            .collect::<Option<_>>()?;
        Some(Self {
            argv,
            env,
            detach,
            grace_ms,
            cwd,
            terminal,
        })
    }
}

/// What a supervisor is started with.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) control: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Sends a keeper the descriptors of a new supervisor.
pub(crate) fn send_descriptors(socket: impl AsFd, sent: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    if !attached.push(SendAncillaryMessage::ScmRights(&sent)) {
        return Err(io::Error::other("no room for descriptors in the message"));
    }
    let byte = [IoSlice::new(b"s")];
    sendmsg(socket, &byte, &mut attached, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives what [`send_descriptors`] sent; `None` at the end.
pub(crate) fn receive_descriptors(socket: impl AsFd) -> io::Result<Option<Descriptors>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut attached,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = attached.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let (control, stdout, stderr) = (descriptors.next(), descriptors.next(), descriptors.next());
    match (control, stdout, stderr) {
        (Some(control), Some(stdout), Some(stderr)) => Ok(Some(Descriptors {
            control,
            stdout,
            stderr,
        })),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "descriptors are missing",
        )),
    }
}

/// Sends the announcement of a launch, with the command's standard input if it
/// has one. The encoded launch itself follows as plain bytes.
pub(crate) fn send_launch(
    socket: impl AsFd,
    encoded: &[u8],
    stdin: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&MAGIC);
    let length = u32::try_from(encoded.len()).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
    head[4..].copy_from_slice(&length.to_le_bytes());
    let descriptors: Vec<BorrowedFd<'_>> = stdin.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !attached.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor in the message"));
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(&head)],
        &mut attached,
        SendFlags::NOSIGNAL,
    )?;
    match sent {
        8 => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives what [`send_launch`] and the bytes after it brought.
pub(crate) fn receive_launch(socket: impl AsFd) -> io::Result<(Launch, Option<OwnedFd>)> {
    let socket = socket.as_fd();
    let mut head = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut head)],
        &mut attached,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    if received.bytes != head.len() || head[..4] != MAGIC {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no launch was announced",
        ));
    }
    let mut stdin = None;
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            stdin = descriptors.last();
        }
    }
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match rustix::io::read(socket, &mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let launch = Launch::decode(&bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the launch is malformed"))?;
    Ok((launch, stdin))
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Code(i32),
    Signal(i32),
}

/// What a supervisor tells the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started { pid: u32 },
    /// It couldn't be started: an error number of the system.
    Failed { errno: i32 },
    /// It has ended, and what it left has been seen to.
    Exited {
        status: Status,
        /// The system ran out of memory meanwhile, and killed somebody.
        out_of_memory: bool,
        /// Limits that were met meanwhile.
        met: Met,
        /// What outlived it: killed, or alive if that was allowed.
        leftovers: Vec<u32>,
    },
}

/// Limits that a command has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) cpu: bool,
    pub(crate) memory: bool,
    pub(crate) processes: bool,
    pub(crate) file_size: bool,
}

impl Met {
    fn bits(self) -> u8 {
        [self.cpu, self.memory, self.processes, self.file_size]
            .into_iter()
            .rev()
            .fold(0, |bits, met| bits << 1 | u8::from(met))
    }

    fn from_bits(bits: u8) -> Self {
        let bit = |number: u8| bits & (1 << number) != 0;
        Self {
            cpu: bit(0),
            memory: bit(1),
            processes: bit(2),
            file_size: bit(3),
        }
    }
}

impl Report {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Started { pid } => {
                body.push(1);
                put_u32(&mut body, *pid);
            }
            Self::Failed { errno } => {
                body.push(2);
                put_u32(&mut body, errno.cast_unsigned());
            }
            Self::Exited {
                status,
                out_of_memory,
                met,
                leftovers,
            } => {
                body.push(3);
                let (kind, number) = match status {
                    Status::Code(code) => (0, code),
                    Status::Signal(signal) => (1, signal),
                };
                body.push(kind);
                put_u32(&mut body, number.cast_unsigned());
                body.push(u8::from(*out_of_memory));
                body.push(met.bits());
                put_u32(&mut body, leftovers.len() as u32);
                for pid in leftovers {
                    put_u32(&mut body, *pid);
                }
            }
        }
        let mut bytes = Vec::with_capacity(body.len() + 4);
        put_bytes(&mut bytes, &body);
        bytes
    }

    /// Takes one report off the front of what was received; `None` if it isn't
    /// complete yet.
    pub(crate) fn take(received: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let mut rest = received.as_slice();
        let Some(body) = take_bytes(&mut rest) else {
            return Ok(None);
        };
        let report = Self::decode(body)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a malformed report"))?;
        let used = received.len() - rest.len();
        received.drain(..used);
        Ok(Some(report))
    }

    fn decode(mut body: &[u8]) -> Option<Self> {
        let rest = &mut body;
        Some(match take_u8(rest)? {
            1 => Self::Started {
                pid: take_u32(rest)?,
            },
            2 => Self::Failed {
                errno: take_u32(rest)?.cast_signed(),
            },
            3 => {
                let kind = take_u8(rest)?;
                let number = take_u32(rest)?.cast_signed();
                let status = match kind {
                    0 => Status::Code(number),
                    1 => Status::Signal(number),
                    _ => return None,
                };
                let out_of_memory = take_u8(rest)? != 0;
                let met = Met::from_bits(take_u8(rest)?);
                let count = take_u32(rest)?;
                Self::Exited {
                    status,
                    out_of_memory,
                    met,
                    leftovers: (0..count).map(|_| take_u32(rest)).collect::<Option<_>>()?,
                }
            }
            _ => return None,
        })
    }
}

fn put_u32(to: &mut Vec<u8>, number: u32) {
    to.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(to, bytes.len() as u32);
    to.extend_from_slice(bytes);
}

fn take_u8(from: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = from.split_first()?;
    *from = rest;
    Some(first)
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    let (first, rest) = from.split_first_chunk::<4>()?;
    *from = rest;
    Some(u32::from_le_bytes(*first))
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = *from;
    let length = take_u32(&mut rest)? as usize;
    let (bytes, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}

fn take_text(from: &mut &[u8]) -> Option<OsString> {
    take_bytes(from).map(|bytes| OsStr::from_bytes(bytes).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_launch_arrives_with_its_input() {
        let launch = Launch {
            argv: vec!["sh".into(), OsString::from_vec(vec![0xff, b'x'])],
            env: vec![("A".into(), "".into()), ("B".into(), "c d".into())],
            detach: true,
            grace_ms: 200,
            cwd: "/work".into(),
            terminal: true,
        };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let encoded = launch.encode();
        send_launch(&ours, &encoded, Some(reader.as_fd())).unwrap();
        (&ours).write_all(&encoded).unwrap();
        let (received, stdin) = receive_launch(&theirs).unwrap();
        assert_eq!(received, launch);
        assert!(stdin.is_some());
    }

    #[test]
    fn what_is_no_launch_is_refused() {
        let check = |bytes: &[u8]| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (&ours).write_all(bytes).unwrap();
            drop(ours);
            assert!(receive_launch(&theirs).is_err(), "{bytes:?}");
        };
        check(b"");
        check(b"HAF2");
        check(b"GET / HTTP/1.1\r\n\r\n");
        check(b"HAF2\x02\0\0\0\0\0");
        check(b"HAF2\x09\0\0\0\0\0\0\0\0\xff\xff\xff\xff");
    }

    #[test]
    fn reports_survive_being_cut_anywhere() {
        let reports = [
            Report::Started { pid: 7 },
            Report::Failed { errno: 2 },
            Report::Exited {
                status: Status::Signal(9),
                out_of_memory: true,
                met: Met {
                    cpu: true,
                    processes: true,
                    ..Met::default()
                },
                leftovers: vec![1, 70_000],
            },
            Report::Exited {
                status: Status::Code(-1),
                out_of_memory: false,
                met: Met {
                    memory: true,
                    file_size: true,
                    ..Met::default()
                },
                leftovers: Vec::new(),
            },
        ];
        let all: Vec<u8> = reports.iter().flat_map(Report::encode).collect();
        let mut received = Vec::new();
        let mut taken = Vec::new();
        for byte in all {
            received.push(byte);
            taken.extend(Report::take(&mut received).unwrap());
        }
        assert_eq!(taken, reports);
        assert!(Report::take(&mut vec![1, 0, 0, 0, 9]).is_err());
    }
}
