//! A launch's data of a loaded kernel, in the form of [`hcq::Program::launch_words`]: a few numbers, and
//! the block of data that a launch copies and completes (a QMD followed by constant bank 0).

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::cubin::Bank0;
use drivers_spec::nv::qmd::{INVALIDATE_TEXTURE_HEADER_CACHE, Misfit, Version};

use super::Windows;
use super::limits::Limits;
use super::qmd::{self, Code, Places};

/// Bytes at the end of a thread's local memory that are reserved for the system.
///
/// Source: tinygrad, ops_nv.py, NVProgram; CUDA's initial stack pointer leaves the same number.
pub const LOCAL_RESERVED: u32 = 0x240;
/// The initial stack pointer: the end of the local memory window (16 MiB) without the system's bytes.
const STACK: u32 = (16 << 20) - LOCAL_RESERVED;

/// The words of a loaded kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch<'a> {
    /// The version of the QMD.
    pub version: Version,
    /// Bytes of shared memory of a block, including the system's.
    pub shared_bytes: u32,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Granules of registers of a warp.
    pub granules: u32,
    /// Threads of a block at most.
    pub max_threads: u32,
    /// Bytes of parameters.
    pub param_bytes: u32,
    /// Offset of the parameters in the template, in bytes.
    pub params: u32,
    /// Where threads of a block along x, y and z do, in dwords.
    pub block: u32,
    /// Where blocks of the grid do.
    pub grid: u32,
    /// Offset of the parameters' address, in bytes; 0 if it is not read.
    pub window: u32,
    /// The QMD, and constant bank 0.
    pub template: &'a [u32],
}

/// How many words there are before the template.
const WORDS: usize = 10;

/// What a template is made of.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    /// The generation of the GPU.
    pub arch: Arch,
    /// What its multiprocessors hold.
    pub limits: &'static Limits,
    /// The windows of shared and local memory in the generic address space.
    pub windows: Windows,
    /// The code. Its constant bank 0 holds the parameters.
    pub code: Code<'a>,
    /// Its offsets.
    pub bank0: &'a Bank0,
    /// Bytes of parameters.
    pub param_bytes: u32,
    /// Threads of a block at most.
    pub max_threads: u32,
    /// It takes parameters by their addresses: tensor maps.
    pub by_address: bool,
}

impl Kernel<'_> {
    /// The words.
    ///
    /// # Errors
    /// [`Misfit`] for a value that the QMD cannot hold.
    pub fn words(&self) -> Result<Box<[u32]>, Misfit> {
        let version = qmd::version(self.arch);
        let (code, bank0) = (&self.code, self.bank0);
        let bank = version.dwords() as u32 * 4;
        let window = bank0.param_window.filter(|_| self.by_address);
        let mut words = vec![
            version as u32,
            code.shared_bytes,
            code.local_bytes,
            super::limits::granules(code.registers),
            self.max_threads,
            self.param_bytes,
            bank + bank0.params,
            (bank + bank0.block) / 4,
            (bank + bank0.grid) / 4,
            window.map_or(0, |at| bank + at),
        ];
        qmd::template(self.arch, self.limits, code, &mut words)?;
        if self.by_address {
            // Another launch may have had other tensor maps there.
            let qmd = &mut words[WORDS..];
            INVALIDATE_TEXTURE_HEADER_CACHE.put(version, 0, qmd, 1)?;
        }
        let start = words.len();
        // A launch writes its size whether or not the kernel's bank reaches as far.
        let bytes = code.bank0_bytes.max(bank0.block + 12).max(bank0.grid + 12);
        words.resize(WORDS + (bank + bytes).div_ceil(4) as usize, 0);
        let constants = &mut words[start..];
        let mut put = |at: u32, word: u32| {
            // Kernels without any read of a bank may have a short one.
            if let Some(place) = constants.get_mut(at as usize / 4) {
                *place = word;
            }
        };
        let mut window = |at: u32, base: u64| {
            put(at, base as u32);
            put(at + 4, (base >> 32) as u32);
        };
        if let Some(at) = bank0.shared_window {
            window(at, self.windows.shared.0);
        }
        window(bank0.local_window, self.windows.local.0);
        put(bank0.stack, STACK);
        Ok(words.into())
    }
}

impl<'a> Launch<'a> {
    /// From the words; `None` if they are not those of this driver.
    #[inline]
    pub fn from_words(words: &'a [u32]) -> Option<Launch<'a>> {
        let (numbers, template) = words.split_first_chunk::<WORDS>()?;
        let version = *Version::ALL.get(numbers[0] as usize)?;
        let launch = Launch {
            version,
            shared_bytes: numbers[1],
            local_bytes: numbers[2],
            granules: numbers[3],
            max_threads: numbers[4],
            param_bytes: numbers[5],
            params: numbers[6],
            block: numbers[7],
            grid: numbers[8],
            window: numbers[9],
            template,
        };
        let bytes = template.len() as u64 * 4;
        let ends = [
            u64::from(launch.params) + u64::from(launch.param_bytes),
            u64::from(launch.block) * 4 + 12,
            u64::from(launch.grid) * 4 + 12,
            u64::from(launch.window) + 8,
            version.dwords() as u64 * 4,
        ];
        ends.into_iter().all(|end| end <= bytes).then_some(launch)
    }

    /// Where a launch puts its own in the QMD.
    #[inline]
    pub(crate) fn places(&self) -> &'static Places {
        Places::of(self.version)
    }
}
