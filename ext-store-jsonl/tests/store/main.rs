//! What the store does with files, processes and damage.

mod blobs;
mod child;
mod damage;
mod files;
mod forks;
mod formats;
mod listing;
#[cfg(target_os = "linux")]
mod mounted;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod small_disk;
mod support;
mod writing;
