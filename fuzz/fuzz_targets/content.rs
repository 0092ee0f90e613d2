#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trustplane_sync_core::fuzz::content(bytes));
