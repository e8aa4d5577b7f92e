//! [`Mqd`]: the memory queue descriptor of a compute queue, from which the hardware loads its registers.
//!
//! Of the 512 dwords those from 0x80 on are the registers from `CP_MQD_BASE_ADDR` to `CP_HQD_PQ_WPTR_HI`, one for one.
//! So it is written as they are: by the names of registers and fields.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/v{9,11,12}_structs.h; the values: amdgpu/gfx_v11_0.c,
//! `gfx_v11_0_compute_mqd_init`, with what a queue that the MES does not know has otherwise.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use drivers_spec::amd::mmio::{Reg, gc};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::GpuVa;
use hcq::reg::At;
use hcq::reg::block::{Block, Fields, Registers};
use hcq::reg::bus::Bus;
use hcq::reg::error::RegError;
use hcq::sync::lock;
use hcq::transport::{Fault, TransportError};

use crate::chip::Language;

/// Dwords of an image.
pub(super) const DWORDS: usize = 512;

/// Bytes from one image to the next.
pub(super) const STRIDE: u64 = 0x1000;

/// What an image starts with.
const HEADER: u32 = 0xc031_0800;

/// Where in it the registers of the queue are.
const REGISTERS: usize = 0x80;

/// Which compute units may run its waves, for each shader engine: `compute_static_thread_mgmt_se0` and later.
const UNITS_OF_ENGINES: [usize; 4] = [0x17, 0x18, 0x1a, 0x1b];

/// The same for engines 4 to 7, from GFX11 on.
const UNITS_OF_MORE_ENGINES: Range<usize> = 0x2c..0x30;

/// Dwords by which XCCs of one queue know each other: `compute_current_logic_xcc_id`, `compute_tg_chunk_size`,
/// `cp_mqd_stride_size`.
const LOGIC_XCC: usize = 0x27;
const CHUNK: usize = 0x29;
const STRIDE_SIZE: usize = 0xe2;

/// `CP_HQD_HQ_STATUS0`, a second name of `CP_HQD_HQ_SCHEDULER0`: what gfx_v11_0.c leaves there.
const STATUS0: u32 = 0x2000_4000;

/// Registers with where they are on the bus.
type Places = Vec<(u64, &'static Reg)>;

/// A compute queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// What its ring takes.
    pub(super) language: Language,
    /// The ring, a multiple of 256.
    pub(super) ring: GpuVa,
    /// Its length in bytes, a power of two.
    pub(super) ring_bytes: u64,
    /// The address of the read pointer, written by the hardware.
    pub(super) rptr: GpuVa,
    /// The address of the write pointer, written by the host.
    pub(super) wptr: GpuVa,
    /// The buffer for events at the end of the pipe, a multiple of 256.
    pub(super) end_of_pipe: GpuVa,
    /// Its length in bytes, a power of two.
    pub(super) end_of_pipe_bytes: u64,
    /// The number of its doorbell, of 8 bytes each.
    pub(super) doorbell: u32,
    /// How many XCCs it runs on.
    pub(super) xccs: u32,
}

/// The image of a queue for an XCC.
pub(super) struct Mqd {
    /// The registers, at their places on the bus.
    registers: Places,
    words: Mutex<[u32; DWORDS]>,
    first: u64,
}

impl Mqd {
    /// The image at address `at` of the system aperture. `xcc` is the number of its XCC.
    ///
    /// # Errors
    /// [`RegError`]: the version of the block has no such register.
    pub(super) fn new(
        block: &Block<Gfxs>,
        queue: &Queue,
        at: u64,
        xcc: u32,
    ) -> Result<Mqd, RegError> {
        let mut words = [0; DWORDS];
        words[0] = HEADER;
        UNITS_OF_ENGINES.iter().for_each(|&at| words[at] = u32::MAX);
        if block.one != Gfx::Gfx9 {
            UNITS_OF_MORE_ENGINES.for_each(|at| words[at] = u32::MAX);
        }
        if queue.xccs > 1 {
            words[LOGIC_XCC] = xcc;
            words[CHUNK] = 1;
            words[STRIDE_SIZE] = STRIDE as u32;
        }
        let mut mqd = Mqd {
            registers: Vec::new(),
            words: Mutex::new(words),
            first: 0,
        };
        (mqd.first, mqd.registers) = places(&block.on(&mqd), block)?;
        mqd.fill(block, queue, at, xcc)?;
        Ok(mqd)
    }

    fn fill(&self, block: &Block<Gfxs>, queue: &Queue, at: u64, xcc: u32) -> Result<(), RegError> {
        let set = block.on(self);
        let split = |low: &Reg, high: &Reg, value: u64| {
            set.write(low, value as u32)?;
            set.write(high, (value >> 32) as u32)
        };
        split(&gc::CP_MQD_BASE_ADDR, &gc::CP_MQD_BASE_ADDR_HI, at)?;
        set.put(&gc::CP_HQD_VMID, &[("vmid", 0)])?;
        set.put(
            &gc::CP_HQD_PERSISTENT_STATE,
            &[("preload_req", 1), ("preload_size", 0x55)],
        )?;
        set.put(&gc::CP_HQD_PIPE_PRIORITY, &[("pipe_priority", 2)])?;
        set.put(&gc::CP_HQD_QUEUE_PRIORITY, &[("priority_level", 15)])?;
        set.put(
            &gc::CP_HQD_QUANTUM,
            &[
                ("quantum_en", 1),
                ("quantum_scale", 1),
                ("quantum_duration", 1),
            ],
        )?;
        split(
            &gc::CP_HQD_PQ_BASE,
            &gc::CP_HQD_PQ_BASE_HI,
            queue.ring.0 >> 8,
        )?;
        split(
            &gc::CP_HQD_PQ_RPTR_REPORT_ADDR,
            &gc::CP_HQD_PQ_RPTR_REPORT_ADDR_HI,
            queue.rptr.0,
        )?;
        split(
            &gc::CP_HQD_PQ_WPTR_POLL_ADDR,
            &gc::CP_HQD_PQ_WPTR_POLL_ADDR_HI,
            queue.wptr.0,
        )?;
        // Counted in dwords.
        let doorbell = [("doorbell_offset", queue.doorbell * 2), ("doorbell_en", 1)];
        set.put(&gc::CP_HQD_PQ_DOORBELL_CONTROL, &doorbell)?;
        let size = log2_dwords(queue.ring_bytes);
        let pm4: Fields<'_> = &[("queue_size", size), ("rptr_block_size", 5)];
        // All XCCs read the packets of a queue on several XCCs; the first one reports the read pointer.
        let is_silent = u32::from(xcc != 0 || queue.xccs == 1);
        let aql: Fields<'_> = &[
            ("queue_size", size),
            ("rptr_block_size", 5),
            ("queue_full_en", 1),
            ("slot_based_wptr", 2),
            ("no_update_rptr", is_silent),
        ];
        let is_aql = queue.language == Language::Aql;
        set.put(&gc::CP_HQD_PQ_CONTROL, if is_aql { aql } else { pm4 })?;
        set.put(&gc::CP_HQD_IB_CONTROL, &[("min_ib_avail_size", 3)])?;
        set.write(&gc::CP_HQD_HQ_SCHEDULER0, STATUS0)?;
        set.put(&gc::CP_MQD_CONTROL, &[("priv_state", 1)])?;
        split(
            &gc::CP_HQD_EOP_BASE_ADDR,
            &gc::CP_HQD_EOP_BASE_ADDR_HI,
            queue.end_of_pipe.0 >> 8,
        )?;
        let size = log2_dwords(queue.end_of_pipe_bytes);
        set.put(&gc::CP_HQD_EOP_CONTROL, &[("eop_size", size)])?;
        set.put(&gc::CP_HQD_AQL_CONTROL, &[("control0", is_aql.into())])
    }

    /// The whole image.
    pub(super) fn words(&self) -> [u32; DWORDS] {
        *self.lock()
    }

    /// Writes all registers of the queue, in their order: what an earlier queue has left in any of them is gone.
    ///
    /// # Errors
    /// [`RegError`].
    pub(super) fn load(&self, into: &Registers<'_, Gfxs>) -> Result<(), RegError> {
        let words = self.words();
        let dword = |place: u64| REGISTERS + ((place - self.first) / 4) as usize;
        self.registers
            .iter()
            .try_for_each(|(place, reg)| into.write(reg, words[dword(*place)]))
    }

    fn lock(&self) -> MutexGuard<'_, [u32; DWORDS]> {
        // Dwords are written whole.
        lock(&self.words)
    }

    /// The dword that is a register.
    fn dword(&self, at: u64) -> Result<usize, TransportError> {
        let dword = at
            .checked_sub(self.first)
            .map(|at| at / 4 + REGISTERS as u64);
        let dword = dword.filter(|dword| *dword < DWORDS as u64);
        dword.map(|dword| dword as usize).ok_or_else(|| {
            let why = Fault::Unsupported("register not in the MQD".into());
            TransportError::new(self.name(), format!("{at:#x}"), why)
        })
    }
}

/// Where the first register of a queue is, and where each of them is, in order.
fn places(of: &Registers<'_, Gfxs>, block: &Block<Gfxs>) -> Result<(u64, Places), RegError> {
    let first = of.place(&gc::CP_MQD_BASE_ADDR)?;
    let last = of.place(&gc::CP_HQD_PQ_WPTR_HI)?;
    let mut found = Places::new();
    for reg in gc::ALL.iter().filter(|reg| has(reg, block)) {
        let place = of.place(reg)?;
        // Some have a second name.
        let is_known = found.iter().any(|(known, _)| *known == place);
        if (first..=last).contains(&place) && !is_known {
            found.push((place, reg));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    Ok((first, found))
}

/// Log2 of the dwords of a buffer, less one: how the hardware counts rings.
fn log2_dwords(bytes: u64) -> u32 {
    (bytes / 4).checked_ilog2().unwrap_or(0).saturating_sub(1)
}

fn has(reg: &Reg, block: &Block<Gfxs>) -> bool {
    match reg.at {
        At::Rows(rows) => rows.iter().any(|row| row.version == block.version),
        At::Fixed(_) => false,
    }
}

impl Bus for Mqd {
    fn name(&self) -> String {
        "MQD image".into()
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        let dword = self.dword(at)?;
        Ok(self.lock()[dword])
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        let dword = self.dword(at)?;
        self.lock()[dword] = value;
        Ok(())
    }

    fn send(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq::reg::IpVersion;

    fn block(version: IpVersion, one: Gfx) -> Block<Gfxs> {
        Block {
            name: "GC0".into(),
            version,
            one,
            segments: vec![0x1260, 0xa000, 0x1c000, 0x240_2c00],
        }
    }

    /// What another driver, which has run on cards, puts into the registers of a queue.
    ///
    /// Source: the recording in tests/golden/amd, am_boot_gfx1201.txt.
    #[test]
    fn a_queue_is_the_one_that_has_run() {
        let queue = Queue {
            language: Language::Pm4,
            ring: GpuVa(0x2000_0000_0000),
            ring_bytes: 16 << 20,
            rptr: GpuVa(0x2000_0100_0080),
            wptr: GpuVa(0x2000_0100_0038),
            end_of_pipe: GpuVa(0x2000_0100_1000),
            end_of_pipe_bytes: 0x1000,
            doorbell: 3,
            xccs: 1,
        };
        let gc = block(IpVersion(12, 0, 0), Gfx::Gfx12);
        let words = Mqd::new(&gc, &queue, 0x9b000, 0).unwrap().words();
        let seen = [
            (0x00, 0xc031_0800),
            (0x2c, u32::MAX),
            (0x80, 0x9b000),
            (0x84, 0x5501),
            (0x85, 2),
            (0x86, 15),
            (0x87, 0x111),
            (0x88, 0),
            (0x89, 0x20),
            (0x8b, 0x0100_0080),
            (0x8c, 0x2000),
            (0x8d, 0x0100_0038),
            (0x8e, 0x2000),
            (0x8f, 0x4000_0018),
            (0x91, 0x515),
            (0x95, 0x30_0000),
            (0xa0, 0x2000_4000),
            (0xa2, 0x100),
            (0xa5, 0x1_0010),
            (0xa6, 0x20),
            (0xa7, 9),
        ];
        for (at, value) in seen {
            assert_eq!(words[at], value, "dword {at:#x}");
        }
        let others = words.iter().filter(|word| **word != 0).count();
        assert_eq!(
            others,
            seen.len() - 1 + 7,
            "the units of engines, and no more"
        );
    }

    #[test]
    fn all_versions_have_the_registers_of_a_queue() {
        let queue = Queue {
            language: Language::Aql,
            ring: GpuVa(0x1000),
            ring_bytes: 0x1000,
            rptr: GpuVa(0),
            wptr: GpuVa(0),
            end_of_pipe: GpuVa(0x2000),
            end_of_pipe_bytes: 0x1000,
            doorbell: 3,
            xccs: 8,
        };
        for (version, one) in [
            (IpVersion(9, 4, 3), Gfx::Gfx9),
            (IpVersion(11, 0, 0), Gfx::Gfx11),
            (IpVersion(11, 0, 3), Gfx::Gfx11),
            (IpVersion(12, 0, 0), Gfx::Gfx12),
        ] {
            let gc = block(version, one);
            let mqd = Mqd::new(&gc, &queue, 0, 3).unwrap();
            // Of 56 dwords one is a hole, of GFX12 two.
            assert!(mqd.registers.len() >= 54, "{version}");
            let words = mqd.words();
            assert_eq!((words[0x27], words[0x29], words[0xe2]), (3, 1, 0x1000));
            assert_eq!(words[0xb5], 1, "AQL");
        }
    }
}
