//! Exceptions of the GPU as errors, with the event, the place, and the memory's owner.

use hcq::{DeviceId, Error};

use super::queues::{Queues, Suspects};
use crate::backend::{Access, Cause, Exception, MemoryFault, PAGE_BITS, Ranges, Refused, Reset};

/// Launches that are named at most.
const NAMED: usize = 8;

/// An exception as the cause of a loss.
pub fn describe(
    device: &DeviceId,
    exception: &Exception,
    ranges: &Ranges,
    queues: Option<&dyn Queues>,
    log: &str,
) -> Error {
    let (unit, what) = match exception {
        Exception::Memory(fault) => memory(fault, ranges, queues),
        Exception::Refused(refused) => of_refused(refused, ranges, queues),
        Exception::Reset(reset) => ("GPU".into(), of_reset(reset, log)),
    };
    Error::Fault {
        device: device.clone(),
        unit,
        what,
    }
}

fn memory(fault: &MemoryFault, ranges: &Ranges, queues: Option<&dyn Queues>) -> (String, String) {
    let page = fault.va & !PAGE_BITS;
    let mut text = match fault.cause {
        Cause::Ecc => "uncorrectable memory error (SRAM ECC)".to_string(),
        Cause::Poison => "access to poisoned memory".into(),
        Cause::Hang => "GPU hang".into(),
        Cause::PageFault => "page fault".into(),
    };
    text += match fault.access {
        None => "",
        Some(Access::Read) => " of a read",
        Some(Access::Write) => " of a write",
        Some(Access::Atomic) => " of an atomic operation",
    };
    let access: Vec<_> = [
        (fault.not_present, "access to unmapped memory"),
        (fault.read_only, "write to read-only memory"),
        (fault.no_execute, "code fetch from non-executable memory"),
    ]
    .into_iter()
    .filter_map(|(is, what)| is.then_some(what))
    .collect();
    text += &format!(" at page {page:#x}");
    if !access.is_empty() {
        text += &format!(": {}", access.join(", "));
    }
    if fault.imprecise {
        text += " (address imprecise)";
    }
    text += &format!("; the page is {}", ranges.describe(page));
    let suspects = queues.map(|q| q.suspects(page)).unwrap_or_default();
    in_flight("memory".into(), text, suspects)
}

fn of_refused(refused: &Refused, ranges: &Ranges, queues: Option<&dyn Queues>) -> (String, String) {
    let mut text = refused.what.clone();
    if let Some(at) = refused.at {
        text += &format!(" at {at:#x}, {}", ranges.describe(at));
    }
    // Without an address no launch can be blamed; all running ones are listed.
    let page = refused.at.map_or(u64::MAX, |at| at & !PAGE_BITS);
    let suspects = queues.map(|q| q.suspects(page)).unwrap_or_default();
    in_flight(refused.unit.clone(), text, suspects)
}

/// The event and the work in flight at that time: on its unit if known, else on `unit`.
fn in_flight(mut unit: String, mut text: String, suspects: Suspects) -> (String, String) {
    if let Some((unit, what)) = suspects.guilty {
        text += &format!(". In flight on {unit}: {what}");
        return (unit, text);
    }
    let mut running = suspects.others;
    if let Some((first, _)) = running.first() {
        let all_one = running.iter().all(|(of, _)| of == first);
        if all_one {
            unit.clone_from(first);
        }
        running.truncate(NAMED);
        let list: Vec<_> = running
            .iter()
            .map(|(of, what)| format!("{what} on {of}"))
            .collect();
        text += &format!(". In flight: {}", list.join("; "));
    }
    (unit, text)
}

fn of_reset(reset: &Reset, log: &str) -> String {
    let what = match reset.engine {
        true => "an engine was reset",
        false => "the GPU was reset",
    };
    let why = match reset.uncorrectable {
        true => "after an uncorrectable memory error (ECC)",
        false => "after a hang",
    };
    let memory = match reset.memory_lost {
        false => "device memory is reported intact",
        true => "device memory contents are lost",
    };
    format!("{what} {why}; {memory}. See `dmesg | grep {log}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_was_done() {
        let ranges = Ranges::default();
        ranges.insert(0x20_0000, 0x1000, "tensor memory");
        let mut fault = MemoryFault {
            va: 0x20_1010,
            cause: Cause::PageFault,
            access: Some(Access::Atomic),
            not_present: true,
            read_only: false,
            no_execute: false,
            imprecise: false,
        };
        assert_eq!(
            memory(&fault, &ranges, None).1,
            "page fault of an atomic operation at page 0x201000: access to unmapped memory; the page is 0x0 bytes \
             past tensor memory (0x1000 bytes at 0x200000)"
        );
        fault.access = None;
        let told = memory(&fault, &ranges, None).1;
        assert!(told.starts_with("page fault at page 0x201000: "), "{told}");
    }

    #[test]
    fn what_hardware_refuses_is_told_with_its_unit_and_place() {
        let ranges = Ranges::default();
        ranges.insert(0x20_0000, 0x1000, "the code of kernel add");
        let refused = |at| Refused {
            unit: "SM 3".into(),
            what: "illegal instruction".into(),
            at,
        };
        let told = |at| of_refused(&refused(at), &ranges, None);
        assert_eq!(
            told(Some(0x20_0010)),
            (
                "SM 3".into(),
                "illegal instruction at 0x200010, at offset 0x10 of the code of kernel add (0x1000 \
                 bytes at 0x200000)"
                    .into()
            )
        );
        assert_eq!(told(None).1, "illegal instruction");
    }
}
