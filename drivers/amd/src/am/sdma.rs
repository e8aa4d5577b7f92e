//! [`Sdma`]: the copy engines, and their queues.
//!
//! From GFX11 on the engines are part of the graphics block: two of them, alike, with eight queues each, whose
//! registers are at a fixed distance. On MI300 they are separate blocks, four on each die; the queue of
//! the kernel driver is used. They run as soon as firmware is loaded, and cannot be reset alone.
//!
//! Source: Linux, amdgpu/sdma_v6_0.c, sdma_v7_0.c and sdma_v4_4_2.c, `gfx_resume_instance`, `get_reg_offset`;
//! amdgpu_amdkfd_gfx_v11.c, `hqd_sdma_load_v11` and `hqd_sdma_destroy_v11`.

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{Reg, gc, header, sdma};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::GpuVa;
use hcq::reg::block::{Block, Fields, Registers};
use hcq::wait::Deadline;

use super::card::Card;
use super::discovery::Ip;
use super::error::Cause;

/// Queues of an engine that are used: the distance of doorbells has room for no more.
const SLOTS: u32 = 8;

/// Dwords from a queue of an engine to the next.
const NEXT_QUEUE: u32 = 0x58;
/// Dwords from an engine to the next, and those for what firmware may lock.
const NEXT_ENGINE: u32 = 0x600;
const NEXT_ENGINE_LOCKED: u32 = 0x20;

/// The doorbell of the first queue. Source: amdgpu_doorbell.h, `AMDGPU_NAVI10_DOORBELL_sDMA_ENGINE0`.
const FIRST_DOORBELL: u32 = 0x100;
/// Doorbells of an engine. Source: the same, `..._sDMA_ENGINE1`.
const DOORBELLS: u32 = 10;

/// Timeout after which the engine reports a hung queue, in units of 100 ms.
const WATCHDOG: u32 = 100;

/// Timeout for an engine to become idle.
const IDLE: Duration = Duration::from_secs(1);

/// How often an engine of MI300 asks again for a page that is not there, for reads and writes: as the vendor's
/// driver has it.
const ASKS_AGAIN: u32 = 0x80;

/// How long an engine is held in reset.
const SOFT_RESET: Duration = Duration::from_millis(10);

/// The registers of a queue.
struct Set {
    rb_cntl: &'static Reg,
    rb_base: [&'static Reg; 2],
    rb_rptr: [&'static Reg; 2],
    rb_wptr: [&'static Reg; 2],
    rptr_addr: [&'static Reg; 2],
    wptr_addr: [&'static Reg; 2],
    doorbell: &'static Reg,
    doorbell_offset: &'static Reg,
    minor_ptr_update: &'static Reg,
    ib_cntl: &'static Reg,
    status: &'static Reg,
}

/// Those of SDMA 6 and 7.
static QUEUE: Set = Set {
    rb_cntl: &gc::SDMA0_QUEUE0_RB_CNTL,
    rb_base: [&gc::SDMA0_QUEUE0_RB_BASE, &gc::SDMA0_QUEUE0_RB_BASE_HI],
    rb_rptr: [&gc::SDMA0_QUEUE0_RB_RPTR, &gc::SDMA0_QUEUE0_RB_RPTR_HI],
    rb_wptr: [&gc::SDMA0_QUEUE0_RB_WPTR, &gc::SDMA0_QUEUE0_RB_WPTR_HI],
    rptr_addr: [
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_HI,
    ],
    wptr_addr: [
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI,
    ],
    doorbell: &gc::SDMA0_QUEUE0_DOORBELL,
    doorbell_offset: &gc::SDMA0_QUEUE0_DOORBELL_OFFSET,
    minor_ptr_update: &gc::SDMA0_QUEUE0_MINOR_PTR_UPDATE,
    ib_cntl: &gc::SDMA0_QUEUE0_IB_CNTL,
    status: &gc::SDMA0_QUEUE0_CONTEXT_STATUS,
};

/// Those of SDMA 4.4.
static GFX_QUEUE: Set = Set {
    rb_cntl: &sdma::SDMA_GFX_RB_CNTL,
    rb_base: [&sdma::SDMA_GFX_RB_BASE, &sdma::SDMA_GFX_RB_BASE_HI],
    rb_rptr: [&sdma::SDMA_GFX_RB_RPTR, &sdma::SDMA_GFX_RB_RPTR_HI],
    rb_wptr: [&sdma::SDMA_GFX_RB_WPTR, &sdma::SDMA_GFX_RB_WPTR_HI],
    rptr_addr: [
        &sdma::SDMA_GFX_RB_RPTR_ADDR_LO,
        &sdma::SDMA_GFX_RB_RPTR_ADDR_HI,
    ],
    wptr_addr: [
        &sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_LO,
        &sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_HI,
    ],
    doorbell: &sdma::SDMA_GFX_DOORBELL,
    doorbell_offset: &sdma::SDMA_GFX_DOORBELL_OFFSET,
    minor_ptr_update: &sdma::SDMA_GFX_MINOR_PTR_UPDATE,
    ib_cntl: &sdma::SDMA_GFX_IB_CNTL,
    status: &sdma::SDMA_GFX_CONTEXT_STATUS,
};

/// A copy queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The ring, a multiple of 256.
    pub(super) ring: GpuVa,
    /// Its length in bytes, a power of two.
    pub(super) ring_bytes: u64,
    /// The address of the read pointer, written by the hardware.
    pub(super) rptr: GpuVa,
    /// The address of the write pointer, written by the host.
    pub(super) wptr: GpuVa,
}

/// The copy engines of a card.
pub(super) struct Sdma {
    card: Arc<Card>,
    /// The block of each engine, and its number in it.
    engines: Vec<(Block<Gfxs>, u32)>,
    /// The number of each on the chip.
    numbers: Vec<u8>,
}

impl Sdma {
    /// Those of a card, not touched yet.
    ///
    /// # Errors
    /// [`Cause::Version`]; [`Cause::Discovery`] for a card without.
    pub(super) fn new(card: &Arc<Card>) -> Result<Sdma, Cause> {
        let discovery = card.discovery();
        let first = discovery.first(ip::SDMA0)?;
        let ids = [ip::SDMA0, ip::SDMA1, ip::SDMA2, ip::SDMA3];
        let found = ids.into_iter().flat_map(|id| discovery.working(id));
        let mut found: Vec<_> = found.collect();
        let numbers = match card.gfx() {
            Gfx::Gfx9 => {
                found.sort_by_key(|ip| ip.instance);
                found.iter().map(|ip| ip.instance).collect()
            }
            _ => (0..found.len() as u8).collect(),
        };
        let found = found.into_iter();
        let engines = match card.gfx() {
            Gfx::Gfx9 => {
                let version = header(ip::SDMA0, first.version);
                let version = version.map_err(|known| Cause::Version {
                    block: "SDMA".into(),
                    version: first.version,
                    known,
                })?;
                let engine = |found: &Ip| {
                    let block = Block {
                        name: format!("SDMA{}", found.instance),
                        version,
                        one: card.gfx(),
                        segments: found.bases.clone(),
                    };
                    (block, 0)
                };
                found.map(engine).collect()
            }
            // PANIC: a card without a graphics block is none.
            _ => {
                let gc = card.blocks().gc.first();
                let engine = |(i, _): (usize, &Ip)| gc.map(|gc| (gc.clone(), i as u32));
                found.enumerate().filter_map(engine).collect()
            }
        };
        Ok(Sdma {
            card: card.clone(),
            engines,
            numbers,
        })
    }

    /// How many engines there are.
    pub(super) fn engines(&self) -> u32 {
        self.engines.len() as u32
    }

    /// The numbers of the engines on the chip.
    pub(super) fn numbers(&self) -> &[u8] {
        &self.numbers
    }

    /// How many queues they have.
    pub(super) fn queues(&self) -> u32 {
        match self.card.gfx() {
            Gfx::Gfx9 => self.engines(),
            _ => self.engines() * SLOTS,
        }
    }

    /// Starts the engines, which have their firmware.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn start(&self) -> Result<(), Cause> {
        (0..self.engines.len()).try_for_each(|engine| self.run(engine))
    }

    fn run(&self, engine: usize) -> Result<(), Cause> {
        let of = self.engine(engine);
        let gfx = self.card.gfx();
        if gfx == Gfx::Gfx9 {
            let again = [
                ("rd_xnack_limit", ASKS_AGAIN),
                ("wr_xnack_limit", ASKS_AGAIN),
            ];
            of.put(&sdma::SDMA_UTCL1_TIMEOUT, &again)?;
            let on = [
                ("auto_ctxsw_enable", 1),
                ("utc_l1_enable", 1),
                ("trap_enable", 1),
            ];
            of.set(&sdma::SDMA_CNTL, &on)?;
            return Ok(());
        }
        let watchdog = [("queue_hang_count", WATCHDOG)];
        of.set(&gc::SDMA0_WATCHDOG_CNTL, &watchdog)?;
        // Answers of addresses that are not copied.
        let responses = [("resp_mode", 3), ("redo_delay", 9)];
        of.set(&gc::SDMA0_UTCL1_CNTL, &responses)?;
        // Reads allocate nothing in the cache, writes go past it.
        let mut policy = vec![("rd_l2_policy", 2), ("wr_l2_policy", 3)];
        policy.extend((gfx == Gfx::Gfx11).then_some(("llc_noalloc", 1)));
        of.set(&gc::SDMA0_UTCL1_PAGE, &policy)?;
        let locked = self.locked(engine);
        let _ = match gfx {
            Gfx::Gfx11 => locked.set(&gc::SDMA0_F32_CNTL, &[("halt", 0), ("th1_reset", 0)])?,
            _ => locked.set(&gc::SDMA0_MCU_CNTL, &[("halt", 0), ("reset", 0)])?,
        };
        of.set(&gc::SDMA0_CNTL, &[("trap_enable", 1)])?;
        Ok(())
    }

    /// Stops all queues, and resets the engines where that does no harm to others.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn stop(&self) -> Result<(), Cause> {
        let mut done = Ok(());
        for queue in 0..self.queues() {
            done = self.silence(queue).and(done);
        }
        for engine in 0..self.engines.len() {
            self.reset(engine)?;
        }
        done
    }

    /// Holds an engine in reset for a moment. What runs on it is gone.
    fn reset(&self, engine: usize) -> Result<(), Cause> {
        if self.card.gfx() == Gfx::Gfx9 {
            return Ok(());
        }
        let (block, number) = &self.engines[engine];
        let gc = self.card.registers(block);
        let name = match number {
            0 => "soft_reset_sdma0",
            _ => "soft_reset_sdma1",
        };
        gc.put(&gc::GRBM_SOFT_RESET, &[(name, 1)])?;
        self.card.rest(SOFT_RESET)?;
        gc.put(&gc::GRBM_SOFT_RESET, &[])?;
        Ok(())
    }

    /// Activates a queue at a position, in bytes since its creation.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn load(&self, number: u32, queue: &Queue, at: u64) -> Result<(), Cause> {
        let (of, set) = self.queue(number);
        let split = |[low, high]: [&Reg; 2], value: u64| {
            of.write(low, value as u32)?;
            of.write(high, (value >> 32) as u32)
        };
        // The write pointer may become less.
        of.put(set.minor_ptr_update, &[("enable", 1)])?;
        split(set.rb_rptr, at)?;
        split(set.rb_wptr, at)?;
        split(set.rb_base, queue.ring.0 >> 8)?;
        split(set.rptr_addr, queue.rptr.0)?;
        split(set.wptr_addr, queue.wptr.0)?;
        // Counted in dwords.
        let offset = [("offset", self.doorbell(number) * 2)];
        of.set(set.doorbell_offset, &offset)?;
        of.set(set.doorbell, &[("enable", 1)])?;
        of.put(set.minor_ptr_update, &[("enable", 0)])?;
        let mut ring = vec![
            ("rb_vmid", 0),
            ("rptr_writeback_enable", 1),
            ("rptr_writeback_timer", 4),
            ("rb_priv", 1),
            (
                "rb_size",
                (queue.ring_bytes / 4).checked_ilog2().unwrap_or(0),
            ),
            ("rb_enable", 1),
        ];
        ring.extend(match self.card.gfx() {
            Gfx::Gfx9 | Gfx::Gfx10 => None,
            Gfx::Gfx11 => Some(("f32_wptr_poll_enable", 1)),
            Gfx::Gfx12 => Some(("mcu_wptr_poll_enable", 1)),
        });
        of.put(set.rb_cntl, &ring)?;
        of.set(set.ib_cntl, &[("ib_enable", 1)])?;
        Ok(())
    }

    /// Removes a queue. Returns whether the engine has released it; if not, only a reset of the engine ends it.
    ///
    /// # Errors
    /// [`Cause::Register`]; on MI300 also if the engine does not release it.
    pub(super) fn unload(&self, number: u32) -> Result<bool, Cause> {
        let idle = self.idle(number);
        self.silence(number)?;
        match idle {
            Ok(()) => Ok(true),
            Err(error) if self.card.gfx() == Gfx::Gfx9 => Err(error),
            Err(error) => {
                tracing::warn!(target: "hcq::amd", %error, "resetting the SDMA engine");
                Ok(false)
            }
        }
    }

    /// Stops a queue temporarily. Returns its position, in bytes since its creation.
    ///
    /// # Errors
    /// [`Cause::Register`]: the engine does not release it.
    pub(super) fn pause(&self, number: u32) -> Result<u64, Cause> {
        self.idle(number)?;
        let (of, set) = self.queue(number);
        let half = |reg| of.read(reg).map(|value| u64::from(value.bits()));
        let [low, high] = set.rb_rptr;
        Ok(half(low)? | half(high)? << 32)
    }

    /// Waits until an engine does nothing more for a queue.
    fn idle(&self, number: u32) -> Result<(), Cause> {
        let (of, set) = self.queue(number);
        let clock = &**self.card.clock();
        of.set(set.rb_cntl, &[("rb_enable", 0)])?;
        let what = "the SDMA engine to drain the queue";
        let deadline = Deadline::on(clock, IDLE);
        of.poll(set.status, clock, deadline, what, |status| {
            status.bits() >> 2 & 1 == 1
        })?;
        Ok(())
    }

    /// Resets the engine of a queue, and starts it again, with no queue in it.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn restart(&self, number: u32) -> Result<(), Cause> {
        let engine = self.place(number).0;
        self.reset(engine)?;
        self.run(engine)
    }

    /// Whether two queues have one engine.
    pub(super) fn share(&self, one: u32, other: u32) -> bool {
        self.place(one).0 == self.place(other).0
    }

    /// Turns off what wakes a queue.
    fn silence(&self, number: u32) -> Result<(), Cause> {
        let (of, set) = self.queue(number);
        let off: [(&Reg, Fields<'_>); 4] = [
            (set.rb_cntl, &[("rb_enable", 0)]),
            (set.ib_cntl, &[("ib_enable", 0)]),
            (set.doorbell, &[("enable", 0)]),
            (set.doorbell_offset, &[("offset", 0)]),
        ];
        for (reg, fields) in off {
            of.set(reg, fields)?;
        }
        Ok(())
    }

    /// The number of the doorbell of a queue, of 8 bytes each.
    pub(super) fn doorbell(&self, number: u32) -> u32 {
        let (engine, slot) = self.place(number);
        FIRST_DOORBELL + DOORBELLS * engine as u32 + slot
    }

    /// The engine of a queue, and its number there: engines are filled in turn.
    fn place(&self, number: u32) -> (usize, u32) {
        let engines = self.engines().max(1);
        ((number % engines) as usize, number / engines)
    }

    fn queue(&self, number: u32) -> (Registers<'_, Gfxs>, &'static Set) {
        let (engine, slot) = self.place(number);
        let of = self.engine(engine);
        match self.card.gfx() {
            Gfx::Gfx9 => (of, &GFX_QUEUE),
            _ => (self.step(engine, NEXT_ENGINE, slot * NEXT_QUEUE), &QUEUE),
        }
    }

    /// The registers of an engine.
    fn engine(&self, engine: usize) -> Registers<'_, Gfxs> {
        self.step(engine, NEXT_ENGINE, 0)
    }

    /// Those that firmware may lock.
    fn locked(&self, engine: usize) -> Registers<'_, Gfxs> {
        self.step(engine, NEXT_ENGINE_LOCKED, 0)
    }

    fn step(&self, engine: usize, next: u32, more: u32) -> Registers<'_, Gfxs> {
        let (block, number) = &self.engines[engine];
        self.card.registers(block).step(number * next + more)
    }
}
