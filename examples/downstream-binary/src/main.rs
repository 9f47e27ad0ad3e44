//! The whole `haft` command, with an extension of our own.
#![forbid(unsafe_code)]
// What is depended on and never named is not linked; this makes it an error.
#![deny(unused_crate_dependencies)]

#[cfg(feature = "example")]
use extension_crate as _;
// The other program's.
use tokio as _;

fn main() -> std::process::ExitCode {
    haft::main()
}
