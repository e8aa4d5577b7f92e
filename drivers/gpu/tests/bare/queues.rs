//! Queues: slots for them, and what becomes of others where one does not leave.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use drivers_gpu::backend::{Age, Backend, Request};
use drivers_gpu::bare::{Handle, Slot as InSlot, config};
use drivers_spec::pci::{Command, PCI_BASE_ADDRESS_0, PCI_COMMAND};
use hcq::mem::window::AccessWidth;
use hcq::transport::Pci;
use hcq::{Error, MemoryKind, Result};

use super::card::{Card, Computer, Engine, NOW, REST, Slot, hardware, open};
use super::formats::Five;

type Made = Handle<Card<Five>>;

fn take(handle: &Made, engine: Engine) -> Result<InSlot<Card<Five>>> {
    let slot = InSlot::take(handle.card(), engine, handle.number())?;
    slot.enter(|| {
        hardware(handle).note(format!("load {engine:?} {}", slot.number()));
        Ok(())
    })?;
    Ok(slot)
}

fn look(handle: &Made) -> Result<()> {
    handle.sleep(None, &mut Age::NEW.clone(), NOW).map(|_| ())
}

fn bus_master(machine: &Computer) -> bool {
    let command = machine.slots[0].config_read(PCI_COMMAND, AccessWidth::W16);
    command.unwrap() & u32::from(Command::MASTER.bits()) != 0
}

#[test]
fn slots_are_taken_and_given_back() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let handle = open::<Five>(&machine, 0).unwrap();
    let all: Vec<_> = (0..3)
        .map(|_| take(&handle, Engine::Compute).unwrap())
        .collect();
    let numbers: Vec<_> = all.iter().map(InSlot::number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    let error = take(&handle, Engine::Compute).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("a slot of 3 compute queues"),
        "{error}"
    );
    // Copy queues have slots of their own.
    assert_eq!(take(&handle, Engine::Copy).unwrap().number(), 0);
    hardware(&handle).log();
    drop(all);
    let log = hardware(&handle).log();
    assert_eq!(log, ["stop Compute 0", "stop Compute 1", "stop Compute 2"]);
    let again = take(&handle, Engine::Compute).unwrap();
    assert_eq!(again.number(), 0);
    hardware(&handle).log();
    again.remap().unwrap();
    assert_eq!(hardware(&handle).log(), ["pause 0", "resume 0 at 0"]);
    // Once is enough.
    assert!(again.stop() && again.stop());
    assert_eq!(hardware(&handle).log(), ["stop Compute 0"]);
}

#[test]
fn a_reset_for_one_brings_back_the_queues_of_others() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let (one, two) = (
        open::<Five>(&machine, 0).unwrap(),
        open::<Five>(&machine, 0).unwrap(),
    );
    let hung = take(&one, Engine::Compute).unwrap();
    let _own = take(&one, Engine::Compute).unwrap();
    let other = take(&two, Engine::Compute).unwrap();
    let _copies = take(&two, Engine::Copy).unwrap();
    hardware(&one).log();
    hardware(&one).script().hangs = vec![0];
    assert!(hung.stop());
    let done = [
        "stop Compute 0",
        "pause 2",
        "reset Compute for 0",
        "resume 2 at 200",
        "ring 2",
    ];
    assert_eq!(hardware(&one).log(), done);
    look(&two).unwrap();
    assert!(!one.card().function().is_wedged());

    // One that cannot be brought back is told to who has it, and to nobody else.
    hardware(&one).script().lost = vec![2];
    let again = take(&one, Engine::Compute);
    drop(hung);
    assert!(again.is_err(), "all slots were taken");
    let again = take(&one, Engine::Compute).unwrap();
    assert!(again.stop());
    let Err(Error::Fault { what, .. }) = look(&two) else {
        panic!("its queue is gone");
    };
    assert!(
        what.contains("lost in an engine reset: queue") && what.contains("queue 0"),
        "{what}"
    );
    look(&one).unwrap();
    drop(other);
    look(&two).unwrap();
}

/// What a queue is made of may be gone once it has left: it is not brought back.
#[test]
fn a_reset_brings_back_no_queue_that_has_left() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let (one, two) = (
        open::<Five>(&machine, 0).unwrap(),
        open::<Five>(&machine, 0).unwrap(),
    );
    let hung = take(&one, Engine::Compute).unwrap();
    let (left, leaves) = (
        take(&two, Engine::Compute).unwrap(),
        take(&two, Engine::Compute).unwrap(),
    );
    assert!(left.stop());
    let gpu = hardware(&one);
    gpu.log();
    gpu.script().hangs = vec![0];
    let (say, hear) = std::sync::mpsc::channel();
    gpu.script().during_reset = Some(Box::new(move || {
        say.send(()).unwrap();
        // Time to leave, for who does not wait.
        std::thread::sleep(Duration::from_millis(100));
    }));
    let two = &two;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            hear.recv().unwrap();
            drop(leaves);
            take(two, Engine::Copy).unwrap();
        });
        assert!(hung.stop());
    });
    let done = [
        "stop Compute 0",
        "pause 2",
        "reset Compute for 0",
        "resume 2 at 200",
        "ring 2",
        "stop Compute 2",
        "load Copy 0",
        "stop Copy 0",
    ];
    assert_eq!(gpu.log(), done);
}

#[test]
fn a_card_that_cannot_be_reset_is_cut_off() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let (one, two) = (
        open::<Five>(&machine, 0).unwrap(),
        open::<Five>(&machine, 0).unwrap(),
    );
    config::master(&*machine.slots[0], true).unwrap();
    let (hung, _other) = (
        take(&one, Engine::Compute).unwrap(),
        take(&two, Engine::Compute).unwrap(),
    );
    {
        let gpu = hardware(&one);
        let mut script = gpu.script();
        (script.hangs, script.dead) = (vec![0], true);
    }
    assert!(bus_master(&machine));
    assert!(hung.stop(), "it reaches nothing of the host any more");
    assert!(!bus_master(&machine) && one.card().function().is_wedged());
    assert!(look(&two).is_err(), "its queue went with the engine");
    // One that is not there writes nothing, and is not asked.
    let queue = take(&one, Engine::Copy).unwrap();
    hardware(&one).log();
    machine.slots[0].has_left.store(true, Ordering::Relaxed);
    assert!(queue.stop() && hardware(&one).log().is_empty());
}

#[test]
fn a_queue_that_does_not_leave_keeps_its_slot() {
    for reaches_host in [true, false] {
        let mut slot = Slot::new(0);
        slot.reaches_host = reaches_host;
        let machine = Computer::with(vec![slot]);
        let (one, two) = (
            open::<Five>(&machine, 0).unwrap(),
            open::<Five>(&machine, 0).unwrap(),
        );
        let hung = take(&one, Engine::Compute).unwrap();
        {
            let gpu = hardware(&one);
            let mut script = gpu.script();
            (script.hangs, script.dead) = (vec![0], true);
        }
        // It may go on in memory of the card, which is kept then.
        assert!(hung.stop());
        drop(hung);
        assert_eq!(take(&two, Engine::Compute).unwrap().number(), 1);
    }
}

/// A queue of a handle stays in its slot. Returns it, the handle, and another one with a queue of another engine.
fn stuck(
    machine: &Arc<Computer>,
    is_wild: bool,
) -> (InSlot<Card<Five>>, Made, Made, InSlot<Card<Five>>) {
    let [one, two] = [(); 2].map(|()| open::<Five>(machine, 0).unwrap());
    let hung = take(&one, Engine::Compute).unwrap();
    let other = take(&two, Engine::Copy).unwrap();
    let gpu = hardware(&one);
    let mut script = gpu.script();
    (script.hangs, script.dead, script.wild) = (vec![0], true, is_wild);
    drop(script);
    (hung, one, two, other)
}

fn refused(machine: &Arc<Computer>) -> String {
    match open::<Five>(machine, 0) {
        Err(Error::NoDevice { why, .. }) => why,
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn a_card_that_is_cut_off_is_lost_for_all_handles_and_started_anew_behind_them() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let (hung, one, two, other) = stuck(&machine, false);
    look(&two).unwrap();
    assert!(hung.stop());
    let Err(Error::Fault { what, .. }) = look(&two) else {
        panic!("it reaches no memory of the host any more");
    };
    assert!(what.contains("cut off"), "{what}");
    let why = refused(&machine);
    assert!(
        why.contains("queue 0") && why.contains("drop all handles of the card and open it again"),
        "{why}"
    );
    drop((hung, one, other));
    refused(&machine);
    drop(two);
    look(&open::<Five>(&machine, 0).unwrap()).unwrap();
}

/// What it is made of, and what was submitted to it, is given out to nobody else.
#[test]
fn memory_and_addresses_of_a_queue_that_stays_are_kept_until_its_card_is_started_anew() {
    for (reaches_host, is_wild) in [(true, false), (true, true), (false, false)] {
        let mut slot = Slot::new(0);
        slot.reaches_host = reaches_host;
        let machine = Computer::with(vec![slot]);
        let (hung, one, two, other) = stuck(&machine, is_wild);
        let get = |kind| {
            let request = Request {
                bytes: REST / 4,
                align: 1,
                kind,
                what: "",
            };
            one.memory(&request).unwrap()
        };
        let (vram, host) = (get(MemoryKind::Device), get(MemoryKind::Host));
        let vas = [vram.va, host.va];
        let leads = || vas.map(|va| hardware(&two).access(va.0));
        let before = leads();
        assert_eq!(hung.stop(), !is_wild);
        drop((hung, vram, host));
        assert_eq!(leads(), before);
        let again = [(); 2].map(|()| get(MemoryKind::Device));
        for memory in &again {
            assert!(!vas.contains(&memory.va));
            assert!(!before.contains(&hardware(&two).access(memory.va.0)));
        }
        // What a card writes that was not cut off stays for ever.
        let pinned = || machine.slots[0].pinned.load(Ordering::Relaxed);
        assert_eq!(pinned() > 0, is_wild);
        refused(&machine);
        drop((one, two, other, again));
        assert!(
            hardware(&open::<Five>(&machine, 0).unwrap())
                .log()
                .is_empty()
        );
        assert_eq!(pinned() > 0, is_wild);
    }
}

#[test]
fn what_a_reset_takes_of_configuration_space_is_put_back() {
    let slot = Slot::new(0);
    let write = |at, value| slot.config_write(at, AccessWidth::W32, value).unwrap();
    write(PCI_BASE_ADDRESS_0, 0xe000_000c);
    write(PCI_BASE_ADDRESS_0 + 4, 0x80);
    config::answer(&slot).unwrap();
    let kept = config::SavedBars::of(&slot).unwrap();
    slot.config.lock().unwrap().clear();
    kept.restore(&slot).unwrap();
    let read = |at| slot.config_read(at, AccessWidth::W32).unwrap();
    assert_eq!(
        (read(PCI_BASE_ADDRESS_0), read(PCI_BASE_ADDRESS_0 + 4)),
        (0xe000_000c, 0x80)
    );
    assert_eq!(read(PCI_COMMAND), u32::from(Command::MEMORY.bits()));
}
