//! The library has the functions that programs look for. Programs of others load it (`scripts/foreign`): this test also has
//! cargo build it with the tests of the workspace.

use object::{Object, ObjectSymbol};

/// What tinygrad's runtime/support/usb.py and the crate rusb call.
const CALLED: [&str; 16] = [
    "libusb_init",
    "libusb_exit",
    "libusb_get_device_list",
    "libusb_free_device_list",
    "libusb_get_device_descriptor",
    "libusb_open",
    "libusb_close",
    "libusb_claim_interface",
    "libusb_release_interface",
    "libusb_control_transfer",
    "libusb_bulk_transfer",
    "libusb_alloc_transfer",
    "libusb_submit_transfer",
    "libusb_cancel_transfer",
    "libusb_handle_events_timeout_completed",
    "libusb_strerror",
];

#[test]
fn the_library_has_the_functions_that_programs_call() {
    // Beside this test.
    let path = std::env::current_exe().unwrap().with_file_name("libusb.so");
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = object::File::parse(&*bytes).unwrap();
    let names: Vec<&str> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    for name in CALLED {
        assert!(names.contains(&name), "{name} is missing");
    }
}
