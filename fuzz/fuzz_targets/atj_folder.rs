//! Reads any bytes as a study's head and data file: see `atune_core::fuzzing::folder`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    atune_core::fuzzing::folder(bytes);
});
