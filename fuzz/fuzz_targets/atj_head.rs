//! Reads any bytes as the file at a study's path: see `atune_core::fuzzing::head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    atune_core::fuzzing::head(bytes);
});
