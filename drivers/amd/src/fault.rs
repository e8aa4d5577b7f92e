//! Exceptions of the GPU as errors that say what happened, where, and whose memory it was.

use drivers_spec::amd::kfd::{HsaHwExceptionData, HsaMemoryExceptionData, exception};
use hcq::Error;

use crate::channel::Channel;
use crate::core::Core;
use crate::inflight::{self, Doing};

/// The bits of an address that a fault does not tell.
const PAGE_BITS: u64 = 0xfff;

/// Arguments and packets that are named at most.
const NAMED: usize = 8;

/// An exception as the cause of a loss.
pub(crate) fn describe(core: &Core, exception: &crate::kfd::event::Exception) -> Error {
    use crate::kfd::event::Exception::{Hardware, Memory};
    let (unit, what) = match exception {
        Memory(data) => memory(core, data),
        Hardware(data) => ("GPU".into(), hardware(data)),
    };
    Error::Fault {
        device: core.id.clone(),
        unit,
        what,
    }
}

fn memory(core: &Core, data: &HsaMemoryExceptionData) -> (String, String) {
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
    text += &format!("; the page is {}", core.process.ranges.describe(page));
    let channels: Vec<_> = core.engine().map_or_else(Vec::new, |e| e.channels());
    let mut unit = "memory".to_string();
    let mut running = Vec::new();
    for channel in &channels {
        let (suspects, others) = suspects(channel, page);
        if let Some(first) = suspects.first() {
            unit = channel.unit();
            text += &format!(". In flight on {unit}: {first}");
            return (unit, text);
        }
        running.extend(others.into_iter().map(|what| (channel.unit(), what)));
    }
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

/// What is in flight on a queue and names an address of the page; and the launches that do not.
fn suspects(channel: &Channel, page: u64) -> (Vec<String>, Vec<String>) {
    let in_page = |va: u64| va & !PAGE_BITS == page;
    let (mut suspects, mut others) = (Vec::new(), Vec::new());
    for packet in inflight::packets(channel) {
        let told = || channel.tell(&packet);
        match &packet.doing {
            Doing::Launch { code, arguments } => {
                let values = channel.arguments_of(*code, arguments);
                let guilty = values.iter().enumerate().find(|&(_, &va)| in_page(va));
                match guilty {
                    Some((i, va)) => suspects.push(format!(
                        "{}, whose argument at byte {} is {va:#x}, in that page",
                        told(),
                        i * 8
                    )),
                    None => {
                        let told = told();
                        if !others.contains(&told) {
                            others.push(told);
                        }
                    }
                }
            }
            Doing::Copy { dst, src, bytes } => {
                let touches = |va: u64| va & !PAGE_BITS <= page && page < va.saturating_add(*bytes);
                if touches(*dst) || touches(*src) {
                    suspects.push(told());
                }
            }
            Doing::Wait { at, .. } | Doing::Signal { at, .. } if in_page(*at) => {
                suspects.push(told());
            }
            Doing::Wait { .. } | Doing::Signal { .. } => {}
        }
    }
    (suspects, others)
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
