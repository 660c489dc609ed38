//! Reads any bytes as a data file: see `atune_core::fuzzing::data`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    atune_core::fuzzing::data(bytes);
});
