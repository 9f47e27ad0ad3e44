//! Stores that a test controls.

mod fault;
mod memory;
mod writer;

#[cfg(test)]
mod tests;

pub use fault::{FaultStore, StoreOperation};
pub use memory::{MemoryStore, MemoryStoreFactory};
