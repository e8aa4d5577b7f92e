//! The processors GSP and SEC2: a falcon, and beside it a RISC-V core. Their registers, resets, transfers into their memory,
//! and when they may be started. What they run is of `brom`.
//!
//! Source: OGKM, ampere/ga102/dev_falcon_v4.h and dev_riscv_pri.h for registers; kernel_falcon_{tu102,ga102}.c and
//! kernel_gsp_falcon_ga102.c for orders.

use std::fmt;

use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::chip::FALCON_MEMORY;
use super::flush;
use super::ports::{self, Blocks, Ports};
use super::registers::falcon as reg;
use super::state::State;
use super::wait::{Looks, Wait};

static RESET: Rule = Rule {
    name: "NV-FALCON-RESET",
    text: "while ENGINE.RESET is 1, only ENGINE is accessed; it is set and then cleared",
    source: "OGKM, kernel_gsp_tu102.c, kgspResetHw_TU102: RESET_TRUE, a delay, RESET_FALSE",
    proof: Proof::Sourced,
};

static SCRUB: Rule = Rule {
    name: "NV-FALCON-SCRUB",
    text: "after a reset, memory is filled and cores are selected and started when HWCFG2.MEM_SCRUBBING is DONE",
    source: "OGKM, kernel_falcon_ga102.c, kflcnWaitForResetToFinish_GA102",
    proof: Proof::Sourced,
};

static FULL: Rule = Rule {
    name: "NV-FALCON-DMA-FULL",
    text: "registers of transfers are written while DMATRFCMD.FULL is FALSE",
    source: "OGKM, kernel_gsp_falcon_ga102.c, s_dmaTransfer_GA102: writing control registers when full will corrupt DMA transfer",
    proof: Proof::Sourced,
};

static IDLE: Rule = Rule {
    name: "NV-FALCON-DMA-IDLE",
    text: "a core is started when DMATRFCMD.IDLE is TRUE",
    source: "OGKM, kernel_gsp_falcon_ga102.c, s_dmaTransfer_GA102: operations should wait for DMA to complete",
    proof: Proof::Sourced,
};

static CONTEXT: Rule = Rule {
    name: "NV-FALCON-DMA-CONTEXT",
    text: "transfers by physical addresses need FBIF_CTL.ALLOW_PHYS_NO_CTX, DMACTL.REQUIRE_CTX 0, and TRANSCFG of the \
           context with MEM_TYPE PHYSICAL and TARGET COHERENT_SYSMEM, for memory of the host",
    source: "OGKM, kernel_falcon_tu102.c, kflcnDisableCtxReq_TU102; kernel_gsp_falcon_ga102.c, kgspExecuteHsFalcon_GA102",
    proof: Proof::Sourced,
};

static COMMAND: Rule = Rule {
    name: "NV-FALCON-DMA-COMMAND",
    text: "a transfer has 256 bytes, from memory to the falcon, with offsets that are multiples of 256 and inside of IMEM or DMEM",
    source: "OGKM, ampere/ga102/dev_falcon_v4.h: DMATRFCMD; kernel_gsp_falcon_ga102.c: FLCN_BLK_ALIGNMENT",
    proof: Proof::Sourced,
};

static CORE: Rule = Rule {
    name: "NV-FALCON-CORE",
    text: "the falcon core is started while BCR_CTRL has CORE_SELECT FALCON, and VALID says that it has switched",
    source: "OGKM, kernel_falcon_ga102.c, kflcnSwitchToFalcon_GA102",
    proof: Proof::Sourced,
};

static START: Rule = Rule {
    name: "NV-FALCON-START",
    text: "a core that is halted is started, by CPUCTL_ALIAS where CPUCTL.ALIAS_EN is 1, else by CPUCTL",
    source: "OGKM, kernel_falcon_tu102.c, kflcnStartCpu_TU102",
    proof: Proof::Sourced,
};

/// The interrupt of messages, in all registers of interrupts.
const SWGEN0: u32 = 1 << 6;

/// Which processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    Gsp,
    Sec2,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Gsp => "GSP",
            Engine::Sec2 => "SEC2",
        })
    }
}

/// A processor.
pub(super) struct Falcon {
    engine: Engine,
    pub(super) imem: Blocks,
    pub(super) dmem: Vec<u8>,
    ports: Ports,
    pub(super) mailbox: [u32; 2],
    /// `NV_PFALCON_FALCON_OS`.
    pub(super) os: u32,
    rm: u32,
    itfen: u32,
    debug: u32,
    scratch: [u32; 16],
    pub(super) bootvec: u32,
    dmactl: u32,
    /// `DMATRFBASE`, `DMATRFBASE1`, `DMATRFMOFFS`, `DMATRFFBOFFS`.
    transfer: [u32; 4],
    command: u32,
    transcfg: [u32; 8],
    fbif_ctl: u32,
    /// `MOD_SEL`, `BROM_CURR_UCODE_ID`, `BROM_ENGIDMASK`, `BROM_PARAADDR(0)`.
    pub(super) brom: [u32; 4],
    irqstat: u32,
    irqmask: u32,
    irqdest: [u32; 2],
    /// `CORE_SELECT` and `BRFETCH` of `BCR_CTRL`.
    bcr: u32,
    /// `ALIAS_EN`.
    pub(super) alias: bool,
    in_reset: bool,
    ready: Looks,
    scrub: Looks,
    dma: Looks,
    halt: Looks,
    switched: Looks,
    /// Since when the RISC-V core runs; none where it does not.
    pub(super) riscv: Option<Looks>,
}

impl Falcon {
    /// As its own firmware has left it: halted.
    pub(super) fn new(engine: Engine) -> Falcon {
        Falcon {
            engine,
            imem: Blocks::new(FALCON_MEMORY),
            dmem: vec![0; FALCON_MEMORY],
            ports: Ports::default(),
            mailbox: [0; 2],
            os: 0,
            rm: 0,
            itfen: 0,
            debug: 0,
            scratch: [0; 16],
            bootvec: 0,
            dmactl: 1,
            transfer: [0; 4],
            command: 0,
            transcfg: [0; 8],
            fbif_ctl: 0,
            brom: [0; 4],
            irqstat: 0,
            irqmask: 0,
            irqdest: [0; 2],
            bcr: 0,
            alias: false,
            in_reset: false,
            ready: Looks::default(),
            scrub: Looks::default(),
            dma: Looks::default(),
            halt: Looks::default(),
            switched: Looks::default(),
            riscv: None,
        }
    }

    /// With firmware on its RISC-V core.
    pub(super) fn running(engine: Engine) -> Falcon {
        Falcon {
            bcr: 0x110,
            riscv: Some(Looks::default()),
            ..Falcon::new(engine)
        }
    }

    /// Whether the RISC-V core is there to run, now or in a moment.
    pub(super) fn has_core(&self) -> bool {
        self.riscv.is_some_and(|looks| !looks.is_never())
    }

    /// Whether the RISC-V core is selected, with a boot ROM that fetches.
    pub(super) fn is_riscv_selected(&self) -> bool {
        self.bcr & 0x110 == 0x110
    }

    /// Interrupt `SWGEN0`: there is a message.
    pub(super) fn swgen0(&mut self) {
        self.irqstat |= SWGEN0;
    }

    /// What runs on the RISC-V core lets messages interrupt the host.
    pub(super) fn allows_messages(&mut self) {
        self.irqmask |= SWGEN0;
        self.irqdest[1] |= SWGEN0;
    }

    /// Whether an interrupt is pending that the host is to get.
    pub(super) fn interrupts(&self) -> bool {
        self.irqstat & self.irqmask & self.irqdest[1] != 0
    }

    fn is_scrubbed(&self, what: &str) -> Result<(), Broken> {
        match self.scrub.is_done() {
            true => Ok(()),
            false => Err((&SCRUB, format!("{what} of {} while it scrubs", self.engine))),
        }
    }

    fn may_transfer(&self, what: &str) -> Result<(), Broken> {
        self.is_scrubbed(what)?;
        match self.dma.is_done() {
            true => Ok(()),
            false => Err((&FULL, format!("{what} of {} while it is full", self.engine))),
        }
    }

    /// The word of `CPUCTL` as the host sees it.
    fn cpuctl(&mut self) -> u32 {
        u32::from(self.halt.look()) << 4 | u32::from(self.alias) << 6
    }

    /// Where a transfer comes from, and goes to.
    fn transferred(&self) -> Result<(u64, usize), Broken> {
        let [base, base_1, to, from] = self.transfer;
        let wrong = |what: String| Err::<(u64, usize), Broken>((&COMMAND, what));
        let (command, engine) = (self.command, self.engine);
        if command >> 8 & 7 != 6 || command >> 5 & 1 != 0 {
            return wrong(format!("command {command:#x} of {engine}"));
        }
        if to % 256 != 0 || from % 256 != 0 || to as usize + 256 > FALCON_MEMORY {
            return wrong(format!("from {from:#x} to {to:#x} of {engine}"));
        }
        let config = self.transcfg[(command >> 12 & 7) as usize];
        let allowed = self.fbif_ctl >> 7 & 1 != 0 && self.dmactl & 1 == 0;
        if !allowed || config & 7 != 0b101 {
            let what = format!(
                "FBIF_CTL {:#x}, DMACTL {:#x}, TRANSCFG {config:#x} of {engine}",
                self.fbif_ctl, self.dmactl
            );
            return Err((&CONTEXT, what));
        }
        let base = u64::from(base) | u64::from(base_1 & 0x1ff) << 32;
        Ok(((base << 8).wrapping_add(from.into()), to as usize))
    }
}

/// Status and control of the interrupts of a processor.
const INTERRUPTS: [u32; 10] = [
    reg::IRQSCLR,
    reg::IRQSTAT,
    reg::IRQMSET,
    reg::IRQMCLR,
    reg::IRQMASK,
    reg::IRQDEST,
    reg::RETRIGGER,
    reg::RETRIGGER + 4,
    reg::RISCV_IRQMASK,
    reg::RISCV_IRQDEST,
];

/// The host accesses a register of a processor: GSP's may be locked.
fn is_open(state: &State, engine: Engine, verb: &str, offset: u32) -> Result<(), Broken> {
    match engine == Engine::Gsp && INTERRUPTS.contains(&offset) {
        true => super::gsp::is_open(state, &format!("{verb} {offset:#x}")),
        false => Ok(()),
    }
}

/// Reads a register of a processor.
pub(super) fn read(state: &mut State, engine: Engine, offset: u32) -> Result<u32, Broken> {
    is_open(state, engine, "read of", offset)?;
    let falcon = state.falcon(engine);
    if falcon.in_reset && offset != reg::ENGINE {
        return Err((&RESET, format!("read of {offset:#x} of {engine}")));
    }
    let [mod_sel, ucode_id, engines, parameters] = falcon.brom;
    Ok(match offset {
        reg::IRQSTAT => falcon.irqstat,
        reg::IRQMASK | reg::RISCV_IRQMASK => falcon.irqmask,
        reg::IRQDEST => falcon.irqdest[0],
        reg::RISCV_IRQDEST => falcon.irqdest[1],
        reg::MAILBOX0 => falcon.mailbox[0],
        reg::MAILBOX1 => falcon.mailbox[1],
        reg::OS => falcon.os,
        reg::RM => falcon.rm,
        reg::ITFEN => falcon.itfen,
        reg::DEBUGINFO => falcon.debug,
        // RISCV, MEM_SCRUBBING, RESET_READY.
        reg::HWCFG2 => {
            1 << 10 | u32::from(!falcon.scrub.look()) << 12 | u32::from(falcon.ready.look()) << 31
        }
        reg::CPUCTL => falcon.cpuctl(),
        reg::BOOTVEC => falcon.bootvec,
        reg::HWCFG => (FALCON_MEMORY / 256) as u32 | ((FALCON_MEMORY / 256) as u32) << 9,
        reg::HWCFG1 => 6 | 3 << 4,
        reg::DMACTL => falcon.dmactl,
        reg::DMATRFBASE => falcon.transfer[0],
        reg::DMATRFBASE1 => falcon.transfer[1],
        reg::DMATRFMOFFS => falcon.transfer[2],
        reg::DMATRFFBOFFS => falcon.transfer[3],
        reg::DMATRFCMD => match falcon.dma.look() {
            true => falcon.command & !3 | 2,
            false => falcon.command & !3 | 1,
        },
        reg::SCRATCH..reg::SCRATCH_END if offset.is_multiple_of(4) => {
            falcon.scratch[((offset - reg::SCRATCH) / 4) as usize]
        }
        reg::ENGINE => u32::from(falcon.in_reset),
        _ if index(offset, reg::TRANSCFG, 8).is_some() => {
            falcon.transcfg[index(offset, reg::TRANSCFG, 8).unwrap_or(0)]
        }
        reg::FBIF_CTL => falcon.fbif_ctl,
        reg::MOD_SEL => mod_sel,
        reg::UCODE_ID => ucode_id,
        reg::ENGIDMASK => engines,
        reg::PARAADDR => parameters,
        reg::RISCV_CPUCTL => {
            let active = falcon.riscv.as_mut().is_some_and(Looks::look);
            u32::from(falcon.riscv.is_none()) << 4 | u32::from(active) << 7
        }
        reg::BCR_CTRL => falcon.bcr | u32::from(falcon.switched.look()),
        _ if ports::is_one(offset) => {
            falcon.is_scrubbed("a port")?;
            falcon.ports.read(&falcon.imem, &falcon.dmem, offset)?
        }
        _ => return Err(State::unknown(engine, "read of", offset)),
    })
}

/// Which of a row of words a register is.
fn index(offset: u32, first: u32, words: u32) -> Option<usize> {
    let at = offset.checked_sub(first)?;
    (at.is_multiple_of(4) && at / 4 < words).then_some((at / 4) as usize)
}

/// Writes a register of a processor.
pub(super) fn write(
    state: &mut State,
    engine: Engine,
    offset: u32,
    value: u32,
) -> Result<(), Broken> {
    if offset == reg::ENGINE {
        return engine_reset(state, engine, value);
    }
    is_open(state, engine, "write to", offset)?;
    let falcon = state.falcon(engine);
    if falcon.in_reset {
        return Err((&RESET, format!("write to {offset:#x} of {engine}")));
    }
    match offset {
        reg::IRQSCLR => falcon.irqstat &= !value,
        reg::IRQMSET => falcon.irqmask |= value,
        reg::IRQMCLR => falcon.irqmask &= !value,
        reg::IRQDEST => falcon.irqdest[0] = value,
        reg::RISCV_IRQDEST => falcon.irqdest[1] = value,
        // A pending interrupt counts as if it had come now: Linux, nvkm/falcon/ga100.c, ga100_flcn_intr_retrigger.
        _ if index(offset, reg::RETRIGGER, 2).is_some() => {
            if engine == Engine::Gsp {
                super::gsp::interrupt(state);
            }
        }
        reg::MAILBOX0 => falcon.mailbox[0] = value,
        reg::MAILBOX1 => falcon.mailbox[1] = value,
        reg::OS => falcon.os = value,
        reg::RM => falcon.rm = value,
        reg::ITFEN => falcon.itfen = value & 3,
        reg::DEBUGINFO => falcon.debug = value,
        reg::BOOTVEC => falcon.bootvec = value,
        reg::DMACTL => falcon.dmactl = value & 1,
        reg::SCRATCH..reg::SCRATCH_END if offset.is_multiple_of(4) => {
            falcon.scratch[((offset - reg::SCRATCH) / 4) as usize] = value;
        }
        _ if index(offset, reg::TRANSCFG, 8).is_some() => {
            falcon.transcfg[index(offset, reg::TRANSCFG, 8).unwrap_or(0)] = value & 7;
        }
        reg::FBIF_CTL => falcon.fbif_ctl = value & 1 << 7,
        reg::MOD_SEL => falcon.brom[0] = value & 0xff,
        reg::UCODE_ID => falcon.brom[1] = value & 0xff,
        reg::ENGIDMASK => falcon.brom[2] = value,
        reg::PARAADDR => falcon.brom[3] = value,
        reg::BCR_CTRL => {
            falcon.is_scrubbed("BCR_CTRL")?;
            falcon.bcr = value & 0x110;
            let switched = state.waits(Wait::Core);
            state.falcon(engine).switched = switched;
        }
        reg::DMATRFBASE | reg::DMATRFBASE1 | reg::DMATRFMOFFS | reg::DMATRFFBOFFS => {
            falcon.may_transfer("a register of transfers")?;
            let register = match offset {
                reg::DMATRFBASE => 0,
                reg::DMATRFBASE1 => 1,
                reg::DMATRFMOFFS => 2,
                _ => 3,
            };
            falcon.transfer[register] = value;
        }
        reg::DMATRFCMD => return transfer(state, engine, value),
        reg::CPUCTL | reg::CPUCTL_ALIAS => return start(state, engine, offset, value),
        _ if index(offset, reg::QUEUE_HEAD, 2 * reg::QUEUE_HEADS).is_some_and(|at| at % 2 == 0)
            && engine == Engine::Gsp =>
        {
            super::gsp::rung(state, (offset - reg::QUEUE_HEAD) / 8);
        }
        _ if ports::is_one(offset) => {
            falcon.is_scrubbed("a port")?;
            let (ports, imem, dmem) = (&mut falcon.ports, &mut falcon.imem, &mut falcon.dmem);
            ports.write(imem, dmem, offset, value)?;
        }
        _ => return Err(State::unknown(engine, "write to", offset)),
    }
    Ok(())
}

/// `ENGINE`: a reset begins, or ends.
fn engine_reset(state: &mut State, engine: Engine, value: u32) -> Result<(), Broken> {
    let wants = value & 1 != 0;
    if wants {
        flush::check(state, &format!("a reset of {engine}"))?;
    }
    let (ready, scrub) = match wants {
        true => (Looks::default(), Looks::default()),
        false => (state.waits(Wait::ResetReady), state.waits(Wait::Scrub)),
    };
    let falcon = state.falcon(engine);
    if wants {
        // GSP's firmware ends with its processor.
        falcon.in_reset = true;
        if engine == Engine::Gsp {
            super::gsp::processor_reset(state);
        }
    } else if falcon.in_reset {
        // What the host finds there afterwards has no meaning: all is as if power had come.
        *falcon = Falcon {
            ready,
            scrub,
            ..Falcon::new(engine)
        };
    }
    Ok(())
}

/// `DMATRFCMD`: 256 bytes of host memory go to IMEM or DMEM.
fn transfer(state: &mut State, engine: Engine, value: u32) -> Result<(), Broken> {
    let busy = state.waits(Wait::Dma);
    let host = state.host();
    let falcon = state.falcon(engine);
    falcon.may_transfer("DMATRFCMD")?;
    falcon.command = value & 0x1_773c;
    let (from, to) = falcon.transferred()?;
    let mut block = [0; 256];
    if !host.read(from, &mut block, &format!("a transfer of {engine}")) {
        return Ok(());
    }
    match value >> 4 & 1 {
        // The tag is the virtual address of the block: kernel_gsp_falcon_ga102.c hands it over as the offset.
        1 => {
            let is_secure = value >> 2 & 3 != 0;
            falcon
                .imem
                .load(to, &block, falcon.transfer[3] >> 8, is_secure);
        }
        _ => falcon.dmem[to..to + 256].copy_from_slice(&block),
    }
    falcon.dma = busy;
    Ok(())
}

/// `CPUCTL`, or `CPUCTL_ALIAS`: the falcon core runs.
fn start(state: &mut State, engine: Engine, offset: u32, value: u32) -> Result<(), Broken> {
    if value >> 1 & 1 == 0 {
        return Ok(());
    }
    let halt = state.waits(Wait::Halt);
    let falcon = state.falcon(engine);
    falcon.is_scrubbed("CPUCTL")?;
    if !falcon.dma.is_done() {
        return Err((&IDLE, format!("{engine} is started during a transfer")));
    }
    if falcon.bcr >> 4 & 1 != 0 || !falcon.switched.is_done() {
        let what = format!("{engine} is started with BCR_CTRL {:#x}", falcon.bcr);
        return Err((&CORE, what));
    }
    let is_alias = offset == reg::CPUCTL_ALIAS;
    if is_alias != falcon.alias || !falcon.halt.is_done() {
        let what = match falcon.halt.is_done() {
            true => format!("{engine}: register {offset:#x}, ALIAS_EN {}", falcon.alias),
            false => format!("{engine} is started while it runs"),
        };
        return Err((&START, what));
    }
    falcon.halt = halt;
    state.starts(engine)
}
