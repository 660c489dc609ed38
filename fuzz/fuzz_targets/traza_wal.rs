//! Reads any bytes as a write-ahead log: see `traza::fuzzing::wal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    traza::fuzzing::wal(bytes);
});
