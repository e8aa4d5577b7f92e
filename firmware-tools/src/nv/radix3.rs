//! The table by which GSP's firmware finds its pages: three levels of pages of 64-bit bus addresses.
//!
//! Source: NVIDIA's open kernel modules, src/nvidia/src/kernel/gpu/gsp/kernel_gsp.c, `kgspCreateRadix3_IMPL`.

use drivers_spec::nv::fw::RADIX_PAGE;

/// Entries of a page.
const ENTRIES: u64 = RADIX_PAGE / 8;

/// How many pages the image and each level of its table take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Pages of the levels: the first is one page.
    pub levels: [u64; 3],
    /// Pages of the image.
    pub image: u64,
}

/// Why there is no table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The image has no bytes, or more than three levels reach.
    #[error("a GSP image of {bytes} bytes: expected 1 to {}", ENTRIES.pow(3) * RADIX_PAGE)]
    Size {
        /// Of the image.
        bytes: u64,
    },
    /// A page is not where pages are.
    #[error("page {page} of level {level} is at {address:#x}: expected a multiple of 4096")]
    Address {
        /// From 0; 3 is the image.
        level: usize,
        /// From 0.
        page: u64,
        /// Where it is said to be.
        address: u64,
    },
}

impl Sizes {
    /// Of an image of this many bytes.
    ///
    /// # Errors
    /// [`Refused::Size`]
    pub fn of(bytes: u64) -> Result<Sizes, Refused> {
        let image = bytes.div_ceil(RADIX_PAGE);
        let third = image.div_ceil(ENTRIES);
        let second = third.div_ceil(ENTRIES);
        if second == 0 || second > ENTRIES {
            return Err(Refused::Size { bytes });
        }
        Ok(Sizes {
            levels: [1, second, third],
            image,
        })
    }

    /// The bytes of the three levels, each a whole number of pages; entries that are not needed are zero. `address`
    /// says where a page is on the bus, by its level (1 and 2; 3 for the image) and number.
    ///
    /// # Errors
    /// [`Refused::Address`]
    pub fn table(
        &self,
        mut address: impl FnMut(usize, u64) -> u64,
    ) -> Result<[Vec<u8>; 3], Refused> {
        let [_, second, third] = self.levels;
        let mut level = |level: usize, pages: u64, entries: u64| {
            let mut bytes = Vec::new();
            for page in 0..entries {
                let address = address(level, page);
                if !address.is_multiple_of(RADIX_PAGE) {
                    return Err(Refused::Address {
                        level,
                        page,
                        address,
                    });
                }
                bytes.extend(address.to_le_bytes());
            }
            bytes.resize((pages * RADIX_PAGE) as usize, 0);
            Ok(bytes)
        };
        Ok([
            level(1, 1, second)?,
            level(2, second, third)?,
            level(3, third, self.image)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pages that are all over the place, and no two the same.
    fn somewhere(level: usize, page: u64) -> u64 {
        let mixed = (page ^ 0x2a5).wrapping_mul(0x9_e37b) & 0xff_ffff;
        (((level as u64) << 44) | (mixed << 20) | page) << 12
    }

    fn entry(bytes: &[u8], at: u64) -> u64 {
        let at = 8 * at as usize;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn sizes_of_published_files() {
        let of = |bytes| Sizes::of(bytes).unwrap();
        // gsp-535.113.01.bin of ga102, gsp-570.144.bin of tu102.
        assert_eq!(of(38_043_648).image, 9288);
        assert_eq!(of(38_043_648).levels, [1, 1, 19]);
        assert_eq!(of(28_528_288).image, 6965);
        assert_eq!(of(1).levels, [1, 1, 1]);
        assert_eq!(of(512 * 512 * 4096 + 1).levels, [1, 2, 513]);
        assert_eq!(of(1 << 39).levels, [1, 512, 1 << 18]);
        for bytes in [0, (1 << 39) + 1, u64::MAX] {
            assert_eq!(Sizes::of(bytes), Err(Refused::Size { bytes }));
        }
    }

    #[test]
    fn a_page_that_is_none_is_named() {
        let sizes = Sizes::of(10 * 4096).unwrap();
        let table = sizes.table(|level, page| {
            if (level, page) == (3, 7) {
                0x1010
            } else {
                0x1000
            }
        });
        assert_eq!(
            table.unwrap_err().to_string(),
            "page 7 of level 3 is at 0x1010: expected a multiple of 4096"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A walk from the first page comes to each page of the image, and to nothing behind them.
        #[test]
        fn a_walk_finds_every_page(bytes in 1u64..600 * 512 * 4096, at in any::<u64>()) {
            let sizes = Sizes::of(bytes).unwrap();
            let [first, second, third] = sizes.table(somewhere).unwrap();
            prop_assert_eq!(
                [first.len(), second.len(), third.len()].map(|n| n as u64),
                sizes.levels.map(|n| n * 4096)
            );
            // Where a page of the table is, by its address.
            let find = |level, address, all: &[u8]| -> u64 {
                (0..all.len() as u64 / 4096).find(|&page| somewhere(level, page) == address).unwrap()
            };
            for page in [0, at % sizes.image, sizes.image - 1] {
                let one = find(1, entry(&first, page >> 18), &second);
                let two = find(2, entry(&second, one * 512 + (page >> 9) % 512), &third);
                prop_assert_eq!(entry(&third, two * 512 + page % 512), somewhere(3, page));
            }
            let used = sizes.image as usize * 8;
            prop_assert!(third[used..].iter().all(|&byte| byte == 0));
        }
    }
}
