//! Hundreds of opens leave nothing: no object of the kernel driver, no file, no mapping. Alone in its
//! program, because it counts what the process has.

use crate::stand;

use drivers_nv::Options;
use hcq::{Device, MemoryKind, QueueKind, Stream, Val};
use stand::{WILD, at, ends, exec, kernel, left, machine, memory, options, soon, twin};

/// Lines of a file of this process, or entries of a folder.
fn count(path: &str) -> usize {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.count(),
        Err(_) => std::fs::read_to_string(path).unwrap().lines().count(),
    }
}

/// Opens a GPU and uses it, each time another way.
fn open(twin: &std::sync::Arc<twin_nv::machine::TwinMachine>, i: u32) {
    let machine = machine(twin);
    let options = Options {
        uvm: !i.is_multiple_of(5),
        pinned: i.is_multiple_of(3),
        host_visible: i.is_multiple_of(2),
        ..options()
    };
    let device = drivers_nv::open(&machine, i % 2, &options).unwrap();
    let _signal = device.signal("a signal").unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let buffer = memory(&*device, MemoryKind::Device, 100_000).unwrap();
    buffer.write(0, &[1; 100]).unwrap();
    let host = memory(&*device, MemoryKind::Host, 100_000).unwrap();
    // A kernel with local memory, and now and then one that loses the device.
    let program = device.load(&kernel("h100", "sums")).unwrap();
    let to = match i % 10 {
        9 => Val::Const(WILD),
        _ => at(&host),
    };
    let args = [to, at(&buffer)];
    let done = stream.submit(&[], &[exec(&program, &args, 4)]).unwrap();
    assert_eq!(done.wait(soon()).is_err(), i % 10 == 9);
    // What there is not is refused, and leaves nothing either.
    assert!(drivers_nv::open(&machine, 2, &options).is_err());
}

#[test]
fn hundreds_of_opens_leave_nothing_behind() {
    let config = "chip=h100,gpus=2";
    let twin = twin(config);
    (0..20).for_each(|i| open(&twin, i));
    let seen = || {
        (
            count("/proc/self/fd"),
            count("/proc/self/maps"),
            left(&twin),
        )
    };
    let before = seen();
    (0..300).for_each(|i| open(&twin, i));
    let after = seen();
    assert_eq!(before.2, after.2);
    // The twin keeps what was mapped until the addresses are used again.
    assert!(
        after.0 <= before.0 + 20,
        "files: {} to {}",
        before.0,
        after.0
    );
    assert!(
        after.1 <= before.1 + 20,
        "mappings: {} to {}",
        before.1,
        after.1
    );
    ends(&twin, &["MMU-FAULT"; 32], config);
}
