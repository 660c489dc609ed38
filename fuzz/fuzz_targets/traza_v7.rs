//! Converts any bytes as a segment, from a corpus of version 7: see `traza::fuzzing::legacy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::legacy(bytes);
});
