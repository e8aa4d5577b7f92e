//! Memory of one GPU for another: where the driver lets them be peers, and where it does not.

use std::sync::Arc;

use hcq::{AllocSpec, Buffer, Device, Error, MemoryKind, QueueKind, Stream};

use super::stand::{Rig, copy, ends, kernel, machine, memory, options, soon, twin, words};

/// Whether a device reaches memory of the GPU, and memory of the host, of another.
fn reach(one: &dyn Device, other: &dyn Device) -> (bool, bool) {
    let of = |kind| one.reaches(&memory(other, kind, 4096).unwrap());
    assert!(other.reaches(&memory(other, MemoryKind::Device, 4096).unwrap()));
    (of(MemoryKind::Device), of(MemoryKind::Host))
}

fn copied(on: &dyn Device, to: &Buffer, from: &Buffer) -> hcq::Result<()> {
    let stream = Stream::new(on.queue(QueueKind::Copy, 0)?);
    stream.submit(&[], &[copy(to, from)])?.wait(soon())
}

#[test]
fn peers_reach_what_is_there_and_what_comes() {
    for config in ["chip=h100,gpus=3", "chip=ga102,gpus=3"] {
        let twin = twin(config);
        let machine = machine(&twin);
        let open = |index| Rig::open(&machine, index, &kernel(config, "step")).unwrap();
        let first = open(0);
        let early = memory(&*first.device, MemoryKind::Device, 4096).unwrap();
        early.write(0, &[7; 64]).unwrap();
        let (second, third) = (open(1), open(2));
        for rig in [&second, &third] {
            assert!(rig.device.reaches(&early));
            assert_eq!(reach(&*rig.device, &*first.device), (true, true));
            assert_eq!(reach(&*first.device, &*rig.device), (true, true));
            let to = memory(&*rig.device, MemoryKind::Device, 4096).unwrap();
            copied(&*rig.device, &to, &early).unwrap();
            assert_eq!(words(&to).unwrap(), [0x0707_0707; 16], "{config}");
        }
        drop((second, third));
        // Another one of the same number is given it again.
        let second = open(1);
        assert!(second.device.reaches(&early));
        let to = memory(&*second.device, MemoryKind::Host, 4096).unwrap();
        copied(&*second.device, &to, &early).unwrap();
        assert_eq!(words(&to).unwrap(), [0x0707_0707; 16], "{config}");
        drop((first, second, early, to));
        ends(&twin, &[], config);
    }
}

#[test]
fn gpus_of_two_machines_do_not_reach_each_other() {
    let twins = [twin("chip=h100"), twin("chip=h100")];
    let devices = twins.each_ref().map(|twin| {
        let device: Arc<dyn Device> = drivers_nv::open(&machine(twin), 0, &options()).unwrap();
        device
    });
    assert_eq!(reach(&*devices[0], &*devices[1]), (false, false));
    drop(devices);
    twins.iter().for_each(|twin| ends(twin, &[], "apart"));
}

/// Whoever copies all the same is told where it went, and whose memory that is.
#[test]
fn without_leave_a_copy_is_a_fault() {
    let config =
        "chip=h100,gpus=2,fault=call:UVM_ENABLE_PEER_ACCESS:NV_ERR_INSUFFICIENT_PERMISSIONS";
    let twin = twin(config);
    let machine = machine(&twin);
    let open = |index| Rig::open(&machine, index, &kernel(config, "step")).unwrap();
    let (first, second) = (open(0), open(1));
    assert_eq!(reach(&*second.device, &*first.device), (false, true));
    let of = |rig: &Rig, bytes| rig.device.alloc(AllocSpec::device(bytes)).unwrap();
    let (from, to) = (of(&first, 4096), of(&second, 4096));
    let error = copied(&*second.device, &to, &from).unwrap_err();
    let Error::DeviceLost { cause, .. } = &error else {
        panic!("{error}")
    };
    let text = cause.to_string();
    let at = format!("{:#x}", from.va().0 & !0xfff);
    assert!(text.contains(&at), "{at}: {text}");
    // The other GPU goes on.
    first.round(1).unwrap();
    drop((first, second, from, to));
    ends(&twin, &["MMU-FAULT"], config);
}
