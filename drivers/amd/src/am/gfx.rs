//! [`Gfx`]: the graphics block as far as compute needs it: the run list controller, the command processor for
//! compute (MEC), address apertures, and clock gating.
//!
//! Its firmware has been loaded by the PSP; the memory hub of the block is on.
//!
//! Source: Linux, amdgpu/gfx_v11_0.c, gfx_v12_0.c and gfx_v9_4_3.c: `hw_init`, `cp_resume`, `constants_init`, and
//! `update_gfx_clock_gating`.

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::amd::mmio::{Reg, gc};
use drivers_spec::amd::packet::Gfx as Generation;
use hcq::reg::error::RegError;
use hcq::wait::Deadline;

use super::card::Card;
use super::error::Cause;
use super::firmware::Entries;
use super::hqd::{self, Leave};
use super::xcc::{Bank, Xcc};

/// Timeout for the PSP to load firmware into the block.
const AUTOLOAD: Duration = Duration::from_secs(10);

/// How long the MEC takes until it looks at queues.
const MEC_STARTS: Duration = Duration::from_millis(50);

/// How long the parts of the command processor are held in reset.
const SOFT_RESET: Duration = Duration::from_millis(50);

/// How long the run list controller may take to be safe.
const SAFE_MODE: Duration = Duration::from_secs(1);

/// A bit without a name that the vendor's driver sets in `TCP_CNTL`.
const TCP_CNTL: u32 = 0x2000_0000;

/// `GB_ADDR_CONFIG` of GC 9.4.3. Source: gfx_v9_4_3.c, `GOLDEN_GB_ADDR_CONFIG`.
const GB_ADDR_CONFIG: u32 = 0x2a11_4042;

/// Address spaces of the hardware.
const VMIDS: u32 = 16;

/// Bits 63:48 of what generic addresses of kernels mean. Source: Linux, amdkfd/kfd_flat_memory.c,
/// `MAKE_LDS_APP_BASE_V9` and `MAKE_SCRATCH_APP_BASE_V9`.
pub(super) const LOCAL_APERTURE: u32 = 1;
/// The same for scratch memory.
pub(super) const SCRATCH_APERTURE: u32 = 2;

/// `SH_MEM_CONFIG.alignment_mode`: any. Source: `SH_MEM_ALIGNMENT_MODE_UNALIGNED`.
const UNALIGNED: u32 = 3;

/// Bytes of doorbells of an XCC, as `CP_MEC_DOORBELL_RANGE` has them, and where its last one is.
const DOORBELLS: u32 = 0x100;
const LAST_DOORBELL: u32 = 0xf8;

/// Waits until all firmware of the block is loaded.
///
/// # Errors
/// [`Cause::Register`].
pub(super) fn wait_autoload(card: &Card) -> Result<(), Cause> {
    let deadline = Deadline::on(&**card.clock(), AUTOLOAD);
    for block in &card.blocks().gc {
        let gc = card.registers(block);
        if card.gfx() != Generation::Gfx9 {
            let what = "the RLC to load the GFX firmware";
            let status = &gc::RLC_RLCS_BOOTLOAD_STATUS;
            gc.poll(status, &**card.clock(), deadline, what, |value| {
                value.bits() >> 31 == 1
            })?;
        }
        let what = "the command processor to go idle";
        gc.poll(&gc::CP_STAT, &**card.clock(), deadline, what, |value| {
            value.bits() == 0
        })?;
    }
    Ok(())
}

/// The graphics blocks of a card.
pub(super) struct Gfx {
    xccs: Vec<Xcc>,
    entries: Entries,
}

impl Gfx {
    /// Those of a card, not touched yet.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn new(card: &Arc<Card>, entries: Entries) -> Result<Gfx, Cause> {
        let xccs = Xcc::all(card)?;
        Ok(Gfx { xccs, entries })
    }

    /// The blocks.
    pub(super) fn xccs(&self) -> &[Xcc] {
        &self.xccs
    }

    /// Starts them, after [`wait_autoload`].
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn start(&self) -> Result<(), Cause> {
        for xcc in &self.xccs {
            self.aim(xcc)?;
            run_lists(xcc)?;
            memory(xcc)?;
            doorbells(xcc)?;
            run(xcc)?;
        }
        self.settle(MEC_STARTS)?;
        Ok(())
    }

    /// Starts the MEC again, with no queue in any slot: for a card that an earlier process has started, and for one
    /// that hangs.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn restart(&self) -> Result<(), Cause> {
        let left = self.stop();
        for xcc in &self.xccs {
            let gc = xcc.registers();
            if xcc.card().gfx() != Generation::Gfx12 {
                let both = [("soft_reset_cp", 1), ("soft_reset_cpc", 1)];
                gc.put(&gc::GRBM_SOFT_RESET, &both)?;
            }
        }
        if self.generation() != Some(Generation::Gfx12) {
            self.settle(SOFT_RESET)?;
        }
        for xcc in &self.xccs {
            let gc = xcc.registers();
            if xcc.card().gfx() != Generation::Gfx12 {
                gc.put(&gc::GRBM_SOFT_RESET, &[])?;
            }
            self.aim(xcc)?;
            run(xcc)?;
        }
        self.settle(MEC_STARTS)?;
        if let Err(error) = left {
            // The reset removes it; a queue that is still active fails here.
            tracing::debug!(%error, "queue did not drain: resetting it");
            self.stop()?;
        }
        Ok(())
    }

    /// Takes every queue out of its slot.
    ///
    /// # Errors
    /// [`Cause::Register`]: of the last that did not leave.
    pub(super) fn stop(&self) -> Result<(), Cause> {
        let mut done = Ok(());
        for xcc in &self.xccs {
            for queue in 0..hqd::queues(xcc.card().gfx()) {
                let left = hqd::unload(xcc, queue, Leave::Reset).map(|_| ());
                // Each of its slots would be waited for.
                if left.is_err() && xcc.card().has_left() {
                    return left;
                }
                done = left.and(done);
            }
        }
        done
    }

    /// Has the pipe of queues interrupt where a packet asks for it.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn interrupt_at_ends(&self) -> Result<(), Cause> {
        self.xccs.iter().try_for_each(|xcc| {
            let ends = [("time_stamp_int_enable", 1)];
            xcc.registers().set(&gc::CP_ME1_PIPE0_INT_CNTL, &ends)?;
            Ok(())
        })
    }

    /// Lets clocks rest where nothing runs.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn gate_clocks(&self) -> Result<(), Cause> {
        self.xccs.iter().try_for_each(gate_clocks)
    }

    fn generation(&self) -> Option<Generation> {
        self.xccs.first().map(|xcc| xcc.card().gfx())
    }

    fn settle(&self, time: Duration) -> Result<(), Cause> {
        match self.xccs.first() {
            Some(xcc) => xcc.card().rest(time),
            None => Ok(()),
        }
    }

    /// Puts the program counters of the command processors to where their firmware starts, and resets them.
    fn aim(&self, xcc: &Xcc) -> Result<(), Cause> {
        let gc = xcc.registers();
        let gfx = xcc.card().gfx();
        if gfx == Generation::Gfx9 {
            let all = [
                ("mec_invalidate_icache", 1),
                ("mec_me1_pipe0_reset", 1),
                ("mec_me2_pipe0_reset", 1),
                ("mec_me1_halt", 1),
                ("mec_me2_halt", 1),
            ];
            gc.set(&gc::CP_MEC_CNTL, &all)?;
            return Ok(());
        }
        let bank = |me| Bank {
            me,
            ..Bank::default()
        };
        // The prefetcher and the micro engine of GFX11 have firmware, but are not started.
        if gfx == Generation::Gfx12 {
            let (low, high) = (
                &gc::CP_PFP_PRGRM_CNTR_START,
                &gc::CP_PFP_PRGRM_CNTR_START_HI,
            );
            count_from(xcc, bank(0), [low, high], self.entries.pfp)?;
            gc.set(&gc::CP_ME_CNTL, &[("pfp_pipe0_reset", 1)])?;
            gc.set(&gc::CP_ME_CNTL, &[("pfp_pipe0_reset", 0)])?;
            let (low, high) = (&gc::CP_ME_PRGRM_CNTR_START, &gc::CP_ME_PRGRM_CNTR_START_HI);
            count_from(xcc, bank(0), [low, high], self.entries.me)?;
            gc.set(&gc::CP_ME_CNTL, &[("me_pipe0_reset", 1)])?;
            gc.set(&gc::CP_ME_CNTL, &[("me_pipe0_reset", 0)])?;
        }
        let (low, high) = (
            &gc::CP_MEC_RS64_PRGRM_CNTR_START,
            &gc::CP_MEC_RS64_PRGRM_CNTR_START_HI,
        );
        count_from(xcc, bank(1), [low, high], self.entries.mec)?;
        gc.set(&gc::CP_MEC_RS64_CNTL, &[("mec_pipe0_reset", 1)])?;
        gc.set(&gc::CP_MEC_RS64_CNTL, &[("mec_pipe0_reset", 0)])?;
        Ok(())
    }
}

/// A program counter, which counts instructions of 4 bytes.
fn count_from(xcc: &Xcc, bank: Bank, [low, high]: [&Reg; 2], entry: u64) -> Result<(), RegError> {
    let at = entry >> 2;
    xcc.with(bank, |gc| {
        gc.write(low, at as u32)?;
        gc.write(high, (at >> 32) as u32)
    })
}

/// The run list controller, with its save and restore lists.
fn run_lists(xcc: &Xcc) -> Result<(), RegError> {
    let gc = xcc.registers();
    let bits = gc.read(&gc::TCP_CNTL)?.bits();
    gc.write(&gc::TCP_CNTL, bits | TCP_CNTL)?;
    gc.put(&gc::RLC_CNTL, &[("rlc_enable_f32", 1)])?;
    gc.set(
        &gc::RLC_SRM_CNTL,
        &[("srm_enable", 1), ("auto_incr_addr", 1)],
    )?;
    // The profiler's address space: none.
    gc.put(&gc::RLC_SPM_MC_CNTL, &[("rlc_spm_vmid", 15)])
}

/// What addresses mean to kernels, in every address space.
fn memory(xcc: &Xcc) -> Result<(), RegError> {
    let gc = xcc.registers();
    let is_gfx9 = xcc.card().gfx() == Generation::Gfx9;
    if is_gfx9 {
        gc.write(&gc::GB_ADDR_CONFIG, GB_ADDR_CONFIG)?;
        gc.set(&gc::TCP_UTCL1_CNTL2, &[("spare", 1)])?;
    }
    gc.set(&gc::GRBM_CNTL, &[("read_timeout", 0xff)])?;
    let generation: &[(&str, u32)] = match is_gfx9 {
        true => &[("retry_disable", 1), ("f8_mode", 1)],
        false => &[("initial_inst_prefetch", 3)],
    };
    let mut config = generation.to_vec();
    config.push(("alignment_mode", UNALIGNED));
    let bases = [
        ("shared_base", LOCAL_APERTURE),
        ("private_base", SCRATCH_APERTURE),
    ];
    for vmid in 0..VMIDS {
        let bank = Bank {
            vmid,
            ..Bank::default()
        };
        xcc.with(bank, |space| {
            space.put(&gc::SH_MEM_CONFIG, &config)?;
            space.put(&gc::SH_MEM_BASES, &bases)
        })?;
    }
    Ok(())
}

/// Which doorbells the MEC listens to.
fn doorbells(xcc: &Xcc) -> Result<(), RegError> {
    let gc = xcc.registers();
    let first = DOORBELLS * xcc.index() as u32;
    gc.write(&gc::CP_MEC_DOORBELL_RANGE_LOWER, first)?;
    gc.write(&gc::CP_MEC_DOORBELL_RANGE_UPPER, first + LAST_DOORBELL)
}

/// Lets the MEC run.
fn run(xcc: &Xcc) -> Result<(), RegError> {
    let gc = xcc.registers();
    if xcc.card().gfx() == Generation::Gfx9 {
        return gc.put(&gc::CP_MEC_CNTL, &[]);
    }
    let go = [
        ("mec_pipe0_reset", 0),
        ("mec_pipe0_active", 1),
        ("mec_halt", 0),
    ];
    gc.set(&gc::CP_MEC_RS64_CNTL, &go).map(|_| ())
}

fn gate_clocks(xcc: &Xcc) -> Result<(), Cause> {
    let gc = xcc.registers();
    let gfx = xcc.card().gfx();
    let clock = &**xcc.card().clock();
    let taken = |what| {
        let deadline = Deadline::on(clock, SAFE_MODE);
        gc.poll(&gc::RLC_SAFE_MODE, clock, deadline, what, |value| {
            value.bits() & 1 == 0
        })
    };
    // An earlier process may have left a moment ago.
    taken("the RLC to take the previous command")?;
    gc.put(&gc::RLC_SAFE_MODE, &[("message", 1), ("cmd", 1)])?;
    taken("the RLC to enter safe mode")?;
    let coarse = [
        ("cgcg_gfx_idle_threshold", 0x36),
        ("cgcg_en", 1),
        ("cgls_rep_compansat_delay", 0xf),
        ("cgls_en", 1),
    ];
    gc.set(&gc::RLC_CGCG_CGLS_CTRL, &coarse)?;
    let polls = [("poll_frequency", 0x100), ("idle_poll_count", 0x90)];
    gc.set(&gc::CP_RB_WPTR_POLL_CNTL, &polls)?;
    let busy = [
        ("cntx_busy_int_enable", 1),
        ("cntx_empty_int_enable", 1),
        ("cmp_busy_int_enable", 1),
    ];
    gc.set(&gc::CP_INT_CNTL, &busy)?;
    if gfx != Generation::Gfx9 {
        gc.set(&gc::SDMA0_RLC_CGCG_CTRL, &[("cgcg_int_enable", 1)])?;
        gc.set(&gc::SDMA1_RLC_CGCG_CTRL, &[("cgcg_int_enable", 1)])?;
    }
    let mut overrides = vec![
        ("gfxip_fgcg_override", 0),
        ("grbm_cgtt_sclk_override", 0),
        ("rlc_cgtt_sclk_override", 0),
        ("gfxip_mgcg_override", 0),
        ("gfxip_cgls_override", 0),
        ("gfxip_cgcg_override", 0),
    ];
    overrides.extend(match gfx {
        Generation::Gfx9 => [("gfxip_mgls_override", 0), ("gfxip_rep_fgcg_override", 0)],
        _ => [
            ("perfmon_clock_state", 1),
            ("gfxip_repeater_fgcg_override", 0),
        ],
    });
    gc.set(&gc::RLC_CGTT_MGCG_OVERRIDE, &overrides)?;
    gc.put(&gc::RLC_SAFE_MODE, &[("message", 0), ("cmd", 1)])?;
    Ok(())
}
