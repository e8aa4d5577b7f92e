//! Commands to push buffers, pure.
//!
//! An [`Encoder`] turns the commands of one channel into methods. It knows the generation's facts and the few
//! numbers of a [`Setup`], and touches no memory of a device.
//!
//! | command | of a compute channel | of a copy channel |
//! |---|---|---|
//! | wait | SEM_EXECUTE, acquire | the same |
//! | signal | SEM_EXECUTE, release of 64 bits and the time, once the engine is idle | the same |
//! | timestamp | SEM_EXECUTE, a reduction that changes only the timestamp | the same |
//! | write | SEM_EXECUTE, release, once the engine is idle | the same |
//! | poll | SEM_EXECUTE, acquire; one for each bit of a mask | the same |
//! | barrier | WAIT_FOR_IDLE | WFI and MEM_OP; none within the queue |
//! | exec | SEND_PCAS of a QMD in the data block | refused |
//! | copy, fill | LAUNCH_DMA, as many as it takes, on the subchannel of copies | the same |
//!
//! # Visibility
//!
//! - A grid ends with a system barrier (CWD_MEMBAR_TYPE) and begins with an invalidation of the multiprocessors' data
//!   caches (INVALIDATE_SHADER_DATA_CACHE, INVALIDATE_TEXTURE_DATA_CACHE). Kernels in order therefore need only
//!   a wait between them, and writes of another queue, another device or the host before a wait are
//!   visible after it.
//! - Constant bank 0 of a launch may reuse an address: the QMD invalidates it. Code and other
//!   constants change between submissions only: [`Encoder::begin`].
//! - Between the engines of a compute channel the host waits, with a barrier. A release that waits for
//!   idle has one as well.
//! - L2 does not cache memory of the host or of other devices.
//!
//! # How words reach a channel
//!
//! 1. Once: [`Encoder::open`] returns the first words of a channel.
//! 2. A submission is the words of [`Encoder::begin`], then the packets' words, in segments that entries of the
//!    ring lead to ([`push::entry`]); [`push::packet_boundary`] says where words may be cut. The data block may be at any address
//!    that the device can read below [`DATA_END`], at a multiple of [`DATA_ALIGN`], until the submission is done.
//! 3. Bound words stay in place, and each replay has an entry for them.

mod compute;
mod copy;
mod host;
pub mod launch;
pub mod limits;
pub mod local;
pub mod push;
pub mod qmd;
mod span;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::{AtomicU32, Ordering};

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::push::subchannel::COPY;
use hcq::{Command, CommandBuffer, DeviceId, Error, GpuVa, Program, QueueKind, Result, Scope};

use copy::Order;
use limits::Limits;
use local::LocalMemory;

/// The alignment of a data block in bytes: that of QMDs.
pub const DATA_ALIGN: u64 = 256;
/// Where data blocks end: the scheduler of grids takes 32 bits of an address of [`DATA_ALIGN`].
pub const DATA_END: u64 = 1 << 40;

/// The windows of shared and local memory in the generic address space. Nothing is mapped there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// 4 GiB, at a multiple of them.
    pub shared: GpuVa,
    /// 16 MiB.
    pub local: GpuVa,
}

impl Windows {
    /// Where tinygrad has them, on each generation.
    pub const DEFAULT: Windows = Windows {
        shared: GpuVa(0x7294_0000_0000),
        local: GpuVa(0x7293_0000_0000),
    };
}

/// What an encoder has to know of an opened channel.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device, for messages.
    pub device: DeviceId,
    /// The kind of the queue.
    pub kind: QueueKind,
    /// Its number among those of its kind, for messages.
    pub index: u32,
    /// The generation of the GPU.
    pub arch: Arch,
    /// What its multiprocessors hold.
    pub limits: &'static Limits,
    /// Where its channels see shared and local memory.
    pub windows: Windows,
    /// The address of the signal ([`hcq::Signal::va`]) that raises an interrupt, if any. Signals are at
    /// addresses of [`Facts::va_bits`](drivers_spec::nv::chip::Facts::va_bits).
    pub interrupt: Option<GpuVa>,
}

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

/// The encoder of a channel.
#[derive(Debug)]
pub struct Encoder {
    setup: Setup,
    /// Bytes of local memory that a thread has.
    local_bytes: AtomicU32,
}

impl Encoder {
    /// An encoder for a channel without local memory. Compute channels have an engine of copies, too.
    pub fn new(setup: Setup) -> Encoder {
        Encoder {
            setup,
            local_bytes: AtomicU32::new(0),
        }
    }

    /// What it knows.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Appends what a channel begins with.
    pub fn open(&self, out: &mut CommandBuffer) {
        match self.setup.kind {
            QueueKind::Compute => compute::open(&self.setup, out),
            QueueKind::Copy => out.words.extend_from_slice(&[
                const { push::methods(COPY, drivers_spec::nv::host::SET_OBJECT, 1) },
                self.setup.arch.facts().copy.number,
            ]),
        }
    }

    /// Appends what every submission starts with: what follows sees what the host wrote before the doorbell.
    #[inline]
    pub fn begin(&self, out: &mut CommandBuffer) {
        if self.setup.kind == QueueKind::Compute {
            compute::begin(out);
        }
    }

    /// Appends the words that set the grids' local memory. Earlier grids use the old one and complete
    /// before; grids encoded after [`Encoder::set_local`] may use the new one.
    pub fn local_memory(&self, local: &LocalMemory, out: &mut CommandBuffer) {
        if self.setup.kind == QueueKind::Compute {
            compute::local_memory(local, out);
        }
    }

    /// From now on threads have as much: the words of [`Encoder::local_memory`] are submitted.
    pub fn set_local(&self, local: &LocalMemory) {
        self.local_bytes
            .fetch_max(local.thread_bytes, Ordering::AcqRel);
    }

    /// Appends the methods of `commands`. Never allocates while `out` has room.
    ///
    /// # Errors
    /// [`Error::Command`] for a command that the channel cannot take; `out` then holds a part.
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        let setup = &self.setup;
        let mut order = Order::After;
        for command in commands {
            match *command {
                Command::Wait { signal, value } => host::wait(setup, signal, value, out)?,
                Command::Signal { signal, value } => host::signal(setup, signal, value, out)?,
                Command::Timestamp { signal } => host::timestamp(setup, signal.va(), out)?,
                Command::Barrier { scope } => {
                    order = Order::After;
                    match (setup.kind, scope) {
                        (QueueKind::Compute, _) => compute::barrier(out),
                        // The next transfer waits.
                        (QueueKind::Copy, Scope::Queue) => {}
                        (QueueKind::Copy, _) => host::barrier(scope, out),
                    }
                }
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
                Command::Copy { dst, src, bytes } => {
                    copy::copy(setup, &mut order, dst, src, bytes, out)?;
                }
                Command::Fill { at, value, bytes } => {
                    copy::fill(setup, &mut order, at, value, bytes, out)?;
                }
                Command::Write { at, value, width } => host::write(setup, at, value, width, out)?,
                Command::Poll {
                    at,
                    mask,
                    value,
                    compare,
                    width,
                } => host::poll(setup, at, mask, value, compare, width, out)?,
            }
        }
        Ok(())
    }
}
