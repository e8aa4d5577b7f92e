//! [`Card`]: a card before the start: its windows, and its blocks with their registers.
//!
//! | window | contents |
//! |---|---|
//! | BAR 0 | VRAM, all or the first part of it |
//! | BAR 2 | doorbells |
//! | BAR 5 | registers, and an index/data pair for registers beyond its end |

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_gpu::bare::{Function, config};
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{self, RCC_CONFIG_MEMSIZE, Reg, header, nbio};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::DeviceId;
use hcq::mem::window::Window;
use hcq::reg::block::{Block, Registers};
use hcq::reg::bus::{Bus, Indirect, Pair};
use hcq::reg::{At, IpVersion};
use hcq::transport::{Clock, Fault, Pci, TransportError};
use hcq::wait::Deadline;

use super::areas::Areas;
use super::discovery::{Discovery, Ip};
use super::error::{AmError, Cause, Stage};

/// How long a card may take after power came until its own firmware has started: as the vendor's driver has it.
const FIRMWARE: Duration = Duration::from_secs(2);

/// The BAR that shows VRAM.
const VRAM: u8 = 0;

/// A card: a [`Function`] with its blocks.
pub struct Card {
    function: Function,
    clock: Arc<dyn Clock>,
    mmio: Window,
    registers: Arc<Registered>,
    doorbells: Window,
    areas: Areas,
    gfx: Gfx,
    discovery: Discovery,
    blocks: Blocks,
}

impl Deref for Card {
    type Target = Function;

    fn deref(&self) -> &Function {
        &self.function
    }
}

/// The blocks that the driver drives, each with where its registers are.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Graphics and compute, one for each XCC that works.
    pub gc: Vec<Block<Gfxs>>,
    /// Memory hubs.
    pub mmhub: Vec<Block<Gfxs>>,
    /// The bus interface.
    pub nbif: Block<Gfxs>,
    /// That of each die which works, where a chip has several: by the number of the die.
    pub dies: BTreeMap<u8, Block<Gfxs>>,
    /// The host data path.
    pub hdp: Block<Gfxs>,
    /// Interrupt rings.
    pub osssys: Block<Gfxs>,
    /// The security processor.
    pub mp0: Block<Gfxs>,
    /// Power management.
    pub mp1: Block<Gfxs>,
}

/// A register's address before discovery.
fn before(gfx: Gfx) -> Block<Gfxs> {
    Block {
        name: "card".into(),
        version: IpVersion(0, 0, 0),
        one: gfx,
        segments: Vec::new(),
    }
}

impl Card {
    /// Looks at a card: nothing of it is changed, but that it answers on the bus.
    ///
    /// # Errors
    /// [`AmError`], of [`Stage::Card`] or [`Stage::Discovery`].
    pub fn open(
        device: DeviceId,
        pci: Arc<dyn Pci>,
        clock: Arc<dyn Clock>,
    ) -> Result<Card, AmError> {
        let address = pci.name().to_owned();
        let failed = |stage| {
            let (device, address) = (device.clone(), address.clone());
            move |cause| AmError {
                device,
                address,
                stage,
                cause: Box::new(cause),
            }
        };
        let windows = Windows::open(&*pci, &*clock).map_err(failed(Stage::Card))?;
        let Windows {
            registers,
            vram,
            doorbells,
            vram_bytes,
        } = windows;
        let explore = || {
            let bytes = discovery_binary(&registers, &vram, vram_bytes)?;
            let discovery = Discovery::parse(&bytes)?;
            let gfx = generation(&discovery)?;
            let blocks = Blocks::of(&discovery, gfx)?;
            let bus = beyond(&registers, &blocks.nbif, gfx)?;
            let gc = discovery.first(ip::GC)?.version;
            let areas = Areas::of(vram_bytes, gfx, gc).ok_or_else(|| hcq::Error::OutOfMemory {
                device: device.clone(),
                asked: super::areas::BOOT.bytes,
                free: 0,
                total: vram_bytes,
                hint: " of VRAM, excluding firmware reservations".into(),
            })?;
            Ok((discovery, gfx, blocks, bus, areas.behind(vram.len())))
        };
        let explored = explore().map_err(|cause| left(&registers, cause));
        let (discovery, gfx, blocks, bus, areas) = explored.map_err(failed(Stage::Discovery))?;
        let way = Arc::new(Registered {
            bus,
            mmio: registers.clone(),
            has_left: AtomicBool::new(false),
        });
        Ok(Card {
            function: Function::new(device, pci, way.clone(), (VRAM, vram), vram_bytes),
            clock,
            mmio: registers,
            registers: way,
            doorbells,
            areas,
            gfx,
            discovery,
            blocks,
        })
    }

    /// What waits go by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The registers that the host reaches directly, by their byte addresses.
    pub fn mmio(&self) -> &Window {
        &self.mmio
    }

    /// The doorbells.
    pub fn doorbells(&self) -> &Window {
        &self.doorbells
    }

    /// How VRAM is divided.
    pub fn areas(&self) -> &Areas {
        &self.areas
    }

    /// Its generation.
    pub fn gfx(&self) -> Gfx {
        self.gfx
    }

    /// Its discovery table.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Its blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// An error of a stage of its start.
    pub fn failed(&self, stage: Stage, cause: Cause) -> AmError {
        AmError {
            device: self.device().clone(),
            address: self.pci().name().to_owned(),
            stage,
            cause: Box::new(left(&self.mmio, cause)),
        }
    }

    /// Checks that a running card is still present, before its values are trusted. A loss is final.
    ///
    /// # Errors
    /// [`Cause::Left`].
    pub fn look(&self) -> Result<(), Cause> {
        match self.has_left() {
            true => Err(self.gone("RCC_CONFIG_MEMSIZE")),
            false => Ok(()),
        }
    }

    /// A register reads as ones that never holds them.
    pub fn gone(&self, register: &'static str) -> Cause {
        self.registers.has_left.store(true, Ordering::Relaxed);
        Cause::Gone { register }
    }

    /// A deadline on the card's clock.
    pub fn within(&self, limit: Duration) -> Deadline {
        Deadline::on(&*self.clock, limit)
    }

    /// Sleeps after the register writes are flushed.
    ///
    /// # Errors
    /// The transport's.
    pub fn rest(&self, time: Duration) -> Result<(), Cause> {
        self.mmio.send()?;
        self.clock.sleep(time);
        Ok(())
    }

    /// The registers of a block.
    pub fn registers<'a>(&'a self, block: &'a Block<Gfxs>) -> Registers<'a, Gfxs> {
        block.on(&*self.registers)
    }
}

/// The bus to the registers of all blocks; it records the loss of the card.
struct Registered {
    bus: Indirect,
    mmio: Window,
    /// The card has left: this is not checked again.
    has_left: AtomicBool,
}

impl Bus for Registered {
    fn name(&self) -> String {
        self.bus.name()
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        self.bus.read(at)
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        self.bus.write(at, value)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.bus.send()
    }

    fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
            || match memsize(&self.mmio) {
                Some(Ok(mib)) => mib == u32::MAX,
                // The transport reports a pulled cable this way.
                Some(Err(error)) => error.fault == Fault::Gone,
                None => false,
            }
    }
}

fn has_left(mmio: &Window) -> bool {
    matches!(memsize(mmio), Some(Ok(u32::MAX)))
}

fn memsize(mmio: &Window) -> Option<Result<u32, TransportError>> {
    let At::Fixed(dword) = RCC_CONFIG_MEMSIZE.at else {
        return None;
    };
    Some(mmio.read(u64::from(dword) * 4))
}

/// The cause of what went wrong, unless it is that the card is not there any more.
fn left(mmio: &Window, first: Cause) -> Cause {
    match first {
        // They say it themselves, or have nothing to do with the card.
        Cause::Silent { .. } | Cause::Reset { .. } | Cause::Files(_) | Cause::Gone { .. } => first,
        first if has_left(mmio) => Cause::Left {
            first: Box::new(first),
        },
        first => first,
    }
}

/// The windows of a card that answers.
struct Windows {
    registers: Window,
    vram: Window,
    doorbells: Window,
    vram_bytes: u64,
}

impl Windows {
    fn open(pci: &dyn Pci, clock: &dyn Clock) -> Result<Windows, Cause> {
        config::answer(pci)?;
        let (vram, doorbells, registers) = (pci.bar(VRAM)?, pci.bar(2)?, pci.bar(5)?);
        let first = before(Gfx::Gfx11);
        let card = first.on(&registers);
        let deadline = Deadline::on(clock, FIRMWARE);
        let is_there = |mib: u32| mib != 0 && mib != u32::MAX;
        let mib = card.poll(
            &RCC_CONFIG_MEMSIZE,
            clock,
            deadline,
            "the card to report its VRAM size",
            |value| is_there(value.bits()),
        );
        let mib = match mib {
            Ok(mib) => mib.bits(),
            // The last value is more useful than the duration.
            Err(error) => {
                let seen = card.read(&RCC_CONFIG_MEMSIZE)?.bits();
                return Err(match is_there(seen) {
                    true => Cause::Register(error),
                    false => Cause::Silent { seen },
                });
            }
        };
        // Not all cards report it: the next table shows whether it exists.
        let started = card.poll(
            &mmio::MP0_SMN_C2PMSG_33,
            clock,
            Deadline::on(clock, FIRMWARE),
            "the card's firmware to start",
            |value| value.bits() >> 31 == 1,
        );
        if let Err(error) = started {
            tracing::warn!(target: "hcq::amd", %error, "firmware did not report its start: continuing without it");
        }
        Ok(Windows {
            registers,
            vram,
            doorbells,
            vram_bytes: u64::from(mib) << 20,
        })
    }
}

/// The bytes near the end of VRAM where firmware has put the table of blocks.
fn discovery_binary(registers: &Window, vram: &Window, vram_bytes: u64) -> Result<Vec<u8>, Cause> {
    let mut bytes = vec![0; ip::BYTES];
    let at = vram_bytes.saturating_sub(ip::FROM_END);
    if vram.len() >= vram_bytes {
        vram.read_bytes(at, &mut bytes)?;
        return Ok(bytes);
    }
    // A dword at a time, by registers: the BAR does not show the end.
    let first = before(Gfx::Gfx11);
    let card = first.on(registers);
    for (to, at) in bytes.chunks_exact_mut(4).zip((at..).step_by(4)) {
        let (low, high) = (at as u32 & 0x7fff_ffff, (at >> 31) as u32);
        card.write(&mmio::MM_INDEX_HI, high)?;
        card.write(&mmio::MM_INDEX, low | 1 << 31)?;
        let word = card.read(&mmio::MM_DATA)?.bits();
        to.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

fn generation(discovery: &Discovery) -> Result<Gfx, Cause> {
    let gc = discovery.first(ip::GC)?;
    match gc.version.0 {
        9 => Ok(Gfx::Gfx9),
        11 => Ok(Gfx::Gfx11),
        12 => Ok(Gfx::Gfx12),
        _ => Err(unknown("GC", gc.version, ip::GC)),
    }
}

fn unknown(block: &str, version: IpVersion, hw_id: u16) -> Cause {
    // A version that nothing has is answered with those that are known.
    let known = header(hw_id, IpVersion(0, 0, 0)).err().unwrap_or_default();
    Cause::Version {
        block: block.into(),
        version,
        known,
    }
}

fn block(ip: &Ip, gfx: Gfx) -> Result<Block<Gfxs>, Cause> {
    let name = ip::name(ip.hw_id).unwrap_or("block");
    let version = header(ip.hw_id, ip.version);
    let version = version.map_err(|_| unknown(name, ip.version, ip.hw_id))?;
    Ok(Block {
        name: format!("{name}{}", ip.instance),
        version,
        one: gfx,
        segments: ip.bases.clone(),
    })
}

impl Blocks {
    fn of(discovery: &Discovery, gfx: Gfx) -> Result<Blocks, Cause> {
        let first = |hw_id: u16| block(discovery.first(hw_id)?, gfx);
        let all = |hw_id: u16| {
            // At least one.
            discovery.first(hw_id)?;
            let mut found: Vec<_> = discovery.working(hw_id).collect();
            found.sort_by_key(|ip| ip.instance);
            let blocks = found.into_iter().map(|ip| block(ip, gfx));
            blocks.collect::<Result<Vec<_>, Cause>>()
        };
        Ok(Blocks {
            gc: all(ip::GC)?,
            mmhub: all(ip::MMHUB)?,
            nbif: first(ip::NBIF)?,
            dies: dies(discovery, gfx)?,
            hdp: first(ip::HDP)?,
            osssys: first(ip::OSSSYS)?,
            mp0: first(ip::MP0)?,
            mp1: first(ip::MP1)?,
        })
    }
}

/// Copy engines of a die of MI300.
pub(super) const ENGINES_OF_DIE: u8 = 4;

/// The bus interfaces of the dies. A die is there where copy engines of it are, and those of others may not be touched.
///
/// Source: Linux, aqua_vanjaram.c, `aqua_vanjaram_init_soc_config` (`aid_mask`).
fn dies(discovery: &Discovery, gfx: Gfx) -> Result<BTreeMap<u8, Block<Gfxs>>, Cause> {
    let engines = discovery.working(ip::SDMA0);
    let engines: Vec<_> = engines.map(|ip| ip.instance / ENGINES_OF_DIE).collect();
    let is_there = |die: u8| die == 0 || gfx == Gfx::Gfx9 && engines.contains(&die);
    let found = discovery.working(ip::NBIF);
    let found = found.filter(|ip| is_there(ip.instance));
    let on_die = |ip: &Ip| {
        let mut block = block(ip, gfx)?;
        for base in &mut block.segments {
            *base += on_die(ip.instance);
        }
        Ok((ip.instance, block))
    };
    found.map(on_die).collect()
}

/// The address bits that select the die of a dword: 0 for the first die.
///
/// Source: Linux, aqua_vanjaram.c, `aqua_vanjaram_encode_ext_smn_addressing`.
const fn on_die(die: u8) -> u64 {
    match die {
        0 => 0,
        die => (1 << 34 | (die as u64 & 3) << 32) / 4,
    }
}

/// The bus: direct accesses within the window, and the bus interface's index/data pair beyond it.
///
/// Source: Linux, nbio_v4_3.c, nbif_v6_3_1.c, nbio_v7_9.c, `get_pcie_index_offset`.
fn beyond(registers: &Window, nbif: &Block<Gfxs>, gfx: Gfx) -> Result<Indirect, Cause> {
    let place = |register: &Reg| nbif.on(registers).place(register);
    let (name, pair) = match gfx {
        Gfx::Gfx9 => {
            let pair = Pair {
                index: place(&nbio::BIF_BX0_PCIE_INDEX2)?,
                high: Some(place(&nbio::BIF_BX0_PCIE_INDEX2_HI)?),
                data: place(&nbio::BIF_BX0_PCIE_DATA2)?,
            };
            ("PCIE_INDEX2", pair)
        }
        _ => {
            let pair = Pair {
                index: place(&nbio::BIF_BX_PF0_RSMU_INDEX)?,
                high: None,
                data: place(&nbio::BIF_BX_PF0_RSMU_DATA)?,
            };
            ("RSMU", pair)
        }
    };
    Ok(Indirect::new(registers.clone(), name, pair).above_window())
}
