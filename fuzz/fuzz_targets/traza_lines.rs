//! Reads any bytes as a log of lines: see `traza::fuzzing::lines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::lines(bytes);
});
