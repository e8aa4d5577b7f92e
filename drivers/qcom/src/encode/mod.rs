//! Commands to packets of the command processor (CP), pure.
//!
//! An [`Encoder`] turns the commands of one queue into packets. It knows the chip's facts and the few addresses of a
//! [`Setup`], and touches no memory of a device.
//!
//! | command | packets |
//! |---|---|
//! | wait, poll | WAIT_REG_MEM, one for each half of 64 bits, then an acquire |
//! | signal, write | WAIT_FOR_IDLE, then the event CACHE_FLUSH_TS, which writes 32 bits: one for each half |
//! | timestamp | WAIT_FOR_IDLE, REG_TO_MEM of the counter that is always on, WAIT_MEM_WRITES |
//! | barrier | an acquire |
//! | exec | the registers of a launch, LOAD_STATE6 of constants, code and images, EXEC_CS |
//! | copy, fill | launches of [`builtin`] kernels: a context has no copy engine |
//!
//! # Visibility
//!
//! - Shaders load and store through the unified cache (UCHE) and load images through a texture cache. CP reads and
//!   writes memory beside them, as the host does.
//! - A signal first flushes UCHE: CACHE_FLUSH_TS writes its value when that is done.
//! - An acquire flushes UCHE, invalidates it and the texture caches, then waits for CP's writes and for the GPU to be
//!   idle. Every submission begins with one ([`Encoder::begin`]): it sees what the host wrote before the call.
//! - Values of 64 bits are written and compared by halves, as SDMA of AMD does: see [`hcq::timeline::Counter`].
//!
//! Source: Mesa, src/freedreno/vulkan/tu_cmd_buffer.cc, `tu6_emit_flushes`; src/freedreno/computerator/a6xx.cc; the
//! streams of tests/golden/qcom.
//!
//! # How words reach a context
//!
//! A submission is indirect buffers, which a call names: the words of [`Encoder::begin`], then those of the packets. The
//! data block may be at any address that the GPU reads, at a multiple of [`DATA_ALIGN`], until the submission is done.

pub mod builtin;
mod exec;
pub mod launch;
mod memory;
pub mod packet;
pub mod private;
mod span;
mod sync;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Mutex, MutexGuard};

use drivers_spec::qcom::chip::Chip;
use hcq::command_buffer::Keep;
use hcq::sync::lock;
use hcq::{Command, CommandBuffer, DeviceId, Error, GpuVa, Program, QueueKind, Result};

use self::builtin::Builtin;
use self::private::Private;

/// The alignment of a data block in bytes; images in it lie at multiples of 64.
pub const DATA_ALIGN: u64 = 64;

/// Bits of an address of the GPU.
///
/// Source: Linux, drivers/gpu/drm/msm/adreno/a6xx_gpu.c and KGSL, DEVICE_BITNESS: 48 bits of input address.
pub const ADDRESS_BITS: u32 = 48;

/// What an encoder has to know of an opened queue.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device, for messages.
    pub device: DeviceId,
    /// The kind of the queue.
    pub kind: QueueKind,
    /// Its number among those of its kind, for messages.
    pub index: u32,
    /// The chip.
    pub chip: &'static Chip,
    /// Address of 4 bytes that belong to this queue: flushes without a value write there.
    pub scratch: GpuVa,
    /// Address of [`BORDER_BYTES`] of zeros: the colours outside of images.
    pub border: GpuVa,
}

/// Bytes of the border colours: 128 for each of the 32 that samplers can name.
pub const BORDER_BYTES: u64 = 4096;

impl Setup {
    /// Refuses a command.
    #[cold]
    fn refused(&self, command: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Command {
            device: self.device.clone(),
            queue: format!("{} {}", self.kind, self.index),
            command: command.into(),
            why: why.into(),
        }
    }

    /// Refuses a launch.
    #[cold]
    fn refused_exec(&self, program: &Program, why: impl Into<String>) -> Error {
        self.refused(format!("exec {}", program.name), why)
    }
}

/// The encoder of a queue.
#[derive(Debug)]
pub struct Encoder {
    setup: Setup,
    builtin: Builtin,
    /// The private memory of kernels, and what keeps it.
    private: Mutex<(Private, Option<Keep>)>,
}

impl Encoder {
    /// An encoder for a queue without private memory. `builtin` are its kernels for copies.
    pub fn new(setup: Setup, builtin: Builtin) -> Encoder {
        Encoder {
            setup,
            builtin,
            private: Mutex::default(),
        }
    }

    /// What it knows.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The kernels that copy and fill.
    pub fn builtin(&self) -> &Builtin {
        &self.builtin
    }

    /// Launches encoded from now on have this private memory.
    pub fn set_private(&self, private: Private, keep: Option<Keep>) {
        let old = std::mem::replace(&mut *self.private(), (private, keep));
        // Its drop may use the queue.
        drop(old);
    }

    /// Whether what packets keep is the private memory of now.
    pub fn uses(&self, kept: &Keep) -> bool {
        let now = self.private();
        now.1
            .as_ref()
            .is_some_and(|now| std::ptr::addr_eq(Keep::as_ptr(now), Keep::as_ptr(kept)))
    }

    fn private(&self) -> MutexGuard<'_, (Private, Option<Keep>)> {
        // Replaced in one step.
        lock(&self.private)
    }

    /// Appends what every submission starts with: what follows sees what the host wrote before the call, and registers
    /// that other clients of the GPU may have changed have their values.
    pub fn begin(&self, out: &mut CommandBuffer) {
        sync::acquire(&self.setup, out);
        launch::state(self.setup.chip, &mut out.words);
    }

    /// Appends the packets of `commands`. Never allocates while `out` has room.
    ///
    /// # Errors
    /// [`Error::Command`] for a command that the queue cannot take; `out` then holds a part.
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        let setup = &self.setup;
        for command in commands {
            match *command {
                Command::Wait { signal, value } => sync::wait(setup, signal, value, out)?,
                Command::Signal { signal, value } => sync::signal(setup, signal.va(), value, out)?,
                Command::Timestamp { signal } => sync::timestamp(setup, signal.va(), out)?,
                Command::Barrier { .. } => sync::acquire(setup, out),
                Command::Exec {
                    program,
                    args,
                    grid,
                    block,
                } => match setup.kind {
                    QueueKind::Compute => self.exec(program, args, grid, block, out)?,
                    QueueKind::Copy => {
                        let why = "copy queues cannot run kernels: submit it to a compute queue";
                        return Err(setup.refused_exec(program, why));
                    }
                },
                Command::Copy { dst, src, bytes } => self.copy(dst, src, bytes, out)?,
                Command::Fill { at, value, bytes } => self.fill(at, value, bytes, out)?,
                Command::Write { at, value, width } => sync::write(setup, at, value, width, out)?,
                Command::Poll {
                    at,
                    mask,
                    value,
                    compare,
                    width,
                } => sync::poll(setup, (at, mask, value, compare, width), out)?,
            }
        }
        Ok(())
    }
}
