//! Any bytes are an array of the right size or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensor::io::npy;

fuzz_target!(|bytes: &[u8]| {
    let Ok(array) = npy::parse("fuzz", bytes) else {
        return;
    };
    let elements: usize = array.shape.iter().product();
    assert_eq!(array.data.len(), elements * array.dtype.size());
});
