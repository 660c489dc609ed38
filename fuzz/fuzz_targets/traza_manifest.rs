//! Reads any bytes as the manifest of a generation: see `traza::fuzzing::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::manifest(bytes);
});
