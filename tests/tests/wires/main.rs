//! The three wires that engines speak, held to the same rules.

mod corpus;
mod expected;
mod hand_made;
mod heard;
