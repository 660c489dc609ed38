//! Puts any bytes where index and trailer stand: see `omniloop_core::fuzzing::trailer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| omniloop_core::fuzzing::trailer(bytes));
