//! Exceptions of the GPU as errors that say what happened, where, and whose memory it was.

use drivers_spec::amd::kfd::{HsaHwExceptionData, HsaMemoryExceptionData, exception};
use hcq::{DeviceId, Error};

use super::queues::Queues;
use crate::kfd::event::Exception;
use crate::kfd::ranges::Ranges;

/// The bits of an address that a fault does not tell.
const PAGE_BITS: u64 = 0xfff;

/// Launches that are named at most.
const NAMED: usize = 8;

/// An exception as the cause of a loss.
pub(crate) fn describe(
    device: &DeviceId,
    exception: &Exception,
    ranges: &Ranges,
    queues: Option<&dyn Queues>,
) -> Error {
    let (unit, what) = match exception {
        Exception::Memory(data) => memory(data, ranges, queues),
        Exception::Hardware(data) => ("GPU".into(), hardware(data)),
    };
    Error::Fault {
        device: device.clone(),
        unit,
        what,
    }
}

fn memory(
    data: &HsaMemoryExceptionData,
    ranges: &Ranges,
    queues: Option<&dyn Queues>,
) -> (String, String) {
    let page = data.va & !PAGE_BITS;
    let mut text = match data.error_type {
        exception::SRAM_ECC => "memory error that could not be corrected (SRAM ECC)".to_string(),
        exception::POISON_CONSUMED => "use of memory that had lost its content (poison)".into(),
        exception::MEM_GPU_HANG => "hang of the GPU".into(),
        _ => "page fault".into(),
    };
    let failure = &data.failure;
    let mut access = Vec::new();
    if failure.not_present != 0 {
        access.push("access to memory that is not mapped");
    }
    if failure.read_only != 0 {
        access.push("write to memory that may only be read");
    }
    if failure.no_execute != 0 {
        access.push("fetch of code from memory that may not be executed");
    }
    text += &format!(" at page {page:#x}");
    if !access.is_empty() {
        text += &format!(": {}", access.join(", "));
    }
    if failure.imprecise != 0 {
        text += " (the address is not exact)";
    }
    text += &format!("; the page is {}", ranges.describe(page));
    let suspects = queues.map(|q| q.suspects(page)).unwrap_or_default();
    if let Some((unit, what)) = suspects.guilty {
        text += &format!(". In flight on {unit}: {what}");
        return (unit, text);
    }
    let mut unit = "memory".to_string();
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

fn hardware(data: &HsaHwExceptionData) -> String {
    let what = match data.reset_type {
        exception::PER_ENGINE_RESET => "an engine was reset",
        _ => "the GPU was reset",
    };
    let why = match data.reset_cause {
        exception::ECC => "because memory could not be corrected (ECC)",
        _ => "because it hung",
    };
    let memory = match data.memory_lost {
        0 => "its memory is said to be whole",
        _ => "what was in its memory is lost",
    };
    format!("{what} {why}; {memory}. See `dmesg | grep amdgpu`")
}
