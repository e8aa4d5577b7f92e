//! The registers of all blocks in one list, and the versions of blocks that chips have: for who looks a register
//! up by its name without a card.

use hcq::reg::{At, IpVersion, Row};

use super::{Reg, gc, hdp, header, mmhub, mp, nbio, osssys, sdma};
use crate::amd::discovery as ip;
use crate::amd::packet::Gfx;

/// A register, and the block that it is of.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The block, as discovery calls it.
    pub hw_id: u16,
    /// The register.
    pub reg: &'static Reg,
}

/// Every register of the tables, block by block.
pub fn all() -> impl Iterator<Item = Named> {
    let blocks: [(u16, &[&'static Reg]); 7] = [
        (ip::GC, gc::ALL),
        (ip::MMHUB, mmhub::ALL),
        (ip::NBIF, nbio::ALL),
        (ip::OSSSYS, osssys::ALL),
        (ip::HDP, hdp::ALL),
        (ip::MP0, mp::ALL),
        (ip::SDMA0, sdma::ALL),
    ];
    blocks.into_iter().flat_map(|(hw_id, regs)| {
        regs.iter().map(move |reg| Named {
            hw_id: match reg.word.name.starts_with("MP1_") {
                true => ip::MP1,
                false => hw_id,
            },
            reg,
        })
    })
}

/// A chip: its generation, and the versions of its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// The compiler's name.
    pub name: &'static str,
    /// Its generation.
    pub gfx: Gfx,
    blocks: [(u16, IpVersion); 7],
}

const fn v(major: u8, minor: u8, revision: u8) -> IpVersion {
    IpVersion(major, minor, revision)
}

const fn chip(name: &'static str, gfx: Gfx, versions: [IpVersion; 7]) -> Chip {
    let [gc, mmhub, nbif, osssys, hdp, mp, sdma] = versions;
    Chip {
        name,
        gfx,
        blocks: [
            (ip::GC, gc),
            (ip::MMHUB, mmhub),
            (ip::NBIF, nbif),
            (ip::OSSSYS, osssys),
            (ip::HDP, hdp),
            (ip::MP0, mp),
            (ip::SDMA0, sdma),
        ],
    }
}

/// The chips whose registers the tables have.
///
/// Source: Linux, Documentation/gpu/amdgpu/dgpu-asic-info-table.csv.
pub const CHIPS: [Chip; 5] = [
    chip(
        "gfx942",
        Gfx::Gfx9,
        [
            v(9, 4, 3),
            v(1, 8, 0),
            v(7, 9, 0),
            v(4, 4, 2),
            v(4, 4, 2),
            v(13, 0, 6),
            v(4, 4, 2),
        ],
    ),
    chip(
        "gfx1100",
        Gfx::Gfx11,
        [
            v(11, 0, 0),
            v(3, 0, 0),
            v(4, 3, 0),
            v(6, 0, 0),
            v(6, 0, 0),
            v(13, 0, 0),
            v(6, 0, 0),
        ],
    ),
    chip(
        "gfx1102",
        Gfx::Gfx11,
        [
            v(11, 0, 2),
            v(3, 0, 2),
            v(4, 3, 1),
            v(6, 0, 0),
            v(6, 0, 1),
            v(13, 0, 7),
            v(6, 0, 2),
        ],
    ),
    chip(
        "gfx1200",
        Gfx::Gfx12,
        [
            v(12, 0, 0),
            v(4, 1, 0),
            v(6, 3, 1),
            v(7, 0, 0),
            v(7, 0, 0),
            v(14, 0, 2),
            v(7, 0, 0),
        ],
    ),
    chip(
        "gfx1201",
        Gfx::Gfx12,
        [
            v(12, 0, 1),
            v(4, 1, 0),
            v(6, 3, 1),
            v(7, 0, 0),
            v(7, 0, 0),
            v(14, 0, 3),
            v(7, 0, 1),
        ],
    ),
];

impl Chip {
    /// Where a register is on the chip; none where the chip has no such register.
    pub fn row(&self, named: Named) -> Option<Row> {
        let At::Rows(rows) = named.reg.at else {
            return None;
        };
        // Both processors have one version.
        let hw_id = match named.hw_id {
            ip::MP1 => ip::MP0,
            other => other,
        };
        let (_, version) = self.blocks.iter().find(|(block, _)| *block == hw_id)?;
        let version = header(named.hw_id, *version).ok()?;
        rows.iter().find(|row| row.version == version).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_is_on_some_chip_and_every_chip_has_all_blocks() {
        for named in all() {
            let name = named.reg.word.name;
            let has = CHIPS.iter().any(|chip| chip.row(named).is_some());
            // Versions of Navi 32 are not in the table of chips.
            let elsewhere = matches!(named.reg.at, At::Rows(rows) if rows.iter().all(|row| {
                row.version == v(11, 0, 3)
            }));
            assert!(has || elsewhere, "{name}");
        }
        for chip in CHIPS {
            for (hw_id, _) in chip.blocks {
                // Copy engines are part of GC from GFX11 on.
                let has_own = hw_id != ip::SDMA0 || chip.gfx == Gfx::Gfx9;
                let mut here = all().filter(|named| chip.row(*named).is_some());
                let is_there = here.any(|named| named.hw_id == hw_id);
                assert_eq!(is_there, has_own, "{} {hw_id}", chip.name);
            }
        }
    }
}
