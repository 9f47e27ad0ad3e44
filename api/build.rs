//! Says what this crate is built with, which a plug-in carries along for people
//! to read. (That a graph has only one version of this crate is seen to by the
//! `links` key of the manifest, which needs a build script.)

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output();
    let version = version
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    // `rustc 1.95.0 (59807616e 2026-04-14)`: the first two words.
    let version: Vec<_> = version.split_whitespace().take(2).collect();
    let target = var("TARGET").unwrap_or_default();
    let level = var("OPT_LEVEL").unwrap_or_default();
    println!(
        "cargo::rustc-env=HAFT_BUILD_INFO={} {target} opt-level={level}",
        version.join(" ")
    );
}
