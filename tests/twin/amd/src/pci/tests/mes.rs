//! The scheduler: what maps it, what it maps, and what it refuses.

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::pm4;
use twin::fires::fires;

use super::*;
use crate::pci::{kernel, psp};

/// What lies where: rings of both pipes, their descriptors, that of a queue for compute, what is told.
const PACKETS: u64 = VA + 0x5_0000;
const FRAMES: u64 = VA + 0x6_0000;
const SCHEDULER: u64 = VA + 0x7_0000;
const QUEUE: u64 = VA + 0x8_0000;
const FENCE: u64 = VA + 0x9_0000;
/// Their doorbells: bytes of BAR 2.
const BELLS: [u64; 3] = [0x20, 0x28, 0x30];

const START: u64 = 0xffff_ffff_f000_5000;

impl Rig {
    fn select(&mut self, pipe: u32) {
        self.set(&gc::GRBM_GFX_CNTL, &[("meid", 3), ("pipeid", pipe)]);
    }

    /// Both pipes start at an address.
    fn start_mes(&mut self, start: u64) -> Result<(), Broken> {
        self.write(&kernel::CP_MES_CNTL, 3 << 16);
        for pipe in 0..2 {
            self.select(pipe);
            let counter = [
                &kernel::CP_MES_PRGRM_CNTR_START,
                &kernel::CP_MES_PRGRM_CNTR_START_HI,
            ];
            self.wide(counter[0], counter[1], start >> 2);
        }
        self.write(&gc::GRBM_GFX_CNTL, 0);
        self.attempt(&kernel::CP_MES_CNTL, 3 << 26)
    }

    /// Registers of a queue with a ring and a doorbell of its own.
    fn queue_at(&self, ring: u64, bell: u64) -> Vec<(&'static Reg, u32)> {
        let mut registers = self.descriptor();
        for (reg, value) in &mut registers {
            match reg.word.name {
                "CP_HQD_PQ_BASE" => *value = (ring >> 8) as u32,
                "CP_HQD_PQ_BASE_HI" => *value = (ring >> 40) as u32,
                "CP_HQD_PQ_DOORBELL_CONTROL" => *value = 0x4000_0000 | bell as u32,
                _ => {}
            }
        }
        registers
    }

    fn describe(&mut self, at: u64, registers: &[(&'static Reg, u32)]) {
        let mut words = vec![0u32; 512];
        words[0] = 0xc031_0800;
        let first = self.place(&gc::CP_MQD_BASE_ADDR, 0);
        for (reg, value) in registers {
            words[(0x80 + self.place(reg, 0) - first) as usize] = *value;
        }
        self.words(at, &words);
    }

    /// The queue that takes packets, as registers make it.
    fn with_packets() -> Rig {
        let mut rig = Rig::started("gfx1100");
        psp::leave_running(&mut rig.state);
        rig.start_mes(START).unwrap();
        let mut registers = rig.queue_at(PACKETS, BELLS[0]);
        registers.retain(|(reg, _)| !reg.word.name.starts_with("CP_HQD_EOP"));
        rig.select(1);
        for (reg, value) in registers {
            rig.write(reg, value);
        }
        rig.write(&gc::CP_HQD_ACTIVE, 1);
        rig.write(&gc::GRBM_GFX_CNTL, 0);
        let registers = rig.queue_at(FRAMES, BELLS[1]);
        rig.describe(SCHEDULER, &registers);
        let registers = rig.queue_at(RING, BELLS[2]);
        rig.describe(QUEUE, &registers);
        rig
    }

    /// Packets from a dword of that ring on.
    fn packets(&mut self, from: u64, words: &[u32]) -> Result<(), Broken> {
        self.words(PACKETS + from * 4, words);
        self.flush();
        self.bell(BELLS[0], from + words.len() as u64)
    }

    /// The scheduler's queue is mapped.
    fn with_frames() -> Rig {
        let mut rig = Rig::with_packets();
        rig.packets(0, &map(5, SCHEDULER, BELLS[1])).unwrap();
        rig
    }

    /// The frame of a number, and what it tells when it is done.
    fn frame(&mut self, number: u64, words: &[u32; 64]) -> Result<bool, Broken> {
        self.words(FENCE, &[0]);
        self.words(FRAMES + number * 256, words);
        self.flush();
        self.bell(BELLS[1], (number + 1) * 64)?;
        Ok(self.word(FENCE) == 7)
    }

    /// With what the card has.
    fn resources(&self) -> [u32; 64] {
        let mut words = command(0, 200);
        let contents = self.state.config.chip.contents();
        for (hw_id, at) in [(ip::GC, 104), (ip::MMHUB, 136), (ip::OSSSYS, 168)] {
            let mut blocks = contents.blocks.iter();
            let block = blocks.find(|block| block.hw_id == hw_id).unwrap();
            for (segment, base) in block.bases.iter().take(5).enumerate() {
                words[at / 4 + segment] = *base as u32;
            }
        }
        words
    }
}

/// MAP_QUEUES of a kind of engine.
fn map(engine: u32, descriptor: u64, bell: u64) -> [u32; 7] {
    let me = if engine == 5 { 2 } else { 1 };
    let control = engine << 26 | 1 << 29 | me << 18;
    [
        pm4::header(0xa2, 6),
        control,
        bell as u32,
        descriptor as u32,
        (descriptor >> 32) as u32,
        0,
        0,
    ]
}

/// A frame that tells 7 when it is done.
fn command(op: u32, status: usize) -> [u32; 64] {
    let mut words = [0; 64];
    words[0] = 1 | op << 4 | 64 << 12;
    words[status / 4..][..4].copy_from_slice(&[FENCE as u32, (FENCE >> 32) as u32, 7, 0]);
    words
}

/// ADD_QUEUE of a queue of the kernel's for compute.
fn add(descriptor: u64, bell: u64) -> [u32; 64] {
    let mut words = command(2, 148);
    words[72 / 4] = (bell / 4) as u32;
    words[76 / 4..][..2].copy_from_slice(&[descriptor as u32, (descriptor >> 32) as u32]);
    words[108 / 4] = 1;
    words[144 / 4] = 1 << 13;
    words
}

#[test]
fn queues_are_mapped_by_packets_and_by_the_scheduler() {
    let mut rig = Rig::with_frames();
    let scratch = rig.place(&kernel::SCRATCH_REG0, 0);
    let write = [
        pm4::header(0x37, 4),
        1 << 16,
        scratch as u32,
        0,
        0xdead_beef,
    ];
    let mut words = vec![pm4::NOP_PAD; 2];
    words.extend(write);
    rig.packets(7, &words).unwrap();
    assert_eq!(rig.read(&kernel::SCRATCH_REG0), 0xdead_beef);
    let resources = rig.resources();
    assert!(rig.frame(0, &resources).unwrap());
    assert!(rig.frame(1, &command(11, 8)).unwrap());
    assert!(rig.frame(2, &add(QUEUE, BELLS[2])).unwrap());
    rig.words(RING, &store(DATA, 7));
    rig.words(POINTERS + 8, &[5, 0]);
    rig.flush();
    rig.bell(BELLS[2], 5).unwrap();
    rig.wait("the store", |rig| rig.word(DATA) == 7);
    // A register, by the scheduler; and it waits for one.
    let mut misc = command(14, 8);
    misc[6..8].copy_from_slice(&[scratch as u32, 5]);
    assert!(rig.frame(3, &misc).unwrap());
    let mut misc = command(14, 8);
    misc[1] = 4;
    misc[6..11].copy_from_slice(&[1, 3, 3, scratch as u32, scratch as u32]);
    assert!(rig.frame(4, &misc).unwrap());
    assert_eq!(rig.read(&kernel::SCRATCH_REG0), 3);
    let mut remove = command(3, 20);
    remove[16 / 4] = 1 << 3;
    remove[56 / 4] = 1;
    assert!(rig.frame(5, &remove).unwrap());
    assert_eq!(rig.broken(), [""; 0]);
    let tried = rig.bell(BELLS[2], 5);
    fires("AMD-DOORBELL-NOBODY").only(&rig.tried(tried));
}

#[test]
fn the_scheduler_starts_where_its_firmware_does() {
    let mut rig = Rig::started("gfx1100");
    let tried = rig.start_mes(START);
    fires("GFX-MES-START").only(&rig.tried(tried));
    psp::leave_running(&mut rig.state);
    let tried = rig.start_mes(START + 4);
    fires("GFX-MES-START").only(&rig.tried(tried));
    rig.start_mes(START).unwrap();
    rig.write(&kernel::CP_MES_CNTL, 0);
    let tried = rig.attempt(&kernel::CP_MES_CNTL, 3 << 26);
    fires("GFX-MES-START").only(&rig.tried(tried));
    // Nor has its queue anyone to take from it.
    rig.select(0);
    for (reg, value) in rig.queue_at(FRAMES, BELLS[1]) {
        rig.write(reg, value);
    }
    let tried = rig.attempt(&gc::CP_HQD_ACTIVE, 1);
    fires("GFX-HQD-RUNS").only(&rig.tried(tried));
}

#[test]
fn what_maps_queues_takes_its_own_packets() {
    let dispatch = [pm4::header(0x15, 1), 0];
    let short = [pm4::header(0xa2, 6), 5 << 26 | 1 << 29];
    for words in [dispatch, short] {
        let mut rig = Rig::with_packets();
        let tried = rig.packets(0, &words);
        fires("GFX-KIQ-PACKET").only(&rig.tried(tried));
    }
}

#[test]
fn doorbells_of_the_scheduler_count_up_to_a_ring() {
    let mut rig = Rig::with_frames();
    for dwords in [6, 7 + BYTES / 4 + 1, u64::MAX] {
        let tried = rig.bell(BELLS[0], dwords);
        fires("GFX-MES-WPTR").only(&rig.tried(tried));
    }
    rig.packets(7, &[pm4::NOP_PAD]).unwrap();
}

#[test]
fn a_queue_that_is_mapped_is_there() {
    for (descriptor, bell) in [(DATA, BELLS[1]), (SCHEDULER, BELLS[2])] {
        let mut rig = Rig::with_packets();
        let tried = rig.packets(0, &map(5, descriptor, bell));
        fires("GFX-MES-MAP").only(&rig.tried(tried));
    }
    let mut rig = Rig::with_frames();
    let resources = rig.resources();
    rig.frame(0, &resources).unwrap();
    let mut beyond = add(QUEUE, BELLS[2]);
    beyond[196 / 4] = 4;
    let tried = rig.frame(1, &beyond).map(drop);
    fires("GFX-MES-MAP").only(&rig.tried(tried));
}

#[test]
fn the_scheduler_is_told_what_the_card_has_before_all_else() {
    let mut rig = Rig::with_frames();
    let tried = rig.frame(0, &command(11, 8)).map(drop);
    fires("GFX-MES-FRAME").only(&rig.tried(tried));
    let mut elsewhere = rig.resources();
    elsewhere[104 / 4 + 1] ^= 0x10;
    let tried = rig.frame(1, &elsewhere).map(drop);
    fires("GFX-MES-FRAME").only(&rig.tried(tried));
    let mut short = rig.resources();
    short[0] = 1 | 8 << 12;
    let tried = rig.frame(2, &short).map(drop);
    fires("GFX-MES-FRAME").only(&rig.tried(tried));
    let resources = rig.resources();
    assert!(rig.frame(3, &resources).unwrap());
    // A queue that the scheduler would give time is not modelled: nothing is told.
    let mut other = add(QUEUE, BELLS[2]);
    other[144 / 4] = 0;
    assert!(!rig.frame(4, &other).unwrap());
}
