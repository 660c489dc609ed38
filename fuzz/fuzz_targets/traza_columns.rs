//! Reads any bytes as the column cache of a segment: see `traza::fuzzing::columns`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::columns(bytes);
});
