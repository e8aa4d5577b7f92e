//! A machine for small programs in assembler text: memory in ranges, a launch, and values of fibers.

#![allow(dead_code)] // Each test uses a part.

pub mod change;
pub mod kernel;
pub mod witness;

use std::collections::BTreeMap;

use drivers_spec::qcom::chip::{CHIPS, Chip};
use twin_ir3::launch::{Arithmetic, Descriptors, Launch, Private, SystemRegisters, ThreadSize};
use twin_ir3::memory::{Change, Denied, Memory, Path};
use twin_ir3::{Broken, Done, Grid};

/// Where code is.
pub const CODE: u64 = 0x1_0000_0000;
/// Where data is that the program writes.
pub const OUT: u64 = 0x2_0000_0000;
/// Where data is that it reads.
pub const IN: u64 = 0x2_8000_0000;

/// Ranges of memory.
#[derive(Default)]
pub struct Ram {
    ranges: BTreeMap<u64, Vec<u8>>,
    read_only: Vec<u64>,
    /// Accesses by their path.
    pub reads: BTreeMap<&'static str, u64>,
}

impl Ram {
    pub fn map(&mut self, address: u64, bytes: Vec<u8>) {
        self.ranges.insert(address, bytes);
    }

    pub fn protect(&mut self, address: u64) {
        self.read_only.push(address);
    }

    fn slice(&mut self, address: u64, count: usize) -> Result<(u64, &mut [u8]), Denied> {
        let unmapped = Denied::Unmapped { address };
        let (base, bytes) = self
            .ranges
            .range_mut(..=address)
            .next_back()
            .ok_or(unmapped.clone())?;
        let at = (address - base) as usize;
        bytes
            .get_mut(at..at + count)
            .map(|bytes| (*base, bytes))
            .ok_or(unmapped)
    }

    pub fn words(&mut self, address: u64, count: usize) -> Vec<u32> {
        let (_, bytes) = self.slice(address, count * 4).unwrap();
        bytes
            .chunks(4)
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }
}

impl Memory for Ram {
    fn read(&mut self, path: Path, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        *self.reads.entry(path.name()).or_default() += 1;
        let (_, bytes) = self.slice(address, into.len())?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Denied> {
        let (base, bytes) = self.slice(address, from.len())?;
        bytes.copy_from_slice(from);
        match self.read_only.contains(&base) {
            true => Err(Denied::ReadOnly { address }),
            false => Ok(()),
        }
    }

    fn atomic(&mut self, address: u64, bytes: usize, change: Change<'_>) -> Result<u64, Denied> {
        let mut old = [0; 8];
        self.read(Path::Uche, address, &mut old[..bytes])?;
        let old = u64::from_le_bytes(old);
        self.write(address, &change(old).to_le_bytes()[..bytes])?;
        Ok(old)
    }
}

/// The words of a program: one instruction a line, or several with semicolons.
pub fn assemble(text: &str) -> Vec<u64> {
    let lines = text
        .split(['\n', ';'])
        .map(|line| line.split("//").next().unwrap().trim());
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let inst: codegen::ir3::Inst = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            codegen::ir3::encode_any(&inst).unwrap_or_else(|e| panic!("{line}: {e}"))
        })
        .collect()
}

pub fn chip(name: &str) -> &'static Chip {
    CHIPS.iter().find(|chip| chip.name == name).unwrap()
}

/// A launch of 64 fibers on an A630: the local id in r0.x to r0.z, the workgroup in r48.x to r48.z, the address of
/// [`OUT`] in c0.xy and of [`IN`] in c0.zw.
pub fn launch() -> Launch {
    let address = |at: u64| [Some(at as u32), Some((at >> 32) as u32)];
    let mut constants: Vec<Option<u32>> = [address(OUT), address(IN)].concat();
    constants.resize(64, None);
    Launch {
        chip: chip("A630"),
        program: CODE,
        first: 0,
        code_bytes: 0,
        thread_size: ThreadSize::Thread64,
        full_footprint: 12,
        half_footprint: 8,
        merged_registers: false,
        branch_stack: 4,
        booleans: 0,
        constants,
        const_dwords: 64,
        constant_demotion: true,
        local_size: [64, 1, 1],
        global_size: [64, 1, 1],
        global_offset: [0; 3],
        groups: [1; 3],
        system: SystemRegisters {
            group_id: Some(48 * 4),
            group_size: Some(49 * 4),
            group_offset: Some(50 * 4),
            local_id: Some(0),
            linear_local_id: None,
        },
        private: Private::default(),
        local_bytes: 4096,
        descriptors: Descriptors::default(),
        arithmetic: Arithmetic::default(),
        seed: 1,
        limit: 1 << 16,
    }
}

/// A program with its memory.
pub struct Machine {
    pub ram: Ram,
    pub launch: Launch,
}

impl Machine {
    /// A program in text; `end` and padding follow.
    pub fn new(text: &str) -> Self {
        Self::words(assemble(text))
    }

    /// The same from words.
    pub fn words(mut words: Vec<u64>) -> Self {
        words.push(0x0300_0000_0000_0000);
        let padded = (words.len() + 4).next_multiple_of(16);
        words.resize(padded, 0);
        let mut launch = launch();
        launch.code_bytes = words.len() as u32 * 8;
        let mut ram = Ram::default();
        ram.map(
            CODE,
            words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        );
        ram.map(OUT, vec![0; 1 << 16]);
        Self { ram, launch }
    }

    /// With words to read at [`IN`].
    pub fn input(mut self, words: &[u32]) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.ram.map(IN, bytes);
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Launch)) -> Self {
        change(&mut self.launch);
        self
    }

    pub fn run(&mut self) -> Result<Done, Box<Broken>> {
        Grid::new(self.launch.clone())?.run(&mut self.ram)
    }

    /// Runs, and the first words at [`OUT`].
    pub fn out(mut self, count: usize) -> Vec<u32> {
        self.run().unwrap_or_else(|broken| panic!("{broken}"));
        self.ram.words(OUT, count)
    }

    /// The name of the rule that it breaks.
    pub fn breaks(mut self) -> &'static str {
        match self.run() {
            Ok(done) => panic!("no rule is broken: {done:?}"),
            Err(broken) => broken.rule().unwrap_or_else(|| panic!("{broken}")).name,
        }
    }
}

/// Loads a dword of [`IN`] for each fiber into r2.x and stores r3.x behind the body to [`OUT`].
pub fn each(body: &str) -> String {
    format!(
        "mov.u32u32 r1.x, c0.z; mov.u32u32 r1.y, c0.w; mov.u32u32 r1.z, c0.x; mov.u32u32 r1.w, c0.y
         (rpt5)nop
         ldg.a.u32 r2.x, g[r1.x+(r0.x<<2)], 1
         (sy)nop
         {body}
         (ss)(sy)(rpt5)nop
         stg.a.u32 g[r1.z+(r0.x<<2)], r3.x, 1"
    )
}

/// What a body makes of some words, one of each fiber, at most 64.
pub fn values(body: &str, input: &[u32]) -> Vec<u32> {
    let mut all = input.to_vec();
    all.resize(64, 0);
    Machine::new(&each(body)).input(&all).out(input.len())
}
