//! The three wires that engines speak, held to the same rules.

mod conformance;
mod corpus;
mod expected;
mod faults;
mod hand_made;
mod heard;
mod models;
mod moving;
mod provider;
mod retries;
mod spoken;
