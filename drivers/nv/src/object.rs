//! Cubins to executable images.
//!
//! [`Object::parse`] lays out a cubin as one image; [`Object::at`] relocates it for its load address. A [`Kernel`] of
//! it becomes the words of a launch. All of it is pure, and files are untrusted: unknown contents are rejected by
//! name. The code itself is not checked.

use std::borrow::Cow;

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::cubin::{
    Bank0, Cubin, CubinError, CubinKernel, Param, SHARED_RESERVED, bank0,
};
use drivers_spec::nv::qmd::Misfit;
use hcq::ArgLayout;

use crate::encode::Windows;
use crate::encode::launch::{self, LOCAL_RESERVED};
use crate::encode::limits::{Limits, MAX_THREADS, WARP, granules};
use crate::encode::local::LOCAL_MAX;
use crate::encode::qmd::{Bank, Code};

/// The alignment of an image's address.
pub const ALIGN: u64 = Cubin::ALIGN;
/// Bytes of an argument at most.
const WIDEST: usize = 8;
/// Maximum number of constant banks of a launch, and the bytes of each.
const BANKS: u8 = 8;
const BANK_MAX: u64 = 64 << 10;

/// Why an object cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Not a cubin that can be loaded.
    #[error(transparent)]
    Cubin(#[from] CubinError),
    /// Made for another chip.
    #[error("compiled for sm_{object}, but the device is sm_{device}: compile it for sm_{device}")]
    Chip {
        /// The generation of the object, as compilers count.
        object: u32,
        /// That of the device.
        device: u32,
    },
    /// A kernel that this chip cannot start.
    #[error("kernel {kernel}: {why}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// The actual value, and the expected one.
        why: String,
    },
}

/// The result of loading.
pub type Result<T, E = ObjectError> = std::result::Result<T, E>;

/// What a kernel is loaded for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The generation of the GPU.
    pub arch: Arch,
    /// What its multiprocessors hold.
    pub limits: &'static Limits,
    /// Where its channels see shared and local memory.
    pub windows: Windows,
}

/// A cubin, laid out.
#[derive(Debug, Clone)]
pub struct Object {
    cubin: Cubin,
    target: Target,
    bank0: &'static Bank0,
}

impl Object {
    /// Lays a cubin out and finds its kernels.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn parse(bytes: &[u8], target: Target) -> Result<Object> {
        let cubin = Cubin::parse(bytes)?;
        let (object, device) = (cubin.sm, target.limits.sm);
        // Code runs on later chips of the same tens.
        let other = ObjectError::Chip { object, device };
        if object / 10 != device / 10 || object > device {
            return Err(other);
        }
        let Some(bank0) = bank0(device) else {
            return Err(other);
        };
        Ok(Object {
            cubin,
            target,
            bank0,
        })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.cubin.bytes()
    }

    /// The image for the address `base`, a multiple of [`ALIGN`].
    pub fn at(&self, base: u64) -> Cow<'_, [u8]> {
        self.cubin.at(base)
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// [`CubinError::Kernel`], which names those that are there.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>> {
        Ok(Kernel {
            object: self,
            kernel: self.cubin.kernel(name)?,
        })
    }
}

/// A kernel of a cubin.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'a> {
    object: &'a Object,
    kernel: &'a CubinKernel,
}

impl Kernel<'_> {
    fn refused(&self, why: impl Into<String>) -> ObjectError {
        ObjectError::Kernel {
            kernel: self.kernel.name.escape_debug().take(80).collect(),
            why: why.into(),
        }
    }

    /// Where its first instruction is in the image, in bytes.
    pub fn entry(&self) -> u64 {
        self.kernel.entry
    }

    /// Whether a caller's idea of the arguments is the compiler's. A file that does not describe them is believed.
    ///
    /// # Errors
    /// [`ObjectError::Kernel`] that names the first difference.
    pub fn check_layout(&self, layout: &ArgLayout) -> Result<()> {
        let params = &self.kernel.params;
        if params.is_empty() && self.kernel.param_bytes > 0 {
            return Ok(());
        }
        // A parameter with more bytes than an argument is several adjacent ones.
        let parts = params.iter().flat_map(|param| {
            (0..param.size.max(1)).step_by(WIDEST).map(|from| Param {
                offset: param.offset.saturating_add(from),
                size: (param.size - from).min(WIDEST as u32),
            })
        });
        let takes = parts.clone().take(layout.fields.len() + 1).count();
        if takes != layout.fields.len() {
            let all: u64 = params
                .iter()
                .map(|p| u64::from(p.size).div_ceil(WIDEST as u64))
                .sum();
            return Err(self.refused(format!(
                "takes {all} arguments, {} are described",
                layout.fields.len()
            )));
        }
        for (i, (param, field)) in parts.zip(&layout.fields).enumerate() {
            let (offset, bytes) = (field.offset, field.kind.bytes());
            if (param.offset, param.size) != (offset, bytes) {
                return Err(self.refused(format!(
                    "argument {i} has {} bytes at {}, not {bytes} at {offset}",
                    param.size, param.offset
                )));
            }
        }
        Ok(())
    }

    /// Bytes of local memory that a launch provides for each thread; 0 for a kernel without.
    ///
    /// # Errors
    /// [`ObjectError::Kernel`] for more than a thread can have.
    pub fn local_bytes(&self) -> Result<u32> {
        match self.kernel.local_bytes {
            0 => Ok(0),
            own if own > LOCAL_MAX - LOCAL_RESERVED => Err(self.refused(format!(
                "a thread needs {own} bytes of local memory, expected at most {}: use smaller local arrays",
                LOCAL_MAX - LOCAL_RESERVED
            ))),
            own => Ok((own + LOCAL_RESERVED).next_multiple_of(32)),
        }
    }

    /// Bytes of shared memory of a block, including the system's. `local_bytes` is the caller's size;
    /// the kernel's own size counts if it is larger.
    fn shared_bytes(&self, local_bytes: u32) -> Result<u32> {
        let limits = self.object.target.limits;
        let own = self.kernel.shared_bytes.max(local_bytes);
        if own > limits.shared_of_block() {
            return Err(self.refused(format!(
                "a block needs {own} bytes of shared memory, sm_{} has {}: use a smaller tile",
                limits.sm,
                limits.shared_of_block()
            )));
        }
        Ok((own + SHARED_RESERVED).next_multiple_of(128))
    }

    /// Threads of a block at most: as many as it was compiled for, and the registers suffice for.
    fn max_threads(&self) -> Result<u32> {
        let warps = self
            .object
            .target
            .limits
            .warps_of(granules(self.kernel.registers));
        let compiled = match self.kernel.max_threads {
            Some(sides) => sides
                .iter()
                .fold(1, |all: u32, &side| all.saturating_mul(side)),
            None => MAX_THREADS,
        };
        match compiled.min(warps * WARP).min(MAX_THREADS) {
            0 => Err(self.refused("compiled for blocks of 0 threads")),
            most => Ok(most),
        }
    }

    /// Constant banks besides that of launches, for an image at `base`.
    fn banks(&self, base: u64) -> Result<Vec<Bank>> {
        let mut banks: Vec<Bank> = Vec::new();
        for (index, place) in self
            .kernel
            .banks
            .iter()
            .filter(|(_, place)| !place.is_empty())
        {
            let bytes = place.end - place.start;
            let why = if *index == 0 || *index >= BANKS {
                format!("expected a constant bank from 1 to {}", BANKS - 1)
            } else if bytes > BANK_MAX {
                format!("{bytes} bytes, expected at most {BANK_MAX}")
            } else if banks.iter().any(|bank| bank.index == *index) {
                "defined twice".into()
            } else {
                banks.push(Bank {
                    index: *index,
                    address: base + place.start,
                    bytes,
                });
                continue;
            };
            return Err(self.refused(format!("section .nv.constant{index}: {why}")));
        }
        Ok(banks)
    }

    /// What launches need, for an image at `base`, a multiple of [`ALIGN`]. `local_bytes` is the shared memory that
    /// the caller asks for.
    ///
    /// # Errors
    /// [`ObjectError::Kernel`] for what the chip does not have.
    pub fn launch(&self, base: u64, local_bytes: u32) -> Result<Box<[u32]>> {
        let Target {
            arch,
            limits,
            windows,
        } = self.object.target;
        let kernel = self.kernel;
        if !kernel.entry.is_multiple_of(ALIGN) {
            let at = kernel.entry;
            return Err(self.refused(format!(
                "code starts at {at:#x} of the image, expected a multiple of {ALIGN}"
            )));
        }
        let bank0_bytes = kernel.bank0_bytes.next_multiple_of(16);
        if u64::from(bank0_bytes) > BANK_MAX {
            return Err(self.refused(format!(
                "section .nv.constant0: {bank0_bytes} bytes, expected at most {BANK_MAX}: pass fewer \
                 parameters"
            )));
        }
        let banks = self.banks(base)?;
        let words = launch::Kernel {
            arch,
            limits,
            windows,
            code: Code {
                entry: base + kernel.entry,
                bytes: kernel.code_bytes,
                registers: kernel.registers,
                barriers: kernel.barriers,
                shared_bytes: self.shared_bytes(local_bytes)?,
                local_bytes: self.local_bytes()?,
                bank0_bytes,
                banks: &banks,
            },
            bank0: self.object.bank0,
            param_bytes: kernel.param_bytes,
            max_threads: self.max_threads()?,
            by_address: kernel.params.iter().any(|p| p.size as usize > WIDEST),
        };
        let words = words.words();
        words.map_err(|misfit: Misfit| self.refused(misfit.to_string()))
    }
}
