//! Any bytes are a cubin for each NVIDIA chip, laid out and placed, or an error; nothing is ever run.
#![no_main]

use drivers_nv::encode::Windows;
use drivers_nv::encode::limits::Limits;
use drivers_nv::object::{Object, Target};
use drivers_spec::nv::chip::CHIPS;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for chip in CHIPS {
        let Some(limits) = Limits::of(chip.sm) else {
            continue;
        };
        let target = Target {
            arch: chip.arch,
            limits,
            windows: Windows::DEFAULT,
        };
        let Ok(object) = Object::parse(bytes, target) else {
            continue;
        };
        assert_eq!(object.at(0x20_0000_0000).len() as u64, object.bytes());
        for name in ["first", "second", "kernel"] {
            let Ok(kernel) = object.kernel(name) else {
                continue;
            };
            assert!(kernel.entry() < object.bytes());
            let _ = kernel.local_bytes();
            let _ = kernel.launch(0x20_0000_0000, 0);
        }
    }
});
