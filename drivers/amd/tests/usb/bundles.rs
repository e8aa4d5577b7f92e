//! What is kept of faults and hangs of cards behind bridges: as over PCI, and what the cable and the bridge say.

use std::path::Path;
use std::sync::Arc;

use drivers_amd::{AmdDevice, Options};
use drivers_bundle::Bundle;
use hcq::transport::Machine;
use hcq::{Command, Device, Error, QueueKind, Stream, Val};
use twin::usb::{Trouble, What};
use twin_amd::usb::UsbMachine;

use super::keeping::{coredumps, hang, told};
use super::stand;
use super::{firmware, open};

/// A device of a machine that keeps what goes wrong in a folder.
fn kept(twin: &Arc<UsbMachine>, folder: &Path) -> Arc<AmdDevice> {
    let machine: Arc<dyn Machine> = twin.clone();
    let options = Options {
        firmware: vec![firmware()],
        coredumps: coredumps(&machine, folder),
        drain_timeout: hang().limit(),
        ..stand::options()
    };
    open(&machine, &options).unwrap()
}

fn stream(device: &AmdDevice, kind: QueueKind) -> Stream {
    Stream::new(device.queue(kind, 0).unwrap())
}

fn copied(device: &AmdDevice, dst: Val, src: Val) -> Error {
    let copy = Command::Copy {
        dst,
        src,
        bytes: 64,
    };
    let point = stream(device, QueueKind::Copy).submit(&[], &[copy]);
    point
        .and_then(|point| point.wait(stand::soon()))
        .unwrap_err()
}

/// The bundle that an error names, if it explains it by this cause.
fn is(error: &Error, cause: &str) -> Bundle {
    let (bundle, found) = told(error);
    assert_eq!(found.cause, cause, "{found}");
    assert_eq!(
        (&*bundle.device.interface, &*bundle.device.place),
        ("USB", "2-1")
    );
    bundle
}

#[test]
fn a_wild_copy_is_told_with_what_the_bridges_on_the_way_say() {
    let folder = tempfile::tempdir().unwrap();
    for (chip, config, hops) in [("gfx1201", "", 4), ("gfx1100", ",hops=2", 2)] {
        let twin = UsbMachine::new(&format!("chip={chip}{config}")).unwrap();
        let device = kept(&twin, folder.path());
        let error = copied(
            &device,
            Val::Const(0x2fff_0000_0000),
            Val::Const(0x2fff_1000_0000),
        );
        let bundle = is(&error, "wild-address");
        let way: Vec<_> = bundle.evidence.way.iter().collect();
        assert_eq!(way.len(), 2 + hops + 1, "{way:?}");
        assert!(way[0][1].contains(" transfers, "), "{way:?}");
        assert_eq!(way[1][1], "state 0x78 (LTSSM): up");
        assert_eq!(way[2][0], "bus 0, 1b21:2461");
        let [name, link] = way[2 + hops];
        assert!(name.starts_with(&format!("bus {hops}, 1002:")), "{way:?}");
        assert_eq!(link, "16 GT/s x16, no errors seen");
        assert!(!bundle.evidence.walk.is_empty() && bundle.evidence.firmware.len() > 5);
        assert!(bundle.evidence.registers.len() > 5);
        let broken = twin.journal().violations();
        let of_bundle = |name: &str| name.starts_with("PCI-") || name.starts_with("ASM24-");
        assert!(
            !broken.iter().any(|one| of_bundle(one.rule.name)),
            "{broken:?}"
        );
    }
}

#[test]
fn faults_and_hangs_behind_a_bridge_have_their_causes() {
    let folder = tempfile::tempdir().unwrap();
    let twin = UsbMachine::new("chip=gfx1201,hops=3").unwrap();
    let device = kept(&twin, folder.path());
    let gate = device.signal("the gate").unwrap();
    for kind in [QueueKind::Compute, QueueKind::Copy] {
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let point = stream(&device, kind).submit(&[], &[wait]).unwrap();
        let bundle = is(&point.wait(hang()).unwrap_err(), "signal-never-raised");
        assert!(bundle.evidence.way.len() > 2, "{:?}", bundle.evidence.way);
    }
    gate.set(1).unwrap();
    device.synchronize(stand::soon()).unwrap();
    let (one, other) = (
        device.signal("one").unwrap(),
        device.signal("other").unwrap(),
    );
    let wait = |signal| Command::Wait {
        signal,
        value: Val::Const(1),
    };
    let raise = |signal| Command::Signal {
        signal,
        value: Val::Const(1),
    };
    let (compute, copy) = (
        stream(&device, QueueKind::Compute),
        stream(&device, QueueKind::Copy),
    );
    let held = compute.submit(&[], &[wait(&one), raise(&other)]).unwrap();
    copy.submit(&[], &[wait(&other), raise(&one)]).unwrap();
    is(&held.wait(hang()).unwrap_err(), "deadlock");
    one.set(1).unwrap();
    held.wait(stand::soon()).unwrap();
    device.synchronize(stand::soon()).unwrap();

    // A type-3 packet of an opcode that there is none of.
    let queue = device.queue(QueueKind::Compute, 0).unwrap();
    let point = queue
        .timeline()
        .submit(|turn| {
            let words = &mut turn.packets().words;
            words.extend_from_slice(&[0xc000_0000 | 0x05 << 8, 0]);
            queue.submit(turn)
        })
        .unwrap();
    is(&point.wait(stand::soon()).unwrap_err(), "bad-packet");
}

#[test]
fn what_the_cable_does_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (what, cause, text) in [
        (What::Stall, "usb-transfer", "endpoint stalled"),
        (What::Short, "usb-transfer", "bytes"),
        (What::Late, "usb-transfer", "no answer within"),
        (What::Vanish, "usb-transfer", "no answer within"),
        (What::Unplug, "device-gone", "the device is gone"),
    ] {
        let twin = UsbMachine::new("chip=gfx1100,hops=1").unwrap();
        let device = kept(&twin, folder.path());
        let stream = stream(&device, QueueKind::Copy);
        let wait =
            |point: hcq::Result<hcq::Point>| point.and_then(|point| point.wait(stand::soon()));
        wait(stream.submit(&[], &[])).unwrap();
        twin.bridge(0).unwrap().inject(Trouble { after: 2, what });
        let error = loop {
            if let Err(error) = wait(stream.submit(&[], &[])) {
                break error;
            }
        };
        let bundle = is(&error, cause);
        let way = &bundle.evidence.way;
        assert_eq!(way.last().unwrap()[0], "USB, first failure", "{way:?}");
        assert!(way.last().unwrap()[1].contains(text), "{what:?}: {way:?}");
    }
}
