//! [`Told`]: what RM on GSP tells of the card first, `GspStaticConfigInfo`.

use drivers_gpu::bare::PAGE;
use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::pci_rm::{self, NAME, REGIONS, Region};
use hcq::addr::VramAddr;
use zerocopy::FromBytes;

use crate::gsp::Cause;

/// What RM tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Told {
    /// The product.
    pub(super) product: String,
    /// VRAM that is free for the driver: first byte and the one behind the last, in order.
    pub(super) free: Vec<(u64, u64)>,
    /// The page directory of BAR1.
    pub(super) bar1: VramAddr,
    /// RM's own client, and its subdevice.
    pub(super) internal: (u32, u32),
}

/// How many bytes a branch tells.
///
/// # Errors
/// [`Cause::Lists`]: the branch is not described.
pub(super) fn bytes(branch: Branch) -> Result<usize, Cause> {
    layout(branch).map(|layout| layout.bytes)
}

fn layout(branch: Branch) -> Result<pci_rm::StaticInfo, Cause> {
    pci_rm::static_info(branch).ok_or_else(|| Cause::Lists {
        found: format!("GspStaticConfigInfo of branch {branch}, which is not described"),
        expected: "that of 535, 550 or 570".into(),
    })
}

/// Some bytes of a struct; zeros beyond its end, which [`Told::of`] has excluded.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    let there = bytes.get(at..).unwrap_or_default();
    found
        .iter_mut()
        .zip(there)
        .for_each(|(to, from)| *to = *from);
    found
}

impl Told {
    /// Decodes it.
    ///
    /// # Errors
    /// [`Cause::Message`] for bytes that are too few, [`Cause::Regions`] where nothing is free.
    pub(super) fn of(branch: Branch, bytes: &[u8]) -> Result<Told, Cause> {
        let layout = layout(branch)?;
        if bytes.len() < layout.bytes {
            return Err(Cause::Message {
                field: "length of GspStaticConfigInfo",
                found: bytes.len() as u64,
                expected: format!("{:#x}", layout.bytes),
            });
        }
        let dword = |at| u32::from_le_bytes(part(bytes, at));
        let name = part::<NAME>(bytes, layout.name);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let root = u64::from_le_bytes(part(bytes, layout.bar1_pde_base));
        if root == 0 || !root.is_multiple_of(PAGE) {
            return Err(Cause::Regions {
                what: format!("the page directory of BAR1 is at {root:#x}"),
                expected: "a page that is not the first".into(),
            });
        }
        Ok(Told {
            product: String::from_utf8_lossy(name).into_owned(),
            free: free(bytes, layout.regions)?,
            bar1: VramAddr(root),
            internal: (dword(layout.internal[0]), dword(layout.internal[1])),
        })
    }
}

/// The regions that the driver may use.
fn free(bytes: &[u8], at: usize) -> Result<Vec<(u64, u64)>, Cause> {
    let count = u32::from_le_bytes(part(bytes, at)) as usize;
    let size = size_of::<Region>();
    let all = bytes.get(at + 8..).unwrap_or_default();
    let all = all.chunks_exact(size).take(count.min(REGIONS));
    let all: Vec<Region> = all
        .filter_map(|bytes| Region::read_from_bytes(bytes).ok())
        .collect();
    // Source: Linux, nouveau, gsp/rm/r535/gsp.c, `r535_gsp_get_static_info_fb`: neither reserved nor protected.
    let usable = |one: &&Region| one.reserved == 0 && one.protected == 0 && one.limit > one.base;
    let mut free: Vec<_> = all
        .iter()
        .filter(usable)
        .map(|one| (one.base, one.limit.saturating_add(1)))
        .collect();
    free.sort_unstable();
    if free.is_empty() {
        return Err(Cause::Regions {
            what: format!("RM on GSP lists {count} regions: {all:x?}"),
            expected: "one that is neither reserved nor protected".into(),
        });
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    /// What RM would tell of a card with these regions.
    fn made(branch: Branch, regions: &[Region], bar1: u64) -> Vec<u8> {
        let layout = layout(branch).unwrap();
        let mut bytes = vec![0; layout.bytes];
        let mut put = |at: usize, what: &[u8]| bytes[at..][..what.len()].copy_from_slice(what);
        put(layout.regions, &(regions.len() as u32).to_le_bytes());
        for (number, region) in regions.iter().enumerate() {
            put(layout.regions + 8 + number * 0x30, region.as_bytes());
        }
        put(layout.name, b"NVIDIA made\0");
        put(layout.bar1_pde_base, &bar1.to_le_bytes());
        put(layout.internal[0], &0xc1e0_0000u32.to_le_bytes());
        put(layout.internal[1], &0xabcd_2080u32.to_le_bytes());
        bytes
    }

    fn region(base: u64, limit: u64, reserved: u64, protected: u8) -> Region {
        Region {
            base,
            limit,
            reserved,
            protected,
            ..Region::default()
        }
    }

    #[test]
    fn regions_that_are_reserved_or_protected_are_not_free() {
        for branch in [Branch::R535, Branch::R550, Branch::R570] {
            let regions = [
                region(0x8000_0000, 0xffff_ffff, 0x8000_0000, 0),
                region(0x10_0000, 0x7fff_ffff, 0, 0),
                region(0, 0xf_ffff, 0, 1),
            ];
            let told = Told::of(branch, &made(branch, &regions, 0x1234_5000)).unwrap();
            assert_eq!(told.free, [(0x10_0000, 0x8000_0000)]);
            assert_eq!(told.product, "NVIDIA made");
            assert_eq!(told.internal, (0xc1e0_0000, 0xabcd_2080));
            assert_eq!(told.bar1, VramAddr(0x1234_5000));
        }
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let branch = Branch::R570;
        let whole = made(branch, &[region(0, 0xffff, 1, 0)], 0x1000);
        let error = Told::of(branch, &whole).unwrap_err().to_string();
        assert!(error.contains("neither reserved nor protected"), "{error}");
        let error = Told::of(branch, &whole[1..]).unwrap_err().to_string();
        assert!(error.contains("expected 0x678"), "{error}");
        let root = made(branch, &[region(0, 0xffff, 0, 0)], 0);
        let error = Told::of(branch, &root).unwrap_err().to_string();
        assert!(error.contains("page directory of BAR1"), "{error}");
        assert!(bytes(Branch::R580).is_err());
    }
}
