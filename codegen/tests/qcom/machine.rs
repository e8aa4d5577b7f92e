//! Runs compiled kernels on the software model of Adreno's shader cores.

use codegen::build::{Stage, StageArg};
use codegen::ir3::{Image, Object, SAMPLER};
use codegen::{Built, Target};
use drivers_spec::qcom::chip::{CHIPS, Chip};
use drivers_spec::qcom::descriptor::{Format, TEXTURE_DWORDS, Texture};
use twin_ir3::launch::{Arithmetic, Descriptors, Private, SystemRegisters, ThreadSize};
use twin_ir3::memory::{Change, Denied, Path};
use twin_ir3::{Done, Grid, Launch, Memory};

/// The first address of a buffer: its low word is large, so that indices carry into the high one.
const BASE: u64 = 0x12_ffff_f000;
/// Instructions of a wave at most.
const LIMIT: u64 = 50_000_000;
/// Buffers are this far apart: what is beyond the end of one is no other's.
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
        let unmapped = Denied::Unmapped { address };
        let at = address.checked_sub(BASE).ok_or(unmapped.clone())?;
        let buffer = self.0.get_mut((at / APART) as usize);
        let start = (at % APART) as usize;
        buffer
            .and_then(|b| b.get_mut(start..start + len))
            .ok_or(unmapped)
    }
}

impl Memory for Ram {
    fn read(&mut self, _: Path, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        into.copy_from_slice(self.part(address, into.len())?);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Denied> {
        self.part(address, from.len())?.copy_from_slice(from);
        Ok(())
    }

    fn atomic(&mut self, address: u64, bytes: usize, change: Change<'_>) -> Result<u64, Denied> {
        let place = self.part(address, bytes)?;
        let old = place
            .iter()
            .rev()
            .fold(0, |word, &b| word << 8 | u64::from(b));
        place.copy_from_slice(&change(old).to_le_bytes()[..bytes]);
        Ok(old)
    }
}

/// Runs the stages of a kernel; buffers are read back. Gives what each stage took.
pub fn run(built: &Built, target: &Target, buffers: &mut [Vec<u8>], vars: &[i64]) -> Vec<Done> {
    let chip = CHIPS
        .iter()
        .find(|c| c.name.eq_ignore_ascii_case(&target.cpu))
        .unwrap();
    let mut ram = Ram(Vec::new());
    let params: Vec<u64> = buffers.iter().map(|b| ram.place(b.clone())).collect();
    let scratch: Vec<u64> = built
        .scratch
        .iter()
        .map(|s| ram.place(vec![0x7f; s.bytes]))
        .collect();
    let mut done = Vec::new();
    for stage in &built.stages {
        let args = stage.args.iter().map(|arg| match *arg {
            StageArg::Param(slot) => params[usize::from(slot)],
            StageArg::Scratch(i) => scratch[usize::from(i)],
            StageArg::Var(slot) => vars[usize::from(slot)] as u64,
            StageArg::Number(n) => n as u64,
        });
        let args: Vec<u64> = args.collect();
        done.push(start(&mut ram, stage, chip, &args));
    }
    for (buffer, own) in buffers.iter_mut().zip(&ram.0) {
        let len = buffer.len();
        buffer.copy_from_slice(&own[..len]);
    }
    done
}

/// The descriptor of an image whose argument is an address.
fn texture(image: &Image, args: &[u64]) -> [u32; TEXTURE_DWORDS] {
    let format = Format::from_number(image.format).unwrap();
    let base = args[image.argument as usize];
    let rows = Texture::rows(format, image.width, image.height, image.pitch, base);
    rows.encode().unwrap()
}

fn start(ram: &mut Ram, stage: &Stage, chip: &'static Chip, args: &[u64]) -> Done {
    let object = Object::decode(&stage.object).unwrap();
    assert_eq!(object.args as usize, args.len(), "{}", stage.name);
    assert_eq!([object.items, 1, 1], stage.block, "{}", stage.name);
    assert!(object.local_bytes <= stage.local_bytes, "{}", stage.name);
    let code: Vec<u8> = object.code.iter().flat_map(|w| w.to_le_bytes()).collect();
    let code_bytes = code.len() as u32;
    let program = ram.place(code);
    let per_fiber = object.private_bytes.next_multiple_of(512);
    let total = per_fiber * chip.fibers;
    let private = ram.place(vec![0xa5; (total * chip.cores) as usize]);
    // Those behind the arguments are known; what nothing loads is not there.
    let mut constants: Vec<Option<u32>> = object.constants.iter().map(|&c| Some(c)).collect();
    let words = args.iter().flat_map(|&a| [a as u32, (a >> 32) as u32]);
    for (to, word) in constants.iter_mut().zip(words) {
        *to = Some(word);
    }
    let const_dwords = object.const_vectors * 4;
    constants.resize(const_dwords as usize, None);
    let launch = Launch {
        chip,
        program,
        first: 0,
        code_bytes,
        thread_size: if object.double {
            ThreadSize::Thread128
        } else {
            ThreadSize::Thread64
        },
        full_footprint: object.footprint.full,
        half_footprint: object.footprint.half,
        merged_registers: true,
        branch_stack: object.branches.div_ceil(2),
        booleans: 0,
        constants,
        const_dwords,
        constant_demotion: true,
        arithmetic: Arithmetic::default(),
        local_size: stage.block,
        global_size: std::array::from_fn(|d| stage.block[d] * stage.grid[d]),
        global_offset: [0; 3],
        groups: stage.grid,
        system: SystemRegisters {
            group_id: Some(codegen::ir3::GROUP.0),
            local_id: Some(codegen::ir3::ITEM.0),
            ..SystemRegisters::default()
        },
        private: Private {
            base: private,
            per_fiber,
            total,
            per_wave_layout: true,
            stack: 0,
        },
        local_bytes: stage.local_bytes,
        // Without colours of the border: a read outside of an image is an error.
        descriptors: Descriptors {
            textures: object
                .images
                .iter()
                .map(|image| Some(texture(image, args)))
                .collect(),
            samplers: vec![Some(SAMPLER)],
            ..Descriptors::default()
        },
        seed: 0x51ee_d000,
        limit: LIMIT,
    };
    let ran = Grid::new(launch).and_then(|mut grid| grid.run(ram));
    ran.unwrap_or_else(|e| {
        panic!(
            "{} on {}: {e}\n{}",
            stage.name,
            chip.name,
            object.disassemble()
        )
    })
}
