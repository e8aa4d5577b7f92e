//! Any bytes are an object for each AMD chip, laid out and placed, or an error; nothing is ever run.
#![no_main]

use drivers_amd::chip::CHIPS;
use drivers_amd::object::CodeObject;
use hcq::GpuVa;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for chip in CHIPS {
        let Ok(object) = CodeObject::parse(bytes, chip) else {
            continue;
        };
        let _ = object.at(0x7e00_0000_0000);
        for kernel in &object.kernels {
            let _ = kernel.launch(chip, GpuVa(0x7e00_0000_0000), 0);
            let _ = kernel.layout();
        }
    }
});
