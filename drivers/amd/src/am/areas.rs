//! VRAM layout used by the driver.
//!
//! The first [`BOOT`] bytes hold the blocks' start data, each at a fixed offset. A process that finds a
//! card started by an earlier process uses that data: the offsets are a contract between
//! versions of this driver, and [`VERSION`] changes with them.

use drivers_spec::amd::packet::Gfx;
use hcq::addr::VramAddr;
use hcq::reg::IpVersion;

/// What a started card carries in a scratch register, for who finds it: these places, of this driver.
pub const VERSION: u32 = 0xd00b_0001;

/// A range of VRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// The first byte.
    pub at: VramAddr,
    /// Its length.
    pub bytes: u64,
}

impl Area {
    const fn new(at: u64, bytes: u64) -> Area {
        let at = VramAddr(at);
        Area { at, bytes }
    }

    /// One past its last byte.
    pub const fn end(self) -> u64 {
        self.at.0 + self.bytes
    }
}

/// The part for starting.
pub const BOOT: Area = Area::new(0, 32 << 20);
/// The root of the page tables of VMID 0.
pub const ROOT: Area = Area::new(0, 0x1000);
/// Where accesses go that the system aperture does not know.
pub const SCRATCH_PAGE: Area = Area::new(0x1000, 0x1000);
/// Where accesses go that faulted.
pub const DUMMY_PAGE: Area = Area::new(0x2000, 0x1000);
/// The first interrupt ring.
pub const IH_RING0: Area = Area::new(0x3000, 256 << 10);
/// The address at which its write pointer is reported.
pub const IH_WPTR0: Area = Area::new(0x43000, 0x1000);
/// The second interrupt ring.
pub const IH_RING1: Area = Area::new(0x44000, 256 << 10);
/// A command for the PSP.
pub const PSP_COMMAND: Area = Area::new(0x85000, 0x1000);
/// What the PSP writes when a command is done.
pub const PSP_FENCE: Area = Area::new(0x86000, 0x1000);
/// The ring of the PSP.
pub const PSP_RING: Area = Area::new(0x87000, 64 << 10);
/// The table that the SMU reads and writes.
pub const SMU_TABLE: Area = Area::new(0x97000, 16 << 10);
/// Descriptors of queues, of eight XCCs and eight queues.
pub const MQDS: Area = Area::new(0x9b000, 64 << 12);
/// Staging memory for firmware that the PSP loads, in multiples of 1 MiB.
pub const PSP_FIRMWARE: Area = Area::new(0x10_0000, 1 << 20);
/// Memory that the PSP keeps for itself, on chips where the driver gives it.
pub const TMR: Area = Area::new(0x20_0000, 0x1e0_0000);
/// Bytes that it has on Navi32, which asks for more: how much is not known.
const TMR_OF_NAVI32: u64 = 128 << 20;

/// VRAM, divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// For what the PSP keeps for itself.
    pub tmr: Area,
    /// For page tables.
    pub tables: Area,
    /// For everything else.
    pub rest: Area,
}

/// How many bytes of page tables there are to one byte of VRAM: an entry of 8 bytes for a page of 4 KiB.
const TABLE_SHARE: u64 = 512;

impl Areas {
    /// Divides `bytes` bytes of VRAM; `None` if they are too few.
    ///
    /// Tables precede the rest, so that a BAR that maps only the first part of VRAM maps them.
    pub fn of(bytes: u64, gfx: Gfx, gc: IpVersion) -> Option<Areas> {
        // What firmware has put at the end.
        let reserved = match gfx {
            Gfx::Gfx9 => 384 << 20,
            Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => 64 << 20,
        };
        let end = bytes.checked_sub(reserved)?;
        let share = bytes.div_ceil(TABLE_SHARE).next_multiple_of(1 << 20);
        let tables = Area::new(BOOT.end(), share);
        let (tmr, taken) = match gc {
            IpVersion(11, 0, 3) => {
                let tmr = Area::new(tables.end(), TMR_OF_NAVI32);
                (tmr, tmr.end())
            }
            _ => (TMR, tables.end()),
        };
        let rest = end.checked_sub(taken).filter(|rest| *rest > 0)?;
        let rest = Area::new(taken, rest);
        Some(Areas { tmr, tables, rest })
    }

    /// The same where the BAR shows but the first `bar` bytes: there are no tables beyond. All else stays where it is.
    pub fn behind(self, bar: u64) -> Areas {
        let shown = bar.saturating_sub(self.tables.at.0);
        let bytes = self.tables.bytes.min(shown);
        let tables = Area::new(self.tables.at.0, bytes);
        Areas { tables, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_the_places_are_the_contract() {
        let all = [
            ROOT,
            SCRATCH_PAGE,
            DUMMY_PAGE,
            IH_RING0,
            IH_WPTR0,
            IH_RING1,
            PSP_COMMAND,
            PSP_FENCE,
            PSP_RING,
            SMU_TABLE,
            MQDS,
            PSP_FIRMWARE,
            TMR,
        ];
        for pair in all.windows(2) {
            assert!(pair[0].end() <= pair[1].at.0, "{pair:?}");
        }
        assert_eq!(TMR.end(), BOOT.end());
        for area in all {
            assert!(area.at.is_aligned(0x1000) && area.bytes % 0x1000 == 0);
        }
        assert!(PSP_FIRMWARE.at.is_aligned(1 << 20) && TMR.at.is_aligned(1 << 20));
        let places: Vec<_> = all.iter().map(|area| area.at.0).collect();
        // Another list is another version.
        assert_eq!(VERSION, 0xd00b_0001);
        assert_eq!(
            places,
            [
                0, 0x1000, 0x2000, 0x3000, 0x43000, 0x44000, 0x85000, 0x86000, 0x87000, 0x97000,
                0x9b000, 0x10_0000, 0x20_0000
            ]
        );
    }

    #[test]
    fn vram_is_divided() {
        let gc = IpVersion(12, 0, 1);
        let areas = Areas::of(16 << 30, Gfx::Gfx12, gc).unwrap();
        assert_eq!(areas.tables, Area::new(32 << 20, 32 << 20));
        assert_eq!(areas.rest.end(), (16 << 30) - (64 << 20));
        // A BAR of 256 MiB maps all tables.
        assert!(areas.tables.end() <= 256 << 20);
        assert_eq!(areas.tmr, TMR);
        let navi32 = Areas::of(16 << 30, Gfx::Gfx11, IpVersion(11, 0, 3)).unwrap();
        assert_eq!(navi32.tables, areas.tables);
        assert_eq!(navi32.tmr, Area::new(64 << 20, 128 << 20));
        assert_eq!(navi32.rest, Area::new(192 << 20, (16 << 30) - (256 << 20)));
        let large = Areas::of(192 << 30, Gfx::Gfx9, gc).unwrap();
        assert_eq!(large.tables.bytes, 384 << 20);
        assert_eq!(large.rest.end(), (192 << 30) - (384 << 20));
        let small = large.behind(256 << 20);
        assert_eq!(small.tables, Area::new(32 << 20, 224 << 20));
        assert_eq!((small.rest, small.tmr), (large.rest, large.tmr));
        assert_eq!(areas.behind(256 << 20), areas);
        assert_eq!(Areas::of(96 << 20, Gfx::Gfx12, gc), None);
        assert_eq!(Areas::of(384 << 20, Gfx::Gfx9, gc), None);
    }
}
