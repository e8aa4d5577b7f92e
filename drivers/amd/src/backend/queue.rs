//! [`HardwareQueue`]: a ring, its pointers, and a doorbell.
//!
//! The creator of the queue tells the hardware their addresses. Their contents are the same for every interface: the
//! pointers are in a separate page with the layout of `amd_queue_t`, as AQL requires; the rest of that page is used
//! for fences.

use std::any::Any;

use drivers_spec::amd::aql;
use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{GpuVa, Result};

use super::Gpu;
use crate::chip::Language;

/// Bytes of the page of pointers.
pub const CONTROL_BYTES: u64 = 4096;

/// Where in it the write pointer is.
pub const WPTR: u64 = aql::queue::WRITE_DISPATCH_ID as u64;

/// Where the read pointer of the first XCC is.
const RPTR: u64 = aql::queue::READ_DISPATCH_ID as u64;

/// The read pointers of the later XCCs of a PM4 queue: after `amd_queue_t`, which they do not
/// use, each in its own cache line.
const RPTRS: u64 = 1024;

/// Free for the driver: after `amd_queue_t`, each in its own cache line.
const FENCE: u64 = 512;
const PROGRESS: u64 = 576;

// They are in one page and do not overlap.
const _: () = {
    assert!(RPTR + 8 < FENCE && aql::queue::BYTES as u64 <= FENCE && PROGRESS + 16 <= RPTRS);
    assert!(RPTRS + 64 * 8 <= CONTROL_BYTES);
};

/// A request for a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueRequest<'a> {
    /// What its ring takes.
    pub language: Language,
    /// Bytes of the ring, a power of two of at least a page.
    pub ring_bytes: u64,
    /// Its name in messages.
    pub name: &'a str,
}

/// A queue of the hardware.
///
/// AQL runs on all XCCs of a GPU, a PM4 queue on one. PM4 for several is a queue on each, all of them on
/// one ring: they share its write pointer, and have a read pointer and a doorbell each.
pub struct HardwareQueue {
    /// The queue; destroyed first: nothing below is used by the hardware then.
    pub handle: Box<dyn QueueHandle>,
    /// What its ring takes.
    pub language: Language,
    /// The ring.
    pub ring: Window,
    /// The page of pointers.
    pub control: Window,
    /// Its address.
    pub control_va: GpuVa,
    /// A doorbell of 8 bytes for each XCC that has a queue of its own.
    pub doorbells: Vec<Window>,
    /// Frees its memory; after the windows.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// A queue as its interface has made it. Dropping it destroys the queue.
pub trait QueueHandle: Send + Sync {
    /// Takes the queue from the hardware and gives it back: what the command processor has read of
    /// `amd_queue_t` is read again.
    ///
    /// # Errors
    /// [`hcq::Error::Os`].
    fn remap(&self) -> Result<()>;

    /// Removes the queue from the hardware for good; later calls do nothing. Returns whether it can no longer write.
    fn stop(&self) -> bool;
}

/// Where the read pointer of an XCC is.
pub fn rptr(xcc: u32) -> u64 {
    match xcc {
        0 => RPTR,
        xcc => RPTRS + 64 * u64::from(xcc),
    }
}

/// Bases of what generic addresses of kernels mean, in 64 KiB of their own each.
#[derive(Clone, Copy, Debug)]
pub struct Apertures {
    /// Local memory.
    pub local: u64,
    /// Scratch memory.
    pub scratch: u64,
}

/// Prepares an AQL queue, before the hardware has it: the structure that the command processor reads
/// beside the ring, and a ring of free slots.
///
/// Source: ROCR, inc/amd_hsa_queue.h; HSA Runtime Programmer's Reference Manual, 2.9.
///
/// # Errors
/// The windows'.
pub fn prepare_aql(
    gpu: &Gpu,
    ring: (GpuVa, &Window),
    control: &Window,
    apertures: Apertures,
    waves_per_simd: u32,
) -> std::result::Result<(), TransportError> {
    use aql::queue::{
        BASE_ADDRESS, GROUP_SEGMENT_APERTURE_BASE_HI, MAX_CU_ID, MAX_WAVE_ID,
        PRIVATE_SEGMENT_APERTURE_BASE_HI, QUEUE_PROPERTIES,
        READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET, SIZE,
    };
    let (ring_va, ring) = ring;
    let packets = ring.len() / aql::PACKET_BYTES;
    for packet in 0..packets {
        ring.write(packet * aql::PACKET_BYTES, aql::INVALID)?;
    }
    let waves = waves_per_simd.saturating_mul(gpu.units.simds_per_cu);
    let units = gpu.units.simds / gpu.units.simds_per_cu.max(1);
    control.write(BASE_ADDRESS as u64, ring_va.0)?;
    let words = [
        (SIZE, packets as u32),
        (
            GROUP_SEGMENT_APERTURE_BASE_HI,
            (apertures.local >> 32) as u32,
        ),
        (
            PRIVATE_SEGMENT_APERTURE_BASE_HI,
            (apertures.scratch >> 32) as u32,
        ),
        (MAX_CU_ID, units.saturating_sub(1)),
        (MAX_WAVE_ID, waves.saturating_sub(1)),
        (READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET, RPTR as u32),
        (QUEUE_PROPERTIES, aql::QueueProperties::IS_PTR64.bits()),
    ];
    for (at, word) in words {
        control.write(at as u64, word)?;
    }
    Ok(())
}

impl HardwareQueue {
    /// Four bytes for the encoder's fence.
    pub fn fence_va(&self) -> GpuVa {
        GpuVa(self.control_va.0 + FENCE)
    }

    /// The progress signal, 16 bytes: the host's window, and the device's address.
    ///
    /// # Errors
    /// None: it is in the page.
    pub fn progress(&self) -> std::result::Result<(Window, GpuVa), TransportError> {
        let window = self.control.sub(PROGRESS, 16)?;
        Ok((window, GpuVa(self.control_va.0 + PROGRESS)))
    }

    /// The read pointer as the device has written it, in its own unit; `None` for PM4, whose
    /// firmware promises nothing about it.
    ///
    /// # Errors
    /// The window's.
    #[inline]
    pub fn read_pointer(&self) -> std::result::Result<Option<u64>, TransportError> {
        match self.language {
            Language::Pm4 => Ok(None),
            Language::Aql | Language::Sdma => self.control.load(RPTR).map(Some),
        }
    }

    /// Both pointers, write and read, whatever they are worth: for messages.
    pub fn raw_pointers(&self) -> (u64, u64) {
        let load = |at| self.control.load(at).unwrap_or(u64::MAX);
        // The XCC that is last.
        let rptr = (0..self.doorbells.len() as u32).map(|xcc| load(rptr(xcc)));
        (load(WPTR), rptr.min().unwrap_or(u64::MAX))
    }

    /// Publishes the ring up to `dwords`, counted since the queue was created. Returns the doorbell value.
    ///
    /// # Errors
    /// The windows'.
    #[inline]
    pub fn publish(&self, dwords: u64) -> std::result::Result<u64, TransportError> {
        const PACKET_DWORDS: u64 = aql::PACKET_BYTES / 4;
        let (wptr, bell) = match self.language {
            Language::Pm4 => (dwords, dwords),
            Language::Sdma => (dwords * 4, dwords * 4),
            // The index of the last packet.
            Language::Aql => (dwords / PACKET_DWORDS, dwords / PACKET_DWORDS - 1),
        };
        // The ring is written before, the pointer before the doorbell: whatever memory each is.
        self.control.store(WPTR, wptr)?;
        for doorbell in &self.doorbells {
            doorbell.ring(0, bell)?;
        }
        Ok(bell)
    }
}
