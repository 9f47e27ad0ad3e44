//! The `haft` command: the library's command, with the extensions of this
//! crate's features and nothing else.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    haft::main()
}
