//! What a driver asks before it makes channels: engines and their runlists, sizes of buffers. Numbers that differ between cards are
//! this model's choice.
//!
//! Source: OGKM, ctrl/ctrl2080/{ctrl2080fifo,ctrl2080internal,ctrl2080ce}.h; src/nvidia/inc/kernel/gpu/intr/engine_idx.h of
//! each branch; src/nvidia/inc/kernel/gpu/fifo/engine_info.h; ctrl/ctrl0080/ctrl0080fifo.h; Linux, nvkm/subdev/gsp/rm/r535/
//! {fifo,gr}.c.

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::{class, status};

use super::{Call, memory};
use crate::chip::Chip;
use crate::pci::memory::word;
use crate::rm::facts::{graphics, graphics_facts};

/// `NV90F1_CTRL_CMD_VASPACE_COPY_SERVER_RESERVED_PDES`.
pub(super) const COPY_SERVER_RESERVED_PDES: u32 = 0x90f1_0106;
/// `NV0080_CTRL_CMD_DMA_SET_PAGE_DIRECTORY`.
pub(super) const SET_PAGE_DIRECTORY: u32 = 0x80_1813;
/// `NV0080_CTRL_CMD_DMA_UNSET_PAGE_DIRECTORY`: an address space, and a subdevice.
pub(super) const UNSET_PAGE_DIRECTORY: u32 = 0x80_1814;
/// `NV2080_CTRL_CMD_GPU_PROMOTE_CTX`.
pub(super) const PROMOTE_CTX: u32 = 0x2080_012b;
/// `NVA06C_CTRL_CMD_INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS`.
pub(super) const PROMOTE_METHODS: u32 = 0xa06c_010a;
/// `NV2080_CTRL_CMD_CE_UPDATE_CLASS_DB`.
const UPDATE_CLASS_DB: u32 = 0x2080_2a06;
/// `NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS`.
pub(super) const DISABLE_CHANNELS: u32 = 0x2080_110b;
/// `NVA06F_CTRL_CMD_STOP_CHANNEL`.
pub(super) const STOP_CHANNEL: u32 = 0xa06f_0112;
/// `NV2080_CTRL_CMD_FIFO_GET_DEVICE_INFO_TABLE`.
const DEVICE_INFO_TABLE: u32 = 0x2080_1112;
/// `NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_CONTEXT_BUFFERS_INFO`.
const CONTEXT_BUFFERS_INFO: u32 = 0x2080_0a32;
/// `NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_INFO`.
const GRAPHICS_INFO: u32 = 0x2080_0a2a;
/// `NV2080_CTRL_CMD_INTERNAL_INTR_GET_KERNEL_TABLE`.
const INTERRUPTS: u32 = 0x2080_0a5c;
/// `NV2080_CTRL_CMD_INTERNAL_GET_CONSTRUCTED_FALCON_INFO`, and since 550 `NV2080_CTRL_CMD_GPU_GET_CONSTRUCTED_FALCON_INFO`, the same.
const FALCONS: u32 = 0x2080_0a42;
const PUBLIC_FALCONS: u32 = 0x2080_01b0;
/// `NV2080_CTRL_CMD_CE_GET_FAULT_METHOD_BUFFER_SIZE`.
const METHOD_BUFFER_SIZE: u32 = 0x2080_2a08;

/// `NV2080_CTRL_CMD_INTERNAL_BUS_FLUSH_WITH_SYSMEMBAR`: writes of the host wait nowhere here.
const FLUSH_WITH_SYSMEMBAR: u32 = 0x2080_0a70;

/// `NV2080_CTRL_CMD_GPU_GET_FERMI_GPC_INFO`: a mask.
const GPCS: u32 = 0x2080_0137;
/// `NV2080_CTRL_CMD_GPU_GET_FERMI_TPC_INFO`: of a GPC, a mask; none of one that is not there.
const TPCS: u32 = 0x2080_0138;
/// `NV2080_CTRL_CMD_GR_GET_ZCULL_INFO`: ten words. nouveau of 570 gives graphics up without them.
const ZCULL: u32 = 0x2080_1206;

/// `NV2080_CTRL_CMD_INTERNAL_MEMSYS_GET_STATIC_CONFIG`.
const MEMORY_SYSTEM: u32 = 0x2080_0a1c;

/// Controls of objects that are not here, which are answered here.
pub(super) const KNOWN: [u32; 17] = [
    UNSET_PAGE_DIRECTORY,
    PUBLIC_FALCONS,
    MEMORY_SYSTEM,
    GPCS,
    TPCS,
    ZCULL,
    SET_PAGE_DIRECTORY,
    PROMOTE_CTX,
    DISABLE_CHANNELS,
    DEVICE_INFO_TABLE,
    CONTEXT_BUFFERS_INFO,
    GRAPHICS_INFO,
    INTERRUPTS,
    FALCONS,
    METHOD_BUFFER_SIZE,
    UPDATE_CLASS_DB,
    FLUSH_WITH_SYSMEMBAR,
];

/// Pixels that a width and a height are a multiple of, pixel squares of an aliquot, aliquots, bytes for each of a region, of its
/// header, of that of a subregion, how many subregions, and pixels that theirs are multiples of. Numbers of this model's choice: 3D, which
/// they are for, is not modelled.
const ZCULL_FACTS: [u32; 10] = [448, 32, 0x1c0, 0x3b10, 64, 0xe0, 0xe0, 16, 448, 128];

/// Bytes that a line of compression tags covers: a number of this model's choice.
const COMPRESSED: u32 = 0x1_0000;

/// A copy engine that has no hardware: the table of devices has it, and channels of it are not made. A number of this model's
/// choice, and where none is left the last one; such ones there are on cards, see kernel_ce.c, kceUpdateClassDB_KERNEL.
fn stubbed(chip: &Chip) -> u32 {
    let next = class::engine::COPY0 + chip.copy_engines;
    next.min(class::engine::COPY9)
}

/// The engines of a chip that have hardware.
pub(super) fn engines(chip: &'static Chip) -> impl Iterator<Item = u32> {
    chip.engines().filter(move |one| *one != stubbed(chip))
}

/// Buffers of graphics: `NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_ENGINE_ID_*`, the id of GPU_PROMOTE_CTX, bytes.
const BUFFERS: [(u32, u16, u32); 9] = [
    (0x00, 0, 0x14_0000),
    (0x10, 2, 0x2000),
    (0x11, 3, 0x3000),
    // nouveau takes the first, OGKM the second.
    (0x0d, 4, 0x2_0000),
    (0x12, 4, 0x2_0000),
    (0x13, 5, 0x20_0000),
    (0x14, 6, 0x8000),
    (0x17, 9, 0x1000),
    (0x18, 10, 0x8_0000),
];
/// `NV2080_CTRL_INTERNAL_ENGINE_CONTEXT_PROPERTIES_ENGINE_ID_COUNT`, of 8 engines of graphics.
fn properties(branch: Branch) -> usize {
    if branch == Branch::R535 { 0x19 } else { 0x1a }
}
const GRAPHICS: usize = 8;

/// Bytes that a buffer has at least. That of unrestricted access is as large as the other one of access.
pub(super) fn buffer(id: u16) -> u64 {
    let id = if id == 11 { 10 } else { id };
    let found = BUFFERS.iter().find(|buffer| buffer.1 == id);
    found.map_or(0x1000, |buffer| buffer.2.into())
}

/// An entry of the table of devices: words, PBDMAs and how many, a name.
const WORDS: usize = 16;
const NAME: usize = 84;
const DEVICE: usize = 100;
const DEVICES: usize = 32;
/// `NV_PFAULT_MMU_ENG_ID_GRAPHICS`, and of the first copy engine.
const FAULT_GRAPHICS: u32 = 64;
const FAULT_COPY: u32 = 15;
/// Where the registers of the first runlist are, and of those of its channels; and how far apart.
const RUNLISTS: u32 = 0xc0_0000;
const CHANNELS: u32 = 0xc8_0000;
const APART: u32 = 0x1_0000;

/// `NV2080_CTRL_CMD_INTERNAL_MAX_CONSTRUCTED_FALCONS`, and bytes of one.
const MOST_FALCONS: usize = 0x40;
const FALCON: usize = 20;

/// `NV2080_CTRL_INTERNAL_INTR_MAX_TABLE_SIZE`, and bytes of an entry; behind them seven pairs of bytes, which subtrees a category has.
const VECTORS: usize = 128;
const VECTOR: usize = 16;
const SUBTREES: usize = 4 + VECTORS * VECTOR;
const TABLE: usize = (SUBTREES + 2 * 7).next_multiple_of(4);
/// The first vector of interrupts that stop an engine, in leaf 4; that of engine N is N behind it, and its notification is N.
const STALL: u32 = 0x80;
/// The vector of GSP's messages.
pub(in crate::pci::gsp) const GSP_VECTOR: u32 = STALL + 0x1b;

/// The vector of what channels of an engine tell the host.
pub(in crate::pci::gsp) fn notification(engine: u32) -> u32 {
    match engine.checked_sub(class::engine::COPY0) {
        Some(copy) => copy + 1,
        None => 0,
    }
}

impl Call<'_> {
    /// `MC_ENGINE_IDX_*`, and vectors.
    fn interrupts(&self, given: &mut [u8]) -> Result<(), u32> {
        self.has_size(given, TABLE)?;
        given.fill(0);
        let (gsp, graphics) = match self.branch {
            Branch::R535 => (49, 82),
            _ => (50, 84),
        };
        let chip = self.state.config.chip.twin;
        // Those of all engines of the table of devices: nouveau gives up where one has none (r535/fifo.c, r535_fifo_runl_ctor).
        let engines = engines(chip).chain([stubbed(chip)]).map(|engine| {
            let index = match engine.checked_sub(class::engine::COPY0) {
                Some(copy) => 15 + copy,
                None => graphics,
            };
            let vector = notification(engine);
            [index, STALL + vector, vector]
        });
        let all: Vec<[u32; 3]> = std::iter::once([gsp, GSP_VECTOR, u32::MAX])
            .chain(engines)
            .collect();
        given[..4].copy_from_slice(&(all.len() as u32).to_le_bytes());
        for ([index, stall, other], place) in all.iter().zip(given[4..].chunks_mut(VECTOR)) {
            // No bits of the registers that cards had before.
            for (word, at) in [index, &0, stall, other].into_iter().zip((0..).step_by(4)) {
                place[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        // NV2080_INTR_CATEGORY_ESCHED_DRIVEN_ENGINE, its notifications, and none of the others.
        given[SUBTREES..SUBTREES + 14].fill(0xff);
        given[SUBTREES + 2..SUBTREES + 6].copy_from_slice(&[2, 2, 0, 0]);
        Ok(())
    }

    /// The other controls.
    pub(super) fn fact(&self, object: u32, cmd: u32, given: &mut [u8]) -> Result<(), u32> {
        if KNOWN.contains(&cmd) {
            self.of_class(object, class::NV20_SUBDEVICE_0.number)?;
        }
        match cmd {
            DEVICE_INFO_TABLE => self.devices(given),
            CONTEXT_BUFFERS_INFO => self.buffers(given),
            GRAPHICS_INFO => self.graphics(given),
            INTERRUPTS => self.interrupts(given),
            // Engines whose contexts are memory of the host: there are none here.
            FALCONS | PUBLIC_FALCONS => {
                self.has_size(given, 4 + MOST_FALCONS * FALCON)?;
                given.fill(0);
                Ok(())
            }
            FLUSH_WITH_SYSMEMBAR => self.has_size(given, 0),
            MEMORY_SYSTEM => self.memory_system(given),
            GPCS => {
                self.has_size(given, 4)?;
                let mask = (1_u32 << self.state.config.chip.twin.tpcs.len()) - 1;
                given.copy_from_slice(&mask.to_le_bytes());
                Ok(())
            }
            TPCS => {
                self.has_size(given, 8)?;
                let chip = self.state.config.chip.twin;
                let tpcs = chip.tpcs.get(word(given, 0) as usize);
                let mask = tpcs.map_or(0, |tpcs| (1_u32 << tpcs) - 1);
                given[4..].copy_from_slice(&mask.to_le_bytes());
                Ok(())
            }
            ZCULL => {
                self.has_size(given, 4 * ZCULL_FACTS.len())?;
                for (fact, place) in ZCULL_FACTS.iter().zip(given.chunks_mut(4)) {
                    place.copy_from_slice(&fact.to_le_bytes());
                }
                Ok(())
            }
            UPDATE_CLASS_DB => {
                self.has_size(given, 4)?;
                let stubbed = stubbed(self.state.config.chip.twin);
                let mask = 1_u32 << (stubbed - class::engine::COPY0);
                given.copy_from_slice(&mask.to_le_bytes());
                Ok(())
            }
            METHOD_BUFFER_SIZE => {
                self.has_size(given, 4)?;
                given.copy_from_slice(&memory::METHOD_BUFFER.to_le_bytes());
                Ok(())
            }
            _ => {
                let what = format!("control {cmd:#x} of object {object:#x}");
                let unsupported = status::NV_ERR_NOT_SUPPORTED;
                self.refuse(&crate::rm::control::UNKNOWN, unsupported, what)
            }
        }
    }

    /// Six facts about compression and ECC, and one about the cache, of a byte; then the cache's bytes, whether there are memory
    /// controllers; what a line of compression tags covers and its shift, the kind of memory, slices. Compression is not modelled.
    fn memory_system(&self, given: &mut [u8]) -> Result<(), u32> {
        self.has_size(given, 40)?;
        let chip = self.state.config.chip.twin;
        given.fill(0);
        given[8..16].copy_from_slice(&(u64::from(chip.l2_kib) << 10).to_le_bytes());
        given[16] = 1;
        let words = [
            COMPRESSED,
            COMPRESSED.ilog2(),
            chip.ram_type,
            2 * chip.partitions(),
            4,
        ];
        for (word, place) in words.iter().zip(given[20..].chunks_mut(4)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    fn buffers(&self, given: &mut [u8]) -> Result<(), u32> {
        self.has_size(given, GRAPHICS * properties(self.branch) * 8)?;
        given.fill(0);
        for (property, _, bytes) in BUFFERS {
            let at = property as usize * 8;
            given[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
            given[at + 4..at + 8].copy_from_slice(&0x1000_u32.to_le_bytes());
        }
        Ok(())
    }

    /// Of each engine of graphics, of which there is one, pairs of index and fact.
    fn graphics(&self, given: &mut [u8]) -> Result<(), u32> {
        let count = graphics_facts(self.branch);
        self.has_size(given, GRAPHICS * count as usize * 8)?;
        given.fill(0);
        let chip = self.state.config.chip.twin;
        for (index, place) in (0..count).zip(given.chunks_mut(8)) {
            let fact = graphics(chip, self.branch, index).unwrap_or(0);
            let pair = u64::from(index) | u64::from(fact) << 32;
            place.copy_from_slice(&pair.to_le_bytes());
        }
        Ok(())
    }

    fn devices(&self, given: &mut [u8]) -> Result<(), u32> {
        self.has_size(given, 12 + DEVICES * DEVICE)?;
        let chip = self.state.config.chip.twin;
        let base = word(given, 0) as usize;
        let all = engines(chip).chain([stubbed(chip)]);
        let found: Vec<u32> = all.skip(base).take(DEVICES).collect();
        given[4..].fill(0);
        given[4..8].copy_from_slice(&(found.len() as u32).to_le_bytes());
        for (i, engine) in found.iter().enumerate() {
            let runlist = chip.runlist(*engine);
            let copy = engine.checked_sub(class::engine::COPY0);
            let mut words = [0; WORDS];
            // ENGINE_INFO_TYPE_*: ENG_DESC, FIFO_TAG, RM_ENGINE_TYPE, RUNLIST, MMU_FAULT_ID; INSTANCE_ID, RUNLIST_PRI_BASE,
            // IS_HOST_DRIVEN_ENGINE, RUNLIST_ENGINE_ID, CHRAM_PRI_BASE.
            words[..4].copy_from_slice(&[*engine << 8, i as u32, *engine, runlist]);
            words[4] = copy.map_or(FAULT_GRAPHICS, |copy| FAULT_COPY + copy);
            words[10] = copy.unwrap_or(0);
            words[11] = RUNLISTS + APART * runlist;
            words[12] = 1;
            let before = found[..i].iter();
            words[13] = before.filter(|one| chip.runlist(**one) == runlist).count() as u32;
            words[14] = CHANNELS + APART * runlist;
            let at = 12 + DEVICE * i;
            for (j, word) in words.iter().enumerate() {
                given[at + 4 * j..][..4].copy_from_slice(&word.to_le_bytes());
            }
            let name = match copy {
                None => "graphics".into(),
                Some(copy) => format!("ce{copy}"),
            };
            given[at + NAME..][..name.len()].copy_from_slice(name.as_bytes());
        }
        Ok(())
    }
}
