//! A grid: its blocks run, then its semaphores are released, then what depends on it.

use twin::rule::{Proof, Rule};
use twin::touched::Touched;
use twin_sass::warp::{self, Cause, Constants, Denied, Launch, Space, Windows};

use crate::chip::{Chip, SMS_PER_TPC};

use super::super::Notice;
use super::super::bus::{Bus, Fault};
use super::super::error::{Exception, Result, Stop, xid};
use super::super::port::Port;
use super::caches::Caches;
use super::qmd::{Next, Qmd};
use super::waiting::Waiting;

static CHIP: Rule = Rule {
    name: "COMPUTE-CODE-NOT-MODELLED",
    text: "code has modelled instructions only",
    source: "this twin: twin-sass",
    proof: Proof::Twin,
};

static EXCEPTION: Rule = Rule {
    name: "COMPUTE-EXCEPTION",
    text: "a kernel raises no exception: its accesses are aligned and within its memory, and it neither traps nor \
           leaves its code",
    source: "Linux, nouveau, gf100.c, gf100_mp_warp_error; open-gpu-kernel-modules, nverror.h, ROBUST_CHANNEL_GR_EXCEPTION",
    proof: Proof::Sourced,
};

static HAZARD: Rule = Rule {
    name: "COMPUTE-HAZARD",
    text: "an instruction's operands are ready when it issues: the control words of the program wait for them",
    source: "Mesa, nak/assign_deps.rs; twin-sass says how long results take",
    proof: Proof::Guess,
};

static PROXY: Rule = Rule {
    name: "COMPUTE-PROXY",
    text: "a fence (fence.proxy.async) is between a warp's writes to shared memory and an asynchronous copy or product \
           that reads them",
    source: "NVIDIA, PTX ISA, Async proxy; cp.async.bulk; wgmma.mma_async",
    proof: Proof::Sourced,
};

static HANGS: Rule = Rule {
    name: "COMPUTE-HANG",
    text: "every block of a grid ends: an incomplete barrier or an endless loop hangs the GPU",
    source: "NVIDIA, PTX ISA, barrier; NVIDIA, Xid Errors: 109, Context Switch Timeout Error",
    proof: Proof::Sourced,
};

static LOCAL: Rule = Rule {
    name: "COMPUTE-LOCAL",
    text: "for a grid with local memory, SET_SHADER_LOCAL_MEMORY_NON_THROTTLED is at least what all threads of a TPC \
           need and a multiple of 0x8000, and all of it is mapped at SET_SHADER_LOCAL_MEMORY",
    source: "Mesa, src/nouveau/vulkan/nvk_queue.c, nvk_slm_area_ensure; tinygrad, ops_nv.py, _ensure_has_local_memory",
    proof: Proof::Sourced,
};

static CYCLE: Rule = Rule {
    name: "QMD-CYCLE",
    text: "dependences between QMDs form no cycle",
    source: "open-gpu-doc, classes/compute/clc7c0qmd.h, DEPENDENT_QMD0_POINTER: it would never end",
    proof: Proof::Sourced,
};

static PREFETCH: Rule = Rule {
    name: "QMD-PREFETCH",
    text: "instructions prefetched before the first block are mapped",
    source: "tinygrad, ops_nv.py: the buffer of a program goes on behind its end; the MMU reports a prefetch (NV_PFAULT_ACCESS_TYPE)",
    proof: Proof::Sourced,
};

/// What the methods have said for a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The number of the address space.
    pub space: u64,
    pub windows: Windows,
    /// Local memory: where, and how much a TPC has.
    pub local: (u64, u64),
}

/// A grid that is to run.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Where its QMD is.
    pub va: u64,
    pub(super) qmd: Qmd,
    pub setting: Setting,
}

/// Whose code a chip runs.
pub(super) fn sass(chip: &Chip) -> Option<twin_sass::Chip> {
    match chip.sm_version {
        0x806 => Some(twin_sass::Chip::Sm86),
        0x809 => Some(twin_sass::Chip::Sm89),
        0x900 => Some(twin_sass::Chip::Sm90),
        0xa04 => Some(twin_sass::Chip::Sm120),
        _ => None,
    }
}

/// Reads and checks the QMD at an address.
pub(super) fn read(port: &Port, chip: &Chip, va: u64, setting: Setting) -> Result<Grid> {
    let known = port.arch.facts().qmds;
    let dwords = known
        .iter()
        .map(|version| version.dwords())
        .max()
        .unwrap_or(0);
    let least = known
        .iter()
        .map(|version| version.dwords())
        .min()
        .unwrap_or(0);
    let mut bytes = vec![0; dwords * 4];
    let whole = port.bus.read(va, &mut bytes);
    if whole.is_err() {
        port.read("the scheduler reads a QMD", va, &mut bytes[..least * 4])?;
    }
    let (words, _) = bytes.as_chunks();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    make(port, chip, va, &words, setting)
}

/// Checks a QMD.
pub(super) fn make(
    port: &Port,
    chip: &Chip,
    va: u64,
    words: &[u32],
    setting: Setting,
) -> Result<Grid> {
    let text = format!("QMD at {va:#x}");
    let code = u64::from(chip.sm_version >> 4 & 0xf0 | chip.sm_version & 0xf);
    let qmd = super::qmd::read(port, words, &text, code)?;
    let grid = Grid { va, qmd, setting };
    grid.check_local(port, chip, &text)?;
    if let Some((at, bytes)) = grid.qmd.prefetch {
        let mut piece = vec![0; bytes as usize];
        if let Err(fault) = port.bus.read(at, &mut piece) {
            port.broken(&PREFETCH, format!("{text}: {fault}"));
        }
    }
    Ok(grid)
}

impl Grid {
    fn check_local(&self, port: &Port, chip: &Chip, text: &str) -> Result {
        if self.qmd.local == 0 {
            return Ok(());
        }
        let warp = (self.qmd.local * 32).next_multiple_of(0x200);
        let need = warp * u64::from(chip.warps_per_sm) * u64::from(SMS_PER_TPC);
        let (base, size) = self.setting.local;
        let tpcs = u64::from(chip.tpcs.iter().sum::<u32>());
        let mut byte = [0];
        let ends = [base, base + size.max(1) * tpcs - 1];
        let fault = ends
            .into_iter()
            .find_map(|at| port.bus.read(at, &mut byte).err());
        let why = match fault {
            _ if size < need => format!("{size:#x} bytes a TPC, of {need:#x}"),
            _ if !size.is_multiple_of(0x8000) => format!("{size:#x} bytes a TPC"),
            Some(fault) => fault.to_string(),
            None => return Ok(()),
        };
        Err(port.dead(&LOCAL, xid::GR_EXCEPTION, format!("{text}: {why}")))
    }

    /// Runs it, or has it wait until it is counted down, and all that depends on it. What it touches itself is
    /// noted, if anybody wants to know; not what those do: they may have waited for others, too.
    pub fn run(
        self,
        port: &Port,
        chip: &Chip,
        caches: &mut Caches,
        waiting: &mut Waiting,
        mut touched: Option<&mut Touched>,
    ) -> Result<Vec<Notice>> {
        let (mut notices, mut seen) = (Vec::new(), Vec::new());
        let mut left = vec![self];
        while let Some(grid) = left.pop() {
            let touched = touched.take();
            if grid.qmd.counter > 0 {
                waiting.add(grid);
                continue;
            }
            if seen.contains(&grid.va) {
                let what = format!("QMD at {:#x} comes again after {seen:#x?}", grid.va);
                return Err(port.dead(&CYCLE, xid::GR_EXCEPTION, what));
            }
            seen.push(grid.va);
            if !grid.qmd.null {
                grid.blocks(port, chip, caches, touched)?;
            }
            for release in &grid.qmd.releases {
                notices.extend(release.run(port)?);
            }
            for &next in grid.qmd.next.iter().rev() {
                match next {
                    Next::Schedule(va) => left.push(read(port, chip, va, grid.setting)?),
                    Next::CountDown(va) => {
                        left.extend(waiting.less(port, grid.setting.space, va)?)
                    }
                }
            }
        }
        Ok(notices)
    }

    fn blocks(
        &self,
        port: &Port,
        chip: &Chip,
        caches: &mut Caches,
        touched: Option<&mut Touched>,
    ) -> Result {
        let (qmd, setting) = (&self.qmd, self.setting);
        let Some(sass) = sass(chip) else {
            let what = format!("QMD at {:#x}, on {}", self.va, chip.name);
            return Err(port.dead(&CHIP, xid::GR_EXCEPTION, what));
        };
        if qmd.invalidate_code {
            caches.invalidate_code();
        }
        if qmd.invalidate_constants {
            caches.invalidate_constants();
        }
        let code = caches.code(port, setting.space, qmd.program, sass)?;
        let mut banks = Vec::new();
        for bank in &qmd.banks {
            let (va, bytes) = (bank.va, bank.bytes);
            let held = caches.constants(port, setting.space, va, bytes, bank.invalidate)?;
            banks.push((bank.number, held));
        }
        let constants = banks.iter().fold(Constants::new(), |all, (number, bytes)| {
            all.with(*number, bytes)
        });
        let launch = Launch {
            program: &code.program,
            constants,
            threads: qmd.threads,
            registers: qmd.registers,
            barriers: qmd.barriers,
            shared: qmd.shared as usize,
            local: qmd.local as usize,
            windows: setting.windows,
            watch: true,
        };
        let mut memory = Global {
            bus: port.bus,
            windows: setting.windows,
            fault: None,
            touched,
        };
        // One for each SM.
        let resident = chip.tpcs.iter().sum::<u32>() * SMS_PER_TPC;
        let limit = port.machine.config.instructions;
        let done = warp::Grid::new(launch, qmd.grid, resident as usize).run(&mut memory, limit);
        done.map_err(|fault| self.fault(port, fault, memory.fault))?;
        Ok(())
    }

    /// What a fault of a block is for the kernel driver.
    fn fault(&self, port: &Port, fault: warp::Fault, access: Option<Fault>) -> Stop {
        let pc = self.qmd.program + fault.address;
        let what = format!("a kernel, at {pc:#x}: {fault}");
        let exception = |esr: u32, address: u64| {
            port.exception(&EXCEPTION, Exception { esr, pc, address }, &what)
        };
        match &fault.cause {
            Cause::Memory {
                space,
                address,
                why,
                ..
            } => match (space, why, access) {
                (_, Denied::Misaligned, _) => exception(esr::MISALIGNED, *address),
                (Space::Shared | Space::Local, ..) => exception(esr::OUT_OF_RANGE, *address),
                (.., Some(access)) => port.mmu(&what, access),
                (.., None) => exception(esr::ADDRESS_SPACE, *address),
            },
            Cause::Constant { address, .. } => exception(esr::CONSTANT, *address),
            Cause::Refused(_) => port.dead(&CHIP, xid::GR_EXCEPTION, what),
            Cause::Hazard(_) => port.dead(&HAZARD, xid::GR_EXCEPTION, what),
            Cause::Unfenced(_) => port.dead(&PROXY, xid::GR_EXCEPTION, what),
            Cause::Registers { .. } => exception(esr::REGISTER, 0),
            Cause::Outside(_) => exception(esr::PC, 0),
            Cause::Stuck(_) | Cause::Limit(_) => port.dead(&HANGS, xid::TIMEOUT, what),
            _ => exception(esr::NONE, 0),
        }
    }
}

/// What a warp's error register says, NV_PGRAPH_PRI_GPC0_TPC0_SM_HWW_WARP_ESR_ERROR.
///
/// Source: Linux, drivers/gpu/drm/nouveau/nvkm/engine/gr/gf100.c, gf100_mp_warp_error.
mod esr {
    pub const NONE: u32 = 0;
    pub const PC: u32 = 0x06;
    pub const CONSTANT: u32 = 0x0c;
    pub const REGISTER: u32 = 0x0d;
    pub const OUT_OF_RANGE: u32 = 0x0e;
    pub const MISALIGNED: u32 = 0x0f;
    pub const ADDRESS_SPACE: u32 = 0x10;
}

/// Global memory of a grid.
struct Global<'a> {
    bus: &'a dyn Bus,
    windows: Windows,
    /// The last access that the MMU had nothing for.
    fault: Option<Fault>,
    /// What it read and wrote, where that is noted. Atomic operations are noted as writes.
    touched: Option<&'a mut Touched>,
}

/// Bytes of each window.
const WINDOW: u64 = 1 << 24;

impl Global<'_> {
    fn done(&mut self, done: std::result::Result<(), Fault>) -> std::result::Result<(), Denied> {
        done.map_err(|fault| {
            // An address of a window is none of global memory.
            let inside = |base: u64| (base..base + WINDOW).contains(&fault.va);
            let own = inside(self.windows.shared) || inside(self.windows.local);
            self.fault = Some(fault).filter(|_| !own);
            match fault.why {
                crate::space::Fault::Unmapped => Denied::Unmapped,
                crate::space::Fault::Denied(_) => Denied::ReadOnly,
            }
        })
    }
}

impl warp::Memory for Global<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> std::result::Result<(), Denied> {
        if let Some(touched) = &mut self.touched {
            touched.read(address, bytes.len());
        }
        let done = self.bus.read(address, bytes);
        self.done(done)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> std::result::Result<(), Denied> {
        if let Some(touched) = &mut self.touched {
            touched.write(address, bytes.len());
        }
        let done = self.bus.write(address, bytes);
        self.done(done)
    }

    fn update(
        &mut self,
        address: u64,
        bytes: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> std::result::Result<(), Denied> {
        if let Some(touched) = &mut self.touched {
            touched.write(address, bytes.len());
        }
        let done = self.bus.update(address, bytes, change);
        self.done(done)
    }
}
