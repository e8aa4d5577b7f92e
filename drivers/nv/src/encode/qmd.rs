//! QMDs as templates: the program's part, and the fields filled in by a launch.

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::qmd::{self, Field, Misfit, Version};

use super::limits::Limits;

/// CWD_MEMBAR_TYPE: at the end of the grid all that it stored is visible to the system.
const L1_SYSMEMBAR: u64 = 1;
/// API_VISIBLE_CALL_LIMIT: calls may nest as deep as they do.
const NO_CHECK: u64 = 1;
/// QMD_TYPE: a grid of blocks without clusters.
const GRID_CTA: u64 = 2;
/// QMD_GROUP_ID that ran on Ampere, Ada and Blackwell; on Hopper it was 0.
///
/// Source: tinygrad, ops_nv.py; maxime-peim/libcuda-research, mc_compute_qmd.c.
const GROUP: u64 = 0x3f;
/// What a prefetch counts in.
const PREFETCH_UNIT: u64 = 256;

/// The version of the structure that a generation has as its own.
pub(crate) fn version(arch: Arch) -> Version {
    let known = arch.facts().qmds;
    known.last().copied().unwrap_or(Version::V03_00)
}

/// A constant bank besides that of launches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bank {
    /// Its number.
    pub index: u8,
    /// Its address, a multiple of 64.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// The fields of a QMD that depend on the program only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code<'a> {
    /// Its first instruction, a multiple of 128.
    pub entry: u64,
    /// Bytes of its code.
    pub bytes: u64,
    /// Registers of a thread.
    pub registers: u32,
    /// Barriers of a block.
    pub barriers: u32,
    /// Shared memory of a block, including the system's: a multiple of 128.
    pub shared_bytes: u32,
    /// Local memory of a thread: a multiple of 16.
    pub local_bytes: u32,
    /// Bytes of constant bank 0: a multiple of 16.
    pub bank0_bytes: u32,
    /// Other constant banks.
    pub banks: &'a [Bank],
}

/// A QMD in which a launch is missing: grid, block, the address of bank 0, and what an SM had best set aside for
/// shared memory.
///
/// # Errors
/// [`Misfit`] for a value that the structure cannot hold.
pub fn template(
    arch: Arch,
    limits: &Limits,
    code: &Code<'_>,
    words: &mut Vec<u32>,
) -> Result<(), Misfit> {
    let version = version(arch);
    let start = words.len();
    words.resize(start + version.dwords(), 0);
    let qmd = &mut words[start..];
    let mut put = |field: &Field, value: u64| field.put(version, 0, qmd, value);
    // What a version does not have it does without.
    let has = |field: &Field| field.place(version).is_some();

    let (major, minor) = version.number();
    put(&qmd::QMD_MAJOR_VERSION, major)?;
    put(&qmd::QMD_MINOR_VERSION, minor)?;
    put(&qmd::API_VISIBLE_CALL_LIMIT, NO_CHECK)?;
    put(&qmd::CWD_MEMBAR_TYPE, L1_SYSMEMBAR)?;
    put(&qmd::SASS_VERSION, limits.sass_version.into())?;
    if has(&qmd::QMD_TYPE) {
        put(&qmd::QMD_TYPE, GRID_CTA)?;
    }
    if has(&qmd::SM_GLOBAL_CACHING_ENABLE) {
        put(&qmd::SM_GLOBAL_CACHING_ENABLE, 1)?;
    }
    if arch != Arch::Gh100 {
        put(&qmd::QMD_GROUP_ID, GROUP)?;
    }
    // What grids before it and copies have stored: caches of multiprocessors know nothing of it.
    put(&qmd::INVALIDATE_TEXTURE_DATA_CACHE, 1)?;
    put(&qmd::INVALIDATE_SHADER_DATA_CACHE, 1)?;

    put(&qmd::REGISTER_COUNT, code.registers.into())?;
    put(&qmd::BARRIER_COUNT, code.barriers.into())?;
    put(&qmd::SHARED_MEMORY_SIZE, code.shared_bytes.into())?;
    let least = limits.carve_out(code.shared_bytes);
    put(&qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE, least.into())?;
    let most = limits.carve_out(u32::MAX);
    put(&qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE, most.into())?;
    // Stacks grow down from the end of the window.
    put(&qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE, code.local_bytes.into())?;

    let first = code.entry / PREFETCH_UNIT;
    let units = (code.entry + code.bytes).div_ceil(PREFETCH_UNIT) - first;
    // Cut to what the field holds.
    let most = (1 << qmd_bits(&qmd::PROGRAM_PREFETCH_SIZE, version)) - 1;
    put(&qmd::PROGRAM_PREFETCH_SIZE, units.min(most))?;

    qmd::PROGRAM_ADDRESS.put(version, 0, qmd, code.entry)?;
    qmd::PROGRAM_PREFETCH_ADDR.put(version, 0, qmd, first * PREFETCH_UNIT)?;
    let mut bank = |index: usize, address: Option<u64>, bytes: u64| {
        qmd::CONSTANT_BUFFER_VALID.put(version, index, qmd, 1)?;
        qmd::CONSTANT_BUFFER_INVALIDATE.put(version, index, qmd, 1)?;
        qmd::CONSTANT_BUFFER_SIZE.put(version, index, qmd, bytes)?;
        match address {
            None => Ok(()),
            Some(address) => qmd::CONSTANT_BUFFER_ADDR.put(version, index, qmd, address),
        }
    };
    bank(0, None, code.bank0_bytes.into())?;
    for Bank {
        index,
        address,
        bytes,
    } in code.banks
    {
        bank((*index).into(), Some(*address), bytes.next_multiple_of(16))?;
    }
    Ok(())
}

/// The width of a field.
fn qmd_bits(field: &Field, version: Version) -> u32 {
    let bits = field.place(version).map(|place| place.bits[0]);
    bits.map_or(0, |(high, low)| u32::from(high - low) + 1)
}

/// Where a field begins: which dword, which bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub dword: usize,
    pub low: u32,
}

impl At {
    const fn of(field: Field, version: Version) -> At {
        match field.place(version) {
            Some(place) => {
                let (_, low) = place.bits[0];
                At {
                    dword: (low / 32) as usize,
                    low: (low % 32) as u32,
                }
            }
            None => panic!("every version has what launches set"),
        }
    }

    /// Sets it, where it is 0.
    #[inline]
    pub fn put(self, qmd: &mut [u32], value: u32) {
        qmd[self.dword] |= value << self.low;
    }
}

/// Where a launch puts its own: looked up once, since every launch pays for it.
#[derive(Debug)]
pub(crate) struct Places {
    pub grid: [At; 3],
    pub block: [At; 3],
    pub target: At,
    /// The address fields of constant bank 0: low dword, high dword, the shift of both, and the bits of the high one.
    pub bank: [At; 2],
    pub bank_shift: u8,
    pub bank_upper: u32,
}

impl Places {
    const fn new(version: Version) -> Places {
        let (shift, upper) = match (
            qmd::CONSTANT_BUFFER_ADDR_LOWER.place(version),
            qmd::CONSTANT_BUFFER_ADDR_UPPER.place(version),
        ) {
            (Some(lower), Some(upper)) => (lower.shift as u8, upper.bits[0]),
            _ => panic!("every version has constant banks"),
        };
        Places {
            grid: [
                At::of(qmd::GRID_WIDTH, version),
                At::of(qmd::GRID_HEIGHT, version),
                At::of(qmd::GRID_DEPTH, version),
            ],
            block: [
                At::of(qmd::CTA_THREAD_DIMENSION0, version),
                At::of(qmd::CTA_THREAD_DIMENSION1, version),
                At::of(qmd::CTA_THREAD_DIMENSION2, version),
            ],
            target: At::of(qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, version),
            bank: [
                At::of(qmd::CONSTANT_BUFFER_ADDR_LOWER, version),
                At::of(qmd::CONSTANT_BUFFER_ADDR_UPPER, version),
            ],
            bank_shift: shift,
            bank_upper: u32::MAX >> (31 - (upper.0 - upper.1)),
        }
    }

    /// Those of a version.
    pub const fn of(version: Version) -> &'static Places {
        &PLACES[version as usize]
    }
}

const PLACES: &[Places; Version::ALL.len()] = &[
    Places::new(Version::V02_04),
    Places::new(Version::V03_00),
    Places::new(Version::V04_00),
    Places::new(Version::V05_00),
];
