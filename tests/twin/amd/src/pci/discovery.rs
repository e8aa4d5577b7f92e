//! Makes discovery binaries, as the firmware of a card does.
//!
//! Source: the front page of `drivers_spec::amd::discovery`.

use drivers_spec::amd::discovery::{
    BASE_ADDR_64_BIT, BINARY_SIGNATURE, BinaryHeader, DieHeader, DieInfo, GC_TABLE, GcInfo1,
    GcInfo2, HARVEST_SIGNATURE, HARVESTS, HarvestEntry, HarvestHeader, IP_SIGNATURE, InfoHeader,
    IpEntry, IpHeader, TABLE_GC, TABLE_HARVEST, TABLE_IP, TABLES, TableInfo, sum,
};
use zerocopy::{FromBytes, IntoBytes};

/// A block of a chip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The die that it is on.
    pub die: u16,
    /// What it is.
    pub hw_id: u16,
    /// Which one of these.
    pub instance: u8,
    /// Its version.
    pub version: (u8, u8, u8),
    /// Sub-revision in bits 3:0 and variant in 7:4; before version 3 of the table, whether it works.
    pub more: u8,
    /// Where its segments start.
    pub bases: Vec<u64>,
}

/// Units of the graphics block, in the layout that the chip has.
#[derive(Clone, Copy, Debug)]
pub enum Units {
    /// `gc_info_v1`.
    One(GcInfo1),
    /// `gc_info_v2`.
    Two(GcInfo2),
}

/// What a binary is made from.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Layout of the binary: 1 or 2.
    pub binary: u16,
    /// Layout of the table of blocks: 1 to 4.
    pub table: u16,
    /// Base addresses of 64 bits, from layout 4 on.
    pub wide: bool,
    /// The blocks, by die.
    pub blocks: Vec<Block>,
    /// Units of the graphics block.
    pub units: Units,
    /// Blocks that do not work, by what they are and which one.
    pub harvested: Vec<(u16, u8)>,
}

impl Contents {
    /// The binary, with all sums right.
    pub fn build(&self) -> Vec<u8> {
        let mut out = vec![0; size_of::<BinaryHeader>()];
        if self.binary == 2 {
            out.extend([TABLES.len() as u8, 0, 0, 0]);
        }
        out.resize(out.len() + TABLES.len() * size_of::<TableInfo>(), 0);
        let ips = out.len();
        self.blocks(&mut out);
        let gc = out.len();
        self.units(&mut out);
        let harvest = out.len();
        self.harvest(&mut out);
        let header = BinaryHeader {
            signature: BINARY_SIGNATURE.into(),
            version_major: self.binary.into(),
            version_minor: 0.into(),
            checksum: 0.into(),
            size: (out.len() as u16).into(),
        };
        put(&mut out, 0, &header);
        for (table, at, end) in [
            (TABLE_IP, ips, gc),
            (TABLE_GC, gc, harvest),
            (TABLE_HARVEST, harvest, out.len()),
        ] {
            let info = TableInfo {
                offset: (at as u16).into(),
                checksum: 0.into(),
                size: ((end - at) as u16).into(),
                padding: 0.into(),
            };
            let slot = slot(self.binary, table);
            put(&mut out, slot, &info);
        }
        seal(&mut out);
        out
    }

    fn blocks(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let dies = self.blocks.iter().map(|block| block.die + 1).max();
        let dies = dies.unwrap_or(1);
        let mut header = IpHeader {
            signature: IP_SIGNATURE.into(),
            version: self.table.into(),
            size: 0.into(),
            id: 0.into(),
            num_dies: dies.into(),
            dies: [DieInfo {
                die_id: 0.into(),
                die_offset: 0.into(),
            }; 16],
            flags: if self.wide { BASE_ADDR_64_BIT } else { 0 },
            reserved: 0,
        };
        out.extend(header.as_bytes());
        for die in 0..dies {
            header.dies[usize::from(die)] = DieInfo {
                die_id: die.into(),
                die_offset: (out.len() as u16).into(),
            };
            let of: Vec<_> = self
                .blocks
                .iter()
                .filter(|block| block.die == die)
                .collect();
            let head = DieHeader {
                die_id: die.into(),
                num_ips: (of.len() as u16).into(),
            };
            out.extend(head.as_bytes());
            for block in of {
                let (major, minor, revision) = block.version;
                let entry = IpEntry {
                    hw_id: block.hw_id.into(),
                    instance: block.instance,
                    num_base_address: block.bases.len() as u8,
                    major,
                    minor,
                    revision,
                    more: block.more,
                };
                out.extend(entry.as_bytes());
                for base in &block.bases {
                    let bytes = base.to_le_bytes();
                    out.extend(&bytes[..if self.wide { 8 } else { 4 }]);
                }
            }
        }
        header.size = ((out.len() - start) as u16).into();
        put(out, start, &header);
    }

    fn units(&self, out: &mut Vec<u8>) {
        let (major, bytes) = match &self.units {
            Units::One(info) => (1, info.as_bytes()),
            Units::Two(info) => (2, info.as_bytes()),
        };
        let header = InfoHeader {
            table_id: GC_TABLE.into(),
            version_major: major.into(),
            version_minor: 0.into(),
            size: ((size_of::<InfoHeader>() + bytes.len()) as u32).into(),
        };
        out.extend(header.as_bytes());
        out.extend(bytes);
    }

    fn harvest(&self, out: &mut Vec<u8>) {
        let header = HarvestHeader {
            signature: HARVEST_SIGNATURE.into(),
            version: 0.into(),
        };
        out.extend(header.as_bytes());
        let list = self.harvested.iter().copied();
        for (hw_id, instance) in list.chain(std::iter::repeat((0, 0))).take(HARVESTS) {
            let entry = HarvestEntry {
                hw_id: hw_id.into(),
                instance,
                reserved: 0,
            };
            out.extend(entry.as_bytes());
        }
    }
}

fn put<T: IntoBytes + zerocopy::Immutable>(out: &mut [u8], at: usize, value: &T) {
    let bytes = value.as_bytes();
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Where the row of a table is in the list.
fn slot(binary: u16, table: usize) -> usize {
    let more = if binary == 2 { 4 } else { 0 };
    size_of::<BinaryHeader>() + more + table * size_of::<TableInfo>()
}

/// Makes the sums of a binary right, as far as its lengths and offsets stay inside of it: whoever damages one on
/// purpose damages more than a sum.
pub fn seal(binary: &mut [u8]) {
    let Ok((header, _)) = BinaryHeader::read_from_prefix(binary) else {
        return;
    };
    for table in 0..TABLES.len() {
        let at = slot(header.version_major.get(), table);
        let info = binary.get(at..at + size_of::<TableInfo>());
        let Some(Ok(mut info)) = info.map(TableInfo::read_from_bytes) else {
            continue;
        };
        let start = usize::from(info.offset.get());
        let end = start + usize::from(info.size.get());
        if start != 0
            && let Some(bytes) = binary.get(start..end)
        {
            info.checksum = sum(bytes).into();
            put(binary, at, &info);
        }
    }
    let from = size_of::<BinaryHeader>() - 2;
    if let Some(rest) = binary.get(from..usize::from(header.size.get())) {
        let sum = sum(rest);
        binary[8..10].copy_from_slice(&sum.to_le_bytes());
    }
}
