//! Runs cubins on the software model of NVIDIA's shader cores.

use codegen::build::{Stage, StageArg};
use codegen::{Built, Target};
use drivers_spec::nv::cubin::{Cubin, SHARED_RESERVED, bank0, shared_is_reserved};
use twin_sass::Chip;
use twin_sass::warp::{Block, Cause, Constants, Denied, Launch, Memory, Program, Windows};

const BASE: u64 = 0x7f12_0000_0000;
const WINDOWS: Windows = Windows {
    shared: 0x7e00_0000_0000,
    local: 0x7e00_0100_0000,
};
/// Instructions of a block at most.
const LIMIT: u64 = 200_000_000;
/// Buffers lie this far apart: what is beyond the end of one is no other's.
const APART: u64 = 1 << 32;

/// Buffers; what is no part of one is not mapped.
struct Ram(Vec<Vec<u8>>);

impl Ram {
    /// Whole dwords: what is combined with a byte is combined with the one around it.
    fn place(&mut self, mut bytes: Vec<u8>) -> u64 {
        bytes.resize(bytes.len().next_multiple_of(4), 0xee);
        self.0.push(bytes);
        BASE + (self.0.len() as u64 - 1) * APART
    }

    fn part(&mut self, address: u64, len: usize) -> Result<&mut [u8], Denied> {
        let at = address.checked_sub(BASE).ok_or(Denied::Unmapped)?;
        let buffer = self.0.get_mut((at / APART) as usize);
        let start = (at % APART) as usize;
        buffer
            .and_then(|b| b.get_mut(start..start + len))
            .ok_or(Denied::Unmapped)
    }
}

impl Memory for Ram {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Denied> {
        bytes.copy_from_slice(self.part(address, bytes.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied> {
        self.part(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// The model that runs the code of a chip, if there is one.
pub fn chip(name: &str) -> Option<Chip> {
    Chip::ALL.into_iter().find(|chip| chip.name() == name)
}

/// What ptxas makes of LLVM's PTX, and the model lacks: FHADD of Blackwell, which adds a half to a single, and
/// VHMNMX of Hopper, the least or greatest of three halves.
fn lacks(chip: Chip, word: u128) -> bool {
    match word & 0x1ff {
        0x021 => chip == Chip::Sm120 && word >> 81 & 1 != 0,
        0x047 => true,
        _ => false,
    }
}

/// Runs the stages of a kernel; buffers are read back. False if it has an instruction that the model lacks.
#[must_use]
pub fn run(built: &Built, target: &Target, buffers: &mut [Vec<u8>], vars: &[i64]) -> bool {
    let mut ram = Ram(Vec::new());
    let params: Vec<u64> = buffers.iter().map(|b| ram.place(b.clone())).collect();
    let scratch: Vec<u64> = built
        .scratch
        .iter()
        .map(|s| ram.place(vec![0x7f; s.bytes]))
        .collect();
    for stage in &built.stages {
        let values: Vec<u64> = stage
            .args
            .iter()
            .map(|arg| match *arg {
                StageArg::Param(slot) => params[usize::from(slot)],
                StageArg::Scratch(i) => scratch[usize::from(i)],
                StageArg::Var(slot) => vars[usize::from(slot)] as u64,
                StageArg::Number(n) => n as u64,
            })
            .collect();
        if !start(&mut ram, stage, &target.cpu, &values) {
            return false;
        }
    }
    for (buffer, own) in buffers.iter_mut().zip(&ram.0) {
        let len = buffer.len();
        buffer.copy_from_slice(&own[..len]);
    }
    true
}

fn start(ram: &mut Ram, stage: &Stage, on: &str, args: &[u64]) -> bool {
    let chip = chip(on).unwrap();
    let cubin = Cubin::parse(&stage.object).unwrap();
    assert_eq!(format!("sm_{}", cubin.sm), on, "{}", stage.name);
    let kernel = cubin.kernel(&stage.entry).unwrap();
    let words = kernel.params.iter().map(|param| param.size as usize / 8);
    assert_eq!(words.sum::<usize>(), args.len(), "{}", stage.name);
    assert!(kernel.shared_bytes <= stage.local_bytes, "{}", stage.name);
    let shared = kernel.shared_bytes.max(stage.local_bytes);
    assert_eq!(kernel.max_threads, Some(stage.block), "{}", stage.name);
    let image = cubin.at(BASE);
    let code = &image[kernel.entry as usize..][..kernel.code_bytes as usize];
    let words: Vec<u128> = code
        .chunks_exact(16)
        .map(|word| u128::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let program = Program::new(chip, &words);
    let layout = bank0(cubin.sm).unwrap();
    let local = kernel.local_bytes.next_multiple_of(16);
    let mut bank = vec![0xa5; kernel.bank0_bytes as usize];
    let mut put = |at: u32, bytes: &[u8]| {
        if let Some(place) = bank.get_mut(at as usize..at as usize + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    for k in 0..3 {
        put(layout.block + 4 * k, &stage.block[k as usize].to_le_bytes());
        put(layout.grid + 4 * k, &stage.grid[k as usize].to_le_bytes());
    }
    if let Some(at) = layout.shared_window {
        put(at, &WINDOWS.shared.to_le_bytes());
    }
    put(layout.local_window, &WINDOWS.local.to_le_bytes());
    put(layout.stack, &local.to_le_bytes());
    put(layout.descriptor, &0u64.to_le_bytes());
    let mut values = args.iter();
    for param in &kernel.params {
        // A tensor map is sixteen of them.
        for (at, value) in (0..param.size).step_by(8).zip(&mut values) {
            put(kernel.param_base + param.offset + at, &value.to_le_bytes());
        }
    }
    // Bank 0 lies in memory, too.
    let own = ram.place(Vec::new());
    if let Some(at) = layout.param_window {
        put(at, &(own + u64::from(kernel.param_base)).to_le_bytes());
    }
    *ram.0.last_mut().unwrap() = bank.clone();
    let mut constants = Constants::new().with(0, &bank);
    for (number, place) in &kernel.banks {
        let bytes = &image[place.start as usize..place.end as usize];
        constants = constants.with(*number, bytes);
    }
    let reserved = if shared_is_reserved(cubin.sm) {
        SHARED_RESERVED
    } else {
        0
    };
    let launch = Launch {
        program: &program,
        constants,
        threads: stage.block,
        registers: u16::try_from(kernel.registers).unwrap(),
        barriers: u8::try_from(kernel.barriers).unwrap(),
        shared: (shared + reserved) as usize,
        local: local as usize,
        windows: WINDOWS,
        watch: true,
    };
    let [x, y, z] = stage.grid;
    for at in 0..x * y * z {
        let place = [at % x, at / x % y, at / x / y];
        let ran = Block::new(launch, place).and_then(|mut block| block.run(ram, LIMIT));
        if let Err(fault) = ran {
            let lacking = words.iter().any(|&word| lacks(chip, word));
            if lacking && matches!(fault.cause, Cause::Refused(_)) {
                return false;
            }
            let refusals: Vec<String> = program.refusals().map(|(_, r)| r.to_string()).collect();
            panic!("{} on {on}: {fault}; {refusals:?}", stage.name);
        }
    }
    true
}
