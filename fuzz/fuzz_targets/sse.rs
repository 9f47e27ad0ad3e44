//! See the function.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haft_fuzz::sse(data));
