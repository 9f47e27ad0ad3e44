//! A new network namespace has a loopback that is down; this raises it.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `RTM_NEWLINK` for the first link, with the flag `IFF_UP` set and changed, and
/// an answer asked for: a header of 16 bytes, an `ifinfomsg` of 16.
fn request() -> [u8; 32] {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const IFF_UP: u32 = 1;
    let mut message = [0; 32];
    message[0..4].copy_from_slice(&32u32.to_ne_bytes());
    message[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_AND_ACK.to_ne_bytes());
    message[20..24].copy_from_slice(&1u32.to_ne_bytes());
    message[24..28].copy_from_slice(&IFF_UP.to_ne_bytes());
    message[28..32].copy_from_slice(&IFF_UP.to_ne_bytes());
    message
}

/// Raises the loopback of this process's network.
pub(super) fn raise() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let mut answer = [0u8; 64];
    let (_, length) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // A header of 16 bytes, then an error number, negative, or zero.
    let code = answer.get(16..20).filter(|_| length >= 20);
    let code = code.and_then(|bytes| bytes.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
