//! Reads any bytes as a journal: see `omniloop_core::fuzzing::player`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| omniloop_core::fuzzing::player(bytes));
