//! The structure that starts a grid, read as the hardware does and checked where it would be silent.
//!
//! Source: open-gpu-doc, classes/compute/{clc6c0qmd,clc7c0qmd,clc9c0qmd,clcbc0qmd,clcdc0qmd,clcec0qmd}.h;
//! Mesa, src/nouveau/compiler/nak/qmd.rs, src/nouveau/vulkan/nvk_cmd_dispatch.c; tinygrad, ops_nv.py, QMD.

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::qmd::{self, Field, Version};
use twin::rule::{Proof, Rule};

use super::super::error::{Result, xid};
use super::super::port::Port;
use super::super::reduce::Reduction;
use super::limits;
use super::release::Release;

static VERSION: Rule = Rule {
    name: "QMD-VERSION",
    text: "the compute class supports the version of a QMD",
    source: "open-gpu-doc, classes/compute/cl*qmd.h, QMD_MAJOR_VERSION",
    proof: Proof::Sourced,
};

static RESERVED: Rule = Rule {
    name: "QMD-RESERVED",
    text: "bits of a QMD without a field are 0, and so are fields that belong to the hardware",
    source: "open-gpu-doc, classes/compute/cl*qmd.h; replays of captured ones fail with Xid 31 (maxime-peim/libcuda-research)",
    proof: Proof::Sourced,
};

static NOT_MODELLED: Rule = Rule {
    name: "QMD-NOT-MODELLED",
    text: "queues, clusters, latches with waits and processor masks are not modelled",
    source: "this twin: src/engines/compute/qmd.rs",
    proof: Proof::Twin,
};

static GRID: Rule = Rule {
    name: "QMD-GRID",
    text: "a grid has 1 to 2^31 - 1 blocks in x and at least one in y and z, of 1 to 1024 threads, at most 64 in z; or \
           0 blocks in each dimension: it ends when it starts",
    source: "NVIDIA, CUDA C++ Programming Guide, \"Technical Specifications per Compute Capability\"; what libcuda 550.163.01 makes of graphs: grids of 0 by 0 by 0 blocks, which others depend on",
    proof: Proof::Sourced,
};

static REGISTERS: Rule = Rule {
    name: "QMD-REGISTERS",
    text: "a thread has 1 to 255 registers, and those of a block fit in a multiprocessor",
    source: "NVIDIA, CUDA C++ Programming Guide, \"Technical Specifications per Compute Capability\"",
    proof: Proof::Sourced,
};

static BARRIERS: Rule = Rule {
    name: "QMD-BARRIERS",
    text: "a block has at most 16 barriers",
    source: "NVIDIA, PTX ISA, barrier: 16 of them",
    proof: Proof::Sourced,
};

static SHARED: Rule = Rule {
    name: "QMD-SHARED",
    text: "shared memory is a multiple of 128 bytes that fits in the carve-out; MIN, TARGET and MAX are carve-outs that \
           the chip has, in this order (or all 0 without shared memory)",
    source: "Mesa, nak/qmd.rs, smem_size and sm_config_smem_size; NVIDIA, CUDA C++ Programming Guide, \"Shared Memory\"",
    proof: Proof::Sourced,
};

static LOCAL: Rule = Rule {
    name: "QMD-LOCAL",
    text: "the local memory of a thread is a multiple of 16 bytes",
    source: "open-gpu-doc, classes/compute/clcdc0qmd.h, SHADER_LOCAL_MEMORY_LOW_SIZE_SHIFTED4; Mesa, nak/qmd.rs",
    proof: Proof::Sourced,
};

static CONSTANT: Rule = Rule {
    name: "QMD-CONSTANT",
    text: "a constant bank that is valid begins at a multiple of 64 and has 16 bytes to 64 KiB",
    source: "Mesa, nvk_physical_device.c, nvk_min_cbuf_alignment; clcbc0qmd.h, CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6",
    proof: Proof::Sourced,
};

static PROGRAM: Rule = Rule {
    name: "QMD-PROGRAM",
    text: "a program starts at a multiple of 128",
    source: "Mesa, nvk_shader.c: alignment of shaders from Volta on; ptxas aligns .text so",
    proof: Proof::Sourced,
};

static SASS: Rule = Rule {
    name: "QMD-SASS-VERSION",
    text: "SASS_VERSION is that of the chip, or 0",
    source: "Mesa, nak/qmd.rs; tinygrad, ops_nv.py; 0 ran on an H100 (maxime-peim/libcuda-research)",
    proof: Proof::Guess,
};

static RELEASE: Rule = Rule {
    name: "QMD-RELEASE",
    text: "a released semaphore is at a multiple of its size: 4, 8 or, with a timestamp, 16 bytes",
    source: "open-gpu-doc, clc7c0qmd.h, RELEASE0_STRUCTURE_SIZE; the host's manual says so of its semaphores",
    proof: Proof::Guess,
};

static MEMBAR: Rule = Rule {
    name: "QMD-MEMBAR",
    text: "the end of a grid is signalled after a membar (CWD_MEMBAR_TYPE or RELEASE_MEMBAR_TYPE): otherwise the waiter \
           may not see the stores",
    source: "open-gpu-doc, clc7c0qmd.h, CWD_MEMBAR_TYPE; Mesa, nak/qmd.rs, sets L1_SYSMEMBAR",
    proof: Proof::Sourced,
};

static DEPENDENT: Rule = Rule {
    name: "QMD-DEPENDENT",
    text: "a dependent QMD is scheduled (SCHEDULE, or INVALIDATE_COPY_SCHEDULE) or decremented (DECREMENT_DEPENDENCE); \
           other actions are not modelled",
    source: "this twin: src/engines/compute/qmd.rs",
    proof: Proof::Twin,
};

/// A constant bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    pub number: u8,
    pub va: u64,
    pub bytes: u64,
    pub invalidate: bool,
}

/// What the end of a grid does with another QMD.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Schedule(u64),
    CountDown(u64),
}

/// What a QMD says.
#[derive(Clone, Debug, Default)]
pub(super) struct Qmd {
    /// Whether it has no blocks: it ends when it begins.
    pub null: bool,
    /// How often it is counted down before it begins.
    pub counter: u64,
    pub program: u64,
    pub grid: [u32; 3],
    pub threads: [u32; 3],
    pub registers: u16,
    pub barriers: u8,
    pub shared: u64,
    pub local: u64,
    pub banks: Vec<Bank>,
    pub releases: Vec<Release>,
    pub next: Vec<Next>,
    /// Instructions that are fetched before: where, how many bytes.
    pub prefetch: Option<(u64, u64)>,
    pub invalidate_code: bool,
    pub invalidate_constants: bool,
}

/// Fields that are read here, or that change nothing that is modelled: caches of textures, order,
/// occupancy, names.
const KNOWN: &[Field] = &[
    qmd::QMD_MAJOR_VERSION,
    qmd::QMD_MINOR_VERSION,
    qmd::QMD_TYPE,
    qmd::QMD_GROUP_ID,
    qmd::SM_GLOBAL_CACHING_ENABLE,
    qmd::API_VISIBLE_CALL_LIMIT,
    qmd::SAMPLER_INDEX,
    qmd::SASS_VERSION,
    qmd::INVALIDATE_TEXTURE_HEADER_CACHE,
    qmd::INVALIDATE_TEXTURE_SAMPLER_CACHE,
    qmd::INVALIDATE_TEXTURE_DATA_CACHE,
    qmd::INVALIDATE_SHADER_DATA_CACHE,
    qmd::INVALIDATE_INSTRUCTION_CACHE,
    qmd::INVALIDATE_SHADER_CONSTANT_CACHE,
    qmd::DISABLE_AUTO_INVALIDATE,
    qmd::DEMOTE_L2_EVICT_LAST,
    qmd::SEQUENTIALLY_RUN_CTAS,
    qmd::RUN_CTA_IN_ONE_SM_PARTITION,
    qmd::CWD_MEMBAR_TYPE,
    qmd::GRID_WIDTH,
    qmd::GRID_HEIGHT,
    qmd::GRID_DEPTH,
    qmd::CTA_THREAD_DIMENSION0,
    qmd::CTA_THREAD_DIMENSION1,
    qmd::CTA_THREAD_DIMENSION2,
    qmd::REGISTER_COUNT,
    qmd::BARRIER_COUNT,
    qmd::SHARED_MEMORY_SIZE,
    qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE,
    qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE,
    qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE,
    qmd::SHARED_ALLOCATION_ENABLE,
    qmd::SHADER_LOCAL_MEMORY_LOW_SIZE,
    qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE,
    qmd::PROGRAM_ADDRESS_LOWER,
    qmd::PROGRAM_ADDRESS_UPPER,
    qmd::PROGRAM_PREFETCH_ADDR_LOWER,
    qmd::PROGRAM_PREFETCH_ADDR_UPPER,
    qmd::PROGRAM_PREFETCH_SIZE,
    qmd::PROGRAM_PREFETCH_TYPE,
    qmd::ICC_PREFETCH_SIZE,
    qmd::CONSTANT_BUFFER_VALID,
    qmd::CONSTANT_BUFFER_ADDR_LOWER,
    qmd::CONSTANT_BUFFER_ADDR_UPPER,
    qmd::CONSTANT_BUFFER_SIZE,
    qmd::CONSTANT_BUFFER_INVALIDATE,
    qmd::CONSTANT_BUFFER_PREFETCH,
    qmd::CONSTANT_BUFFER_PREFETCH_POST,
    qmd::CONSTANT_BUFFER_PREFETCH_PRE_MAX_SIZE,
    qmd::RELEASE_ENABLE,
    qmd::RELEASE_ADDR_LOWER,
    qmd::RELEASE_ADDR_UPPER,
    qmd::RELEASE_PAYLOAD_LOWER,
    qmd::RELEASE_PAYLOAD_UPPER,
    qmd::RELEASE_PAYLOAD64B,
    qmd::RELEASE_STRUCTURE_SIZE,
    qmd::RELEASE_MEMBAR_TYPE,
    qmd::RELEASE_REDUCTION_ENABLE,
    qmd::RELEASE_REDUCTION_FORMAT,
    qmd::RELEASE_REDUCTION_OP,
    qmd::RELEASE_TRAP_TYPE,
    qmd::DEPENDENT_QMD_ENABLE,
    qmd::DEPENDENT_QMD_ACTION,
    qmd::DEPENDENT_QMD_PREFETCH,
    qmd::DEPENDENT_QMD_POINTER,
    qmd::OCCUPANCY_THRESHOLD_SHARED_MEM,
    qmd::OCCUPANCY_MAX_SHARED_MEM,
    qmd::OCCUPANCY_THRESHOLD_WARP,
    qmd::OCCUPANCY_MAX_WARP,
    qmd::OCCUPANCY_THRESHOLD_REGISTER,
    qmd::OCCUPANCY_MAX_REGISTER,
    qmd::FREE_CTA_SLOTS_EMPTY_SM,
    qmd::CORRELATION_ID,
    qmd::CORRELATION_ID_INTERNAL,
    qmd::DEBUG_ID_LOWER,
    qmd::DEBUG_ID_UPPER,
    qmd::SYNC_DOMAIN_ID,
    qmd::DEPENDENCE_COUNTER,
    // Nobody waits at a latch here; blocks may say early that what depends on them can begin, which it does
    // at their end.
    qmd::ARRIVE_AT_LATCH_VALID,
    qmd::ARRIVE_AT_LATCH_ID,
    qmd::ENABLE_PROGRAM_PRE_EXIT,
    // What it holds at its end is not kept: each time it is scheduled it is read again.
    qmd::SELF_COPY_ON_COMPLETION,
    // Nothing begins here that was not scheduled.
    qmd::REQUIRE_SCHEDULING_PCAS,
];

/// `QMD_TYPE_GRID_NULL`: what only depends, and is depended on.
const GRID_NULL: u64 = 1;
/// Grids of blocks; a Hopper takes 0 for it, too.
const GRID_OF_BLOCKS: u64 = 2;

/// A QMD under a check.
struct Reader<'a> {
    port: &'a Port<'a>,
    version: Version,
    words: &'a [u32],
    text: &'a str,
}

/// Reads a QMD, whose words are as many as the longest has; `sass` is the version of the chip's code.
pub(super) fn read(port: &Port, words: &[u32], text: &str, sass: u64) -> Result<Qmd> {
    let known = port.arch.facts().qmds;
    let Some(version) = Version::of(known, words) else {
        let what = format!("{text} has none of {known:?}");
        return Err(port.dead(&VERSION, xid::GR_EXCEPTION, what));
    };
    let reader = Reader {
        port,
        version,
        words: &words[..version.dwords()],
        text,
    };
    reader.reserved()?;
    let typed = qmd::QMD_TYPE.place(version).is_some();
    let null = typed && reader.one(qmd::QMD_TYPE) == GRID_NULL;
    let sizes = [qmd::GRID_WIDTH, qmd::GRID_HEIGHT, qmd::GRID_DEPTH];
    let qmd = match null || sizes.map(|size| reader.one(size)) == [0; 3] {
        true => Qmd {
            null: true,
            ..Qmd::default()
        },
        false => reader.shape(sass)?,
    };
    Ok(Qmd {
        counter: reader.one(qmd::DEPENDENCE_COUNTER),
        releases: reader.releases()?,
        next: reader.next()?,
        ..qmd
    })
}

impl Reader<'_> {
    fn get(&self, field: Field, index: usize) -> u64 {
        field.get(self.version, index, self.words).unwrap_or(0)
    }

    fn one(&self, field: Field) -> u64 {
        self.get(field, 0)
    }

    fn wide(&self, field: qmd::Wide, index: usize) -> u64 {
        let lower = || self.get(field.lower, index);
        let value = field.get(self.version, index, self.words);
        value.unwrap_or_else(lower)
    }

    fn dead(&self, rule: &'static Rule, what: String) -> super::super::error::Stop {
        let what = format!("{}: {what}", self.text);
        self.port.dead(rule, xid::GR_EXCEPTION, what)
    }

    fn broken(&self, rule: &'static Rule, what: String) {
        self.port.broken(rule, format!("{}: {what}", self.text));
    }

    fn reserved(&self) -> Result {
        if let Some((dword, bits)) = qmd::unnamed(self.version, self.words) {
            return Err(self.dead(&RESERVED, format!("bits {bits:#x} of dword {dword}")));
        }
        let known = |name| KNOWN.iter().any(|field| field.name == name);
        if let Some(found) = qmd::decode(self.version, self.words).find(|f| !known(f.name)) {
            let what = format!("{}[{}] is {:#x}", found.name, found.index, found.bits);
            let own = found.name.starts_with("HW_ONLY");
            let rule = if own { &RESERVED } else { &NOT_MODELLED };
            return Err(self.dead(rule, what));
        }
        let kind = self.one(qmd::QMD_TYPE);
        let typed = qmd::QMD_TYPE.place(self.version).is_some();
        let untyped = kind == 0 && self.port.arch == Arch::Gh100;
        if typed && ![GRID_NULL, GRID_OF_BLOCKS].contains(&kind) && !untyped {
            return Err(self.dead(&NOT_MODELLED, format!("QMD_TYPE {kind}")));
        }
        Ok(())
    }

    fn shape(&self, sass: u64) -> Result<Qmd> {
        let grid = [qmd::GRID_WIDTH, qmd::GRID_HEIGHT, qmd::GRID_DEPTH].map(|f| self.one(f));
        let threads = [
            qmd::CTA_THREAD_DIMENSION0,
            qmd::CTA_THREAD_DIMENSION1,
            qmd::CTA_THREAD_DIMENSION2,
        ]
        .map(|field| self.one(field));
        let count = threads.iter().product::<u64>();
        if grid.contains(&0)
            || grid[0] > limits::GRID
            || !(1..=limits::THREADS).contains(&count)
            || threads[2] > limits::DEPTH
        {
            return Err(self.dead(&GRID, format!("{grid:?} blocks of {threads:?} threads")));
        }
        let registers = self.one(qmd::REGISTER_COUNT);
        if !(1..=limits::REGISTERS).contains(&registers) || !limits::registers_fit(count, registers)
        {
            let what = format!("{registers} registers of {count} threads");
            return Err(self.dead(&REGISTERS, what));
        }
        let barriers = self.one(qmd::BARRIER_COUNT);
        if barriers > limits::BARRIERS {
            return Err(self.dead(&BARRIERS, format!("{barriers} barriers")));
        }
        let program = self.wide(qmd::PROGRAM_ADDRESS, 0);
        if !program.is_multiple_of(128) {
            return Err(self.dead(&PROGRAM, format!("program at {program:#x}")));
        }
        let version = self.one(qmd::SASS_VERSION);
        if version != 0 && version != sass {
            self.broken(&SASS, format!("{version:#x}, not {sass:#x}"));
        }
        let prefetch = self.one(qmd::PROGRAM_PREFETCH_SIZE) << 8;
        let low = self.one(qmd::SHADER_LOCAL_MEMORY_LOW_SIZE);
        let local = low + self.one(qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE);
        if !low.is_multiple_of(16) || !local.is_multiple_of(16) {
            self.broken(
                &LOCAL,
                format!("{low:#x} of {local:#x} bytes at the low end"),
            );
        }
        Ok(Qmd {
            program,
            grid: grid.map(|n| n as u32),
            threads: threads.map(|n| n as u32),
            registers: registers as u16,
            barriers: barriers as u8,
            shared: self.shared()?,
            local,
            banks: self.banks()?,
            prefetch: (prefetch != 0).then(|| (self.wide(qmd::PROGRAM_PREFETCH_ADDR, 0), prefetch)),
            invalidate_code: self.one(qmd::INVALIDATE_INSTRUCTION_CACHE) != 0,
            invalidate_constants: self.one(qmd::INVALIDATE_SHADER_CONSTANT_CACHE) != 0,
            ..Qmd::default()
        })
    }

    fn shared(&self) -> Result<u64> {
        let bytes = self.one(qmd::SHARED_MEMORY_SIZE);
        let configs = [
            qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE,
            qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE,
            qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE,
        ]
        .map(|field| self.one(field));
        let codes = limits::carve_outs(self.port.arch);
        let there = |code: &u64| codes.iter().any(|&kib| limits::code(kib) == *code);
        let room = (configs[1].saturating_sub(1) * 4) << 10;
        let none = bytes == 0 && configs == [0; 3];
        let fits = configs.is_sorted() && configs.iter().all(there) && bytes <= room;
        if none || fits && bytes.is_multiple_of(limits::SHARED_UNIT) {
            return Ok(bytes);
        }
        let what = format!("{bytes:#x} bytes shared, MIN, TARGET, MAX {configs:?}");
        Err(self.dead(&SHARED, what))
    }

    fn banks(&self) -> Result<Vec<Bank>> {
        let mut banks = Vec::new();
        for i in 0..qmd::CONSTANT_BUFFER_VALID.count(self.version) {
            if self.get(qmd::CONSTANT_BUFFER_VALID, i) == 0 {
                continue;
            }
            let va = self.wide(qmd::CONSTANT_BUFFER_ADDR, i);
            let bytes = self.get(qmd::CONSTANT_BUFFER_SIZE, i);
            if !va.is_multiple_of(64) || !(16..=limits::BANK).contains(&bytes) {
                let what = format!("bank {i}: {bytes:#x} bytes at {va:#x}");
                return Err(self.dead(&CONSTANT, what));
            }
            banks.push(Bank {
                number: i as u8,
                va,
                bytes,
                invalidate: self.get(qmd::CONSTANT_BUFFER_INVALIDATE, i) != 0,
            });
        }
        Ok(banks)
    }

    fn releases(&self) -> Result<Vec<Release>> {
        let mut releases = Vec::new();
        for i in 0..qmd::RELEASE_ENABLE.count(self.version) {
            if self.get(qmd::RELEASE_ENABLE, i) == 0 {
                continue;
            }
            let va = self.wide(qmd::RELEASE_ADDR, i);
            let timed = match self.get(qmd::RELEASE_STRUCTURE_SIZE, i) {
                0 => true,
                1 | 2 => false,
                other => {
                    let what = format!("release {i}: STRUCTURE_SIZE {other}");
                    return Err(self.dead(&RELEASE, what));
                }
            };
            let two = self.get(qmd::RELEASE_STRUCTURE_SIZE, i) == 2;
            let wide = two || self.get(qmd::RELEASE_PAYLOAD64B, i) != 0;
            let bytes = if wide { 8 } else { 4 };
            let payload = self.wide(qmd::RELEASE_PAYLOAD, i) & (u64::MAX >> (64 - 8 * bytes));
            let align = if timed { 16 } else { bytes };
            if !va.is_multiple_of(align) {
                self.broken(&RELEASE, format!("release {i} at {va:#x}"));
            }
            let own = match qmd::RELEASE_MEMBAR_TYPE.count(self.version) {
                1 => self.one(qmd::RELEASE_MEMBAR_TYPE),
                _ => self.get(qmd::RELEASE_MEMBAR_TYPE, i),
            };
            if own == 0 && self.one(qmd::CWD_MEMBAR_TYPE) == 0 {
                self.broken(&MEMBAR, format!("release {i} at {va:#x}"));
            }
            let signed = self.get(qmd::RELEASE_REDUCTION_FORMAT, i) == 1;
            let reduces = self.get(qmd::RELEASE_REDUCTION_ENABLE, i) != 0;
            let operation = self.get(qmd::RELEASE_REDUCTION_OP, i) as u32;
            let operation = Reduction::of_graphics(operation).filter(|_| reduces);
            releases.push(Release {
                va,
                payload,
                bytes: bytes as usize,
                timed,
                reduction: operation.map(|operation| (operation, signed)),
                interrupt: self.get(qmd::RELEASE_TRAP_TYPE, i) != 0,
            });
        }
        Ok(releases)
    }

    fn next(&self) -> Result<Vec<Next>> {
        let mut next = Vec::new();
        for i in 0..qmd::DEPENDENT_QMD_ENABLE.count(self.version) {
            if self.get(qmd::DEPENDENT_QMD_ENABLE, i) == 0 {
                continue;
            }
            let action = self.get(qmd::DEPENDENT_QMD_ACTION, i);
            let pointer = qmd::DEPENDENT_QMD_POINTER.get(self.version, i, self.words);
            match (action, pointer) {
                (1 | 3, Some(pointer)) => next.push(Next::Schedule(pointer)),
                (4, Some(pointer)) => next.push(Next::CountDown(pointer)),
                _ => {
                    let what = format!("dependent {i}: action {action}, at {pointer:x?}");
                    return Err(self.dead(&DEPENDENT, what));
                }
            }
        }
        Ok(next)
    }
}
