//! Registers that a driver without a kernel driver reaches over the bus, by block: where each is in every
//! version of its block, from the start of one of the block's segments, and which bits mean what.
//!
//! What discovery says of a block is its version; the vendor gives headers for some of them only, and what lies
//! between has the registers of the one before: [`header`].
//!
//! Names are the vendor's without `reg` and `mm`; fields are in lower case.

use hcq::reg::{IpVersion, Register};

use super::discovery as ip;
use super::packet::{Field, Gfxs, Word};

pub mod gc;
pub mod hdp;
pub mod mmhub;
pub mod mp;
pub mod nbio;
pub mod osssys;
pub mod sdma;
pub mod tables;

/// A register.
pub type Reg = Register<Gfxs>;

macro_rules! registers {
    ($($name:ident @ $(($major:literal $minor:literal $revision:literal) $segment:literal : $dword:literal),+ {
        $($field:ident $high:literal $low:literal $($on:ident)?;)*
    })*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub static $name: $crate::amd::mmio::Reg = $crate::amd::mmio::Reg {
                word: $crate::amd::packet::Word {
                    name: stringify!($name),
                    fields: &[$($crate::amd::mmio::field(
                        stringify!($field),
                        $high,
                        $low,
                        $crate::amd::mmio::registers!(@on $($on)?),
                    )),*],
                    on: $crate::amd::packet::Gfxs::ALL,
                },
                at: hcq::reg::At::Rows(&[$(hcq::reg::Row {
                    version: hcq::reg::IpVersion($major, $minor, $revision),
                    segment: $segment,
                    dword: $dword,
                }),+]),
            };
        )*

        /// All of them.
        pub static ALL: &[&$crate::amd::mmio::Reg] = &[$(&$name),*];
    };
    (@on) => { $crate::amd::packet::Gfxs::ALL };
    (@on $on:ident) => { $crate::amd::packet::Gfxs::$on };
}
pub(crate) use registers;

const fn field(name: &'static str, high: u8, low: u8, on: Gfxs) -> Field {
    Field {
        name,
        high,
        low,
        on,
    }
}

const fn fixed(name: &'static str, dword: u32) -> Reg {
    Reg::fixed(Word::whole(name), dword)
}

/// `MM_INDEX`: the address in VRAM of the dword that is [`MM_DATA`], with bit 31 set.
pub static MM_INDEX: Reg = fixed("MM_INDEX", 0);
/// `MM_DATA`.
pub static MM_DATA: Reg = fixed("MM_DATA", 1);
/// `MM_INDEX_HI`: the bits of that address from 31 on.
pub static MM_INDEX_HI: Reg = fixed("MM_INDEX_HI", 6);
/// `RCC_CONFIG_MEMSIZE`: MiB of VRAM; all ones while the card is being reset.
pub static RCC_CONFIG_MEMSIZE: Reg = fixed("RCC_CONFIG_MEMSIZE", 0xde3);
/// `MP0_SMN_C2PMSG_33`: bit 31 says that the card's own firmware has started.
pub static MP0_SMN_C2PMSG_33: Reg = fixed("MP0_SMN_C2PMSG_33", 0x16061);
/// `GOLDEN_TSC_COUNT_UPPER`: the high half of the counter by which packets take times, from GFX11 on. It is in SMUIO,
/// which lies at the same place on all of these chips: smuio_{13_0_6,14_0_2}_offset.h.
pub static GOLDEN_TSC_COUNT_UPPER: Reg = fixed("GOLDEN_TSC_COUNT_UPPER", 0x16a2d);
/// `GOLDEN_TSC_COUNT_LOWER`: its low half.
pub static GOLDEN_TSC_COUNT_LOWER: Reg = fixed("GOLDEN_TSC_COUNT_LOWER", 0x16a2e);

/// Versions of a block that have the registers of a header.
type Headers = &'static [(IpVersion, &'static [IpVersion])];

const fn v(major: u8, minor: u8, revision: u8) -> IpVersion {
    IpVersion(major, minor, revision)
}

// Source: Linux, Documentation/gpu/amdgpu/dgpu-asic-info-table.csv for which chip has which versions, and
// drivers/gpu/drm/amd/amdgpu/amdgpu_discovery.c with the files it names for which headers they are driven by.
const GC: Headers = &[
    (v(9, 4, 3), &[v(9, 4, 3)]),
    (v(11, 0, 0), &[v(11, 0, 0), v(11, 0, 2)]),
    (v(11, 0, 3), &[v(11, 0, 3)]),
    (v(12, 0, 0), &[v(12, 0, 0), v(12, 0, 1)]),
];
const MMHUB: Headers = &[
    (v(1, 8, 0), &[v(1, 8, 0)]),
    (v(3, 0, 0), &[v(3, 0, 0)]),
    (v(3, 0, 2), &[v(3, 0, 2)]),
    (v(4, 1, 0), &[v(4, 1, 0)]),
];
const NBIF: Headers = &[
    (v(4, 3, 0), &[v(4, 3, 0), v(4, 3, 1)]),
    (v(6, 3, 1), &[v(6, 3, 1)]),
    (v(7, 9, 0), &[v(7, 9, 0)]),
];
const OSSSYS: Headers = &[
    (v(4, 4, 2), &[v(4, 4, 2)]),
    (v(6, 0, 0), &[v(6, 0, 0)]),
    (v(7, 0, 0), &[v(7, 0, 0)]),
];
const HDP: Headers = &[
    (v(4, 4, 2), &[v(4, 4, 2)]),
    (v(6, 0, 0), &[v(6, 0, 0), v(6, 0, 1)]),
    (v(7, 0, 0), &[v(7, 0, 0)]),
];
const MP0: Headers = &[
    (
        v(13, 0, 0),
        &[v(13, 0, 0), v(13, 0, 6), v(13, 0, 7), v(13, 0, 10)],
    ),
    (v(14, 0, 2), &[v(14, 0, 2), v(14, 0, 3)]),
];
const MP1: Headers = &[(
    v(11, 0, 0),
    &[
        v(13, 0, 0),
        v(13, 0, 6),
        v(13, 0, 7),
        v(13, 0, 10),
        v(14, 0, 2),
        v(14, 0, 3),
    ],
)];
const SDMA: Headers = &[(v(4, 4, 2), &[v(4, 4, 2)])];

/// The version by which the registers of a block are found here.
///
/// # Errors
/// The versions of that block that are known; none for a block that has no registers here.
pub fn header(hw_id: u16, version: IpVersion) -> Result<IpVersion, Vec<IpVersion>> {
    let headers = match hw_id {
        ip::GC => GC,
        ip::MMHUB => MMHUB,
        ip::NBIF => NBIF,
        ip::OSSSYS => OSSSYS,
        ip::HDP => HDP,
        ip::MP0 => MP0,
        ip::MP1 => MP1,
        ip::SDMA0 => SDMA,
        _ => &[],
    };
    let found = headers.iter().find(|(_, of)| of.contains(&version));
    let known = || headers.iter().flat_map(|(_, of)| of.iter().copied());
    found
        .map(|(header, _)| *header)
        .ok_or_else(|| known().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amd::packet::Gfx;
    use hcq::reg::{At, Generations};
    use std::collections::BTreeSet;

    /// Second names that the vendor's headers have for a place, with other fields.
    const SECOND_NAMES: [&str; 3] = [
        "CP_HQD_DMA_OFFLOAD",
        "CP_HQD_HQ_STATUS0",
        "CP_HQD_HQ_CONTROL0",
    ];

    fn all() -> impl Iterator<Item = (&'static str, &'static &'static Reg)> {
        let files = [
            ("gc", gc::ALL),
            ("mmhub", mmhub::ALL),
            ("nbio", nbio::ALL),
            ("osssys", osssys::ALL),
            ("hdp", hdp::ALL),
            ("mp", mp::ALL),
            ("sdma", sdma::ALL),
        ];
        files
            .into_iter()
            .flat_map(|(file, regs)| regs.iter().map(move |reg| (file, reg)))
    }

    #[test]
    fn no_register_or_field_is_there_twice() {
        let mut names = BTreeSet::new();
        let mut places = BTreeSet::new();
        for (file, reg) in all() {
            let name = reg.word.name;
            assert!(names.insert(name), "{name}");
            let At::Rows(rows) = reg.at else {
                panic!("{name} is anywhere");
            };
            let versions: BTreeSet<_> = rows.iter().map(|row| row.version).collect();
            assert_eq!(versions.len(), rows.len(), "{name}");
            for row in rows {
                // Mailboxes of the two processors of a block share their numbers.
                let of = (
                    file,
                    name.starts_with("MP1"),
                    row.version,
                    row.segment,
                    row.dword,
                );
                let is_second = SECOND_NAMES.contains(&name);
                assert!(is_second || places.insert(of), "{name} {row:?}");
            }
            for gfx in [Gfx::Gfx9, Gfx::Gfx11, Gfx::Gfx12] {
                let fields = reg
                    .word
                    .fields
                    .iter()
                    .filter(|f| Generations::has(f.on, gfx));
                let names: BTreeSet<_> = fields.clone().map(|field| field.name).collect();
                assert_eq!(names.len(), fields.clone().count(), "{name} {gfx:?}");
                let sum: u32 = fields.clone().map(|field| field.mask().count_ones()).sum();
                let mask = fields.fold(0u32, |mask, field| mask | field.mask());
                assert_eq!(mask.count_ones(), sum, "{name} {gfx:?}: fields overlap");
            }
        }
        assert!(names.len() > 400, "{}", names.len());
    }

    #[test]
    fn every_header_has_registers() {
        for (of, regs) in [
            (GC, gc::ALL),
            (MMHUB, mmhub::ALL),
            (NBIF, nbio::ALL),
            (OSSSYS, osssys::ALL),
            (HDP, hdp::ALL),
            (MP0, mp::ALL),
            (MP1, mp::ALL),
            (SDMA, sdma::ALL),
        ] {
            for (header, _) in of {
                let has = |reg: &&&Reg| match reg.at {
                    At::Rows(rows) => rows.iter().any(|row| row.version == *header),
                    At::Fixed(_) => false,
                };
                assert!(regs.iter().any(|reg| has(&reg)), "{header}");
            }
        }
        assert_eq!(header(ip::GC, v(11, 0, 2)), Ok(v(11, 0, 0)));
        assert_eq!(header(ip::HDP, v(1, 0, 0)).unwrap_err().len(), 4);
        assert_eq!(header(ip::VCN, v(4, 0, 0)), Err(vec![]));
    }
}
