//! Kernels: recorded code, a QMD for it, and what a push buffer says to start it.

use std::path::Path;

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::qmd::{self, Field, Version, Wide};
use twin_nv::space::Rights;

use super::rig::{DATA, Rig, inc};

/// Where code is.
pub const CODE: u64 = 0x100_0000;
/// Where QMDs are.
pub const QMD: u64 = 0x110_0000;
/// Where bank 0 of constants is.
pub const BANK: u64 = 0x120_0000;
/// Where the semaphore is.
pub const DONE: u64 = DATA + 0x8_0000;
/// Where local memory is.
pub const LOCAL: u64 = 0x10_0000_0000;
/// Bytes of it for a TPC, in these tests.
pub const LOCAL_TPC: u64 = 0x40_0000;
pub const SHARED_WINDOW: u64 = 0x7294_0000_0000;
pub const LOCAL_WINDOW: u64 = 0x7293_0000_0000;

const COMPUTE: u32 = 1;

fn low(x: u64) -> u32 {
    x as u32
}

fn high(x: u64) -> u32 {
    (x >> 32) as u32
}

/// A QMD that is built.
#[derive(Clone)]
pub struct Builder {
    pub version: Version,
    pub words: Vec<u32>,
}

impl Builder {
    pub fn set(&mut self, field: Field, value: u64) -> &mut Self {
        self.set_at(field, 0, value)
    }

    pub fn set_at(&mut self, field: Field, index: usize, value: u64) -> &mut Self {
        field
            .put(self.version, index, &mut self.words, value)
            .unwrap();
        self
    }

    pub fn wide(&mut self, field: Wide, index: usize, value: u64) -> &mut Self {
        field
            .put(self.version, index, &mut self.words, value)
            .unwrap();
        self
    }

    /// A semaphore at the end: four words.
    pub fn release(&mut self, va: u64, payload: u64) -> &mut Self {
        self.set(qmd::RELEASE_ENABLE, 1);
        self.set(qmd::RELEASE_MEMBAR_TYPE, 1);
        self.set(qmd::RELEASE_PAYLOAD64B, 1);
        self.wide(qmd::RELEASE_ADDR, 0, va);
        self.wide(qmd::RELEASE_PAYLOAD, 0, payload)
    }
}

/// A rig with a kernel in memory.
pub struct Kernel {
    pub rig: Rig,
    pub qmd: Builder,
    pub sass: &'static str,
    parameters: u64,
}

impl Kernel {
    /// A recorded kernel on a chip, with a QMD that is right.
    pub fn new(chip: &str, name: &str, grid: [u64; 3], threads: [u64; 3], params: &[u64]) -> Self {
        let rig = Rig::new(chip);
        let found = rig.machine.config.chips[0];
        let (sass, number) = match found.arch {
            Arch::Ga10x => ("sm_86", 0x86),
            Arch::Ad10x => ("sm_89", 0x89),
            Arch::Gb20x => ("sm_120", 0xa4),
            _ => ("sm_90", 0x90),
        };
        for at in [CODE, QMD, BANK] {
            rig.ram.map(at, 0x4000, Rights::ReadWriteAtomic);
        }
        let version = *found.facts().qmds.last().unwrap();
        let words = vec![0; version.dwords()];
        let mut qmd = Builder { version, words };
        let (major, minor) = version.number();
        qmd.set(qmd::QMD_MAJOR_VERSION, major);
        qmd.set(qmd::QMD_MINOR_VERSION, minor);
        if qmd::QMD_TYPE.place(version).is_some() {
            qmd.set(qmd::QMD_TYPE, 2);
        }
        qmd.set(qmd::API_VISIBLE_CALL_LIMIT, 1);
        qmd.set(qmd::CWD_MEMBAR_TYPE, 1);
        qmd.set(qmd::SASS_VERSION, number);
        qmd.set(qmd::REGISTER_COUNT, 48);
        let sizes = [qmd::GRID_WIDTH, qmd::GRID_HEIGHT, qmd::GRID_DEPTH];
        for (field, value) in sizes.into_iter().zip(grid) {
            qmd.set(field, value);
        }
        let sizes = [
            qmd::CTA_THREAD_DIMENSION0,
            qmd::CTA_THREAD_DIMENSION1,
            qmd::CTA_THREAD_DIMENSION2,
        ];
        for (field, value) in sizes.into_iter().zip(threads) {
            qmd.set(field, value);
        }
        qmd.wide(qmd::PROGRAM_ADDRESS, 0, CODE);
        qmd.set(qmd::CONSTANT_BUFFER_VALID, 1);
        qmd.set(qmd::CONSTANT_BUFFER_INVALIDATE, 1);
        qmd.wide(qmd::CONSTANT_BUFFER_ADDR, 0, BANK);
        qmd.set(qmd::CONSTANT_BUFFER_SIZE, 0x400);
        let kernel = Self {
            parameters: found.facts().parameters.into(),
            rig,
            qmd,
            sass,
        };
        kernel.code(name);
        let ram = &kernel.rig.ram;
        let small = |xs: [u64; 3]| xs.map(low);
        let [block, blocks, window, stack] = match found.arch {
            Arch::Gb20x => [0x360, 0x370, 0x2f8, 0x37c],
            _ => [0, 0xc, 0x20, 0x28],
        };
        ram.put_words(BANK + block, &small(threads));
        ram.put_words(BANK + blocks, &small(grid));
        ram.put(BANK + window, &LOCAL_WINDOW.to_le_bytes());
        ram.put_words(BANK + stack, &[0xff_fdc0]);
        for (i, param) in params.iter().enumerate() {
            kernel.parameter(i as u64, *param);
        }
        kernel
    }

    /// Puts other code there.
    pub fn code(&self, name: &str) {
        let name = format!("../../golden/sass/whole/{}/{name}.txt", self.sass);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = std::fs::read_to_string(path).unwrap();
        for (i, line) in text.lines().enumerate() {
            let word = u128::from_str_radix(&line[..32], 16).unwrap();
            self.rig.ram.put(CODE + 16 * i as u64, &word.to_le_bytes());
        }
    }

    /// Puts a parameter of 64 bits.
    pub fn parameter(&self, index: u64, value: u64) {
        let at = BANK + self.parameters + 8 * index;
        self.rig.ram.put(at, &value.to_le_bytes());
    }

    /// What has to be said once.
    pub fn setup(&self) -> Vec<u32> {
        let class = self.rig.machine.config.chips[0].facts().compute.number;
        let mut words = inc(COMPUTE, 0, &[class]);
        let shared = [high(SHARED_WINDOW), low(SHARED_WINDOW)];
        let local = [high(LOCAL_WINDOW), low(LOCAL_WINDOW)];
        words.extend(inc(COMPUTE, 0x2a0, &shared));
        words.extend(inc(COMPUTE, 0x7b0, &local));
        words.extend(inc(COMPUTE, 0x790, &[high(LOCAL), low(LOCAL)]));
        words.extend(inc(
            COMPUTE,
            0x2e4,
            &[high(LOCAL_TPC), low(LOCAL_TPC), 0xff],
        ));
        words
    }

    /// Puts the QMD, and says how it is started.
    pub fn launch(&self) -> Vec<u32> {
        self.rig.ram.put_words(QMD, &self.qmd.words);
        start(QMD, 9)
    }

    /// The same, by a QMD in the push buffer.
    pub fn inline(&self) -> Vec<u32> {
        let long = self.qmd.words.len() > 64;
        let upper = high(QMD >> 8) | u32::from(long) << 30;
        let mut words = inc(COMPUTE, 0x318, &[upper, low(QMD >> 8)]);
        words.extend(inc(COMPUTE, 0x320, &self.qmd.words));
        words
    }

    /// Starts it, and runs all.
    pub fn go(&mut self) -> twin_nv::engines::Turn {
        let mut words = self.setup();
        words.extend(self.launch());
        self.rig.go(&words)
    }
}

/// Schedules a QMD.
pub fn start(at: u64, action: u32) -> Vec<u32> {
    let mut words = inc(COMPUTE, 0x2b4, &[low(at >> 8)]);
    words.extend(inc(COMPUTE, 0x2c0, &[action]));
    words
}

/// Invalidates code, data and constants without a wait.
pub fn invalidate() -> Vec<u32> {
    inc(COMPUTE, 0x1698, &[0x1011])
}
