//! [`Bus`]: how a command processor reaches the addresses that packets name.
//!
//! Unsafe module. Addresses come from programs and may be wrong, so every access runs under the
//! guard, in one of the functions at the end, which own nothing and may be abandoned. They access
//! memory raw or atomically, never through a reference to plain data.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hcq::Width;

use crate::guard::{Guard, Kernel, Trap};

/// Accesses on behalf of one command processor.
pub(crate) struct Bus<'a>(pub(crate) &'a Guard);

impl Bus<'_> {
    /// Loads a word with acquire; the address is aligned.
    pub(crate) fn load(&self, at: u64, width: Width) -> Result<u64, Trap> {
        not_null(at, false)?;
        let mut value = 0u64;
        let kernel = match width {
            Width::W32 => load_32,
            Width::W64 => load_64,
        };
        self.run(kernel, &[at, &raw mut value as u64])?;
        // SAFETY: a local; read anew because it was written behind the compiler's back.
        Ok(unsafe { (&raw const value).read_volatile() })
    }

    /// Stores a word with release; the address is aligned.
    pub(crate) fn store(&self, at: u64, value: u64, width: Width) -> Result<(), Trap> {
        not_null(at, true)?;
        let kernel = match width {
            Width::W32 => store_32,
            Width::W64 => store_64,
        };
        self.run(kernel, &[at, value])
    }

    /// Copies bytes.
    pub(crate) fn copy(&self, dst: u64, src: u64, bytes: u64) -> Result<(), Trap> {
        self.run(copy, &[dst, src, bytes])
    }

    /// Fills with a word; address and bytes are multiples of 4.
    pub(crate) fn fill(&self, at: u64, value: u32, bytes: u64) -> Result<(), Trap> {
        if bytes == 0 {
            return Ok(());
        }
        not_null(at, true)?;
        self.run(fill, &[at, value.into(), bytes / 4])
    }

    /// Copies the words at `src` into `to`.
    pub(crate) fn read_words(&self, src: u64, to: &mut [u32]) -> Result<(), Trap> {
        self.copy(to.as_mut_ptr() as u64, src, to.len() as u64 * 4)
    }

    fn run(&self, kernel: Kernel, args: &[u64]) -> Result<(), Trap> {
        // SAFETY: the functions below have the ABI, own nothing, and take these arguments.
        unsafe { self.0.call(kernel as *const () as u64, args.as_ptr(), 0, 1) }
    }
}

/// What the processor would say of address 0, which builds with debug assertions do not let reach
/// the instruction.
fn not_null(at: u64, write: bool) -> Result<(), Trap> {
    match at {
        0 => Err(Trap {
            signal: libc::SIGSEGV,
            address: Some(0),
            pc: 0,
            sp: 0,
            write: Some(write),
        }),
        _ => Ok(()),
    }
}

/// `args`: address, where to put the value.
unsafe extern "C" fn load_32(args: *const u64, _: u64, _: u64) {
    // SAFETY: two arguments as `Bus::load` passes them; a bad address traps.
    unsafe {
        let value = AtomicU32::from_ptr(*args as *mut u32).load(Ordering::Acquire);
        (*args.add(1) as *mut u64).write_volatile(value as u64);
    }
}

/// As [`load_32`].
unsafe extern "C" fn load_64(args: *const u64, _: u64, _: u64) {
    // SAFETY: as in `load_32`.
    unsafe {
        let value = AtomicU64::from_ptr(*args as *mut u64).load(Ordering::Acquire);
        (*args.add(1) as *mut u64).write_volatile(value);
    }
}

/// `args`: address, value.
unsafe extern "C" fn store_32(args: *const u64, _: u64, _: u64) {
    // SAFETY: two arguments as `Bus::store` passes them; a bad address traps.
    unsafe {
        AtomicU32::from_ptr(*args as *mut u32).store(*args.add(1) as u32, Ordering::Release);
    }
}

/// As [`store_32`].
unsafe extern "C" fn store_64(args: *const u64, _: u64, _: u64) {
    // SAFETY: as in `store_32`.
    unsafe { AtomicU64::from_ptr(*args as *mut u64).store(*args.add(1), Ordering::Release) };
}

/// `args`: address, value, words.
unsafe extern "C" fn fill(args: *const u64, _: u64, _: u64) {
    // SAFETY: three arguments as `Bus::fill` passes them; a bad address traps.
    unsafe {
        let (at, value) = (*args as *mut u32, *args.add(1) as u32);
        for i in 0..*args.add(2) as usize {
            at.wrapping_add(i).write(value);
        }
    }
}

/// `args`: destination, source, bytes.
unsafe extern "C" fn copy(args: *const u64, _: u64, _: u64) {
    // SAFETY: three arguments as `Bus::copy` passes them; bad addresses trap, and the C function
    // takes ranges that overlap. It is called directly because its pointers may be anything, which
    // the checks of `ptr::copy` would refuse by panicking.
    unsafe {
        libc::memmove(
            *args as *mut libc::c_void,
            *args.add(1) as *const libc::c_void,
            *args.add(2) as usize,
        );
    }
}
