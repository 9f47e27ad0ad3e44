//! The types that cross the C boundary of a shared object.
//!
//! `include/haft_plugin.h` says the same in C; a test compares the two. None of
//! these types may ever change its layout: tables grow at their end, guarded by
//! their `size` field and [`ABI_MINOR`]; anything else is a new [`ABI_MAJOR`]
//! under a new symbol.

use std::ffi::c_void;

/// The one symbol a plug-in exports: a [`HaftPlugin`], as data.
pub const ENTRY_SYMBOL: &str = "HAFT_PLUGIN_V1";
/// The first bytes of a [`HaftPluginHead`].
pub const MAGIC: [u8; 8] = *b"HAFTPLUG";
/// Changes with every incompatible change of the layout.
pub const ABI_MAJOR: u32 = 1;
/// Counts the compatible additions. A plug-in states the least one it needs of
/// its host.
pub const ABI_MINOR: u32 = 0;
/// In [`HaftPluginHead::flags`]: a failure inside is caught inside, because
/// panics unwind or because there is nothing that panics. A host loads nothing
/// without it.
pub const FLAG_UNWINDS: u32 = 1;

/// [`TaskPoll`]: not yet; the waker will be woken.
pub const PENDING: i32 = 0;
/// [`TaskPoll`]: one message of a stream; more may follow.
pub const ITEM: i32 = 1;
/// [`TaskPoll`]: the end, with the result (of a stream: with nothing).
pub const DONE: i32 = 2;
/// [`TaskPoll`]: the end, with an error.
pub const FAILED: i32 = 3;
/// [`TaskPoll`]: the end; the object knows no such method.
pub const UNIMPLEMENTED: i32 = 4;
/// [`TaskPoll`]: the end; that side was closed.
pub const SHUTDOWN: i32 = 5;

/// Bytes that belong to somebody else; where and for how long is said where
/// they are used. `ptr` may be null if `len` is zero.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftBytes {
    /// The first byte.
    pub ptr: *const u8,
    /// How many.
    pub len: usize,
}

/// A message: JSON and one run of raw bytes, either of which may be empty.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftMessage {
    /// UTF-8 JSON.
    pub json: HaftBytes,
    /// Raw bytes.
    pub blob: HaftBytes,
}

/// Clones a waker: returns the data of one of the same table, for the caller to
/// drop.
pub type WakerClone = unsafe extern "C" fn(data: *const c_void) -> *const c_void;
/// Wakes; or lets go of a clone.
pub type WakerCall = unsafe extern "C" fn(data: *const c_void);

/// What can be done with a waker.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftWakerTable {
    /// Size of this table in bytes.
    pub size: usize,
    /// Makes a waker to keep beyond the call of `poll`.
    pub clone: Option<WakerClone>,
    /// Wakes the task; the waker stays usable.
    pub wake: Option<WakerCall>,
    /// Lets go of a clone.
    pub drop: Option<WakerCall>,
}

/// Tells whoever waits for a task that polling is worth while. Lent for the
/// call of `poll` that it is given to; clones live until they are dropped, and
/// may be used from any thread.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftWaker {
    /// Handed to the table's functions.
    pub data: *const c_void,
    /// Lives for ever.
    pub table: *const HaftWakerTable,
}

/// Polls a task. Returns one of the constants of this module; after any but
/// [`PENDING`] and [`ITEM`] only `drop` may follow. What `out` points to
/// belongs to the task and stays until its next `poll` or `drop`.
pub type TaskPoll =
    unsafe extern "C" fn(data: *mut c_void, waker: *const HaftWaker, out: *mut HaftMessage) -> i32;
/// Lets go of a task, which cancels what it stands for before it returns.
pub type TaskDrop = unsafe extern "C" fn(data: *mut c_void);

/// What can be done with a task.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftTaskTable {
    /// Size of this table in bytes.
    pub size: usize,
    /// See [`TaskPoll`].
    pub poll: Option<TaskPoll>,
    /// See [`TaskDrop`]. Must be called once.
    pub drop: Option<TaskDrop>,
}

/// What a call became: polled to its end by the caller, from any thread but one
/// at a time, and then dropped.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftTask {
    /// Handed to the table's functions.
    pub data: *mut c_void,
    /// Lives for ever.
    pub table: *const HaftTaskTable,
}

/// Calls a method of an object. Always fills `out`; whatever is wrong with the
/// call is said by the task. All bytes are lent for this call. Object ids in
/// the request are lent until the task is dropped; ids in its results are given.
pub type EndpointCall = unsafe extern "C" fn(
    data: *mut c_void,
    object: u64,
    method: HaftBytes,
    json: HaftBytes,
    blob: HaftBytes,
    out: *mut HaftTask,
);
/// Keeps an object, or lets go of one that was kept or given. Unknown ids are
/// ignored.
pub type EndpointCount = unsafe extern "C" fn(data: *mut c_void, object: u64);
/// Ends all work; every later call answers [`SHUTDOWN`].
pub type EndpointClose = unsafe extern "C" fn(data: *mut c_void);
/// Writes a line into that side's log.
pub type EndpointLog = unsafe extern "C" fn(data: *mut c_void, level: u32, text: HaftBytes);

/// What either side offers to the other. Lives for ever; all functions may be
/// called from any thread, at the same time.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftEndpoint {
    /// Size of this table in bytes.
    pub size: usize,
    /// Handed to all functions.
    pub data: *mut c_void,
    /// See [`EndpointCall`].
    pub call: Option<EndpointCall>,
    /// Counts an object's users up.
    pub retain: Option<EndpointCount>,
    /// Counts an object's users down; at zero it is gone.
    pub release: Option<EndpointCount>,
    /// See [`EndpointClose`].
    pub close: Option<EndpointClose>,
    /// See [`EndpointLog`].
    pub log: Option<EndpointLog>,
}

/// Takes the text of an error; it is lent for the call.
pub type TextWrite = unsafe extern "C" fn(data: *mut c_void, text: HaftBytes);

/// Where [`PluginInit`] says what went wrong.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftText {
    /// Handed to `write`.
    pub data: *mut c_void,
    /// Appends.
    pub write: Option<TextWrite>,
}

/// Makes an instance of the plug-in: returns 0 and fills `out`, or anything
/// else and writes a text or an error as JSON into `error`. May be called more
/// than once; instances share nothing. `host` lives for ever, `config` is lent.
pub type PluginInit = unsafe extern "C" fn(
    host: *const HaftEndpoint,
    host_minor: u32,
    config: HaftBytes,
    out: *mut *const HaftEndpoint,
    error: *const HaftText,
) -> i32;

/// The part of [`HaftPlugin`] that holds no pointer: a host reads it in the
/// file, before any code of the plug-in can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct HaftPluginHead {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`ABI_MAJOR`].
    pub abi_major: u32,
    /// The least [`ABI_MINOR`] that the plug-in needs.
    pub abi_minor: u32,
    /// [`FLAG_UNWINDS`] and whatever comes; unknown ones are ignored.
    pub flags: u32,
    /// Size of the whole [`HaftPlugin`] in bytes.
    pub size: u32,
    /// The version of `haft-api` that it was built against, padded with zeros.
    pub api_version: [u8; 32],
    /// What it was built with, for people; padded with zeros.
    pub build_info: [u8; 72],
}

/// What [`ENTRY_SYMBOL`] names.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HaftPlugin {
    /// What is checked in the file.
    pub head: HaftPluginHead,
    /// See [`PluginInit`].
    pub init: Option<PluginInit>,
}

/// Size of [`HaftPluginHead`] in bytes, on every machine.
pub const HEAD_SIZE: usize = size_of::<HaftPluginHead>();

impl HaftPluginHead {
    /// The head of a plug-in that is built with this very crate.
    pub const fn of_this_crate(build_info: &str) -> Self {
        Self {
            magic: MAGIC,
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            flags: if cfg!(panic = "unwind") {
                FLAG_UNWINDS
            } else {
                0
            },
            size: size_of::<HaftPlugin>() as u32,
            api_version: padded(crate::API_VERSION),
            build_info: padded(build_info),
        }
    }

    /// Reads a head as it stands in a file of this machine.
    pub fn from_bytes(bytes: &[u8; HEAD_SIZE]) -> Self {
        let mut rest: &[u8] = bytes;
        Self {
            magic: take(&mut rest),
            abi_major: u32::from_ne_bytes(take(&mut rest)),
            abi_minor: u32::from_ne_bytes(take(&mut rest)),
            flags: u32::from_ne_bytes(take(&mut rest)),
            size: u32::from_ne_bytes(take(&mut rest)),
            api_version: take(&mut rest),
            build_info: take(&mut rest),
        }
    }

    /// [`api_version`](Self::api_version) as text.
    pub fn api_version(&self) -> String {
        text(&self.api_version)
    }

    /// [`build_info`](Self::build_info) as text.
    pub fn build_info(&self) -> String {
        text(&self.build_info)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (first, others) = rest
        .split_first_chunk()
        .expect("the fields of a head add up to its size");
    *rest = others;
    *first
}

fn text(padded: &[u8]) -> String {
    let end = padded.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&padded[..end.unwrap_or(padded.len())]).into_owned()
}

/// As much of a text as fits, followed by zeros.
const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    let mut out = [0; N];
    let mut index = 0;
    // The last byte stays zero, for readers in C.
    while index < text.len() && index + 1 < N {
        out[index] = text[index];
        index += 1;
    }
    out
}

#[cfg(test)]
mod tests;
