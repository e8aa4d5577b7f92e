//! `queue_inactive_signal`: how the command processor tells the runtime that an AQL queue cannot go on, and
//! what it waits for.
//!
//! Source: ROCR, amd_aql_queue.cpp, DynamicQueueEventsHandler and HandleInsufficientScratch.

use drivers_spec::amd::aql::{self, inactive};
use twin_shader::page::{MemFault, Port};

use super::{clock::Clock, exception, work};
use crate::gpu::{Interrupt, QueueDesc};

/// The bit for an exception of a packet.
pub(crate) fn bit(code: u32) -> Option<u64> {
    Some(match code {
        exception::PACKET_DISPATCH_DIM_INVALID => inactive::DIMENSIONS,
        exception::PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID => inactive::GROUP_SIZE,
        exception::PACKET_DISPATCH_CODE_INVALID => inactive::CODE,
        exception::PACKET_UNSUPPORTED => inactive::FORMAT,
        exception::PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID => inactive::WORKGROUP_SIZE,
        exception::PACKET_DISPATCH_REGISTER_INVALID => inactive::VGPRS,
        exception::PACKET_VENDOR_UNSUPPORTED => inactive::VENDOR_FORMAT,
        _ => return None,
    })
}

/// Stores a value into the signal and wakes who waits for it. Returns the signal, none where the queue
/// has none.
pub(crate) fn tell(
    desc: &QueueDesc,
    clock: &Clock,
    value: u64,
    out: &mut Vec<Interrupt>,
) -> Result<Option<u64>, MemFault> {
    let queue = desc.rptr - aql::queue::READ_DISPATCH_ID as u64;
    let mut signal = [0; 8];
    let at = queue + aql::queue::QUEUE_INACTIVE_SIGNAL as u64;
    desc.vm.read(Port::Cp, at, &mut signal)?;
    let signal = u64::from_le_bytes(signal);
    if signal == 0 {
        return Ok(None);
    }
    let at = signal + aql::signal::VALUE as u64;
    desc.vm.write(Port::Cp, at, &value.to_le_bytes())?;
    work::wake(&desc.vm, clock, desc.process, (signal, false), out)?;
    Ok(Some(signal))
}
