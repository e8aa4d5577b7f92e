//! Address types that do not mix.
//!
//! One buffer has up to three addresses: what a kernel running on the GPU uses ([`GpuVa`]), what
//! the device puts on the bus ([`BusAddr`]) and where it lies in the card's own memory
//! ([`VramAddr`]); a page table leads from the first to one of the others ([`PhysAddr`]). Mixing them up compiles in C and corrupts memory; here it does not compile.
//!
//! The meaning of a [`BusAddr`] depends on its IOMMU: [`BusRanges`] gives addresses to functions of its own
//! [`Domain`] only.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

/// Why an address computation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddrError {
    /// The sum does not fit into 64 bits.
    #[error("{kind} {base:#x} + {bytes:#x} does not fit into 64 bits")]
    Overflow {
        /// Name of the address type.
        kind: &'static str,
        /// Address that was added to.
        base: u64,
        /// Bytes that were added.
        bytes: u64,
    },
    /// The difference would be negative.
    #[error("{kind} {base:#x} - {bytes:#x} is below zero")]
    Underflow {
        /// Name of the address type.
        kind: &'static str,
        /// Address that was subtracted from.
        base: u64,
        /// Bytes, or the other address, that was subtracted.
        bytes: u64,
    },
    /// An address that is not valid for the device that should use it.
    #[error("addresses of {of} are not valid in {asked}: the two share no memory")]
    OtherDomain {
        /// The domain of the addresses.
        of: Domain,
        /// The domain that should use them.
        asked: Domain,
    },
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Address plus `bytes`.
            ///
            /// # Errors
            /// [`AddrError::Overflow`].
            pub const fn add(self, bytes: u64) -> Result<Self, AddrError> {
                match self.0.checked_add(bytes) {
                    Some(sum) => Ok(Self(sum)),
                    None => {
                        Err(AddrError::Overflow { kind: stringify!($name), base: self.0, bytes })
                    }
                }
            }

            /// Address minus `bytes`.
            ///
            /// # Errors
            /// [`AddrError::Underflow`].
            pub const fn sub(self, bytes: u64) -> Result<Self, AddrError> {
                match self.0.checked_sub(bytes) {
                    Some(rest) => Ok(Self(rest)),
                    None => {
                        Err(AddrError::Underflow { kind: stringify!($name), base: self.0, bytes })
                    }
                }
            }

            /// Bytes from `base` up to this address.
            ///
            /// # Errors
            /// [`AddrError::Underflow`] when `base` lies above.
            pub const fn offset_from(self, base: Self) -> Result<u64, AddrError> {
                match self.0.checked_sub(base.0) {
                    Some(rest) => Ok(rest),
                    None => Err(AddrError::Underflow {
                        kind: stringify!($name),
                        base: self.0,
                        bytes: base.0,
                    }),
                }
            }

            /// Whether the address is a multiple of `align`; false for an alignment of zero.
            pub const fn is_aligned(self, align: u64) -> bool {
                align != 0 && self.0.is_multiple_of(align)
            }

            /// Low 32 bits, as packets carry them.
            #[inline]
            pub const fn lo(self) -> u32 {
                self.0 as u32
            }

            /// High 32 bits, as packets carry them.
            #[inline]
            pub const fn hi(self) -> u32 {
                (self.0 >> 32) as u32
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address! {
    /// Address in the device's virtual address space: what kernels, packets and rings use.
    GpuVa
}
address! {
    /// Address the device puts on its bus to reach host memory (after any IOMMU mapping).
    BusAddr
}
address! {
    /// Byte offset into the device's own memory, before any page table.
    VramAddr
}

/// Functions for which a bus address means the same: all those without IOMMU translation, or those of one VFIO
/// container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Domain(u64);

impl Domain {
    /// No translation: bus addresses are physical.
    pub const BUS: Domain = Domain(0);

    /// One that no other of this process is.
    pub fn unique() -> Domain {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Domain(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain(0) => f.write_str("the bus"),
            Domain(number) => write!(f, "IOMMU domain {number}"),
        }
    }
}

/// A range of bus addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusRange {
    /// First address.
    pub addr: BusAddr,
    /// Length in bytes.
    pub bytes: u64,
}

/// Where memory is on the bus, for functions of one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusRanges {
    domain: Domain,
    ranges: Vec<BusRange>,
}

impl BusRanges {
    /// Ranges, in the order of the memory.
    pub fn new(domain: Domain, ranges: Vec<BusRange>) -> BusRanges {
        BusRanges { domain, ranges }
    }

    /// The ranges, for a function of a domain.
    ///
    /// # Errors
    /// [`AddrError::OtherDomain`].
    pub fn for_domain(&self, asked: Domain) -> Result<&[BusRange], AddrError> {
        let of = self.domain;
        match of == asked {
            true => Ok(&self.ranges),
            false => Err(AddrError::OtherDomain { of, asked }),
        }
    }

    /// All ranges, for recording only.
    pub(crate) fn recorded(&self) -> &[BusRange] {
        &self.ranges
    }
}

/// Where memory is, for the device: what an entry of a page table holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhysAddr {
    /// In the device's own memory.
    Vram(VramAddr),
    /// Beyond its bus: host memory, or that of a peer.
    Bus(BusAddr),
}

impl PhysAddr {
    /// The number, whatever it counts in.
    pub const fn raw(self) -> u64 {
        match self {
            PhysAddr::Vram(addr) => addr.0,
            PhysAddr::Bus(addr) => addr.0,
        }
    }

    /// Address plus `bytes`.
    ///
    /// # Errors
    /// [`AddrError::Overflow`].
    pub const fn add(self, bytes: u64) -> Result<Self, AddrError> {
        match self {
            PhysAddr::Vram(addr) => match addr.add(bytes) {
                Ok(sum) => Ok(PhysAddr::Vram(sum)),
                Err(error) => Err(error),
            },
            PhysAddr::Bus(addr) => match addr.add(bytes) {
                Ok(sum) => Ok(PhysAddr::Bus(sum)),
                Err(error) => Err(error),
            },
        }
    }
}

impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PhysAddr::Vram(addr) => write!(f, "vram {addr}"),
            PhysAddr::Bus(addr) => write!(f, "bus {addr}"),
        }
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_checked() {
        assert_eq!(GpuVa(0x1000).add(0x10), Ok(GpuVa(0x1010)));
        assert_eq!(
            GpuVa(u64::MAX).add(1),
            Err(AddrError::Overflow {
                kind: "GpuVa",
                base: u64::MAX,
                bytes: 1
            })
        );
        assert_eq!(
            BusAddr(4).sub(5),
            Err(AddrError::Underflow {
                kind: "BusAddr",
                base: 4,
                bytes: 5
            })
        );
        assert_eq!(VramAddr(0x30).offset_from(VramAddr(0x10)), Ok(0x20));
        assert!(VramAddr(0x10).offset_from(VramAddr(0x30)).is_err());
    }

    #[test]
    fn alignment() {
        assert!(GpuVa(6).is_aligned(3) && !GpuVa(6).is_aligned(4) && !GpuVa(0).is_aligned(0));
    }

    #[test]
    fn addresses_of_one_domain_are_none_of_another() {
        let (a, b) = (Domain::unique(), Domain::unique());
        let addr = BusAddr(0x10_0000);
        let bytes = 0x1000;
        let ranges = BusRanges::new(a, vec![BusRange { addr, bytes }]);
        assert_eq!(ranges.for_domain(a), Ok(&[BusRange { addr, bytes }][..]));
        for asked in [b, Domain::BUS] {
            let of = a;
            let refused = ranges.for_domain(asked);
            assert_eq!(refused, Err(AddrError::OtherDomain { of, asked }));
        }
        let of_bus = BusRanges::new(Domain::BUS, Vec::new());
        let error = of_bus.for_domain(a).unwrap_err().to_string();
        assert!(
            error.starts_with("addresses of the bus are not valid in IOMMU domain "),
            "{error}"
        );
    }

    #[test]
    fn text_and_words() {
        let va = GpuVa(0x2000_0000_1000);
        assert_eq!(va.to_string(), "0x200000001000");
        assert_eq!(format!("{va:?}"), "GpuVa(0x200000001000)");
        assert_eq!((va.hi(), va.lo()), (0x2000, 0x1000));
        let text = BusAddr(4).sub(5).map_err(|e| e.to_string());
        assert_eq!(text, Err("BusAddr 0x4 - 0x5 is below zero".into()));
        let place = PhysAddr::Vram(VramAddr(0x10)).add(0x10);
        assert_eq!(place.map(|to| to.to_string()), Ok("vram 0x20".into()));
        assert_eq!(PhysAddr::Bus(BusAddr(0x20)).raw(), 0x20);
        assert!(PhysAddr::Bus(BusAddr(u64::MAX)).add(1).is_err());
    }
}
