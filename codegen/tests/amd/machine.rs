//! Runs compiled objects on the software model of AMD's shader engine.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use codegen::build::{Stage, StageArg};
use codegen::{Built, Target};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};
use twin_shader::code::Code;
use twin_shader::isa::Gen;
use twin_shader::launch::{self, Launch, Watch};
use twin_shader::page::{Access, FaultKind, MemFault, Memory, PAGE, Page, Port};

/// Waves that the scratch of a launch has room for.
const SCRATCH_WAVES: u32 = 64;

#[repr(align(4096))]
#[derive(Clone, Copy)]
struct Frame([u8; PAGE as usize]);

/// Memory; a page that is not in use lies between buffers, so that an access beyond one fails.
struct Ram {
    frames: Vec<UnsafeCell<Frame>>,
    /// Frames that are mapped.
    mapped: Vec<bool>,
}

// SAFETY: while a launch runs, the frames are only reached through pages, which are atomics and
// pointers; the test reads and writes them before and after.
unsafe impl Sync for Ram {}

impl Ram {
    const BASE: u64 = 0x7f12_0000_0000;

    fn new() -> Self {
        Self {
            frames: Vec::new(),
            mapped: Vec::new(),
        }
    }

    /// Maps bytes so that they end where their pages do, as far as `align` allows.
    fn place(&mut self, bytes: &[u8], align: u64) -> u64 {
        self.mapped.push(false);
        self.frames
            .push(UnsafeCell::new(Frame([0xee; PAGE as usize])));
        let first = self.frames.len() as u64 * PAGE;
        let pages = (bytes.len() as u64).div_ceil(PAGE).max(1);
        for _ in 0..pages {
            self.mapped.push(true);
            self.frames
                .push(UnsafeCell::new(Frame([0xee; PAGE as usize])));
        }
        let slack = pages * PAGE - bytes.len() as u64;
        let va = Self::BASE + first + slack / align * align;
        self.write(va, bytes);
        va
    }

    fn byte(&mut self, va: u64) -> &mut u8 {
        let at = va - Self::BASE;
        &mut self.frames[(at / PAGE) as usize].get_mut().0[(at % PAGE) as usize]
    }

    fn write(&mut self, va: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            *self.byte(va + i as u64) = *byte;
        }
    }

    fn read(&mut self, va: u64, bytes: &mut [u8]) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = *self.byte(va + i as u64);
        }
    }

    fn word(&mut self, va: u64) -> u32 {
        let mut bytes = [0; 4];
        self.read(va, &mut bytes);
        u32::from_le_bytes(bytes)
    }
}

impl Memory for Ram {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let at = va.checked_sub(Self::BASE).map(|at| (at / PAGE) as usize);
        let frame = at.filter(|&at| self.mapped.get(at) == Some(&true));
        let Some(frame) = frame else {
            return Err(MemFault {
                va,
                access,
                port,
                kind: FaultKind::NotPresent,
            });
        };
        // SAFETY: a frame is a page, aligned, and outlives the launch that borrows `self`.
        Ok(unsafe { Page::new(self.frames[frame].get().cast(), None) })
    }
}

/// The generation that runs the code of a chip, if the model has it.
pub fn generation(chip: &str) -> Option<Gen> {
    Some(match chip {
        "gfx1030" | "gfx1031" | "gfx1032" | "gfx1034" => Gen::Rdna2,
        "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" => Gen::Rdna3,
        "gfx1200" | "gfx1201" => Gen::Rdna4,
        "gfx942" => Gen::Cdna3,
        _ => return None,
    })
}

/// Loads the sections of an object, resolves what refers to them; the address of the descriptor.
fn load(ram: &mut Ram, object: &[u8], entry: &str) -> u64 {
    let file = object::File::parse(object).unwrap();
    let mut image = Vec::new();
    let mut at = HashMap::new();
    for section in file.sections() {
        let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        if sh_flags.0 & object::elf::SHF_ALLOC.0 == 0 || section.size() == 0 {
            continue;
        }
        // Instructions are fetched ahead of the counter.
        image.resize(image.len().next_multiple_of(256), 0);
        at.insert(section.index(), image.len() as u64);
        image.extend_from_slice(section.data().unwrap());
    }
    image.resize(image.len() + 256, 0);
    let base = ram.place(&image, 256);
    for section in file.sections() {
        let Some(&start) = at.get(&section.index()) else {
            continue;
        };
        for (offset, r) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = r.target() else {
                panic!("relocation to {:?}", r.target());
            };
            let symbol = file.symbol_by_index(symbol).unwrap();
            let of = symbol
                .section_index()
                .unwrap_or_else(|| panic!("{entry} needs {:?}, which is not in it", symbol.name()));
            let place = base + start + offset;
            let target = base + at[&of] + symbol.address();
            let value = target.wrapping_add(r.addend() as u64).wrapping_sub(place);
            let RelocationFlags::Elf { r_type } = r.flags() else {
                panic!("not ELF");
            };
            // LLVM, "User Guide for AMDGPU Backend", relocation records.
            match r_type.0 {
                4 | 10 => ram.write(place, &(value as u32).to_le_bytes()),
                11 => ram.write(place, &((value >> 32) as u32).to_le_bytes()),
                5 => ram.write(place, &value.to_le_bytes()),
                other => panic!("relocation type {other}"),
            }
        }
    }
    let name = format!("{entry}.kd");
    let kd = file.symbols().find(|s| s.name() == Ok(&name)).unwrap();
    base + at[&kd.section_index().unwrap()] + kd.address()
}

/// Runs the stages of a kernel; buffers are read back.
pub fn run(built: &Built, target: &Target, buffers: &mut [Vec<u8>], vars: &[i64]) {
    let mut ram = Ram::new();
    let params: Vec<u64> = buffers.iter().map(|b| ram.place(b, 8)).collect();
    let scratch: Vec<u64> = built
        .scratch
        .iter()
        .map(|s| ram.place(&vec![0x7f; s.bytes], s.align as u64))
        .collect();
    for stage in &built.stages {
        let mut kernarg = Vec::new();
        for arg in &stage.args {
            let word = match *arg {
                StageArg::Param(slot) => params[usize::from(slot)],
                StageArg::Scratch(i) => scratch[usize::from(i)],
                StageArg::Var(slot) => vars[usize::from(slot)] as u64,
                StageArg::Number(n) => n as u64,
            };
            kernarg.extend(word.to_le_bytes());
        }
        start(&mut ram, stage, target, &kernarg);
    }
    for (buffer, va) in buffers.iter_mut().zip(params) {
        ram.read(va, buffer);
    }
}

fn start(ram: &mut Ram, stage: &Stage, target: &Target, kernarg: &[u8]) {
    let generation = generation(&target.cpu).unwrap();
    let at = load(ram, &stage.object, &stage.entry);
    let mut kd = [0u32; 16];
    for (i, word) in kd.iter_mut().enumerate() {
        *word = ram.word(at + 4 * i as u64);
    }
    let (lds, private, kernarg_size) = (kd[0], kd[1], kd[2]);
    let entry = at.wrapping_add(u64::from(kd[4]) | u64::from(kd[5]) << 32);
    let properties = kd[14] as u16;
    assert!(kernarg_size as usize >= kernarg.len(), "{}", stage.name);
    assert!(lds <= stage.local_bytes, "{lds} {}", stage.local_bytes);
    let wave32 = properties >> 10 & 1 == 1;
    let lanes = if wave32 { 32 } else { 64 };
    assert_eq!(lanes, target.wave as u32);
    let kernarg = ram.place(kernarg, 16);
    let scratch_wave = (private * lanes).next_multiple_of(1024);
    let scratch_base = if scratch_wave > 0 {
        ram.place(&vec![0xdd; (scratch_wave * SCRATCH_WAVES) as usize], PAGE)
    } else {
        0
    };
    // User SGPRs, in the order of the bits of the properties.
    let mut user: Vec<u32> = Vec::new();
    let mut pair = |value: u64| user.extend([value as u32, (value >> 32) as u32]);
    for bit in (0..7).filter(|bit| properties >> bit & 1 == 1) {
        match bit {
            0 => {
                pair(scratch_base | 1 << 63);
                pair(0xffff_ffff | 0x20c1_4000 << 32);
            }
            3 => pair(kernarg),
            5 => pair(scratch_base),
            other => panic!("{}: user SGPRs of property {other}", stage.name),
        }
    }
    user.resize(16, 0xdead_beef);
    let launch = Launch {
        generation,
        entry,
        groups: stage.grid,
        group_size: stage.block,
        last_size: stage.block,
        start: [0; 3],
        wave32,
        rsrc: [kd[12], kd[13], kd[11]],
        user: user.try_into().unwrap(),
        lds,
        scratch_base,
        scratch_wave,
        scratch_waves: SCRATCH_WAVES,
        shared_aperture: 0x1000_0000,
        private_aperture: 0x2000_0000,
        xcc: (0, 1),
        waves: 256,
        trap: None,
        seed: 1,
    };
    let watch = Watch {
        cancel: &AtomicBool::new(false),
        trace: None,
        clock: &|| 0,
        message: &|_| (),
        standing: None,
        threads: 1,
    };
    match launch::run(&*ram, &Code::new(generation), &launch, &watch) {
        Ok(_) => {}
        Err(Some(broken)) => panic!("{}: {broken}", stage.name),
        Err(None) => panic!("{}: cancelled", stage.name),
    }
}
