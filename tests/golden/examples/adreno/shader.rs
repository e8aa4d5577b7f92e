//! Runs machine code on the simulated shader cores, over buffers that both compilers' code gets.

use codegen::DType;
use codegen::ir3::{Object, SAMPLER};
use codegen::lower::{Arg, Program};
use drivers_spec::qcom::chip::{CHIPS, Chip};
use drivers_spec::qcom::descriptor::{Format, TEXTURE_DWORDS, Texture};
use twin_ir3::launch::{Arithmetic, Descriptors, Private, SystemRegisters, ThreadSize};
use twin_ir3::memory::{Change, Denied, Path};
use twin_ir3::{Done, Grid, Launch, Memory};

use crate::mesa::Compiled;

const BASE: u64 = 0x12_0000_0000;
/// Buffers are this far apart.
const APART: u64 = 1 << 32;
/// Instructions of a wave at most.
const LIMIT: u64 = 20_000_000;

/// Buffers, code and private memory.
#[derive(Clone, Default)]
pub struct Ram(pub Vec<Vec<u8>>);

impl Ram {
    fn place(&mut self, bytes: Vec<u8>) -> u64 {
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
        let old = place.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
        place.copy_from_slice(&change(old).to_le_bytes()[..bytes]);
        Ok(old)
    }
}

/// An element of a buffer: small numbers, which are indices that there are.
fn element(dtype: DType, random: u64) -> Vec<u8> {
    let small = (random % 33) as f32 / 16.0 - 1.0;
    match dtype {
        DType::F32 => small.to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f32(small).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(small).to_le_bytes().to_vec(),
        DType::Bool => vec![(random & 1) as u8],
        _ => (random % 4).to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// Memory for a program, and the words of its arguments. Whole dwords: vectors may reach behind the end.
pub fn memory(p: &Program) -> (Ram, Vec<u64>) {
    let mut ram = Ram::default();
    let mut random = 0x1234_5678_9abc_def1u64;
    let args = p.args.iter().map(|arg| match *arg {
        Arg::Buffer { dtype, len, .. } => {
            let mut bytes = Vec::with_capacity(dtype.size() * len + 16);
            for _ in 0..len {
                random = random
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                bytes.extend(element(dtype, random >> 33));
            }
            bytes.resize(bytes.len().next_multiple_of(16), 0);
            ram.place(bytes)
        }
        Arg::Number { value } => value as u64,
        _ => 1,
    });
    let args = args.collect();
    (ram, args)
}

fn chip(name: &str) -> &'static Chip {
    let found = CHIPS.iter().find(|c| c.name.eq_ignore_ascii_case(name));
    found.unwrap()
}

/// What both have in common.
fn launch(name: &str, items: u32, grid: [u32; 3]) -> Launch {
    Launch {
        chip: chip(name),
        program: 0,
        first: 0,
        code_bytes: 0,
        thread_size: ThreadSize::Thread64,
        full_footprint: 1,
        half_footprint: 0,
        merged_registers: true,
        branch_stack: 0,
        booleans: 0,
        constants: Vec::new(),
        const_dwords: 0,
        constant_demotion: true,
        local_size: [items, 1, 1],
        global_size: [items * grid[0], grid[1], grid[2]],
        global_offset: [0; 3],
        groups: grid,
        system: SystemRegisters::default(),
        private: Private::default(),
        local_bytes: 0,
        descriptors: Descriptors::default(),
        arithmetic: Arithmetic::default(),
        seed: 1,
        limit: LIMIT,
    }
}

fn private(ram: &mut Ram, chip: &Chip, bytes: u32) -> Private {
    let per_fiber = bytes.next_multiple_of(512);
    let total = per_fiber * chip.fibers;
    Private {
        base: ram.place(vec![0; (total * chip.cores) as usize]),
        per_fiber,
        total,
        per_wave_layout: true,
        stack: 0,
    }
}

fn run(launch: Launch, ram: &mut Ram) -> Result<Done, String> {
    let done = Grid::new(launch).and_then(|mut grid| grid.run(ram));
    done.map_err(|broken| broken.to_string())
}

/// Our code.
pub fn ours(
    object: &Object,
    grid: [u32; 3],
    name: &str,
    args: &[u64],
    ram: &mut Ram,
) -> Result<Done, String> {
    let mut launch = launch(name, object.items, grid);
    let code: Vec<u8> = object.code.iter().flat_map(|w| w.to_le_bytes()).collect();
    launch.code_bytes = code.len() as u32;
    launch.program = ram.place(code);
    if object.double {
        launch.thread_size = ThreadSize::Thread128;
    }
    (launch.full_footprint, launch.half_footprint) = (object.footprint.full, object.footprint.half);
    launch.branch_stack = object.branches.div_ceil(2);
    launch.const_dwords = object.const_vectors * 4;
    launch.constants = object.constants.iter().map(|&c| Some(c)).collect();
    let words = args.iter().flat_map(|&a| [a as u32, (a >> 32) as u32]);
    for (to, word) in launch.constants.iter_mut().zip(words) {
        *to = Some(word);
    }
    launch.constants.resize(launch.const_dwords as usize, None);
    launch.system.group_id = Some(codegen::ir3::GROUP.0);
    launch.system.local_id = Some(codegen::ir3::ITEM.0);
    launch.local_bytes = object.local_bytes;
    launch.private = private(ram, launch.chip, object.private_bytes);
    launch.descriptors = Descriptors {
        textures: textures(object, args)?,
        samplers: vec![Some(SAMPLER)],
        ..Descriptors::default()
    };
    run(launch, ram)
}

/// The descriptors of the images of our code.
fn textures(object: &Object, args: &[u64]) -> Result<Vec<Option<[u32; TEXTURE_DWORDS]>>, String> {
    let texture = |image: &codegen::ir3::Image| {
        let format = Format::from_number(image.format);
        let base = args.get(image.argument as usize);
        let (Some(format), Some(&base)) = (format, base) else {
            return Err(format!("no image: {image:?}"));
        };
        let rows = Texture::rows(format, image.width, image.height, image.pitch, base);
        rows.encode().map(Some).map_err(|e| e.to_string())
    };
    object.images.iter().map(texture).collect()
}

/// A register id, or none.
fn register(id: u32) -> Option<u8> {
    (id != 0xfc).then_some(id as u8)
}

/// Mesa's code.
pub fn theirs(
    made: &Compiled,
    items: u32,
    grid: [u32; 3],
    name: &str,
    args: &[u64],
    ram: &mut Ram,
) -> Result<Done, String> {
    let mut launch = launch(name, items, grid);
    let mut code = made.code.clone();
    code.resize(code.len().next_multiple_of(128), 0);
    launch.code_bytes = code.len() as u32;
    launch.program = ram.place(code);
    if made.double {
        launch.thread_size = ThreadSize::Thread128;
    }
    (launch.full_footprint, launch.half_footprint) = (made.full, made.half);
    launch.branch_stack = made.branches.div_ceil(2);
    launch.const_dwords = made.const_vectors.next_multiple_of(4) * 4;
    let mut file = vec![0u8; launch.const_dwords as usize * 4];
    let arguments: Vec<u8> = args.iter().flat_map(|a| a.to_le_bytes()).collect();
    let [at, start, end] = made.pushed.map(|n| n as usize);
    let pushed = arguments
        .get(start..end.min(arguments.len()))
        .unwrap_or_default();
    let mut put = |at: usize, from: &[u8]| {
        let room = file.len().saturating_sub(at).min(from.len());
        file[at..at + room].copy_from_slice(&from[..room]);
    };
    put(at, pushed);
    put(made.own as usize, &made.immediates);
    let words = file
        .chunks(4)
        .map(|b| Some(u32::from_le_bytes(b.try_into().unwrap())));
    launch.constants = words.collect();
    launch.system.group_id = register(made.group);
    launch.system.local_id = register(made.item);
    launch.local_bytes = made.local_bytes;
    launch.private = private(ram, launch.chip, made.private_bytes);
    run(launch, ram)
}
