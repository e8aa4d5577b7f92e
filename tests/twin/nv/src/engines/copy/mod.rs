//! A copy engine.
//!
//! - `transfer`: what is moved; `remap`: what is made of it on the way.
//!
//! Source: open-gpu-doc, classes/dma-copy/{clc6b5,clc7b5,clc8b5,clc9b5,clcab5}.h; what the methods do:
//! open-gpu-kernel-modules 580.142, kernel-open/nvidia-uvm/uvm_{maxwell,pascal,volta,turing,ampere,hopper}_ce.c,
//! Mesa, src/nouveau/vulkan/nvk_cmd_copy.c.

mod remap;
mod transfer;

use drivers_spec::nv::chip;
use drivers_spec::nv::class;
use drivers_spec::nv::copy::{self as spec, launch_dma as bits, set_render_enable_c};
use drivers_spec::nv::push::semaphore;
use twin::rule::{Proof, Rule};

use super::Notice;
use super::error::{Result, Stop, xid};
use super::host::Method;
use super::port::Port;
use super::reduce::Reduction;
use super::registers::Registers;

use transfer::Transfer;

static METHOD: Rule = Rule {
    name: "COPY-METHOD",
    text: "a method of a copy engine exists in its class",
    source: "open-gpu-doc, classes/dma-copy/clc7b5.h; dev_pbdma.ref.txt, NV_PPBDMA_INTR_HCE_ILLEGAL_MTHD",
    proof: Proof::Sourced,
};

static BITS: Rule = Rule {
    name: "COPY-METHOD-BITS",
    text: "bits of a copy engine's method without a field are 0",
    source: "open-gpu-doc, classes/dma-copy/clc7b5.h",
    proof: Proof::Sourced,
};

static LAUNCH: Rule = Rule {
    name: "COPY-LAUNCH",
    text: "the fields of LAUNCH_DMA have valid values and semaphore operations",
    source: "open-gpu-doc, classes/dma-copy/clc7b5.h, LAUNCH_DMA; dev_pbdma.ref.txt, NV_PPBDMA_INTR_HCE_ILLEGAL_MTHD",
    proof: Proof::Sourced,
};

static PHYSICAL: Rule = Rule {
    name: "COPY-PHYSICAL",
    text: "a channel of a process copies by virtual addresses",
    source: "open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm_channel.h: only privileged channels access physical addresses",
    proof: Proof::Sourced,
};

static NOT_MODELLED: Rule = Rule {
    name: "COPY-NOT-MODELLED",
    text: "block-linear surfaces, conditional rendering, protected and encrypted memory are not modelled",
    source: "this twin: src/engines/copy/mod.rs",
    proof: Proof::Twin,
};

static SEMAPHORE: Rule = Rule {
    name: "COPY-SEMAPHORE",
    text: "the semaphore of a copy is at a multiple of its size: 4 or 8 bytes, 16 with a timestamp",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt says so of the host's semaphores",
    proof: Proof::Guess,
};

static FLUSH: Rule = Rule {
    name: "COPY-FLUSH",
    text: "a semaphore that signals copies has FLUSH_ENABLE, unless a flush followed the copies: otherwise the waiter \
           may not see the copied data",
    source: "open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm_maxwell_ce.c, uvm_hal_maxwell_ce_semaphore_release: a membar goes with it",
    proof: Proof::Sourced,
};

/// A copy engine, as a channel has it.
#[derive(Debug)]
pub(crate) struct Engine {
    registers: Registers,
    /// What a fault of it is called: copies of graphics channels are those of the first engine.
    xid: u32,
    /// Whether transfers were done that nothing has flushed.
    unflushed: bool,
    flight: transfer::Flight,
}

/// What LAUNCH_DMA starts.
#[derive(Debug)]
pub(crate) struct Job {
    text: String,
    transfer: Option<Transfer>,
    flush: bool,
    release: Option<Release>,
    interrupt: bool,
}

#[derive(Debug)]
struct Release {
    va: u64,
    payload: u64,
    bytes: usize,
    timed: bool,
    change: Option<(Reduction, bool)>,
}

impl Engine {
    /// The engine of a channel of `engine`, by RM's numbers.
    pub fn new(engine: u32) -> Self {
        let copy = engine.saturating_sub(class::engine::COPY0).min(2);
        Self {
            registers: Registers::new(spec::METHODS),
            xid: xid::COPY + copy,
            unflushed: false,
            flight: transfer::Flight::default(),
        }
    }

    /// Takes a method; LAUNCH_DMA makes work of what was set before.
    pub fn method(&mut self, port: &Port, method: Method) -> Result<Option<Job>> {
        let Some(named) = chip::method(spec::METHODS, port.arch, method.dword) else {
            let what = format!("{:#x} with {:#x}", method.dword * 4, method.value);
            return Err(port.dead(&METHOD, xid::PBDMA, what));
        };
        port.reserved(&BITS, named, method.value);
        self.registers.set(method.dword, method.value);
        match method.dword == spec::LAUNCH_DMA.dword() {
            true => self.launch(port, method.value).map(Some),
            false => Ok(None),
        }
    }

    fn launch(&self, port: &Port, value: u32) -> Result<Job> {
        let text = format!("LAUNCH_DMA {value:#x}");
        let bad = |rule, why: &str| -> Stop { port.dead(rule, self.xid, format!("{text}: {why}")) };
        let kind = bits::DATA_TRANSFER_TYPE.get(value);
        let moves = match kind {
            bits::DATA_TRANSFER_TYPE_NONE => false,
            bits::DATA_TRANSFER_TYPE_PIPELINED | bits::DATA_TRANSFER_TYPE_NON_PIPELINED => true,
            _ => return Err(bad(&LAUNCH, "no such DATA_TRANSFER_TYPE")),
        };
        if bits::INTERRUPT_TYPE.get(value) == 3 {
            return Err(bad(&LAUNCH, "no such INTERRUPT_TYPE"));
        }
        let set =
            |field: hcq::reg::Field<chip::Archs>| field.on.has(port.arch) && field.get(value) != 0;
        let secure = [bits::VPRMODE_TO_AD10X, bits::COPY_TYPE, bits::VPRMODE];
        if secure.into_iter().any(set) || set(bits::MEMORY_SCRUB_ENABLE) {
            return Err(bad(&NOT_MODELLED, "protected memory"));
        }
        let transfer = match moves {
            true => {
                if set(bits::SRC_TYPE) || set(bits::DST_TYPE) {
                    return Err(bad(&PHYSICAL, "a physical address"));
                }
                let r = &self.registers;
                let render = r.field(&spec::SET_RENDER_ENABLE_C, set_render_enable_c::MODE);
                // 0 is also what was never set.
                if render > set_render_enable_c::MODE_TRUE {
                    return Err(bad(&NOT_MODELLED, "conditional rendering"));
                }
                let layouts = [bits::SRC_MEMORY_LAYOUT, bits::DST_MEMORY_LAYOUT];
                let remaps = set(bits::REMAP_ENABLE);
                let transfer = Transfer::new(port, r, value);
                let pitch = |field| set(field);
                let flat = match remaps && !transfer.reads() {
                    // Where nothing is read, it does not matter how the source lies.
                    true => pitch(layouts[1]),
                    false => layouts.into_iter().all(pitch),
                };
                if !flat {
                    return Err(bad(&NOT_MODELLED, "a block-linear surface"));
                }
                Some(transfer)
            }
            false => None,
        };
        Ok(Job {
            transfer,
            flush: set(bits::FLUSH_ENABLE),
            release: self.release(port, value, &text)?,
            interrupt: bits::INTERRUPT_TYPE.get(value) != bits::INTERRUPT_TYPE_NONE,
            text,
        })
    }

    fn release(&self, port: &Port, value: u32, text: &str) -> Result<Option<Release>> {
        let kind = bits::SEMAPHORE_TYPE.get(value);
        let timed = match kind {
            bits::SEMAPHORE_TYPE_NONE => return Ok(None),
            bits::SEMAPHORE_TYPE_RELEASE_ONE_WORD_SEMAPHORE => false,
            bits::SEMAPHORE_TYPE_RELEASE_FOUR_WORD_SEMAPHORE => true,
            _ => {
                let what = format!("{text}: a semaphore that interrupts on a condition");
                return Err(port.dead(&NOT_MODELLED, self.xid, what));
            }
        };
        let r = &self.registers;
        let size = bits::SEMAPHORE_PAYLOAD_SIZE;
        let wide = size.on.has(port.arch) && size.get(value) != 0;
        let upper = match wide {
            true => r.get(&spec::SET_SEMAPHORE_PAYLOAD_UPPER),
            false => 0,
        };
        let payload = u64::from(upper) << 32 | u64::from(r.get(&spec::SET_SEMAPHORE_PAYLOAD));
        let mask = spec::SET_SEMAPHORE_A.mask(port.arch);
        let va = r.long(&spec::SET_SEMAPHORE_A, &spec::SET_SEMAPHORE_B, mask);
        let bytes = if wide { 8 } else { 4 };
        let align = if timed { semaphore::BYTES } else { bytes };
        if !va.is_multiple_of(align) {
            port.broken(&SEMAPHORE, format!("{text}: semaphore at {va:#x}"));
        }
        let change = match bits::SEMAPHORE_REDUCTION_ENABLE.get(value) {
            0 => None,
            _ => {
                let signed = bits::SEMAPHORE_REDUCTION_SIGN.get(value)
                    == bits::SEMAPHORE_REDUCTION_SIGN_SIGNED;
                let operation = bits::SEMAPHORE_REDUCTION.get(value);
                match Reduction::of_host(operation) {
                    Some(operation) => Some((operation, signed)),
                    None => {
                        let what = format!("{text}: reduction {operation}");
                        return Err(port.dead(&LAUNCH, self.xid, what));
                    }
                }
            }
        };
        Ok(Some(Release {
            va,
            payload,
            bytes: bytes as usize,
            timed,
            change,
        }))
    }

    /// Does work; what it tells the kernel.
    pub fn run(&mut self, port: &Port, job: &Job) -> Result<Option<Notice>> {
        if let Some(transfer) = &job.transfer {
            self.flight.enter(port, transfer, &job.text);
            transfer.run(port, &job.text)?;
            self.unflushed = true;
        }
        if job.flush {
            self.unflushed = false;
            self.flight.land();
        }
        if let Some(release) = &job.release {
            if self.unflushed {
                let what = format!("{}: semaphore at {:#x}", job.text, release.va);
                port.broken(&FLUSH, what);
            }
            release.run(port)?;
        }
        Ok(job.interrupt.then_some(Notice::Copy))
    }
}

impl Release {
    fn run(&self, port: &Port) -> Result {
        let doing = "a semaphore of a copy engine";
        if self.timed {
            let time = port.machine.clock().to_le_bytes();
            port.write(doing, self.va + semaphore::TIMESTAMP, &time)?;
        }
        match self.change {
            Some((operation, signed)) => {
                let held = &mut [0; 8][..self.bytes];
                let change = &mut |bytes: &mut [u8]| operation.change(signed, self.payload, bytes);
                let done = port.bus.update(self.va, held, change);
                done.map_err(|fault| port.mmu(doing, fault))
            }
            None => {
                let bytes = if self.timed { 8 } else { self.bytes };
                port.write(doing, self.va, &self.payload.to_le_bytes()[..bytes])
            }
        }
    }
}
