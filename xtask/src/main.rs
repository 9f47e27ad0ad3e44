//! Build tasks. fn main is the entry.
fn main() {}
