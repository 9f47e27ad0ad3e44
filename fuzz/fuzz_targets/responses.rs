//! See the function.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haft_fuzz::decoder::<
    haft_ext_engine_openai::ResponsesRules,
>(data));
