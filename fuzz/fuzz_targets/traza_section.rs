//! Decodes any bytes as the body of an index section: see `traza::fuzzing::section`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::section(bytes);
});
