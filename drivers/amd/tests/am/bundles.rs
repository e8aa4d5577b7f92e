//! What is kept of faults and hangs of cards over PCI: also registers, page tables and firmware.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drivers_amd::{AmdDevice, Options};
use drivers_bundle::Bundle;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use hcq::{Command, Device, Error, QueueKind, Stream, Val};
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;
use super::keeping::{coredumps, hang, told};
use super::stand;
use super::wrongs::{Bench, WRONGS};

/// Where a machine has its first card.
const CARD: &str = "0000:03:00.0";

fn open(machine: &Arc<dyn Machine>, folder: &Path) -> Arc<AmdDevice> {
    let options = Options {
        firmware: vec![firmware()],
        coredumps: coredumps(machine, folder),
        drain_timeout: hang().limit(),
        ..stand::options()
    };
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let backend = drivers_amd::am::open(machine, CARD, 0, &clock, &options).unwrap();
    drivers_amd::over(&backend, &options).unwrap()
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
        let unseen = "waves: registers unknown for this GPU generation";
        let missing: &[&str] = if chip == "gfx1201" { &[unseen] } else { &[] };
        assert_eq!(bundle.evidence.missing, missing);
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
        .submit(|turn| {
            let words = &mut turn.packets().words;
            words.extend_from_slice(&[0xc000_0000 | 0x05 << 8, 0]);
            queue.submit(turn)
        })
        .unwrap();
    is(&point.wait(stand::soon()).unwrap_err(), "bad-packet");
}

/// A kernel that does not end is told with the place where its waves are.
#[test]
fn waves_that_do_not_end_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let twin = PciMachine::new("chip=gfx1101").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let device = open(&machine, folder.path());
    let spin = device.load(&stand::kernel("gfx1101", "spin", 1)).unwrap();
    let word = stand::memory(&*device, hcq::MemoryKind::Host, 256).unwrap();
    word.write(0, &[0; 256]).unwrap();
    let args = [stand::at(&word)];
    let exec = Command::Exec {
        program: &spin,
        args: &args,
        grid: [7, 1, 1],
        block: [1, 1, 1],
    };
    let done = stream(&device, QueueKind::Compute)
        .submit(&[], &[exec])
        .unwrap();
    // The card comes to it some time later.
    let found = (0..100).find_map(|_| {
        let error = done.wait(hang()).unwrap_err();
        let path = device.bundle(&error)?;
        let bundle = Bundle::read(Path::new(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
        (bundle.evidence.shader_waves.len() == 7).then_some(bundle)
    });
    let mut bundle = found.expect("no waves are seen");
    assert!(bundle.evidence.missing.is_empty(), "{:?}", bundle.evidence);
    let kernel = bundle
        .kernels
        .iter()
        .find(|one| one.name == "spin")
        .unwrap();
    let code = kernel.at.0..kernel.at.0 + kernel.bytes.0;
    for wave in &bundle.evidence.shader_waves {
        assert!(code.contains(&wave.pc.0) && wave.exec.0 == 1, "{wave:?}");
        assert!(!wave.halted && !wave.in_barrier, "{wave:?}");
    }
    bundle.kind = drivers_bundle::schema::Kind::Hang;
    let found = drivers_bundle::explain(&bundle);
    assert_eq!(found.cause, "kernel-endless", "{found}");
    assert!(found.to_string().contains(" at spin + 0x"), "{found}");
    word.write(0, &[1; 4]).unwrap();
    done.wait(stand::soon()).unwrap();
    let broken = twin.journal().violations();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn what_programs_do_wrong_is_told() {
    for (index, wrong) in WRONGS.iter().enumerate() {
        let chip = ["gfx1100", "gfx1201"][index % 2];
        let folder = tempfile::tempdir().unwrap();
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        let machine: Arc<dyn Machine> = twin;
        let bench = Bench {
            device: open(&machine, folder.path()),
            chip,
            by_kfd: false,
        };
        wrong.check(&bench);
    }
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
