//! Opens, asks and verifies any bytes as a segment: see `traza::fuzzing::open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::open(bytes);
});
