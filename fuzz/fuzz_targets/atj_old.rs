//! Reads any bytes as a study of any version in one file: see `atune_core::fuzzing::old`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    atune_core::fuzzing::old(bytes);
});
