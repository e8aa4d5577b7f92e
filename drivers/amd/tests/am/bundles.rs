//! What is kept of faults and hangs of cards over PCI: also registers, page tables and firmware.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drivers_amd::{AmdDevice, Options};
use drivers_bundle::Bundle;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use hcq::{Command, Device, Error, Packets, QueueKind, Stream, Val};
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;
use super::keeping::{hang, keeper, told};
use super::stand;

/// Where a machine has its first card.
const CARD: &str = "0000:03:00.0";

fn open(machine: &Arc<dyn Machine>, folder: &Path) -> Arc<AmdDevice> {
    let options = Options {
        firmware: vec![firmware()],
        keeper: keeper(machine, folder),
        drain_timeout: hang().limit(),
        ..stand::options()
    };
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let interface = drivers_amd::am::open(machine, CARD, 0, &clock, &options).unwrap();
    drivers_amd::over(&interface, &options).unwrap()
}

fn stream(device: &AmdDevice, kind: QueueKind) -> Stream {
    Stream::new(device.queue(kind, 0).unwrap())
}

fn is(error: &Error, cause: &str) -> Bundle {
    let (bundle, found) = told(error);
    assert_eq!(found.cause, cause, "{found}");
    bundle
}

#[test]
fn a_wild_copy_is_told_with_its_page_walk_registers_and_firmware() {
    let folder = tempfile::tempdir().unwrap();
    for (chip, va, level) in [
        ("gfx1100", 0x2fff_0000_0000, "PDB2"),
        ("gfx1201", 0x4560_0000, "context"),
    ] {
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        let machine: Arc<dyn Machine> = twin.clone();
        let device = open(&machine, folder.path());
        let copy = Command::Copy {
            dst: Val::Const(va),
            src: Val::Const(0x2fff_1000_0000),
            bytes: 64,
        };
        let point = stream(&device, QueueKind::Copy)
            .submit(&[], &[copy])
            .unwrap();
        let error = point.wait(stand::soon()).unwrap_err();
        let bundle = is(&error, "wild-address");
        let last = bundle.evidence.walk.last().unwrap();
        let source = bundle.evidence.walk.len() == 1 && last.level == "PDB2";
        assert!(last.level == level || source, "{chip}: {last:?}");
        let names: Vec<_> = bundle
            .evidence
            .registers
            .iter()
            .map(|one| &*one.name)
            .collect();
        for name in ["GC0.CP_STAT", "GC0.CP_HQD_PQ_RPTR of queue 0"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        let firmware = &bundle.evidence.firmware;
        assert!(firmware.len() > 5, "{firmware:?}");
        assert!(
            firmware
                .iter()
                .all(|one| one.sha256.as_ref().is_some_and(|sum| sum.len() == 64))
        );
        assert_eq!(
            bundle.evidence.missing,
            ["waves: this version does not read their registers"]
        );
        let broken = twin.journal().violations();
        let of_bundle = |name: &str| name.starts_with("PCI-") || name.contains("UNMODELLED");
        assert!(
            !broken.iter().any(|one| of_bundle(one.rule.name)),
            "{broken:?}"
        );
    }
}

#[test]
fn hangs_and_bad_packets_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let twin = PciMachine::new("chip=gfx1100").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let device = open(&machine, folder.path());
    let gate = device.signal("the gate").unwrap();
    for kind in [QueueKind::Compute, QueueKind::Copy] {
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let point = stream(&device, kind).submit(&[], &[wait]).unwrap();
        is(&point.wait(hang()).unwrap_err(), "signal-never-raised");
    }
    gate.set(1).unwrap();
    device.synchronize(stand::soon()).unwrap();
    // A type-3 packet of an opcode that there is none of.
    let queue = device.queue(QueueKind::Compute, 0).unwrap();
    let point = queue
        .timeline()
        .submit(|makes, packets: &mut Packets| {
            packets
                .words
                .extend_from_slice(&[0xc000_0000 | 0x05 << 8, 0]);
            queue.submit(packets, makes)
        })
        .unwrap();
    is(&point.wait(stand::soon()).unwrap_err(), "bad-packet");
}

/// A card that has left the bus, once it is told to: reads are all ones.
#[derive(Default)]
struct Leaves(AtomicBool);

impl Tap for Leaves {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if !self.0.load(Ordering::Relaxed) {
            return None;
        }
        let ones = |bytes: u64| Answer::value(u64::MAX >> (64 - bytes * 8));
        match access.verb {
            Verb::Read | Verb::ConfigRead => Some(Ok(ones(access.arg("bytes")))),
            Verb::ReadBytes => Some(Ok(Answer::data(vec![0xff; access.arg("bytes") as usize]))),
            Verb::Write | Verb::WriteBytes | Verb::ConfigWrite => Some(Ok(Answer::default())),
            _ => None,
        }
    }
}

#[test]
fn a_card_that_leaves_the_bus_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let twin = PciMachine::new("chip=gfx1201").unwrap();
    let leaves = Arc::new(Leaves::default());
    let machine = Tapped::machine(twin, leaves.clone());
    let device = open(&machine, folder.path());
    let stream = stream(&device, QueueKind::Copy);
    stream
        .submit(&[], &[])
        .unwrap()
        .wait(stand::soon())
        .unwrap();
    leaves.0.store(true, Ordering::Relaxed);
    let error = stream.submit(&[], &[]).and_then(|point| point.wait(hang()));
    is(&error.unwrap_err(), "device-gone");
}
