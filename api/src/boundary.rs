//! The plug-in boundary: the same traits, across a shared object or a pipe.
//!
//! Two *sides* talk, a host and a plug-in, and both do both: the host calls the
//! plug-in's tools and engines, a tool calls back the output sink and the
//! session that it was lent. Each side has
//!
//! - a [`Server`]: the objects that the other side may call, by number, and
//! - a [`Link`]: the way to the other side's server, over a [`Transport`].
//!
//! A call names an object, a method and a message (JSON and one run of raw
//! bytes), and becomes a task that is polled: a future or a stream of messages.
//! Dropping it cancels. Numbers in a result are *given*: whoever got one lets
//! go of it. Numbers in a request are *lent* for that call; keeping one longer
//! is counted.
//!
//! All of this knows nothing of shared objects. What does is [`abi`], the types
//! that cross, and [`ffi`](connect), which makes a server into a table of C
//! functions and such a table into a transport. A crate's extensions get their
//! entry symbol by this crate's feature `dylib`; there is nothing else to do.
//!
//! Which methods there are and what their messages hold is in
//! `include/PROTOCOL.md`, and as types in [`wire`].
//!
//! This module is for those who write hosts or transports, not for extensions.
//! Its Rust interface may change with a minor version; the ABI may not.

pub mod abi;
mod event;
#[allow(unsafe_code)]
mod ffi;
#[cfg(feature = "dylib")]
mod guest;
mod link;
mod message;
mod output;
mod serve;
mod server;
mod session;
mod task;
pub mod wire;

pub use event::write_event;
pub use ffi::{EndpointRef, connect, export, start};
pub use link::{Call, Link, Remote, Step, Transport, TransportTask, is_unimplemented, items};
pub use message::{Message, MessageRef, put_images, take_images};
pub use output::{ServedOutcomes, ServedSink};
pub use serve::serve_extensions;
pub use server::{
    Enter, Giver, Lent, Log, LogLevel, MessageFuture, MessageStream, Origin, Reply, Request,
    Served, Server, ServerStats,
};
pub use session::{ServedSession, SessionProxy};
pub use task::ServedTask;

/// In an error of `stream_turn`: the history has to be sent from its beginning.
pub const RESEND_HISTORY: &str = "resend history";

/// Whether something that was built against version `offered` of this crate
/// works with this one.
pub fn is_compatible(offered: &str) -> bool {
    crate::extension::compatible(offered, crate::API_VERSION)
}
