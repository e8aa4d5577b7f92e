//! IP discovery: the card's discovery binary, the only source for the register offsets of a block.
//!
//! Every length and offset in it is untrusted. A contradiction to another field, or to the number of bytes, is an
//! error that names both.

use drivers_spec::amd::discovery::{
    BASE_ADDR_64_BIT, BINARY_SIGNATURE, BinaryHeader, DIES, DieHeader, GC_TABLE, GcInfo1, GcInfo2,
    HARVEST_SIGNATURE, HARVESTS, HW_IDS, HarvestEntry, HarvestHeader, IP_SIGNATURE, InfoHeader,
    IpEntry, IpHeader, TABLE_GC, TABLE_HARVEST, TABLE_IP, TABLES, TableInfo, name, sum,
};
use hcq::reg::IpVersion;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Blocks of one kind: more than any chip has (`HWIP_MAX_INSTANCE` of the vendor's driver).
const INSTANCES: u8 = 44;

/// Why a binary was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// It ends before an entry it lists.
    #[error(
        "discovery: {what} is {needed} bytes at {offset:#x}, past the end of the {len:#x} bytes read; the card \
         was reset while it was read, or its memory is not trained yet: power-cycle the machine"
    )]
    Truncated {
        /// The missing entry.
        what: String,
        /// Where.
        offset: usize,
        /// Its length.
        needed: usize,
        /// Bytes read.
        len: usize,
    },
    /// A wrong signature.
    #[error(
        "discovery: {what} starts with {found:#010x}, expected {expected:#010x}; not a discovery table, \
         or the card's firmware has not put it there yet"
    )]
    Signature {
        /// What.
        what: &'static str,
        /// The expected signature.
        expected: u32,
        /// The signature found.
        found: u32,
    },
    /// A wrong checksum.
    #[error(
        "discovery: checksum of {what} is {found:#06x}, expected {expected:#06x}; the table is corrupt: reset \
         the card"
    )]
    Checksum {
        /// What.
        what: &'static str,
        /// The expected value.
        expected: u16,
        /// The actual value.
        found: u16,
    },
    /// A layout that is not known.
    #[error(
        "discovery: {what} has version {found}, supported are {known}; this chip is newer than this program"
    )]
    Version {
        /// What.
        what: &'static str,
        /// Its version.
        found: String,
        /// Those that are known.
        known: &'static str,
    },
    /// A field that cannot be.
    #[error(
        "discovery: {what} is {found}, expected {expected}; the table is corrupt: reset the card"
    )]
    Field {
        /// Which.
        what: String,
        /// What it says.
        found: u64,
        /// The valid values.
        expected: String,
    },
    /// A block that the driver needs is not there.
    #[error("unsupported chip: no {what} in the discovery table")]
    Missing {
        /// Which.
        what: String,
    },
}

/// A block of the chip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ip {
    /// The die that it is on.
    pub die: u16,
    /// The kind of block.
    pub hw_id: u16,
    /// Which one of these.
    pub instance: u8,
    /// Its version.
    pub version: IpVersion,
    /// Later parts of the version: variant and revision.
    pub sub_revision: u8,
    /// Its variant.
    pub variant: u8,
    /// Where its segments start, in dwords.
    pub bases: Vec<u64>,
    /// It is there, and does not work.
    pub is_harvested: bool,
}

/// Units of the graphics block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Units {
    /// Shader engines of an XCC.
    pub engines: u32,
    /// Shader arrays of an engine.
    pub arrays_per_engine: u32,
    /// Compute units of an array, as built: which of them work is in registers.
    pub cus_per_array: u32,
    /// Channels of L2.
    pub l2_channels: u32,
    /// Lanes of a wave by default.
    pub wave_size: u32,
    /// Waves of a SIMD.
    pub waves_per_simd: u32,
    /// Slots of scratch of a compute unit.
    pub scratch_slots_per_cu: u32,
    /// KiB of LDS of a workgroup processor.
    pub lds_kib: u32,
}

/// The chip's discovery data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovery {
    /// Its blocks, in the order in which it names them.
    pub ips: Vec<Ip>,
    /// Units of the graphics block.
    pub units: Units,
}

/// The bytes, and the range of the binary in them.
struct Binary<'a>(&'a [u8]);

impl<'a> Binary<'a> {
    fn bytes(&self, what: &str, at: usize, bytes: usize) -> Result<&'a [u8], DiscoveryError> {
        let end = at.checked_add(bytes);
        let part = end.and_then(|end| self.0.get(at..end));
        part.ok_or_else(|| DiscoveryError::Truncated {
            what: what.into(),
            offset: at,
            needed: bytes,
            len: self.0.len(),
        })
    }

    fn read<T: FromBytes + KnownLayout + Immutable>(
        &self,
        what: &str,
        at: usize,
    ) -> Result<T, DiscoveryError> {
        let bytes = self.bytes(what, at, size_of::<T>())?;
        // As many bytes as the struct has.
        T::read_from_bytes(bytes).map_err(|_| DiscoveryError::Truncated {
            what: what.into(),
            offset: at,
            needed: size_of::<T>(),
            len: self.0.len(),
        })
    }

    /// A table with the checksum from the list of tables.
    fn checked(&self, table: usize, info: TableInfo, bytes: usize) -> Result<(), DiscoveryError> {
        let what = TABLES[table];
        let found = sum(self.bytes(what, info.offset.get().into(), bytes)?);
        let expected = info.checksum.get();
        if found != expected {
            return Err(DiscoveryError::Checksum {
                what,
                expected,
                found,
            });
        }
        Ok(())
    }
}

fn signed(what: &'static str, found: U32, expected: u32) -> Result<(), DiscoveryError> {
    let found = found.get();
    match found == expected {
        true => Ok(()),
        false => Err(DiscoveryError::Signature {
            what,
            expected,
            found,
        }),
    }
}

/// The header and the tables that it lists, without the rest of the bytes.
fn binary(bytes: &[u8]) -> Result<(Binary<'_>, Vec<TableInfo>), DiscoveryError> {
    let all = Binary(bytes);
    let header: BinaryHeader = all.read("the header", 0)?;
    signed("the binary", header.signature, BINARY_SIGNATURE)?;
    let size = usize::from(header.size.get());
    let binary = Binary(all.bytes("the binary", 0, size)?);
    let head = size_of::<BinaryHeader>();
    // The checksum covers the bytes after its own field: from the size on.
    let from = head - size_of::<U16>();
    let found = sum(binary.bytes("the checksummed range", from, size.saturating_sub(from))?);
    let expected = header.checksum.get();
    if found != expected {
        return Err(DiscoveryError::Checksum {
            what: "the binary",
            expected,
            found,
        });
    }
    let (at, tables) = match header.version_major.get() {
        1 => (head, TABLES.len()),
        2 => {
            let tables: U16 = binary.read("the number of tables", head)?;
            (head + 4, tables.get().into())
        }
        major => {
            return Err(DiscoveryError::Version {
                what: "the binary",
                found: format!("{major}.{}", header.version_minor),
                known: "1 and 2",
            });
        }
    };
    let info = |i: usize| binary.read("the list of tables", at + i * size_of::<TableInfo>());
    let infos = (0..tables).map(info).collect::<Result<_, _>>()?;
    Ok((binary, infos))
}

impl Discovery {
    /// Reads the binary from the first bytes of `bytes`.
    ///
    /// # Errors
    /// [`DiscoveryError`].
    pub fn parse(bytes: &[u8]) -> Result<Discovery, DiscoveryError> {
        let (binary, infos) = binary(bytes)?;
        // A table that is not there has no offset.
        let info = |table: usize| {
            let info = infos.get(table).copied();
            info.filter(|info| info.offset.get() != 0)
        };
        let missing = |table: usize| DiscoveryError::Missing {
            what: format!("table {}", TABLES[table]),
        };
        let mut ips = ips(&binary, info(TABLE_IP).ok_or_else(|| missing(TABLE_IP))?)?;
        let units = units(&binary, info(TABLE_GC).ok_or_else(|| missing(TABLE_GC))?)?;
        if let Some(info) = info(TABLE_HARVEST) {
            harvest(&binary, info, &mut ips)?;
        }
        Ok(Discovery { ips, units })
    }

    /// The blocks of a kind that work, by instance.
    pub fn working(&self, hw_id: u16) -> impl Iterator<Item = &Ip> {
        let of_kind = move |ip: &&Ip| ip.hw_id == hw_id && !ip.is_harvested;
        self.ips.iter().filter(of_kind)
    }

    /// The first block of a kind that works.
    ///
    /// # Errors
    /// [`DiscoveryError::Missing`].
    pub fn first(&self, hw_id: u16) -> Result<&Ip, DiscoveryError> {
        let first = self.working(hw_id).min_by_key(|ip| ip.instance);
        first.ok_or_else(|| DiscoveryError::Missing {
            what: match name(hw_id) {
                Some(name) => format!("working {name}"),
                None => format!("working block {hw_id}"),
            },
        })
    }
}

fn ips(binary: &Binary<'_>, info: TableInfo) -> Result<Vec<Ip>, DiscoveryError> {
    let what = TABLES[TABLE_IP];
    let header: IpHeader = binary.read(what, info.offset.get().into())?;
    signed(what, header.signature, IP_SIGNATURE)?;
    binary.checked(TABLE_IP, info, header.size.get().into())?;
    let version = header.version.get();
    if !(1..=4).contains(&version) {
        return Err(DiscoveryError::Version {
            what,
            found: version.to_string(),
            known: "1 to 4",
        });
    }
    let is_wide = version >= 4 && header.flags & BASE_ADDR_64_BIT != 0;
    let dies = usize::from(header.num_dies.get());
    let Some(dies) = header.dies.get(..dies) else {
        return Err(DiscoveryError::Field {
            what: "num_dies".into(),
            found: dies as u64,
            expected: format!("at most {DIES}"),
        });
    };
    let mut ips: Vec<Ip> = Vec::new();
    for (number, die) in dies.iter().enumerate() {
        let mut at = usize::from(die.die_offset.get());
        let header: DieHeader = binary.read(&format!("die {number}"), at)?;
        if usize::from(header.die_id.get()) != number {
            return Err(DiscoveryError::Field {
                what: format!("die_id of die {number}"),
                found: header.die_id.get().into(),
                expected: number.to_string(),
            });
        }
        at += size_of::<DieHeader>();
        for index in 0..header.num_ips.get() {
            let what = format!("block {index} of die {number}");
            let entry: IpEntry = binary.read(&what, at)?;
            at += size_of::<IpEntry>();
            let bytes = usize::from(entry.num_base_address) * if is_wide { 8 } else { 4 };
            let bases = binary.bytes(&format!("base addresses of {what}"), at, bytes)?;
            at += bytes;
            let ip = one(&entry, bases, is_wide, version, number as u16);
            // As the vendor's driver does: such entries are there on some cards, and mean nothing.
            if ip.hw_id >= HW_IDS || ip.instance >= INSTANCES {
                continue;
            }
            // Two answers to where registers are that get written are none.
            let is_same = |other: &&Ip| (other.hw_id, other.instance) == (ip.hw_id, ip.instance);
            if let (Some(name), Some(other)) = (name(ip.hw_id), ips.iter().find(is_same)) {
                return Err(DiscoveryError::Field {
                    what: format!("instance of {name} on die {number}"),
                    found: ip.instance.into(),
                    expected: format!("a different one than on die {}", other.die),
                });
            }
            ips.push(ip);
        }
    }
    Ok(ips)
}

fn one(entry: &IpEntry, bases: &[u8], is_wide: bool, version: u16, die: u16) -> Ip {
    let wide = |bytes: &[u8]| U64::read_from_bytes(bytes).map_or(0, U64::get);
    let narrow = |bytes: &[u8]| U32::read_from_bytes(bytes).map_or(0, |base| base.get().into());
    // Before version 3 it is whether the block works. The vendor's driver believes that on three cards only,
    // none of which is driven here; the others have the harvest table.
    let has_variant = version >= 3;
    Ip {
        die,
        hw_id: entry.hw_id.get(),
        instance: entry.instance,
        version: IpVersion(entry.major, entry.minor, entry.revision),
        sub_revision: if has_variant { entry.more & 0xf } else { 0 },
        variant: if has_variant { entry.more >> 4 } else { 0 },
        bases: match is_wide {
            true => bases.chunks_exact(8).map(wide).collect(),
            false => bases.chunks_exact(4).map(narrow).collect(),
        },
        is_harvested: false,
    }
}

fn units(binary: &Binary<'_>, info: TableInfo) -> Result<Units, DiscoveryError> {
    let what = TABLES[TABLE_GC];
    let at = usize::from(info.offset.get());
    let header: InfoHeader = binary.read(what, at)?;
    signed(what, header.table_id, GC_TABLE)?;
    // A length of 32 bits that does not fit is longer than the binary.
    let bytes = usize::try_from(header.size.get()).unwrap_or(usize::MAX);
    binary.checked(TABLE_GC, info, bytes)?;
    // Of the table, not of what follows it.
    let table = Binary(binary.bytes(what, at, bytes)?);
    let data = size_of::<InfoHeader>();
    let units = match header.version_major.get() {
        1 => {
            let of: GcInfo1 = table.read(what, data)?;
            let wgps = of
                .num_wgp0_per_sa
                .get()
                .saturating_add(of.num_wgp1_per_sa.get());
            Units {
                engines: of.num_se.get(),
                arrays_per_engine: of.num_sa_per_se.get(),
                cus_per_array: wgps.saturating_mul(2),
                l2_channels: of.num_gl2c.get(),
                wave_size: of.wave_size.get(),
                waves_per_simd: of.max_waves_per_simd.get(),
                scratch_slots_per_cu: of.max_scratch_slots_per_cu.get(),
                lds_kib: of.lds_size.get(),
            }
        }
        2 => {
            let of: GcInfo2 = table.read(what, data)?;
            Units {
                engines: of.num_se.get(),
                arrays_per_engine: of.num_sh_per_se.get(),
                cus_per_array: of.num_cu_per_sh.get(),
                l2_channels: of.num_tccs.get(),
                wave_size: of.wave_size.get(),
                waves_per_simd: of.max_waves_per_simd.get(),
                scratch_slots_per_cu: of.max_scratch_slots_per_cu.get(),
                lds_kib: of.lds_size.get(),
            }
        }
        major => {
            return Err(DiscoveryError::Version {
                what,
                found: format!("{major}.{}", header.version_minor),
                known: "1 and 2",
            });
        }
    };
    // Everything that is computed of these stays a number: none of them is near 2^10 on any chip.
    for (field, found) in [
        ("num_se", units.engines),
        ("shader arrays of an engine", units.arrays_per_engine),
        ("compute units of an array", units.cus_per_array),
        ("max_waves_per_simd", units.waves_per_simd),
        ("max_scratch_slots_per_cu", units.scratch_slots_per_cu),
        ("wave_size", units.wave_size),
    ] {
        if !(1..1 << 10).contains(&found) {
            return Err(DiscoveryError::Field {
                what: format!("{field} of {what}"),
                found: found.into(),
                expected: "1 to 1023".into(),
            });
        }
    }
    Ok(units)
}

/// Marks the blocks that do not work.
fn harvest(binary: &Binary<'_>, info: TableInfo, ips: &mut [Ip]) -> Result<(), DiscoveryError> {
    let what = TABLES[TABLE_HARVEST];
    let at = usize::from(info.offset.get());
    let (head, one) = (size_of::<HarvestHeader>(), size_of::<HarvestEntry>());
    let header: HarvestHeader = binary.read(what, at)?;
    signed(what, header.signature, HARVEST_SIGNATURE)?;
    binary.checked(TABLE_HARVEST, info, head + HARVESTS * one)?;
    for i in 0..HARVESTS {
        let entry: HarvestEntry = binary.read(what, at + head + i * one)?;
        let (hw_id, instance) = (entry.hw_id.get(), entry.instance);
        if hw_id == 0 {
            break;
        }
        for ip in ips.iter_mut() {
            ip.is_harvested |= ip.hw_id == hw_id && ip.instance == instance;
        }
    }
    Ok(())
}
