//! [`Areas`]: VRAM layout used by the driver.

use drivers_gpu::bare::PAGE;
use drivers_spec::nv::pci_regs::INSTANCE_BYTES;
use drivers_spec::nv::pci_rm::RUNQUEUES;
use hcq::addr::VramAddr;

use crate::gsp::Cause;

/// A range of VRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    /// The first byte.
    pub(super) at: VramAddr,
    /// Its length.
    pub(super) bytes: u64,
}

impl Area {
    /// One past its last byte.
    pub(super) const fn end(self) -> u64 {
        self.at.0 + self.bytes
    }
}

/// The number of the driver's own channel, the first one.
pub(super) const FIRST: u32 = 0;

/// Channels of a card at most: the first one makes the first context of graphics, and there is a bit for each of the
/// others.
pub(super) const CHANNELS: u32 = 1 + u64::BITS;

/// Bytes of VRAM that a channel has for what RM and the hardware keep of it.
const CHANNEL: u64 = 64 << 10;
/// Where in them USERD is, and the buffers for methods; the instance block comes first.
const USERD: u64 = INSTANCE_BYTES;
const METHODS: u64 = USERD + PAGE;
/// Bytes of one of these.
const METHOD_BYTES: u64 = (CHANNEL - METHODS) / RUNQUEUES as u64;

/// Bytes for the page tables of BAR1: a root, a table of the second level and of the third, and one for each 512 MiB that
/// are not whole.
const WINDOW: u64 = 1 << 20;

/// Bytes for the page tables of the first context: one for each 2 MiB of its buffers that are not whole, and the upper ones.
const IMAGE: u64 = 1 << 20;

/// How many bytes of page tables there are to one byte of VRAM: an entry of 8 bytes for a page of 4 KiB.
const TABLE_SHARE: u64 = 512;
/// The unit of areas.
const MIB: u64 = 1 << 20;

/// Where a channel lies in VRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Its number for the hardware.
    pub(super) number: u32,
    /// All of it.
    pub(super) all: Area,
    /// The instance block, with RAMFC at its start.
    pub(super) instance: VramAddr,
    /// The pointers of its ring.
    pub(super) userd: VramAddr,
    /// For methods that have faulted, of each runqueue.
    pub(super) methods: [Area; RUNQUEUES],
}

/// VRAM, divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Areas {
    /// For channels.
    channels: Area,
    /// For the page tables of BAR1.
    pub(super) window: Area,
    /// For the page tables of the first context.
    pub(super) image: Area,
    /// For page tables of the address space.
    pub(super) tables: Area,
    /// For everything else.
    pub(super) rest: Area,
}

impl Areas {
    /// Divides the largest of the free ranges. What the host has to see comes first: BAR1 shows the first `bar` bytes of
    /// VRAM.
    ///
    /// # Errors
    /// [`Cause::Regions`]: it is too small, or too little of it is seen.
    pub(super) fn of(free: &[(u64, u64)], bar: u64) -> Result<Areas, Cause> {
        let aligned = free.iter().map(|&(start, end)| {
            // The first page is nowhere.
            let start = start.max(PAGE).next_multiple_of(MIB);
            (start, (end & !(MIB - 1)).saturating_sub(start))
        });
        let (start, bytes) = aligned.max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
        let mut next = start;
        let mut area = |bytes: u64| {
            let at = VramAddr(next);
            next += bytes;
            Area { at, bytes }
        };
        let channels = area((u64::from(CHANNELS) * CHANNEL).next_multiple_of(MIB));
        let window = area(WINDOW);
        let image = area(IMAGE);
        let share = (bytes / TABLE_SHARE).next_multiple_of(MIB);
        let seen = bar.saturating_sub(image.end()) & !(MIB - 1);
        let tables = area(share.min(seen));
        let rest = (start + bytes).saturating_sub(tables.end());
        if rest < MIB || tables.bytes < MIB {
            return Err(Cause::Regions {
                what: format!(
                    "the largest free region has {bytes:#x} bytes from {start:#x} on, and BAR1 shows {bar:#x}"
                ),
                expected: "some MiB of it in BAR1, and more behind".into(),
            });
        }
        let rest = area(rest);
        Ok(Areas {
            channels,
            window,
            image,
            tables,
            rest,
        })
    }

    /// Where the channel of a number lies, of less than [`CHANNELS`].
    pub(super) fn channel(&self, number: u32) -> Place {
        let at = self.channels.at.0 + u64::from(number) * CHANNEL;
        let area = |at, bytes| Area {
            at: VramAddr(at),
            bytes,
        };
        Place {
            number,
            all: area(at, CHANNEL),
            instance: VramAddr(at),
            userd: VramAddr(at + USERD),
            methods: std::array::from_fn(|queue| {
                area(at + METHODS + METHOD_BYTES * queue as u64, METHOD_BYTES)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_the_host_sees_what_it_writes() {
        let free = [(0x10_0000, 0x20_0000), (0x4_0000, 0x5_f000_0000)];
        for bar in [256 * MIB, 32 << 30] {
            let areas = Areas::of(&free, bar).unwrap();
            let all = [
                areas.channels,
                areas.window,
                areas.image,
                areas.tables,
                areas.rest,
            ];
            for pair in all.windows(2) {
                assert_eq!(pair[0].end(), pair[1].at.0, "{pair:?}");
            }
            assert_eq!(areas.channels.at, VramAddr(MIB));
            assert_eq!(areas.rest.end(), 0x5_f000_0000);
            assert!(areas.tables.end() <= bar);
            // 8 bytes for each page.
            assert_eq!(areas.tables.bytes, 48 * MIB);
            let (first, last) = (areas.channel(0), areas.channel(CHANNELS - 1));
            assert_eq!(first.instance, areas.channels.at);
            assert_eq!(first.userd.0 - first.instance.0, 0x1000);
            let [one, other] = first.methods;
            assert!(one.bytes >= 0x5000 && one.end() == other.at.0);
            assert_eq!(other.end(), first.all.end());
            assert_eq!(first.all.end(), areas.channel(1).instance.0);
            assert!(last.all.end() <= areas.channels.end());
        }
    }

    #[test]
    fn too_little_is_said_with_its_numbers() {
        for (free, bar) in [(vec![], 256 * MIB), (vec![(0, 4 * MIB)], 256 * MIB)] {
            let error = Areas::of(&free, bar).unwrap_err().to_string();
            assert!(error.starts_with("VRAM: "), "{error}");
        }
        let error = Areas::of(&[(0, 1 << 30)], 4 * MIB).unwrap_err();
        assert!(error.to_string().contains("BAR1 shows 0x400000"), "{error}");
    }
}
