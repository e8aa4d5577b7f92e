//! What explains everything else, whatever was reported: a card that is off the bus or without power, a front end that stands
//! still, a doorbell that did not arrive. All of it by values of registers and files of the system, none by the text of an
//! error.

use super::Explanation;
use super::hang::is_work;
use crate::schema::{Bundle, Hex, Queue, Register};

/// What registers of a card read that is not there.
const ONES: u64 = u32::MAX as u64;

/// What the system says for the width of a link whose status register reads as ones (bits 9:4). Source: Linux, pci-sysfs.c,
/// `current_link_width_show`.
const NO_LINK: &str = "63";

/// Bit of `CP_MEC_CNTL` (`mec_me1_halt`) and of `CP_MEC_RS64_CNTL` (`mec_halt`).
const MEC_HALT: u64 = 1 << 30;

pub(super) fn explain(bundle: &Bundle) -> Option<Explanation> {
    off_the_bus(bundle)
        .or_else(|| no_power(bundle))
        .or_else(|| halted(bundle))
        .or_else(|| lost_doorbell(bundle))
}

/// What a file of the PCI function says, if it is there.
fn of_function<'a>(bundle: &'a Bundle, name: &str) -> Option<&'a str> {
    let path = format!("/sys/bus/pci/devices/{}/{name}", bundle.device.place);
    let mut files = bundle.system.files.iter();
    let [_, text] = files.find(|[file, _]| *file == path)?;
    Some(text)
}

fn off_the_bus(bundle: &Bundle) -> Option<Explanation> {
    let registers = &bundle.evidence.registers;
    let all = registers.iter().all(|register| register.value.0 == ONES);
    let (text, why) = match of_function(bundle, "current_link_width") {
        _ if all && !registers.is_empty() => (
            "the device is gone: all its registers read as ones",
            format!("{} registers read, each is {ONES:#x}", registers.len()),
        ),
        Some(NO_LINK) => (
            "the device is gone: its configuration space reads as ones",
            format!("current_link_width of {} is {NO_LINK}", bundle.device.place),
        ),
        _ => return None,
    };
    Some(Explanation::new("device-gone", text).because(why).then(
        "Check power and cable, and whether the card is still listed (`lspci`, `doorbell doctor`)",
    ))
}

/// A function of PCI that the system has put to sleep.
fn no_power(bundle: &Bundle) -> Option<Explanation> {
    let state = of_function(bundle, "power_state").filter(|state| state.starts_with("D3"))?;
    let place = &bundle.device.place;
    let text = format!("the card sleeps: the system has put it into the power state {state}");
    Some(
        Explanation::new("no-power", text)
            .because(format!("power_state of {place} is {state}, expected D0"))
            .then(format!(
                "Keep it awake: `echo on | sudo tee /sys/bus/pci/devices/{place}/power/control`"
            ))
            .then("If it sleeps again, switch off runtime power management of the bridge above it, too"),
    )
}

/// The registers of a name, of whatever block and queue.
fn named<'a>(bundle: &'a Bundle, name: &'a str) -> impl Iterator<Item = &'a Register> {
    bundle.evidence.registers.iter().filter(move |register| {
        let word = register.name.split(' ').next().unwrap_or_default();
        word.rsplit('.').next() == Some(name)
    })
}

/// A compute engine that was told to stop, though queues have work.
fn halted(bundle: &Bundle) -> Option<Explanation> {
    if bundle.queues.iter().all(|queue| queue.in_flight.is_empty()) {
        return None;
    }
    // Where the engine is an RS64, the other register has no effect.
    let mut engines = named(bundle, "CP_MEC_RS64_CNTL").peekable();
    let halts = |register: &&Register| register.value.0 & MEC_HALT != 0;
    let is_new = engines.peek().is_some();
    let register = match is_new {
        true => engines.find(halts),
        false => named(bundle, "CP_MEC_CNTL").find(halts),
    }?;
    let text = "the compute engine is halted: it fetches from no queue";
    Some(
        Explanation::new("engine-halted", text)
            .because(register.text.clone())
            .then("Open the device again: a start lets the engine run")
            .then(
                "Look for another program that resets or stops the card: `sudo dmesg | tail -n 50`",
            ),
    )
}

/// The only one that there is.
fn only<'a>(mut all: impl Iterator<Item = &'a Register>) -> Option<&'a Register> {
    all.next().filter(|_| all.next().is_none())
}

/// Where the work ends that a write pointer of a card covers, if it is what a doorbell before the last has said.
fn earlier(queue: &Queue, pointer: u64) -> Option<u64> {
    let mut before = queue.recent.iter().rev().skip(1);
    let one = before.find(|one| one.doorbell.0 & ONES == pointer);
    let none_yet = (pointer == 0 && queue.done == 0).then_some(0);
    one.map(|one| one.place[1]).or(none_yet)
}

/// The card's own copy of a queue's write pointer is what an earlier doorbell said, and all up to there is done.
fn lost_doorbell(bundle: &Bundle) -> Option<Explanation> {
    // A card that has stopped for another reason hears no doorbell either.
    if bundle.exception.is_some() {
        return None;
    }
    let computes = |queue: &&Queue| queue.name.starts_with("compute ");
    let mut queues = bundle.queues.iter().filter(computes);
    // Slots do not say whose they are: with one queue and one slot in use there is no doubt.
    let queue = queues.next().filter(|_| queues.next().is_none())?;
    let active = only(named(bundle, "CP_HQD_ACTIVE").filter(|one| one.value.0 & 1 != 0))?;
    let slot = active.name.split_once(' ').map_or("", |(_, slot)| slot);
    let copy = named(bundle, "CP_HQD_PQ_WPTR_LO");
    let copy = only(copy.filter(|one| one.name.ends_with(slot)))?;
    let given = queue.doorbell.0 & ONES;
    if queue.in_flight.is_empty() || copy.value.0 == given {
        return None;
    }
    let end = earlier(queue, copy.value.0)?;
    // Else what the card knows of does not end, whatever became of later doorbells.
    let mut known = queue.in_flight.iter().filter(|one| one.position < end);
    if known.any(|packet| is_work(queue, packet)) {
        return None;
    }
    let (name, given) = (&queue.name, Hex(given));
    let found = Explanation::new(
        "doorbell-lost",
        format!("a doorbell of {name} did not reach the card, which does not know of the last work"),
    )
    .because(format!(
        "the doorbell was given {given}; the card's copy of the write pointer is {} ({})",
        copy.value, copy.name
    ))
    .because(format!(
        "{name}: {} dwords written; all up to dword {end:#x} is done, where that copy points",
        queue.written
    ))
    .then("Check the doorbell's place: `doorbell regs read CP_HQD_PQ_DOORBELL_CONTROL` (enabled, its offset), and that no other \
           program has mapped BAR 2")
    .then("Open the device again; if it recurs, record it (`doorbell trace record`) and look for the last write of the stage \
           doorbells");
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain;
    use crate::schema::{Device, Does, Evidence, Exception, Kind, Packet, Submission, System};

    fn register(name: &str, value: u64) -> Register {
        Register {
            name: name.into(),
            value: Hex(value),
            text: format!("{name}({value:#x})"),
        }
    }

    fn launch(position: u64) -> Packet {
        Packet {
            position,
            text: "the launch of kernel x".into(),
            does: Does::Launch {
                code: Hex(0),
                kernel: Some("x".into()),
            },
        }
    }

    /// A queue with a launch in flight behind a submission that is done.
    fn queue() -> Queue {
        let submission = |end| Submission {
            doorbell: Hex(end),
            place: [end - 0x20, end],
            ..Submission::default()
        };
        Queue {
            name: "compute 0".into(),
            doorbell: Hex(0x40),
            written: 0x40,
            done: 0x20,
            in_flight: vec![launch(0x20)],
            recent: vec![submission(0x20), submission(0x40)],
            ..Queue::default()
        }
    }

    fn bundle(kind: Kind, registers: Vec<Register>) -> Bundle {
        Bundle {
            kind,
            error: "whatever".into(),
            device: Device {
                id: "AMD:0".into(),
                interface: "PCI".into(),
                place: "0000:03:00.0".into(),
                ..Device::default()
            },
            queues: vec![queue()],
            evidence: Evidence {
                registers,
                ..Evidence::default()
            },
            ..Bundle::default()
        }
    }

    fn cause(bundle: &Bundle) -> &'static str {
        explain(bundle).cause
    }

    #[test]
    fn a_card_off_the_bus_explains_a_wrong_result_and_a_fault_too() {
        let ones = || {
            vec![
                register("GC0.CP_STAT", ONES),
                register("GC0.GRBM_STATUS", ONES),
            ]
        };
        for kind in [Kind::Fault, Kind::Hang, Kind::Start, Kind::Check] {
            assert_eq!(cause(&bundle(kind, ones())), "device-gone", "{kind:?}");
        }
        let mut faulted = bundle(Kind::Fault, ones());
        faulted.exception = Some(Exception::Broken {
            unit: "GPU".into(),
            what: "a result is not a number".into(),
        });
        assert_eq!(cause(&faulted), "device-gone");
        let mut some = ones();
        some.push(register("GC0.GRBM_STATUS2", 0));
        assert_eq!(cause(&bundle(Kind::Check, some)), "wrong-result");
        assert_eq!(cause(&bundle(Kind::Check, Vec::new())), "wrong-result");
    }

    #[test]
    fn a_card_that_sleeps_or_has_no_link_is_told_by_the_systems_files() {
        let file = |name: &str, text: &str| {
            let path = format!("/sys/bus/pci/devices/0000:03:00.0/{name}");
            Bundle {
                system: System {
                    files: vec![[path, text.to_owned()]],
                    ..System::default()
                },
                ..bundle(Kind::Check, Vec::new())
            }
        };
        assert_eq!(cause(&file("current_link_width", "63")), "device-gone");
        assert_eq!(cause(&file("current_link_width", "16")), "wrong-result");
        let state = |state| file("power_state", state);
        assert_eq!(cause(&state("D3cold")), "no-power");
        assert_eq!(cause(&state("D3hot")), "no-power");
        assert_eq!(cause(&state("D0")), "wrong-result");
        assert_eq!(cause(&state("unknown")), "wrong-result");
    }

    #[test]
    fn an_engine_that_stands_still_comes_before_what_its_queues_wait_for() {
        let halts = |registers| cause(&bundle(Kind::Hang, registers)) == "engine-halted";
        let old = |value| register("GC0.CP_MEC_CNTL", value);
        let new = |value| register("GC0.CP_MEC_RS64_CNTL", value);
        assert!(halts(vec![old(MEC_HALT)]));
        assert!(halts(vec![old(0), new(MEC_HALT | 1 << 26)]));
        assert!(!halts(vec![old(MEC_HALT), new(1 << 26)]));
        assert!(!halts(vec![old(0)]));
        let mut idle = bundle(Kind::Check, vec![old(MEC_HALT)]);
        idle.queues[0].in_flight.clear();
        assert_eq!(cause(&idle), "wrong-result");
    }

    #[test]
    fn a_lost_doorbell_is_no_endless_kernel() {
        let slots = |copy| {
            vec![
                register("GC0.CP_HQD_ACTIVE of queue 0", 1),
                register("GC0.CP_HQD_PQ_WPTR_LO of queue 0", copy),
                register("GC0.CP_HQD_ACTIVE of queue 1", 0),
                register("GC0.CP_HQD_PQ_WPTR_LO of queue 1", 0),
            ]
        };
        let lost = |registers| cause(&bundle(Kind::Hang, registers)) == "doorbell-lost";
        assert!(lost(slots(0x20)));
        // It arrived; or the copy is what no doorbell has said.
        assert!(!lost(slots(0x40)));
        assert!(!lost(slots(0x31)));
        assert!(!lost(slots(0)));
        // The first.
        let mut first = bundle(Kind::Hang, slots(0));
        first.queues[0].done = 0;
        assert_eq!(cause(&first), "doorbell-lost");
        // It has stopped.
        let mut broken = bundle(Kind::Fault, slots(0x20));
        broken.exception = Some(Exception::Broken {
            unit: "GPU".into(),
            what: "a result is not a number".into(),
        });
        assert_ne!(cause(&broken), "doorbell-lost");
        // What the card knows of does not end, and it may not look at doorbells until then.
        let mut stuck = bundle(Kind::Hang, slots(0x20));
        stuck.queues[0].in_flight.insert(0, launch(0x8));
        assert_eq!(cause(&stuck), "kernel-endless");
        // It has woken the host behind its end.
        let wakes = Packet {
            does: Does::Signal {
                at: Hex(0xff8),
                value: Hex(1),
            },
            ..launch(0x18)
        };
        stuck.queues[0].in_flight[0] = wakes;
        assert_eq!(cause(&stuck), "doorbell-lost");
        // Which slot is whose is not known.
        let mut two = slots(0x20);
        two[2].value = Hex(1);
        assert!(!lost(two));
        let found = explain(&bundle(Kind::Hang, slots(0x20)));
        let said = "the doorbell was given 0x40; the card's copy of the write pointer is 0x20";
        assert!(found.evidence[0].starts_with(said), "{found:?}");
    }
}
