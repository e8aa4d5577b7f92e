//! Any bytes are an object that links into plain memory, or an error; nothing is ever run.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    drivers_cpu::loader::elf(bytes);
});
