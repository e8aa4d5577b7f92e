//! A machine for tests: plain memory, kernels compiled by clang, launches.

use std::cell::UnsafeCell;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use object::{Object, ObjectSegment, ObjectSymbol};
use twin_shader::code::Code;
use twin_shader::isa::Gen;
use twin_shader::launch::{self, Broken, Done, Launch, Watch};
use twin_shader::page::{Access, FaultKind, MemFault, Memory, PAGE, Page, Port};
use twin_shader::trap::Message;

#[repr(align(4096))]
#[derive(Clone, Copy)]
struct Frame([u8; PAGE as usize]);

/// Memory from [`Ram::BASE`] on; everything may be read, written and executed.
pub struct Ram {
    frames: Box<[UnsafeCell<Frame>]>,
}

// SAFETY: while a launch runs, the frames are only reached through pages, which are atomics and
// pointers; the test reads and writes them before and after.
unsafe impl Sync for Ram {}

impl Ram {
    /// Where memory starts.
    pub const BASE: u64 = 0x7f12_0000_0000;

    /// So many bytes.
    pub fn new(bytes: u64) -> Self {
        let frames = bytes.div_ceil(PAGE);
        Self {
            frames: (0..frames)
                .map(|_| UnsafeCell::new(Frame([0; PAGE as usize])))
                .collect(),
        }
    }

    /// Writes bytes.
    pub fn write(&mut self, va: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = va - Self::BASE + i as u64;
            self.frames[(at / PAGE) as usize].get_mut().0[(at % PAGE) as usize] = *byte;
        }
    }

    /// Reads dwords.
    pub fn read(&mut self, va: u64, count: usize) -> Vec<u32> {
        let mut byte =
            |at: u64| self.frames[(at / PAGE) as usize].get_mut().0[(at % PAGE) as usize];
        (0..count as u64)
            .map(|i| {
                let at = va - Self::BASE + 4 * i;
                u32::from_le_bytes(std::array::from_fn(|j| byte(at + j as u64)))
            })
            .collect()
    }
}

impl Memory for Ram {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let frame = va
            .checked_sub(Self::BASE)
            .and_then(|at| self.frames.get((at / PAGE) as usize));
        let Some(frame) = frame else {
            return Err(MemFault {
                va,
                access,
                port,
                kind: FaultKind::NotPresent,
            });
        };
        // SAFETY: a frame is a page, aligned, and outlives the launch that borrows `self`.
        Ok(unsafe { Page::new(frame.get().cast(), None) })
    }
}

/// Compiles C or, with the extension, assembly to an ELF file with kernels.
pub fn compile(generation: Gen, extension: &str, source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (
        folder.path().join(format!("kernel.{extension}")),
        folder.path().join("kernel.so"),
    );
    std::fs::write(&from, source).unwrap();
    let llvm = std::env::var_os("LLVM_SYS_221_PREFIX").unwrap_or("/usr/lib/llvm-22".into());
    let out = Command::new(PathBuf::from(llvm).join("bin/clang"))
        .args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-O2"])
        .arg(format!("-mcpu={}", generation.processor()))
        .args(flags)
        .arg(&from)
        .arg("-o")
        .arg(&to)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    std::fs::read(&to).unwrap()
}

/// The fields of a kernel descriptor that a launch needs.
#[derive(Clone, Copy)]
struct Descriptor {
    entry: u64,
    lds: u32,
    private: u32,
    rsrc: [u32; 3],
    properties: u16,
}

/// A machine with a program in memory.
pub struct Machine {
    generation: Gen,
    ram: Ram,
    elf: Vec<u8>,
    code: Code,
    /// Where free memory starts.
    free: u64,
    /// Host threads of launches.
    pub threads: usize,
    /// What waves have told the host, and after how many words the launch is cancelled.
    pub told: Mutex<Vec<Message>>,
    pub most: usize,
    /// How long the last launch took.
    pub seconds: f64,
}

impl Machine {
    /// Loads a program.
    pub fn new(generation: Gen, elf: Vec<u8>) -> Self {
        let mut ram = Ram::new(64 << 20);
        let file = object::File::parse(&*elf).unwrap();
        let mut end = 0;
        for segment in file.segments() {
            ram.write(Ram::BASE + segment.address(), segment.data().unwrap());
            end = end.max(segment.address() + segment.size());
        }
        Self {
            generation,
            ram,
            elf,
            code: Code::new(generation),
            free: (Ram::BASE + end).next_multiple_of(PAGE),
            threads: 1,
            told: Mutex::default(),
            most: usize::MAX,
            seconds: 0.0,
        }
    }

    /// Memory with these dwords.
    pub fn buffer(&mut self, words: &[u32]) -> u64 {
        let at = self.free;
        self.free = (at + 4 * words.len() as u64).next_multiple_of(PAGE);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.ram.write(at, &bytes);
        at
    }

    /// What is in memory.
    pub fn read(&mut self, va: u64, count: usize) -> Vec<u32> {
        self.ram.read(va, count)
    }

    /// Where a symbol of the program is.
    pub fn address(&self, symbol: &str) -> u64 {
        let file = object::File::parse(&*self.elf).unwrap();
        let found = file.symbols().find(|s| s.name() == Ok(symbol));
        found.unwrap().address() + Ram::BASE
    }

    fn descriptor(&mut self, kernel: &str) -> Descriptor {
        let at = self.address(&format!("{kernel}.kd"));
        let kd = self.ram.read(at, 16);
        let entry = u64::from(kd[4]) | u64::from(kd[5]) << 32;
        Descriptor {
            entry: at.wrapping_add(entry),
            lds: kd[0],
            private: kd[1],
            rsrc: [kd[12], kd[13], kd[11]],
            properties: kd[14] as u16,
        }
    }

    /// Runs a kernel over a grid with these arguments.
    pub fn run(
        &mut self,
        kernel: &str,
        groups: [u32; 3],
        size: [u32; 3],
        args: &[u8],
    ) -> Result<Done, Option<Box<Broken>>> {
        self.run_with(kernel, groups, size, args, |_| {}, None)
    }

    /// As [`Machine::run`], the launch changed before, and told to `trace`.
    pub fn run_with(
        &mut self,
        kernel: &str,
        groups: [u32; 3],
        size: [u32; 3],
        args: &[u8],
        change: impl FnOnce(&mut Launch),
        trace: Option<&(dyn Fn(&str) + Sync)>,
    ) -> Result<Done, Option<Box<Broken>>> {
        let kd = self.descriptor(kernel);
        let mut kernarg = args.to_vec();
        kernarg.resize(kernarg.len().next_multiple_of(4), 0);
        let words: Vec<u32> = kernarg
            .chunks_exact(4)
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect();
        let kernarg = self.buffer(&words);
        let wave32 = kd.properties >> 10 & 1 == 1;
        // Scratch of a wave, in granules of 1 KiB; for at most 64 waves.
        let lanes = if wave32 { 32 } else { 64 };
        // Recursion: the compiler cannot tell how much, and sets bit 11.
        let dynamic = if kd.properties >> 11 & 1 == 1 {
            1024
        } else {
            0
        };
        let scratch_wave = ((kd.private + dynamic) * lanes).next_multiple_of(1024);
        let scratch_base = if scratch_wave > 0 {
            self.buffer(&vec![0; scratch_wave as usize * 64 / 4])
        } else {
            0
        };
        // User SGPRs, in the order of the bits of the properties.
        let mut user = Vec::new();
        let mut pair = |value: u64| user.extend([value as u32, (value >> 32) as u32]);
        for bit in 0..7 {
            if kd.properties >> bit & 1 == 0 {
                continue;
            }
            match bit {
                0 => {
                    pair(scratch_base | 1 << 63);
                    pair(0xffff_ffff | 0x20c1_4000 << 32);
                }
                3 => pair(kernarg),
                5 => pair(scratch_base),
                6 => panic!("the size of the private segment is not passed"),
                _ => pair(0),
            }
        }
        user.resize(16, 0xdead_beef);
        let mut launch = Launch {
            generation: self.generation,
            entry: kd.entry,
            groups,
            group_size: size,
            last_size: size,
            start: [0; 3],
            wave32,
            rsrc: kd.rsrc,
            user: user.try_into().unwrap(),
            lds: kd.lds,
            scratch_base,
            scratch_wave,
            scratch_waves: 64,
            shared_aperture: 0x1000_0000,
            private_aperture: 0x2000_0000,
            xcc: (0, 1),
            waves: 256,
            trap: None,
            seed: 1,
        };
        change(&mut launch);
        let start = Instant::now();
        let cancel = AtomicBool::new(false);
        let watch = Watch {
            standing: None,
            cancel: &cancel,
            trace,
            clock: &|| start.elapsed().as_nanos() as u64 / 10,
            message: &|message| {
                let mut told = self.told.lock().unwrap();
                told.push(message);
                cancel.fetch_or(told.len() >= self.most, Ordering::Relaxed);
            },
            threads: self.threads,
        };
        let done = launch::run(&self.ram, &self.code, &launch, &watch);
        self.seconds = start.elapsed().as_secs_f64();
        done
    }
}

/// Arguments of a kernel, laid out as C does.
#[derive(Default)]
pub struct Args(Vec<u8>);

impl Args {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pointer or another integer of 64 bits.
    pub fn u64(mut self, value: u64) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// 32 bits.
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A float.
    pub fn f32(self, value: f32) -> Self {
        self.u32(value.to_bits())
    }
}

impl std::ops::Deref for Args {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
