#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trustplane_inventory_core::fuzz::projection(bytes));
