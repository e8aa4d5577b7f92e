//! A thousand opens leave nothing: no object of the kernel, no file, no mapping. Alone in its program,
//! because it counts what the process has.

use crate::stand;

use hcq::{Device, MemoryKind, QueueKind, Stream};
use stand::{machine, memory, options, soon, twin};
use twin_amd::machine::TwinMachine;

/// What the kernel keeps for the process, but for files and the event page, which it never gives back.
fn leaks(twin: &TwinMachine) -> Vec<String> {
    let kept = |line: &String| line.starts_with("file /dev/") || line.starts_with("event page");
    let all = twin.process().objects();
    all.into_iter().filter(|line| !kept(line)).collect()
}

/// The rules that were broken.
fn broken(twin: &TwinMachine) -> String {
    let all = twin.machine().journal.violations();
    let all: Vec<_> = all.iter().map(ToString::to_string).collect();
    all.join("\n")
}

/// Lines of a file of this process, or entries of a folder.
fn count(path: &str) -> usize {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.count(),
        Err(_) => std::fs::read_to_string(path).unwrap().lines().count(),
    }
}

#[test]
fn a_thousand_opens_leave_nothing_behind() {
    let twin = twin("gpus=2,vram=1G");
    let machine = machine(&twin);
    let open = |i: u32| {
        let device = drivers_amd::open(&machine, i % 2, &options()).unwrap();
        let _signal = device.signal("a signal").unwrap();
        let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let memory = memory(&*device, MemoryKind::Device, 100_000).unwrap();
        memory.write(0, &[1; 100]).unwrap();
        stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
        // What there is not is refused, and leaves nothing either.
        assert!(drivers_amd::open(&machine, 2, &options()).is_err());
    };
    (0..20).for_each(open);
    let seen = || {
        (
            count("/proc/self/fd"),
            count("/proc/self/maps"),
            twin.process().objects(),
        )
    };
    let before = seen();
    (0..1000).for_each(open);
    let after = seen();
    assert_eq!((before.0, &before.2), (after.0, &after.2));
    assert!(
        after.1 <= before.1 + 20,
        "mappings: {} to {}",
        before.1,
        after.1
    );
    assert_eq!(leaks(&twin), [""; 0]);
    assert_eq!(broken(&twin), "");
}
