//! The running half of a card, programmed register by register as a driver does, without the firmware that comes
//! before it.

mod dies;
mod mes;

use std::time::{Duration, Instant};

use drivers_spec::amd::mmio::{Reg, gc, mmhub, nbio};
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::{pte, sq};
use hcq::mem::window::AccessWidth;
use twin::fires::fires;
use twin::pci::{Broken, Bus, HostMemory};
use twin::rule::Journal;

use super::card::Config;
use super::chip::Chip;
use super::state::State;
use super::{doorbells, graphics};
use crate::mem::Physical;
use std::sync::Arc;

/// Where the address space starts, and with it the memory that the tables map: VRAM from 4 MiB on.
const VA: u64 = 0x2000_0000_0000;
const VRAM: u64 = 4 << 20;
/// What lies where.
const RING: u64 = VA;
const POINTERS: u64 = VA + 0x1_0000;
const EOP: u64 = VA + 0x2_0000;
const DATA: u64 = VA + 0x3_0000;
/// The MQD, in VRAM.
const MQD: u64 = VRAM + 0x4_0000;
/// Bytes of a ring.
const BYTES: u64 = 4096;

struct Rig {
    state: State,
    journal: Arc<Journal>,
    /// Of which XCC, engine or die registers are meant.
    at: u8,
}

/// The registers of a hub: root, start and end of its tables, where VRAM is, what VMID 0 sees of it, and what turns it on.
struct HubOf {
    root: [&'static Reg; 2],
    start: [&'static Reg; 2],
    end: [&'static Reg; 2],
    fb: [&'static Reg; 2],
    aperture: [&'static Reg; 2],
    l1: &'static Reg,
    context: &'static Reg,
}

static GC_HUB: HubOf = HubOf {
    root: [
        &gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
        &gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    ],
    start: [
        &gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
        &gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    ],
    end: [
        &gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
        &gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    ],
    fb: [&gc::GCMC_VM_FB_LOCATION_BASE, &gc::GCMC_VM_FB_LOCATION_TOP],
    aperture: [
        &gc::GCMC_VM_SYSTEM_APERTURE_LOW_ADDR,
        &gc::GCMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    ],
    l1: &gc::GCMC_VM_MX_L1_TLB_CNTL,
    context: &gc::GCVM_CONTEXT0_CNTL,
};

static MM_HUB: HubOf = HubOf {
    root: [
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    ],
    start: [
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    ],
    end: [
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    ],
    fb: [
        &mmhub::MMMC_VM_FB_LOCATION_BASE,
        &mmhub::MMMC_VM_FB_LOCATION_TOP,
    ],
    aperture: [
        &mmhub::MMMC_VM_SYSTEM_APERTURE_LOW_ADDR,
        &mmhub::MMMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    ],
    l1: &mmhub::MMMC_VM_MX_L1_TLB_CNTL,
    context: &mmhub::MMVM_CONTEXT0_CNTL,
};

impl Rig {
    fn new(name: &str) -> Rig {
        let journal = Arc::new(Journal::new());
        let config = Config::of(Chip::of(name).unwrap());
        let bus = Bus::new(&HostMemory::new());
        let chip = config.chip;
        let facts = crate::chip::Chip::find(chip.name, None).unwrap();
        let physical = Physical::new(facts, chip.vram, bus.clone(), journal.clone()).unwrap();
        let state = State::new(&config, physical, bus, journal.clone()).unwrap();
        Rig {
            state,
            journal,
            at: 0,
        }
    }

    /// Everything that comes before queues.
    fn started(name: &str) -> Rig {
        let mut rig = Rig::new(name);
        rig.tables();
        rig.hub(&GC_HUB);
        rig.loaded();
        rig.processors();
        rig
    }

    fn broken(&self) -> Vec<&'static str> {
        let broken = self.journal.violations();
        broken.iter().map(|violation| violation.rule.name).collect()
    }

    fn tried(&self, result: Result<(), Broken>) -> Vec<&'static str> {
        result.err().iter().map(|(rule, _)| rule.name).collect()
    }

    fn place(&self, reg: &Reg, instance: u8) -> u64 {
        self.state.registers.place(reg, instance).unwrap()
    }

    fn write(&mut self, reg: &Reg, value: u32) {
        self.attempt(reg, value).unwrap();
    }

    fn attempt(&mut self, reg: &Reg, value: u32) -> Result<(), Broken> {
        let place = self.place(reg, self.at);
        self.state.write(place, value)
    }

    fn attempt_read(&mut self, reg: &Reg) -> Result<(), Broken> {
        let place = self.place(reg, self.at);
        self.state.read(place).map(drop)
    }

    fn read(&mut self, reg: &Reg) -> u32 {
        let place = self.place(reg, self.at);
        self.state.read(place).unwrap()
    }

    fn fields(&self, reg: &Reg, fields: &[(&str, u32)]) -> u32 {
        fields.iter().fold(0, |value, (name, field)| {
            let found = reg.word.field(self.state.gfx, name);
            value | found.unwrap_or_else(|| panic!("{name}")).put(*field)
        })
    }

    fn set(&mut self, reg: &Reg, fields: &[(&str, u32)]) {
        let value = self.fields(reg, fields);
        self.write(reg, value);
    }

    fn wide(&mut self, low: &Reg, high: &Reg, value: u64) {
        self.write(low, value as u32);
        self.write(high, (value >> 32) as u32);
    }

    fn vram(&mut self, at: u64, data: &[u8]) {
        self.state.vram_write(at, data).unwrap();
    }

    fn words(&mut self, va: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.vram(va - VA + VRAM, &bytes);
    }

    fn word(&self, va: u64) -> u32 {
        let mut word = [0; 4];
        self.state.vram_read(va - VA + VRAM, &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    fn flush(&mut self) {
        let place = self.place(&nbio::BIF_BX_PF0_GPU_HDP_FLUSH_REQ, 0);
        self.state.write(place, 1).unwrap();
    }

    /// Tables that map 2 MiB: the root at 0, those below one after the other.
    fn tables(&mut self) {
        let entries = pte::entries(self.state.gfx);
        for level in 0..2u64 {
            let entry = (level + 1) << 12 | 1;
            self.vram(level << 12, &entry.to_le_bytes());
        }
        let rights = [pte::READABLE, pte::WRITEABLE, pte::EXECUTABLE];
        let rights = rights.iter().fold(0, |all, bits| all | bits.mask());
        let page = VRAM | 1 | rights | entries.leaf.mask() | entries.mtype.put(pte::MTYPE_UC);
        self.vram(2 << 12, &page.to_le_bytes());
        self.flush();
    }

    fn hub(&mut self, hub: &HubOf) {
        let HubOf {
            root,
            start,
            end,
            fb,
            aperture,
            l1,
            context,
        } = hub;
        self.wide(root[0], root[1], 1);
        self.wide(start[0], start[1], VA >> 12);
        self.wide(end[0], end[1], 0x7fff_ffff_ffff >> 12);
        let [low, top] = fb.map(|reg| self.read(reg));
        self.write(aperture[0], low << 6);
        self.write(aperture[1], top << 6 | 0x3f);
        let on = [
            ("enable_l1_tlb", 1),
            ("system_access_mode", 3),
            ("mtype", 3),
        ];
        self.set(l1, &on);
        let space = [("enable_context", 1), ("page_table_depth", 3)];
        self.set(context, &space);
    }

    fn loaded(&mut self) {
        graphics::autoload(&mut self.state);
        let complete = |rig: &mut Rig| rig.read(&gc::RLC_RLCS_BOOTLOAD_STATUS) >> 31 == 1;
        let looks = (0..1000).find(|_| complete(self) && self.read(&gc::CP_STAT) == 0);
        assert!(looks.is_some());
    }

    /// Command processors, apertures, doorbells.
    fn processors(&mut self) {
        self.set(&gc::GRBM_GFX_CNTL, &[("meid", 1)]);
        let start = 0x7_0000_0000_3000u64 >> 2;
        let counter = [
            &gc::CP_MEC_RS64_PRGRM_CNTR_START,
            &gc::CP_MEC_RS64_PRGRM_CNTR_START_HI,
        ];
        self.wide(counter[0], counter[1], start);
        self.set(&gc::CP_MEC_RS64_CNTL, &[("mec_pipe0_reset", 1)]);
        self.write(&gc::CP_MEC_RS64_CNTL, 0);
        self.write(&gc::GRBM_GFX_CNTL, 0);
        self.set(
            &gc::SH_MEM_CONFIG,
            &[("alignment_mode", 3), ("initial_inst_prefetch", 3)],
        );
        self.set(
            &gc::SH_MEM_BASES,
            &[("shared_base", 1), ("private_base", 2)],
        );
        self.write(&gc::CP_MEC_DOORBELL_RANGE_LOWER, 0);
        self.write(&gc::CP_MEC_DOORBELL_RANGE_UPPER, 0xf8);
        self.set(&gc::CP_MEC_RS64_CNTL, &[("mec_pipe0_active", 1)]);
        self.write(&nbio::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, 1);
        self.write(&nbio::S2A_DOORBELL_ENTRY_0_CTRL, 0x3000_0007);
        self.write(&nbio::S2A_DOORBELL_ENTRY_2_CTRL, 0x3009_001d);
    }

    /// The registers of a compute queue, as pairs, in the order of a driver.
    fn descriptor(&self) -> Vec<(&'static Reg, u32)> {
        let size = (BYTES / 8).trailing_zeros();
        let control = self.fields(&gc::CP_HQD_PQ_CONTROL, &[("queue_size", size)]);
        let fb = self.state.registers.get(&gc::GCMC_VM_FB_LOCATION_BASE, 0);
        let mqd = (u64::from(fb) << 24) + MQD;
        vec![
            (&gc::CP_MQD_BASE_ADDR, mqd as u32),
            (&gc::CP_MQD_BASE_ADDR_HI, (mqd >> 32) as u32),
            (&gc::CP_HQD_VMID, 0),
            (&gc::CP_HQD_PERSISTENT_STATE, 0x5501),
            (&gc::CP_HQD_PQ_BASE, (RING >> 8) as u32),
            (&gc::CP_HQD_PQ_BASE_HI, (RING >> 40) as u32),
            (&gc::CP_HQD_PQ_RPTR, 0),
            (&gc::CP_HQD_PQ_RPTR_REPORT_ADDR, POINTERS as u32),
            (&gc::CP_HQD_PQ_RPTR_REPORT_ADDR_HI, (POINTERS >> 32) as u32),
            (&gc::CP_HQD_PQ_WPTR_POLL_ADDR, POINTERS as u32 + 8),
            (&gc::CP_HQD_PQ_WPTR_POLL_ADDR_HI, (POINTERS >> 32) as u32),
            (&gc::CP_HQD_PQ_DOORBELL_CONTROL, 0x4000_0018),
            (&gc::CP_HQD_PQ_CONTROL, control),
            (&gc::CP_HQD_EOP_BASE_ADDR, (EOP >> 8) as u32),
            (&gc::CP_HQD_EOP_BASE_ADDR_HI, (EOP >> 40) as u32),
            (&gc::CP_HQD_EOP_CONTROL, 9),
            (&gc::CP_HQD_PQ_WPTR_LO, 0),
            (&gc::CP_HQD_PQ_WPTR_HI, 0),
        ]
    }

    /// Its descriptor in memory.
    fn mqd(&mut self, registers: &[(&'static Reg, u32)]) {
        let mut words = vec![0u32; 512];
        words[0] = 0xc031_0800;
        for engine in [0x17, 0x18, 0x1a, 0x1b] {
            words[engine] = !0;
        }
        let first = self.place(&gc::CP_MQD_BASE_ADDR, self.at);
        for (reg, value) in registers {
            words[(0x80 + self.place(reg, self.at) - first) as usize] = *value;
        }
        self.words(VA + MQD - VRAM, &words);
    }

    /// Programs a queue. The first register that refuses is named.
    fn queue(&mut self, registers: &[(&'static Reg, u32)]) -> Result<(), Broken> {
        self.set(&gc::GRBM_GFX_CNTL, &[("meid", 1)]);
        for (reg, value) in registers {
            self.attempt(reg, *value)?;
        }
        self.attempt(&gc::CP_HQD_ACTIVE, 1)?;
        self.flush();
        self.write(&gc::GRBM_GFX_CNTL, 0);
        Ok(())
    }

    fn running(name: &str) -> Rig {
        let mut rig = Rig::started(name);
        let registers = rig.descriptor();
        rig.mqd(&registers);
        rig.queue(&registers).unwrap();
        rig
    }

    fn bell(&mut self, byte: u64, value: u64) -> Result<(), Broken> {
        doorbells::ring(&mut self.state, byte, AccessWidth::W64, value)
    }

    /// Packets that store a word, on the compute queue: published up to `wptr` dwords.
    fn submit(&mut self, words: &[u32], wptr: u64) -> Result<(), Broken> {
        let from = wptr - words.len() as u64;
        self.words(RING + from * 4, words);
        self.words(POINTERS + 8, &[wptr as u32, 0]);
        self.flush();
        self.bell(0x18, wptr)
    }

    fn wait(&self, what: &str, done: impl Fn(&Rig) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{what}: {:?}",
                self.journal.violations()
            );
            std::thread::yield_now();
        }
    }
}

/// WRITE_DATA to memory, with the write confirmed.
fn store(va: u64, value: u32) -> [u32; 5] {
    let control = 5 << 8 | 1 << 20;
    [0xc003_3700, control, va as u32, (va >> 32) as u32, value]
}

const CHIPS: [&str; 5] = ["gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"];

#[test]
fn a_compute_queue_comes_alive_and_leaves_again() {
    for name in CHIPS {
        let mut rig = Rig::running(name);
        rig.submit(&store(DATA, 7), 5).unwrap();
        rig.wait("the first store", |rig| rig.word(DATA) == 7);
        rig.submit(&store(DATA, 8), 10).unwrap();
        rig.wait("the second store", |rig| rig.word(DATA) == 8);
        rig.wait("the read pointer", |rig| rig.word(POINTERS) == 10);
        // It leaves when it is asked to, and can come again.
        rig.set(&gc::GRBM_GFX_CNTL, &[("meid", 1)]);
        assert_eq!(rig.read(&gc::CP_HQD_ACTIVE), 1);
        rig.write(&gc::CP_HQD_DEQUEUE_REQUEST, 2);
        assert!((0..1000).any(|_| rig.read(&gc::CP_HQD_ACTIVE) == 0));
        rig.write(&gc::CP_HQD_DEQUEUE_REQUEST, 0);
        rig.write(&gc::GRBM_GFX_CNTL, 0);
        let registers = rig.descriptor();
        rig.words(POINTERS, &[0; 4]);
        rig.queue(&registers).unwrap();
        rig.submit(&store(DATA, 9), 5).unwrap();
        rig.wait("a store after it came again", |rig| rig.word(DATA) == 9);
        assert!(
            rig.broken().is_empty(),
            "{name}: {:?}",
            rig.journal.violations()
        );
    }
}

#[test]
fn a_fault_is_in_the_status_of_the_hub() {
    for name in ["gfx1100", "gfx1201"] {
        let mut rig = Rig::running(name);
        let nowhere = VA + (1 << 30);
        rig.submit(&store(nowhere, 7), 5).unwrap();
        let status = match rig.state.gfx {
            Gfx::Gfx12 => &gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32,
            _ => &gc::GCVM_L2_PROTECTION_FAULT_STATUS,
        };
        let start = Instant::now();
        while rig.read(status) == 0 {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert_eq!(
            rig.read(&gc::GCVM_L2_PROTECTION_FAULT_ADDR_LO32),
            (nowhere >> 12) as u32
        );
        fires("GPU-PAGE-FAULT").only(&rig.broken());
        // The queue is stuck; it leaves when its waves are ended.
        rig.set(&gc::GRBM_GFX_CNTL, &[("meid", 1)]);
        assert_eq!(rig.read(&gc::CP_HQD_ACTIVE), 1);
        rig.write(&gc::CP_HQD_DEQUEUE_REQUEST, 2);
        rig.write(&gc::SPI_COMPUTE_QUEUE_RESET, 1);
        assert!((0..1000).any(|_| rig.read(&gc::CP_HQD_ACTIVE) == 0));
    }
}

#[test]
fn command_processors_are_programmed_after_their_firmware_has_come() {
    let mut rig = Rig::new("gfx1100");
    assert_eq!(rig.read(&gc::RLC_RLCS_BOOTLOAD_STATUS), 0);
    let tried = rig.attempt(&gc::CP_MEC_RS64_CNTL, 0);
    fires("GFX-AUTOLOAD").only(&rig.tried(tried));
    graphics::autoload(&mut rig.state);
    // Nobody has looked whether it is there.
    let tried = rig.attempt(&gc::CP_MEC_RS64_PRGRM_CNTR_START, 0);
    fires("GFX-AUTOLOAD").only(&rig.tried(tried));
}

#[test]
fn pipes_start_where_their_firmware_does() {
    let mut rig = Rig::new("gfx1201");
    rig.loaded();
    let active = rig.fields(&gc::CP_MEC_RS64_CNTL, &[("mec_pipe0_active", 1)]);
    let reset = rig.fields(&gc::CP_MEC_RS64_CNTL, &[("mec_pipe0_reset", 1)]);
    let tried = rig.attempt(&gc::CP_MEC_RS64_CNTL, active);
    fires("GFX-RS64-ENTRY").only(&rig.tried(tried));
    // The start in bytes, where dwords are meant; for another micro engine; or after the pulse.
    for (me, start) in [(1, 0x7_0000_0000_3000u64), (0, 0x1_c000_0000_0c00)] {
        rig.set(&gc::GRBM_GFX_CNTL, &[("meid", me)]);
        rig.write(&gc::CP_MEC_RS64_PRGRM_CNTR_START, start as u32);
        rig.write(&gc::CP_MEC_RS64_PRGRM_CNTR_START_HI, (start >> 32) as u32);
        rig.write(&gc::CP_MEC_RS64_CNTL, reset);
        rig.write(&gc::CP_MEC_RS64_CNTL, 0);
        let tried = rig.attempt(&gc::CP_MEC_RS64_CNTL, active);
        fires("GFX-RS64-ENTRY").only(&rig.tried(tried));
    }
}

#[test]
fn a_queue_that_cannot_run_does_not_come_alive() {
    type Change = (&'static str, fn(&Rig) -> (&'static Reg, u32));
    let changes: [Change; 7] = [
        ("GFX-HQD-NEEDS", |_| (&gc::CP_HQD_EOP_BASE_ADDR, 0)),
        ("GFX-HQD-NEEDS", |_| (&gc::CP_HQD_PQ_WPTR_LO, 16)),
        ("GFX-HQD-NEEDS", |_| (&gc::CP_HQD_PQ_CONTROL, 3)),
        ("GFX-HQD-NEEDS", |_| (&gc::CP_HQD_PQ_RPTR_REPORT_ADDR, 0)),
        ("GFX-HQD-DOORBELL", |_| {
            (&gc::CP_HQD_PQ_DOORBELL_CONTROL, 0x18)
        }),
        ("GFX-HQD-DOORBELL", |_| {
            (&gc::CP_HQD_PQ_DOORBELL_CONTROL, 0x4000_0800)
        }),
        ("GFX-SH-MEM", |rig| {
            let vmid = rig.fields(&gc::CP_HQD_VMID, &[("vmid", 3)]);
            (&gc::CP_HQD_VMID, vmid)
        }),
    ];
    for (rule, change) in changes {
        let mut rig = Rig::started("gfx1201");
        let mut registers = rig.descriptor();
        let (changed, value) = change(&rig);
        for (reg, slot) in &mut registers {
            if reg.word.name == changed.word.name {
                *slot = value;
            }
            // A buffer at the very start is none, either.
            let high = format!("{}_HI", changed.word.name);
            if value == 0 && reg.word.name == high {
                *slot = 0;
            }
        }
        let tried = rig.queue(&registers);
        assert_eq!(rig.tried(tried), [rule], "{} {value:#x}", changed.word.name);
    }
    let mut rig = Rig::started("gfx1201");
    let mut registers = rig.descriptor();
    registers.retain(|(reg, _)| !reg.word.name.starts_with("CP_HQD_EOP"));
    let tried = rig.queue(&registers);
    fires("GFX-HQD-NEEDS").only(&rig.tried(tried));
    let tried = {
        rig.write(&gc::CP_MEC_DOORBELL_RANGE_UPPER, 0x10);
        let registers = rig.descriptor();
        rig.queue(&registers)
    };
    fires("GFX-HQD-DOORBELL").only(&rig.tried(tried));
    let tried = {
        rig.write(&gc::CP_MEC_DOORBELL_RANGE_UPPER, 0xf8);
        rig.write(&gc::GRBM_GFX_CNTL, 0);
        rig.write(&gc::SH_MEM_BASES, 0x6000_6000);
        let registers = rig.descriptor();
        rig.queue(&registers)
    };
    fires("GFX-SH-MEM").only(&rig.tried(tried));
    // A pipe that nobody has started.
    let mut rig = Rig::started("gfx1100");
    rig.write(&gc::CP_MEC_RS64_CNTL, 0);
    let registers = rig.descriptor();
    let tried = rig.queue(&registers);
    fires("GFX-HQD-RUNS").only(&rig.tried(tried));
}

#[test]
fn a_queue_is_not_changed_while_it_is_active() {
    let mut rig = Rig::running("gfx1100");
    rig.set(&gc::GRBM_GFX_CNTL, &[("meid", 1)]);
    for (reg, value) in [(&gc::CP_HQD_PQ_BASE, 0), (&gc::CP_HQD_ACTIVE, 0)] {
        let tried = rig.attempt(reg, value);
        fires("GFX-HQD-BUSY").only(&rig.tried(tried));
    }
    // Pipes and queues that the chip does not have.
    for select in [[("queueid", 7), ("meid", 1)], [("pipeid", 0), ("meid", 2)]] {
        rig.set(&gc::GRBM_GFX_CNTL, &select);
        let tried = rig.attempt(&gc::CP_HQD_VMID, 0);
        fires("GFX-HQD-SELECT").only(&rig.tried(tried));
    }
}

#[test]
fn a_doorbell_reaches_the_queue_that_it_is_of() {
    let mut rig = Rig::running("gfx1201");
    for byte in [0x20, 0x800, 0x808] {
        let tried = rig.bell(byte, 5);
        fires("AMD-DOORBELL-NOBODY").only(&rig.tried(tried));
    }
    rig.write(&nbio::S2A_DOORBELL_ENTRY_0_CTRL, 0);
    let tried = rig.bell(0x18, 5);
    fires("AMD-DOORBELL-ROUTE").only(&rig.tried(tried));
    rig.write(&nbio::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, 0);
    let tried = rig.bell(0x18, 5);
    fires("AMD-DOORBELL-APERTURE").only(&rig.tried(tried));
    // Somebody has left a selection behind.
    let mut rig = Rig::running("gfx1100");
    rig.set(&gc::GRBM_GFX_CNTL, &[("vmid", 3)]);
    rig.submit(&store(DATA, 7), 5).unwrap();
    rig.wait("the store", |rig| rig.word(DATA) == 7);
    fires("GFX-SELECT-BACK").only(&rig.broken());
}

#[test]
fn a_host_without_wide_stores_rings_in_halves() {
    let mut rig = Rig::running("gfx1100");
    rig.state.config.halves = true;
    let words = store(DATA, 7);
    rig.words(RING, &words);
    rig.words(POINTERS + 8, &[words.len() as u32, 0]);
    rig.flush();
    let half = |rig: &mut Rig, byte, value| {
        doorbells::ring(&mut rig.state, byte, AccessWidth::W32, value).unwrap();
    };
    half(&mut rig, 0x18, words.len() as u64);
    half(&mut rig, 0x1c, 0);
    rig.wait("the store", |rig| rig.word(DATA) == 7);
    assert!(rig.broken().is_empty());
    half(&mut rig, 0x1c, 0);
    fires("AMD-DOORBELL-HALVES").only(&rig.broken());
}

#[test]
fn what_a_queue_is_loaded_from_says_what_its_registers_do() {
    // Not written at all; written and changed; not flushed.
    let mut rig = Rig::started("gfx1100");
    let registers = rig.descriptor();
    rig.queue(&registers).unwrap();
    let tried = rig.submit(&store(DATA, 7), 5);
    fires("GFX-MQD").only(&rig.tried(tried));
    rig.mqd(&registers);
    rig.words(VA + MQD - VRAM + 4 * 0x8d, &[0x1000]);
    let tried = rig.submit(&store(DATA, 7), 5);
    fires("GFX-MQD").only(&rig.tried(tried));
    rig.mqd(&registers);
    rig.words(VA + MQD - VRAM + 4 * 0x17, &[0]);
    let tried = rig.submit(&store(DATA, 7), 5);
    fires("GFX-MQD").only(&rig.tried(tried));
    rig.mqd(&registers);
    rig.submit(&store(DATA, 7), 5).unwrap();
    rig.wait("the store", |rig| rig.word(DATA) == 7);
    assert!(rig.broken().is_empty());
}

#[test]
fn the_rlc_is_spoken_to_while_it_runs() {
    let mut rig = Rig::new("gfx1201");
    let tried = rig.attempt(&gc::RLC_SAFE_MODE, 3);
    fires("GFX-SAFE-MODE").only(&rig.tried(tried));
    rig.loaded();
    rig.write(&gc::RLC_CNTL, 1);
    rig.write(&gc::RLC_SAFE_MODE, 3);
    let tried = rig.attempt(&gc::RLC_SAFE_MODE, 1);
    fires("GFX-SAFE-MODE").only(&rig.tried(tried));
    assert!((0..1000).any(|_| rig.read(&gc::RLC_SAFE_MODE) & 1 == 0));
    rig.write(&gc::RLC_SAFE_MODE, 1);
}

#[test]
fn a_reset_of_the_command_processors_ends_their_queues() {
    let mut rig = Rig::running("gfx1100");
    rig.set(
        &gc::GRBM_SOFT_RESET,
        &[("soft_reset_cp", 1), ("soft_reset_cpc", 1)],
    );
    rig.write(&gc::GRBM_SOFT_RESET, 0);
    let tried = rig.submit(&store(DATA, 7), 5);
    fires("AMD-DOORBELL-NOBODY").only(&rig.tried(tried));
    let registers = rig.descriptor();
    let tried = rig.queue(&registers);
    fires("GFX-HQD-RUNS").only(&rig.tried(tried));
    rig.processors();
    rig.mqd(&registers);
    rig.queue(&registers).unwrap();
    rig.submit(&store(DATA, 7), 5).unwrap();
    rig.wait("the store", |rig| rig.word(DATA) == 7);
    assert!(rig.broken().is_empty());
}

/// A queue of the first copy engine, without what enables it.
fn copy_queue(rig: &mut Rig) -> u32 {
    let engine = match rig.state.gfx {
        Gfx::Gfx12 => &gc::SDMA0_MCU_CNTL,
        _ => &gc::SDMA0_F32_CNTL,
    };
    rig.write(engine, 0);
    rig.write(&gc::SDMA0_QUEUE0_RB_BASE, (RING >> 8) as u32);
    rig.write(&gc::SDMA0_QUEUE0_RB_BASE_HI, (RING >> 40) as u32);
    let back = [
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_HI,
    ];
    rig.wide(back[0], back[1], POINTERS);
    let poll = [
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI,
    ];
    rig.wide(poll[0], poll[1], POINTERS + 8);
    rig.write(&gc::SDMA0_QUEUE0_DOORBELL_OFFSET, 0x800);
    rig.set(&gc::SDMA0_QUEUE0_DOORBELL, &[("enable", 1)]);
    let size = (BYTES / 4).trailing_zeros();
    rig.fields(
        &gc::SDMA0_QUEUE0_RB_CNTL,
        &[
            ("rb_enable", 1),
            ("rb_size", size),
            ("rptr_writeback_enable", 1),
        ],
    )
}

#[test]
fn a_copy_queue_comes_alive() {
    for name in CHIPS {
        let mut rig = Rig::started(name);
        let control = copy_queue(&mut rig);
        rig.write(&gc::SDMA0_QUEUE0_RB_CNTL, control);
        // FENCE, uncached.
        let fence = [5 | 3 << 16, DATA as u32, (DATA >> 32) as u32, 7];
        rig.words(RING, &fence);
        rig.words(POINTERS + 8, &[16, 0]);
        rig.flush();
        rig.bell(0x800, 16).unwrap();
        rig.wait("the fence", |rig| rig.word(DATA) == 7);
        let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_BASE, 0);
        fires("SDMA-RB-BUSY").only(&rig.tried(tried));
        rig.write(&gc::SDMA0_QUEUE0_RB_CNTL, control & !1);
        let tried = rig.bell(0x800, 32);
        fires("AMD-DOORBELL-NOBODY").only(&rig.tried(tried));
        assert!(
            rig.broken().is_empty(),
            "{name}: {:?}",
            rig.journal.violations()
        );
    }
}

#[test]
fn a_copy_queue_that_cannot_run_does_not_come_alive() {
    let mut rig = Rig::started("gfx1100");
    let control = copy_queue(&mut rig);
    rig.write(&gc::SDMA0_F32_CNTL, 1);
    let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_CNTL, control);
    fires("SDMA-RUNS").only(&rig.tried(tried));
    rig.write(&gc::SDMA0_F32_CNTL, 0);
    rig.write(&gc::SDMA0_QUEUE0_RB_BASE, 0);
    rig.write(&gc::SDMA0_QUEUE0_RB_BASE_HI, 0);
    let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_CNTL, control);
    fires("SDMA-RB-NEEDS").only(&rig.tried(tried));
    let control = copy_queue(&mut rig);
    rig.write(&gc::SDMA0_QUEUE0_DOORBELL, 0);
    let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_CNTL, control);
    fires("SDMA-DOORBELL").only(&rig.tried(tried));
    let control = copy_queue(&mut rig);
    rig.write(&gc::SDMA0_QUEUE0_MINOR_PTR_UPDATE, 1);
    let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_CNTL, control);
    fires("SDMA-MINOR-PTR").only(&rig.tried(tried));
    rig.write(&gc::SDMA0_QUEUE0_MINOR_PTR_UPDATE, 0);
    rig.write(&gc::SDMA0_QUEUE0_RB_WPTR, 64);
    let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_WPTR, 0);
    fires("SDMA-MINOR-PTR").only(&rig.tried(tried));
    // Before its firmware.
    let mut rig = Rig::new("gfx1201");
    let tried = rig.attempt(&gc::SDMA0_QUEUE0_RB_CNTL, control);
    fires("GFX-AUTOLOAD").only(&rig.tried(tried));
}

#[test]
fn waves_are_read_of_one_simd_each() {
    let mut rig = Rig::started("gfx1100");
    let index = |rig: &mut Rig, register: u32, slot: u32| {
        rig.set(&gc::SQ_IND_INDEX, &[("index", register), ("wave_id", slot)]);
    };
    index(&mut rig, sq::WAVE_ACTIVE, 0);
    rig.set(
        &gc::GRBM_GFX_INDEX,
        &[("se_index", 5), ("sa_index", 1), ("instance_index", 15)],
    );
    assert_eq!(rig.read(&gc::SQ_IND_DATA), 0);
    index(&mut rig, sq::WAVE_STATUS, 19);
    assert_eq!(rig.read(&gc::SQ_IND_DATA), sq::ABSENT);
    // M0, which is not modelled; a slot that there is not.
    for (register, slot) in [(0x27d, 0), (sq::WAVE_STATUS, 20)] {
        index(&mut rig, register, slot);
        let tried = rig.attempt_read(&gc::SQ_IND_DATA);
        fires("GFX-SQ-REGISTER").only(&rig.tried(tried));
    }
    index(&mut rig, sq::WAVE_STATUS, 0);
    for wrong in [
        ("se_index", 6),
        ("instance_index", 16),
        ("se_broadcast_writes", 1),
    ] {
        rig.set(&gc::GRBM_GFX_INDEX, &[wrong]);
        let tried = rig.attempt_read(&gc::SQ_IND_DATA);
        fires("GFX-SQ-SELECT").only(&rig.tried(tried));
    }
}
