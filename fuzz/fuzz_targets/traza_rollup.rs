//! Reads any bytes as the sidecar of a segment: see `traza::fuzzing::rollup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::rollup(bytes);
});
