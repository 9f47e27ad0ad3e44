//! What the store does with files, processes and damage.

mod blobs;
mod child;
mod damage;
mod files;
mod forks;
mod listing;
mod support;
mod writing;
