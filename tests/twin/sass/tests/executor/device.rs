//! Memory, parameters and blocks, as a driver would set them up.

#[path = "silicon.rs"]
pub mod silicon;

use std::path::Path;

use silicon::{Part, Run};
use twin_sass::Chip;
use twin_sass::warp::{self, Constants, Denied, Fault, Launch, Memory, Program, Windows};

const BASE: u64 = 0x7f00_0000_0000;
const WINDOWS: Windows = Windows {
    shared: 0x7e00_0000_0000,
    local: 0x7e00_0100_0000,
};
const LOCAL: u32 = 1024;

/// Memory at one place.
struct Global(Vec<u8>);

impl Global {
    fn part(&mut self, address: u64, len: usize) -> Result<&mut [u8], Denied> {
        let at = address.checked_sub(BASE).ok_or(Denied::Unmapped)? as usize;
        self.0.get_mut(at..at + len).ok_or(Denied::Unmapped)
    }
}

impl Memory for Global {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Denied> {
        bytes.copy_from_slice(self.part(address, bytes.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied> {
        self.part(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// What is run.
pub struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub shared: usize,
}

/// A program with its memory.
pub struct Device {
    chip: Chip,
    program: Program,
    /// What the compiler keeps in constant memory, in bank 2.
    literals: Vec<u8>,
    global: Global,
    /// The kernel, if it is one that was recorded.
    kernel: Option<String>,
    /// Places in memory that have a name, if they have one of their own.
    parts: Vec<Part>,
    /// Places where memory holds an address of itself.
    addresses: Vec<usize>,
    /// Whether results are exact.
    pub exact: bool,
    /// Whether control words are watched.
    pub watch: bool,
    /// What the launch declares.
    pub registers: u16,
    pub barriers: u8,
    /// How many blocks run at once, and how many instructions each may run.
    pub resident: usize,
    pub limit: u64,
}

impl Device {
    fn recording(chip: Chip, kernel: &str) -> String {
        let name = format!("../../golden/sass/whole/{}/{kernel}.txt", chip.name());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(&path).unwrap()
    }

    /// The recorded code of a kernel.
    pub fn words_of(chip: Chip, kernel: &str) -> Vec<u128> {
        Self::recording(chip, kernel)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| u128::from_str_radix(&line[..32], 16).unwrap())
            .collect()
    }

    #[allow(dead_code)] // Not of every test that has this module.
    pub fn new(chip: Chip, kernel: &str) -> Self {
        let recording = Self::recording(chip, kernel);
        let bank = recording
            .lines()
            .find_map(|line| line.strip_prefix("# bank 2: "));
        let hex = bank.unwrap_or_default();
        let pairs = (0..hex.len()).step_by(2).map(|i| &hex[i..i + 2]);
        let literals = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap());
        Self {
            literals: literals.collect(),
            kernel: Some(kernel.into()),
            ..Self::of(chip, &Self::words_of(chip, kernel))
        }
    }

    pub fn of(chip: Chip, words: &[u128]) -> Self {
        let program = Program::new(chip, words);
        let refusals: Vec<_> = program
            .refusals()
            .map(|(at, refusal)| format!("{at:#x}: {refusal}"))
            .collect();
        assert!(refusals.is_empty(), "{chip:?}: {refusals:#?}");
        Self {
            chip,
            registers: program.registers(),
            barriers: 16,
            resident: 4,
            limit: 10_000_000,
            program,
            literals: Vec::new(),
            global: Global(Vec::new()),
            kernel: None,
            parts: Vec::new(),
            addresses: Vec::new(),
            exact: true,
            watch: true,
        }
    }

    fn place(&mut self, bytes: impl Iterator<Item = u8>) -> u64 {
        let at = self.global.0.len().next_multiple_of(256);
        self.global.0.resize(at, 0);
        self.global.0.extend(bytes);
        BASE + at as u64
    }

    /// Gives results a name: so many numbers of some bytes each, exact or approximations.
    #[allow(dead_code)] // Not of every test that has this module.
    pub fn name(&mut self, address: u64, count: usize, each: usize, name: &str, exact: bool) {
        self.parts.push(Part {
            at: (address - BASE) as usize,
            len: count * each,
            name: name.into(),
            each,
            exact,
        });
    }

    /// Says that memory holds an address of itself, of 64 bits: on a card it is another one.
    #[allow(dead_code)] // Not of every test that has this module.
    pub fn holds_address(&mut self, at: u64) {
        self.addresses.push((at - BASE) as usize);
    }

    pub fn words(&mut self, words: &[u32]) -> u64 {
        self.place(words.iter().flat_map(|word| word.to_le_bytes()))
    }

    #[allow(dead_code)] // Not of every test that has this module.
    pub fn singles(&mut self, numbers: &[f32]) -> u64 {
        self.place(numbers.iter().flat_map(|x| x.to_le_bytes()))
    }

    #[allow(dead_code)] // Not of every test that has this module.
    pub fn doubles(&mut self, numbers: &[f64]) -> u64 {
        self.place(numbers.iter().flat_map(|x| x.to_le_bytes()))
    }

    #[allow(dead_code)] // Not of every test that has this module.
    pub fn read(&mut self, address: u64, count: usize) -> Vec<u32> {
        let bytes = self.global.part(address, 4 * count).unwrap();
        bytes
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    /// Runs all blocks; parameters are 64 bits each. Returns how many instructions warps ran.
    #[allow(dead_code)] // Not of every test that has this module.
    pub fn run(&mut self, grid: &Grid, parameters: &[u64]) -> u64 {
        let chip = self.chip;
        self.run_as_on_card(grid, parameters)
            .unwrap_or_else(|fault| panic!("{chip:?}: {fault}"))
    }

    /// The same, with the fault that ends it. Recorded code is run on cards, too.
    pub fn run_as_on_card(&mut self, grid: &Grid, parameters: &[u64]) -> Result<u64, Fault> {
        let before = self.global.0.clone();
        let ran = self.try_run(grid, parameters)?;
        let Some(kernel) = &self.kernel else {
            return Ok(ran);
        };
        let all = [Part {
            at: 0,
            len: before.len() & !3,
            name: "memory".into(),
            each: 4,
            exact: self.exact,
        }];
        let run = Run {
            chip: self.chip,
            kernel,
            grid,
            base: BASE,
            parameters,
            before: &before,
            addresses: &self.addresses,
            parts: if self.parts.is_empty() {
                &all
            } else {
                &self.parts
            },
        };
        silicon::ran(&run, &mut self.global.0);
        Ok(ran)
    }

    /// The same, here alone.
    pub fn try_run(&mut self, grid: &Grid, parameters: &[u64]) -> Result<u64, Fault> {
        // Where a driver puts parameters, sizes of blocks and grids, the window of local memory, and the top
        // of the stack.
        let (first, block, blocks, local, stack) = match self.chip {
            Chip::Sm86 | Chip::Sm89 => (0x160, 0, 0xc, 0x20, 0x28),
            Chip::Sm90 => (0x210, 0, 0xc, 0x20, 0x28),
            Chip::Sm120 => (0x380, 0x360, 0x370, 0x2f8, 0x37c),
        };
        let mut bank = vec![0; 0x600];
        let mut put = |at: usize, bytes: &[u8]| bank[at..at + bytes.len()].copy_from_slice(bytes);
        for (k, (threads, count)) in grid.threads.iter().zip(grid.blocks).enumerate() {
            put(block + 4 * k, &threads.to_le_bytes());
            put(blocks + 4 * k, &count.to_le_bytes());
        }
        // Before Blackwell the window of shared memory, too; code of Hopper asks for it.
        if self.chip < Chip::Sm120 {
            put(0x18, &WINDOWS.shared.to_le_bytes());
        }
        put(local, &WINDOWS.local.to_le_bytes());
        put(stack, &LOCAL.to_le_bytes());
        for (k, parameter) in parameters.iter().enumerate() {
            put(first + 8 * k, &parameter.to_le_bytes());
        }
        let launch = Launch {
            program: &self.program,
            constants: Constants::new().with(0, &bank).with(2, &self.literals),
            threads: grid.threads,
            registers: self.registers,
            barriers: self.barriers,
            // From Hopper on the first part is kept for the system.
            shared: grid.shared + if self.chip >= Chip::Sm90 { 1024 } else { 0 },
            local: LOCAL as usize,
            windows: WINDOWS,
            watch: self.watch,
        };
        warp::Grid::new(launch, grid.blocks, self.resident).run(&mut self.global, self.limit)
    }
}
