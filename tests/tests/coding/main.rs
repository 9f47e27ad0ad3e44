//! The coding tools over real folders, and (where that is no difference to them)
//! over a session in memory.

mod bench;
mod conformance;
mod files;
mod search;
