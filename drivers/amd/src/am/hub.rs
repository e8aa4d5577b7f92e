//! Memory hubs: they translate the addresses of engines. GC has one for its own engines (one per XCC);
//! MMHUB serves all other blocks (PSP, SMU, interrupt rings). Their registers have the same
//! names except for a prefix, so both share one code: `Set`.
//!
//! Only VMID 0 is used. VRAM addresses ([`Hubs::mc`]) go through the system aperture, all others
//! through page tables with root [`ROOT`], for addresses from [`START`] on.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: gfxhub_v{1_2,3_0,12_0}.c, mmhub_v{1_8,3_0,3_0_2,4_1_0}.c (what is set, in this
//! order, and the values of `_DEFAULT`), gmc_v11_0.c and gmc_v12_0.c (`flush_gpu_tlb`, `process_interrupt`).

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_gpu::bare::{Function, Mmu};
use drivers_spec::amd::mmio::{Reg, gc, mmhub};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::GpuVa;
use hcq::addr::VramAddr;
use hcq::reg::Generations;
use hcq::reg::block::{Block, Registers};
use hcq::sync::lock;
use hcq::transport::TransportError;

use super::areas::{DUMMY_PAGE, ROOT, SCRATCH_PAGE};
use super::card::Card;
use super::discovery::DiscoveryError;
use super::error::Cause;
use super::fault::HubFault;
use super::hdp::Hdp;
use super::pages::{Format, LAST, START};

/// How long an invalidation may take: `usec_timeout` of the vendor's driver.
const INVALIDATED: Duration = Duration::from_millis(100);

/// Log2 of 4 KiB: registers count in such pages.
const PAGE: u32 = 12;
/// `MTYPE_UC`.
const UNCACHED: u32 = 3;
/// Invalidation engines, of which the last one is for page tables of VMID 0.
const ENGINES: u32 = 18;
/// Dwords from the range of one to that of the next.
const ENGINE_STEP: u32 = 2;

/// Which hubs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `MMHUB`.
    Mm,
    /// `GCHUB`, of all XCCs. It is there once the RLC has started the graphics block.
    Gc,
}

/// The registers of a hub.
struct Set {
    agp_base: &'static Reg,
    agp_bot: &'static Reg,
    agp_top: &'static Reg,
    aperture_low: &'static Reg,
    aperture_high: &'static Reg,
    default_lsb: &'static Reg,
    default_msb: &'static Reg,
    fault_default_lo: &'static Reg,
    fault_default_hi: &'static Reg,
    fault_cntl: &'static Reg,
    fault_cntl2: &'static Reg,
    fault_status: &'static Reg,
    /// GFX12 has another layout, under another name.
    fault_status_lo: &'static Reg,
    fault_lo: &'static Reg,
    fault_hi: &'static Reg,
    l1: &'static Reg,
    l2: &'static Reg,
    l2_2: &'static Reg,
    l2_3: &'static Reg,
    l2_4: &'static Reg,
    l2_5: &'static Reg,
    start_lo: &'static Reg,
    start_hi: &'static Reg,
    end_lo: &'static Reg,
    end_hi: &'static Reg,
    root_lo: &'static Reg,
    root_hi: &'static Reg,
    context: &'static Reg,
    identity: [&'static Reg; 6],
    range_lo: &'static Reg,
    range_hi: &'static Reg,
    semaphore: Option<&'static Reg>,
    request: &'static Reg,
    acknowledged: &'static Reg,
    private: Option<&'static Reg>,
}

static MM: Set = Set {
    agp_base: &mmhub::MMMC_VM_AGP_BASE,
    agp_bot: &mmhub::MMMC_VM_AGP_BOT,
    agp_top: &mmhub::MMMC_VM_AGP_TOP,
    aperture_low: &mmhub::MMMC_VM_SYSTEM_APERTURE_LOW_ADDR,
    aperture_high: &mmhub::MMMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    default_lsb: &mmhub::MMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB,
    default_msb: &mmhub::MMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB,
    fault_default_lo: &mmhub::MMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
    fault_default_hi: &mmhub::MMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32,
    fault_cntl: &mmhub::MMVM_L2_PROTECTION_FAULT_CNTL,
    fault_cntl2: &mmhub::MMVM_L2_PROTECTION_FAULT_CNTL2,
    fault_status: &mmhub::MMVM_L2_PROTECTION_FAULT_STATUS,
    fault_status_lo: &mmhub::MMVM_L2_PROTECTION_FAULT_STATUS_LO32,
    fault_lo: &mmhub::MMVM_L2_PROTECTION_FAULT_ADDR_LO32,
    fault_hi: &mmhub::MMVM_L2_PROTECTION_FAULT_ADDR_HI32,
    l1: &mmhub::MMMC_VM_MX_L1_TLB_CNTL,
    l2: &mmhub::MMVM_L2_CNTL,
    l2_2: &mmhub::MMVM_L2_CNTL2,
    l2_3: &mmhub::MMVM_L2_CNTL3,
    l2_4: &mmhub::MMVM_L2_CNTL4,
    l2_5: &mmhub::MMVM_L2_CNTL5,
    start_lo: &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
    start_hi: &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    end_lo: &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    end_hi: &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    root_lo: &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
    root_hi: &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    context: &mmhub::MMVM_CONTEXT0_CNTL,
    identity: [
        &mmhub::MMVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
        &mmhub::MMVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32,
        &mmhub::MMVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32,
        &mmhub::MMVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32,
        &mmhub::MMVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32,
        &mmhub::MMVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32,
    ],
    range_lo: &mmhub::MMVM_INVALIDATE_ENG0_ADDR_RANGE_LO32,
    range_hi: &mmhub::MMVM_INVALIDATE_ENG0_ADDR_RANGE_HI32,
    // Clock gating during the work could lose the request.
    semaphore: Some(&mmhub::MMVM_INVALIDATE_ENG17_SEM),
    request: &mmhub::MMVM_INVALIDATE_ENG17_REQ,
    acknowledged: &mmhub::MMVM_INVALIDATE_ENG17_ACK,
    private: Some(&mmhub::MMVM_L2_BANK_SELECT_RESERVED_CID2),
};

static GC: Set = Set {
    agp_base: &gc::GCMC_VM_AGP_BASE,
    agp_bot: &gc::GCMC_VM_AGP_BOT,
    agp_top: &gc::GCMC_VM_AGP_TOP,
    aperture_low: &gc::GCMC_VM_SYSTEM_APERTURE_LOW_ADDR,
    aperture_high: &gc::GCMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    default_lsb: &gc::GCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB,
    default_msb: &gc::GCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB,
    fault_default_lo: &gc::GCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32,
    fault_default_hi: &gc::GCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32,
    fault_cntl: &gc::GCVM_L2_PROTECTION_FAULT_CNTL,
    fault_cntl2: &gc::GCVM_L2_PROTECTION_FAULT_CNTL2,
    fault_status: &gc::GCVM_L2_PROTECTION_FAULT_STATUS,
    fault_status_lo: &gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32,
    fault_lo: &gc::GCVM_L2_PROTECTION_FAULT_ADDR_LO32,
    fault_hi: &gc::GCVM_L2_PROTECTION_FAULT_ADDR_HI32,
    l1: &gc::GCMC_VM_MX_L1_TLB_CNTL,
    l2: &gc::GCVM_L2_CNTL,
    l2_2: &gc::GCVM_L2_CNTL2,
    l2_3: &gc::GCVM_L2_CNTL3,
    l2_4: &gc::GCVM_L2_CNTL4,
    l2_5: &gc::GCVM_L2_CNTL5,
    start_lo: &gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
    start_hi: &gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    end_lo: &gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    end_hi: &gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    root_lo: &gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
    root_hi: &gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    context: &gc::GCVM_CONTEXT0_CNTL,
    identity: [
        &gc::GCVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32,
        &gc::GCVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32,
        &gc::GCVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32,
        &gc::GCVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32,
        &gc::GCVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32,
        &gc::GCVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32,
    ],
    range_lo: &gc::GCVM_INVALIDATE_ENG0_ADDR_RANGE_LO32,
    range_hi: &gc::GCVM_INVALIDATE_ENG0_ADDR_RANGE_HI32,
    semaphore: None,
    request: &gc::GCVM_INVALIDATE_ENG17_REQ,
    acknowledged: &gc::GCVM_INVALIDATE_ENG17_ACK,
    private: None,
};

/// Which clients of the hub of MI300 are snooped, whatever they say, and how.
static SNOOPS: [&Reg; 10] = [
    &mmhub::DAGB0_WRCLI_GPU_SNOOP_OVERRIDE,
    &mmhub::DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
    &mmhub::DAGB1_WRCLI_GPU_SNOOP_OVERRIDE,
    &mmhub::DAGB1_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
    &mmhub::DAGB2_WRCLI_GPU_SNOOP_OVERRIDE,
    &mmhub::DAGB2_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
    &mmhub::DAGB3_WRCLI_GPU_SNOOP_OVERRIDE,
    &mmhub::DAGB3_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
    &mmhub::DAGB4_WRCLI_GPU_SNOOP_OVERRIDE,
    &mmhub::DAGB4_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
];

/// One hub.
#[derive(Clone, Copy)]
struct Hub<'a> {
    set: &'static Set,
    registers: Registers<'a, Gfxs>,
    name: &'a str,
    gfx: Gfx,
}

/// The hubs of a card.
pub struct Hubs {
    card: Arc<Card>,
    hdp: Hdp,
    /// Where VRAM starts and ends, for VMID 0.
    base: u64,
    end: u64,
    /// Whether the hubs run.
    mm: AtomicBool,
    gc: AtomicBool,
    /// One invalidation at a time.
    turn: Mutex<()>,
}

impl Hubs {
    /// Looks where VRAM is.
    ///
    /// # Errors
    /// The registers', [`Cause::FrameBuffer`], [`Cause::Hive`].
    pub fn prepare(card: &Arc<Card>) -> Result<Hubs, Cause> {
        let blocks = card.blocks();
        let first = blocks.mmhub.first();
        let first = first.ok_or_else(|| DiscoveryError::Missing {
            what: "MMHUB".into(),
        })?;
        let mm = card.registers(first);
        let base = mm.field(&mmhub::MMMC_VM_FB_LOCATION_BASE, "fb_base")?;
        let top = mm.field(&mmhub::MMMC_VM_FB_LOCATION_TOP, "fb_top")?;
        let (base, end) = (u64::from(base) << 24, u64::from(top) << 24 | 0xff_ffff);
        let vram = card.vram_bytes();
        if base == 0 && end >> 24 == 0 || end.checked_sub(base).is_none_or(|last| last < vram - 1) {
            let block = first.name.clone();
            return Err(Cause::FrameBuffer {
                block,
                base,
                end,
                vram,
            });
        }
        if card.gfx() == Gfx::Gfx9 {
            let others = mm.field(&mmhub::MMMC_VM_XGMI_LFB_CNTL, "pf_max_region")?;
            if others > 0 {
                return Err(Cause::Hive { count: others + 1 });
            }
        }
        Ok(Hubs {
            card: card.clone(),
            hdp: Hdp::of(card),
            base,
            end,
            mm: AtomicBool::new(false),
            gc: AtomicBool::new(false),
            turn: Mutex::new(()),
        })
    }

    /// The address of VRAM as VMID 0 has it, without page tables.
    pub fn mc(&self, at: VramAddr) -> u64 {
        self.base + at.0
    }

    /// What brings the host's writes to VRAM there.
    pub fn hdp(&self) -> &Hdp {
        &self.hdp
    }

    fn blocks(&self, kind: Kind) -> &[Block<Gfxs>] {
        match kind {
            Kind::Mm => &self.card.blocks().mmhub,
            Kind::Gc => &self.card.blocks().gc,
        }
    }

    fn hubs(&self, kind: Kind) -> impl Iterator<Item = Hub<'_>> {
        let set = match kind {
            Kind::Mm => &MM,
            Kind::Gc => &GC,
        };
        self.blocks(kind).iter().map(move |block| Hub {
            set,
            registers: self.card.registers(block),
            name: &block.name,
            gfx: self.card.gfx(),
        })
    }

    fn is_running(&self, kind: Kind) -> &AtomicBool {
        match kind {
            Kind::Mm => &self.mm,
            Kind::Gc => &self.gc,
        }
    }

    /// Those that run. GC first: what its engines still do ends before others forget.
    fn running(&self) -> impl Iterator<Item = Hub<'_>> {
        let kinds = [Kind::Gc, Kind::Mm];
        let kinds = kinds
            .into_iter()
            .filter(move |kind| self.is_running(*kind).load(Ordering::Acquire));
        kinds.flat_map(move |kind| self.hubs(kind))
    }

    /// Takes hubs as running that an earlier process has started.
    pub fn attach(&self, kind: Kind) {
        self.is_running(kind).store(true, Ordering::Release);
    }

    /// Sets hubs up, with the page tables whose root is in VRAM already.
    ///
    /// # Errors
    /// The registers'.
    pub fn start(&self, kind: Kind) -> Result<(), Cause> {
        for hub in self.hubs(kind) {
            hub.apertures(self.base, self.end)?;
            hub.caches()?;
            if kind == Kind::Mm && self.card.gfx() == Gfx::Gfx9 {
                hub.snoop()?;
            }
            hub.context()?;
            hub.ranges()?;
        }
        self.attach(kind);
        Ok(())
    }

    /// What went wrong in the hubs that run, since the last [`Hubs::clear_faults`].
    ///
    /// # Errors
    /// The registers'.
    pub fn faults(&self) -> Result<Vec<HubFault>, Cause> {
        let faults = self.running().map(|hub| hub.fault());
        faults.filter_map(Result::transpose).collect()
    }

    /// What an earlier process has left in hubs, whether they run or not.
    ///
    /// # Errors
    /// The registers'.
    pub fn look(&self, kind: Kind) -> Result<Vec<HubFault>, Cause> {
        let faults = self.hubs(kind).map(|hub| hub.fault());
        faults.filter_map(Result::transpose).collect()
    }

    /// Makes room for the next fault: a hub keeps the first one.
    ///
    /// # Errors
    /// The registers'.
    pub fn clear_faults(&self) -> Result<(), Cause> {
        let clear = [("clear_protection_fault_status_addr", 1)];
        for hub in self.running() {
            hub.registers.set(hub.set.fault_cntl, &clear)?;
        }
        Ok(())
    }
}

impl Mmu for Hubs {
    type Format = Format;
    type Cause = Cause;

    const START: GpuVa = START;
    const ADDRESSES: RangeInclusive<u64> = START.0..=LAST.0;

    fn function(&self) -> &Function {
        &self.card
    }

    fn format(&self) -> Format {
        Format::of(self.card.gfx())
    }

    fn invalidate(&self) -> Result<(), Cause> {
        let _turn = lock(&self.turn);
        self.hdp.flush()?;
        self.running()
            .try_for_each(|hub| hub.invalidate(&self.card))
    }

    fn flush(&self) -> Result<(), TransportError> {
        self.hdp.flush()
    }

    fn post(&self) -> Result<(), TransportError> {
        self.hdp.post()
    }
}

impl Hub<'_> {
    /// The aperture of VRAM without page tables, and the dummy page for unmapped accesses.
    fn apertures(&self, base: u64, end: u64) -> Result<(), Cause> {
        let (io, set) = (&self.registers, self.set);
        // None: it ends before it starts.
        io.write(set.agp_base, 0)?;
        io.put(set.agp_bot, &[("agp_bot", 0xff_ffff)])?;
        io.put(set.agp_top, &[("agp_top", 0)])?;
        io.put(set.aperture_low, &[("logical_addr", (base >> 18) as u32)])?;
        io.put(set.aperture_high, &[("logical_addr", (end >> 18) as u32)])?;
        let scratch = SCRATCH_PAGE.at.0 >> PAGE;
        io.write(set.default_lsb, scratch as u32)?;
        let high = ("physical_page_number_msb", (scratch >> 32) as u32);
        io.put(set.default_msb, &[high])?;
        let dummy = DUMMY_PAGE.at.0 >> PAGE;
        io.write(set.fault_default_lo, dummy as u32)?;
        let high = ("physical_page_addr_hi4", (dummy >> 32) as u32);
        io.put(set.fault_default_hi, &[high])?;
        io.set(
            set.fault_cntl2,
            &[("active_page_migration_pte_read_retry", 1)],
        )?;
        Ok(())
    }

    fn caches(&self) -> Result<(), Cause> {
        let (io, set) = (&self.registers, self.set);
        let further = self.gfx == Gfx::Gfx9;
        io.set(
            set.l1,
            &[
                ("enable_l1_tlb", 1),
                ("system_access_mode", 3),
                ("enable_advanced_driver_model", 1),
                ("system_aperture_unmapped_access", 0),
                ("eco_bits", 0),
                ("mtype", UNCACHED),
            ],
        )?;
        if further {
            io.set(set.l1, &[("atc_en", 1)])?;
        }
        io.set(
            set.l2,
            &[
                ("enable_l2_cache", 1),
                ("enable_l2_fragment_processing", further.into()),
                ("enable_default_page_out_to_system_memory", 1),
                ("l2_pde0_cache_tag_generation_mode", 0),
                ("pde_fault_classification", 0),
                ("context1_identity_access_mode", 1),
                ("identity_mode_fragment_size", 0),
            ],
        )?;
        let forget = [("invalidate_all_l1_tlbs", 1), ("invalidate_l2_cache", 1)];
        io.set(set.l2_2, &forget)?;
        let (bank, fragment) = match further {
            true => (12, 9),
            false => (9, 6),
        };
        io.put(
            set.l2_3,
            &[
                ("l2_cache_4k_associativity", 1),
                ("l2_cache_bigk_associativity", 1),
                ("l2_cache_bigk_fragment_size", fragment),
                ("bank_select", bank),
            ],
        )?;
        io.put(set.l2_4, &[("l2_cache_4k_partition_count", 1)])?;
        if !further {
            io.put(set.l2_5, &[("walker_priority_client_id", 0x1ff)])?;
        }
        Ok(())
    }

    /// What copy engines of MI300 write is no longer in the caches of XCCs.
    fn snoop(&self) -> Result<(), Cause> {
        /// The bit of copy engines.
        const COPIES: u32 = 1 << 15;
        for reg in SNOOPS {
            let bits = self.registers.read(reg)?.bits();
            self.registers.write(reg, bits | COPIES)?;
        }
        Ok(())
    }

    /// The page tables of VMID 0: four levels; every fault is reported.
    fn context(&self) -> Result<(), Cause> {
        let (io, set) = (&self.registers, self.set);
        let two = |at: u64| ((at >> PAGE) as u32, (at >> PAGE >> 32) as u32);
        let (low, high) = two(START.0);
        io.write(set.start_lo, low)?;
        io.put(set.start_hi, &[("logical_page_number_hi4", high)])?;
        let (low, high) = two(LAST.0);
        io.write(set.end_lo, low)?;
        io.put(set.end_hi, &[("logical_page_number_hi4", high)])?;
        // As in an entry: valid.
        io.write(set.root_lo, ROOT.at.lo() | 1)?;
        io.write(set.root_hi, ROOT.at.hi())?;
        let (depth, block) = match self.gfx {
            Gfx::Gfx9 => (2, 9),
            _ => (3, 0),
        };
        let mut fields = vec![
            ("enable_context", 1),
            ("page_table_depth", depth),
            ("page_table_block_size", block),
        ];
        let names = set.context.word.fields.iter();
        let faults = names
            .filter(|field| Generations::has(field.on, self.gfx))
            .map(|field| field.name)
            .filter(|name| name.contains("_protection_fault_enable_"));
        fields.extend(faults.map(|name| (name, 1)));
        io.put(set.context, &fields)?;
        // No identity for context 1: it ends before it starts.
        let values = [u32::MAX, 0xf, 0, 0, 0, 0];
        for (register, value) in set.identity.iter().zip(values) {
            io.write(register, value)?;
        }
        Ok(())
    }

    /// Invalidations are of all addresses.
    fn ranges(&self) -> Result<(), Cause> {
        for engine in 0..ENGINES {
            let io = self.registers.step(engine * ENGINE_STEP);
            io.write(self.set.range_lo, u32::MAX)?;
            io.put(self.set.range_hi, &[("logi_page_addr_range_hi5", 0x1f)])?;
        }
        Ok(())
    }

    fn fault(&self) -> Result<Option<HubFault>, Cause> {
        let (io, set) = (&self.registers, self.set);
        let status = match self.gfx {
            Gfx::Gfx12 => set.fault_status_lo,
            _ => set.fault_status,
        };
        // The first read may be answered before the status is there.
        io.read(status)?;
        let bits = io.read(status)?.bits();
        if bits == 0 {
            return Ok(None);
        }
        let low = io.read(set.fault_lo)?.bits();
        let high = io.read(set.fault_hi)?.bits();
        let page = u64::from(high) << 32 | u64::from(low);
        Ok(HubFault::decode(
            self.name,
            self.gfx,
            &status.word,
            bits,
            page,
        ))
    }

    fn invalidate(&self, card: &Card) -> Result<(), Cause> {
        let (io, set) = (&self.registers, self.set);
        let clock = &**card.clock();
        let Some(semaphore) = set.semaphore else {
            return self.request(card);
        };
        // To read 1 is to have it.
        let what = "the invalidation semaphore";
        let limit = card.within(INVALIDATED);
        io.poll(semaphore, clock, limit, what, |value| value.bits() & 1 == 1)?;
        let done = self.request(card);
        // Also after an error: otherwise the semaphore would never be free again.
        let free = io.write(semaphore, 0);
        done?;
        free?;
        if let Some(private) = set.private {
            io.set(private, &[("reserved_cache_private_invalidation", 1)])?;
            io.read(private)?;
        }
        Ok(())
    }

    fn request(&self, card: &Card) -> Result<(), Cause> {
        let (io, set) = (&self.registers, self.set);
        io.put(
            set.request,
            &[
                ("per_vmid_invalidate_req", 1),
                ("flush_type", 0),
                ("invalidate_l2_ptes", 1),
                ("invalidate_l2_pde0", 1),
                ("invalidate_l2_pde1", 1),
                ("invalidate_l2_pde2", 1),
                ("invalidate_l1_ptes", 1),
                ("clear_protection_fault_status_addr", 0),
            ],
        )?;
        let limit = card.within(INVALIDATED);
        let what = "the invalidation of VMID 0";
        let done = |value: hcq::reg::Value<Gfxs>| value.bits() & 1 == 1;
        io.poll(set.acknowledged, &**card.clock(), limit, what, done)?;
        Ok(())
    }
}
