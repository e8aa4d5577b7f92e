//! Any text is a recording, read to its last whole line, or an error; one that is read is shown, and differs from itself in
//! nothing.
#![no_main]

use drivers::trace::names::{self, Names, STAGES};
use drivers::trace::recording::Recording;
use drivers::trace::{amdgpu, chips, diff};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = amdgpu::steps(text, &Names::default());
    let _ = amdgpu::chips(text);
    let Ok(recording) = Recording::parse(text) else {
        return;
    };
    assert_eq!(
        recording.cut.is_some(),
        !text.ends_with('\n') && text.contains('\n')
    );
    let _ = chips::of(&recording);
    let mut names = Names::of(&recording);
    for entry in &recording.entries {
        assert!(STAGES.contains(&names.tell(&entry.record).stage));
        let _ = names::ioctl(&entry.record);
    }
    let steps = diff::steps(&recording, &mut Names::of(&recording));
    for stage in diff::compare(&steps, &steps, true) {
        assert!(stage.lines.is_empty(), "{stage:?}");
    }
    // What is written again reads as the same.
    let again: String = recording.entries.iter().fold(
        "# doorbell trace 1\n# argument again\n".into(),
        |text, entry| text + &format!("+{} {}\n", entry.at, entry.record),
    );
    let again = Recording::parse(&again).expect("a recording of lines that were read");
    assert_eq!(again.entries.len(), recording.entries.len());
});
