//! How a command is confined.
//!
//! A session's keeper (see [`crate::supervisor`]) first shuts itself into what
//! namespaces the machine grants and a view of the file system that shows
//! nothing but what commands may see, and gives up system calls by seccomp; each
//! command then gives up the rest for itself: capabilities, new privileges, files
//! by Landlock. What isn't to be had is told with its reason, never passed over.
//!
//! *Architecture invariant:* no rung of the ladder is assumed. What a session
//! says of itself is what the machine did when it was tried.

mod cgroup;
mod confinement;
mod landlock;
mod limits;
mod loopback;
mod namespaces;
mod paths;
mod privileges;
mod profile;
mod seccomp;
mod view;

pub(crate) use cgroup::{Cgroups, Usage};
pub(crate) use confinement::Confinement;
pub(crate) use namespaces::{Isolated, isolate};
pub(crate) use paths::{hidden, home, readable};
pub(crate) use profile::{Achieved, Profile};
