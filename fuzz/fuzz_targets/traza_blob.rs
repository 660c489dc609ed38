//! Decodes any bytes as a payload blob: see `traza::fuzzing::blob`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::blob(bytes);
});
