//! Any bytes are a file that holds together or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensor::io::safetensors::File;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = File::from_bytes("fuzz", bytes.to_vec()) else {
        return;
    };
    let mut total = 0;
    for (name, entry) in file.tensors() {
        let data = file.data(name).expect("a tensor of the list");
        let elements: usize = entry.shape.iter().product();
        assert_eq!(data.len(), elements * entry.dtype.size());
        total += data.len();
    }
    assert!(total + 8 <= bytes.len());
});
