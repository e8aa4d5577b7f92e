//! Any bytes are a model that runs, or an error.
#![no_main]

mod run;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| run::run(bytes));
