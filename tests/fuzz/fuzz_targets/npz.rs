//! Any bytes are an archive whose arrays have the right size, or errors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensor::io::npz::File;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = File::from_bytes("fuzz", bytes.to_vec()) else {
        return;
    };
    let names: Vec<String> = file.names().map(str::to_string).collect();
    for name in names {
        let Ok(array) = file.array(&name) else {
            continue;
        };
        let elements: usize = array.shape.iter().product();
        assert_eq!(array.data.len(), elements * array.dtype.size());
    }
});
