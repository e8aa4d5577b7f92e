//! Any text is a list of targets whose canonical spelling says the same, or an error.
#![no_main]

use drivers::select::{Target, parse_targets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(targets) = parse_targets("fuzz", text) else {
        return;
    };
    let spelled = targets
        .iter()
        .map(Target::to_string)
        .collect::<Vec<_>>()
        .join(";");
    assert_eq!(
        parse_targets("fuzz", &spelled).as_ref(),
        Ok(&targets),
        "{spelled}"
    );
});
