//! [`Tlp`]: one PCIe request, of a dword at most.
//!
//! A request addresses a dword; byte enables select its bytes, with data in their lanes.
//!
//! Source: PCI Express Base Specification, 2.2.5 (byte enables), 2.2.7 (memory and configuration requests).

use drivers_spec::asm24::tlp as kind;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlp {
    /// `Fmt` and `Type`: [`drivers_spec::asm24::tlp`].
    pub kind: u8,
    /// The dword: its address, or bus, device, function and register.
    pub address: u64,
    /// Which of its bytes.
    pub enables: u8,
    /// Data of a write, in its lanes.
    pub data: u32,
}

/// A function on the buses behind a bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its bus, 0 for the one that the bridge's root port is on.
    pub bus: u8,
    /// Its device, below 32.
    pub device: u8,
    /// Its function, below 8.
    pub function: u8,
}

impl Place {
    /// The first function of the first device of a bus.
    pub const fn first(bus: u8) -> Place {
        Place {
            bus,
            device: 0,
            function: 0,
        }
    }

    fn address(self, register: u16) -> u64 {
        let Place {
            bus,
            device,
            function,
        } = self;
        let register = u64::from(register & 0xffc);
        u64::from(bus) << 24
            | u64::from(device & 31) << 19
            | u64::from(function & 7) << 16
            | register
    }
}

/// The bytes of an element of a dword: `bytes` of them from `at` on.
const fn enables(at: u64, bytes: usize) -> u8 {
    (((1 << bytes) - 1) << (at & 3)) as u8
}

const fn lane(at: u64) -> u32 {
    8 * (at & 3) as u32
}

impl Tlp {
    /// Reads memory: 1, 2 or 4 bytes, none of them in the next dword.
    pub const fn read(address: u64, bytes: usize) -> Tlp {
        Tlp {
            kind: kind::MRD64,
            address: address & !3,
            enables: enables(address, bytes),
            data: 0,
        }
    }

    /// Writes memory: 1 to 4 bytes, none of them in the next dword.
    pub const fn write(address: u64, bytes: usize, value: u32) -> Tlp {
        Tlp {
            kind: kind::MWR64,
            address: address & !3,
            enables: enables(address, bytes),
            data: value << lane(address),
        }
    }

    /// Reads configuration space. Only the root port's bus is reached by type 0.
    pub fn config_read(place: Place, register: u16, bytes: usize) -> Tlp {
        Tlp {
            kind: match place.bus {
                0 => kind::CFG_RD0,
                _ => kind::CFG_RD1,
            },
            address: place.address(register),
            enables: enables(register.into(), bytes),
            data: 0,
        }
    }

    /// Writes configuration space.
    pub fn config_write(place: Place, register: u16, bytes: usize, value: u32) -> Tlp {
        Tlp {
            kind: match place.bus {
                0 => kind::CFG_WR0,
                _ => kind::CFG_WR1,
            },
            address: place.address(register),
            enables: enables(register.into(), bytes),
            data: value << lane(register.into()),
        }
    }

    /// Whether it may be repeated if its arrival is unknown.
    pub const fn is_config(&self) -> bool {
        matches!(
            self.kind,
            kind::CFG_RD0 | kind::CFG_RD1 | kind::CFG_WR0 | kind::CFG_WR1
        )
    }

    /// The element that it reads, of the dword that came.
    pub const fn value(&self, dword: u32) -> u32 {
        if self.enables & 0xf == 0 {
            return 0;
        }
        let first = (self.enables & 0xf).trailing_zeros();
        let bits = 8 * (self.enables & 0xf).count_ones();
        (dword >> (8 * first)) & (u32::MAX >> (32 - bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lies_in_its_lanes() {
        let byte = Tlp::write(0x1023_0101, 1, 0xab);
        assert_eq!(
            (byte.address, byte.enables, byte.data),
            (0x1023_0100, 2, 0xab00)
        );
        let half = Tlp::config_read(Place::first(4), 0x0e, 2);
        assert_eq!(
            (half.kind, half.address, half.enables),
            (0x05, 0x0400_000c, 0xc)
        );
        assert_eq!(half.value(0x1234_5678), 0x1234);
        assert_eq!(Tlp::read(8, 4).value(0xffff_fffe), 0xffff_fffe);
    }

    #[test]
    fn configuration_may_be_asked_again() {
        assert!(!Tlp::write(0, 4, 0).is_config() && !Tlp::read(0, 4).is_config());
        assert!(Tlp::config_write(Place::first(0), 4, 2, 6).is_config());
    }
}
