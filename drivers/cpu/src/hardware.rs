//! [`CpuHardware`]: a queue of the CPU, for [`drivers_gpu`]: encoder, ring, and its thread.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{Code, Load, Loader};
use drivers_gpu::memory::pool::Piece;
use drivers_gpu::submit::decode::{Doing, Packet as Done, Test, peek_words};
use drivers_gpu::submit::ring::{OwnRing, Ring};
use drivers_gpu::submit::{Hardware, Stand};
use hcq::kernels::Kernel;
use hcq::progress::Asked;
use hcq::sync::lock;
use hcq::transport::MonotonicClock;
use hcq::{
    Command, CommandBuffer, Compare, Deadline, Error, GpuVa, KernelImage, Program, Result, Signal,
};

use crate::encode::Encoder;
use crate::loader;
use crate::packet::{INDIRECT_WORDS, Packet, decode, header, op};
use crate::processor::MAX_INDIRECT;
use crate::progress::Progress;
use crate::ring::CpuRing;
use crate::runtime::Runtime;
use crate::shared::Shared;

/// Between two looks at a thread that is to end.
const GLANCE: Duration = Duration::from_micros(50);

/// A queue of the CPU.
pub struct CpuHardware {
    ring: Ring<CpuRing>,
    encoder: Encoder,
    progress: Arc<Progress>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// That of the process that has the thread.
    generation: u32,
    /// Where fences are counted.
    _fences: Piece,
}

impl CpuHardware {
    /// A queue whose processor runs.
    pub(crate) fn new(
        ring: CpuRing,
        encoder: Encoder,
        progress: Arc<Progress>,
        shared: &Arc<Shared>,
        thread: JoinHandle<()>,
        fences: Piece,
    ) -> CpuHardware {
        CpuHardware {
            ring: Ring::new(ring),
            encoder,
            progress,
            shared: shared.clone(),
            thread: Mutex::new(Some(thread)),
            generation: hcq::process_generation(),
            _fences: fences,
        }
    }
}

impl Drop for CpuHardware {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Hardware for CpuHardware {
    type Way = Ring<CpuRing>;
    // The thread that raises a signal wakes its waiters.
    const WAKES_ALL: bool = false;

    #[inline]
    fn way(&self) -> &Ring<CpuRing> {
        &self.ring
    }

    #[inline]
    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        self.encoder.encode(commands, out)
    }

    #[inline]
    fn raise(&self, signal: &Signal, value: u64, out: &mut CommandBuffer) -> Result<()> {
        self.encoder.raise(signal, value, out);
        Ok(())
    }

    /// Nothing: packets are done in order, and all memory is coherent.
    fn begin(&self, _: &mut CommandBuffer) -> Result<()> {
        Ok(())
    }

    fn names_words(&self) -> bool {
        false
    }

    fn binds_words(&self) -> bool {
        true
    }

    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        let mut at = 0;
        while at < words.len() {
            let piece = self
                .ring
                .own()
                .packet_boundary(&words[at..], MAX_INDIRECT as usize);
            let address = GpuVa(address + at as u64 * 4);
            out.extend([
                header(op::INDIRECT, INDIRECT_WORDS),
                address.lo(),
                address.hi(),
                piece.max(1) as u32,
            ]);
            at += piece.max(1);
        }
    }

    /// Lets the processor finish what can be finished, and ends its thread, and those of its kernels.
    fn stop(&self) -> bool {
        let thread = lock(&self.thread).take();
        let Some(thread) = thread else {
            return true;
        };
        if self.generation != hcq::process_generation() {
            // A fork has none of the threads: there is nothing to join.
            std::mem::forget(thread);
            return false;
        }
        self.shared.close();
        self.ring.own().0.doorbell().notify();
        if let Some(limit) = self.shared.stop_limit
            && !has_ended(&thread, limit)
        {
            // It is in a call of the runtime's: its memory stays.
            self.shared.leave_running();
            return false;
        }
        // Its panic was reported already.
        let _ = thread.join();
        !self.shared.runs_on()
    }

    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Done> {
        let mut found = Vec::new();
        walk(core, words, start, true, &mut found);
        found
    }

    fn report(&self) -> Option<String> {
        Some(self.progress.report().unwrap_or_default())
    }

    fn silence(&self, asked: &mut Asked) -> Option<Duration> {
        Some(self.progress.silence(asked))
    }

    fn stand(&self) -> Option<Stand> {
        Some(self.progress.stand())
    }
}

/// Whether a thread ends within some time.
fn has_ended(thread: &JoinHandle<()>, limit: Duration) -> bool {
    let deadline = Deadline::after(limit);
    while !thread.is_finished() {
        if deadline.expired(&MonotonicClock) {
            return false;
        }
        std::thread::sleep(GLANCE);
    }
    true
}

/// Packets as others know them. Those in a bound list have the position of what runs it.
fn walk(core: &Core, words: &[u32], start: u64, is_ring: bool, found: &mut Vec<Done>) {
    let mut at = 0;
    while at < words.len() {
        let position = start + if is_ring { at as u64 } else { 0 };
        let mut push = |doing| found.push(Done { position, doing });
        let Ok((packet, length)) = decode(&words[at..], at) else {
            // The queue has advanced since, and other packets are written there.
            return push(Doing::Unknown { word: words[at] });
        };
        match packet {
            Packet::Wait { va, value } => push(Doing::Wait {
                at: va,
                bytes: 8,
                mask: u64::MAX,
                value,
                test: Test::GreaterEqual,
            }),
            Packet::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => push(Doing::Wait {
                at,
                bytes: drivers_gpu::span::bytes(width) as usize,
                mask,
                value,
                test: match compare {
                    Compare::Equal => Test::Equal,
                    Compare::NotEqual => Test::NotEqual,
                    Compare::GreaterEqual => Test::GreaterEqual,
                },
            }),
            Packet::Signal { va: at, value } | Packet::Write { at, value, .. } => {
                push(Doing::Signal { at, value });
            }
            Packet::Exec { entry, .. } => push(Doing::Launch {
                code: entry,
                arguments: std::iter::empty().collect(),
            }),
            Packet::Copy { dst, src, bytes } => push(Doing::Copy { dst, src, bytes }),
            Packet::Fill { at, value, bytes } => push(Doing::Fill { at, value, bytes }),
            Packet::Indirect {
                address,
                words: count,
            } if is_ring => match peek_words(core, address, count as usize) {
                Some(list) => walk(core, &list, position, false, found),
                None => push(Doing::Unknown { word: words[at] }),
            },
            Packet::Timestamp { .. } | Packet::Barrier { .. } | Packet::Indirect { .. } => {}
        }
        at += length;
    }
}

impl Load for CpuHardware {
    type Shared = Arc<Shared>;

    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program> {
        let refused = |why: String| Error::Program {
            device: on.core.id.clone(),
            program: image.name.clone(),
            why,
        };
        if let Some(runtime) = &on.shared.runtime {
            return runtime_kernel(on, &**runtime, image).map_err(refused);
        }
        check(image).map_err(refused)?;
        let loaded = loader::load(&on.shared.code, &image.bytes, &image.entry)
            .map_err(|e| refused(e.to_string()))?;
        let kernel = Kernel {
            name: image.name.as_str().into(),
            argument_bytes: image.args.bytes,
        };
        let registration = on.core.kernels.register(loaded.code_range(), kernel);
        Ok(Program {
            name: image.name.clone(),
            entry: GpuVa(loaded.entry()),
            args: image.args.clone(),
            local_bytes: 0,
            launch_words: Box::new([]),
            owner: Box::new(Code::new(on.core, (registration, loaded))),
        })
    }
}

/// A kernel that a runtime builds.
fn runtime_kernel(
    on: &Loader<'_, CpuHardware>,
    runtime: &dyn Runtime,
    image: &KernelImage,
) -> std::result::Result<Program, String> {
    let runs = &runtime.about().arch;
    if image.arch != *runs {
        return Err(format!(
            "compiled for {}, this device runs {runs}; compile it for this device",
            image.arch
        ));
    }
    check_arguments(image)?;
    let loaded = runtime.load(image)?;
    let kernel = Kernel {
        name: image.name.as_str().into(),
        argument_bytes: image.args.bytes,
    };
    let place = loaded.entry..loaded.entry + 1;
    let registration = on.core.kernels.register(place, kernel);
    Ok(Program {
        name: image.name.clone(),
        entry: GpuVa(loaded.entry),
        args: image.args.clone(),
        local_bytes: image.local_bytes,
        launch_words: Box::new([loaded.items]),
        owner: Box::new(Code::new(on.core, (registration, loaded.owner))),
    })
}

fn check(image: &KernelImage) -> std::result::Result<(), String> {
    let runs = std::env::consts::ARCH;
    if image.arch != runs {
        return Err(format!(
            "compiled for {}, this device runs {runs}; compile it for this device",
            image.arch
        ));
    }
    if image.local_bytes != 0 {
        return Err(format!(
            "needs {} bytes of local memory; a CPU kernel keeps it on its stack",
            image.local_bytes
        ));
    }
    check_arguments(image)
}

fn check_arguments(image: &KernelImage) -> std::result::Result<(), String> {
    let args = &image.args;
    if args.align > 8 {
        return Err(format!(
            "argument block aligned to {}, expected at most 8",
            args.align
        ));
    }
    for field in &args.fields {
        let (offset, bytes) = (field.offset, field.kind.bytes());
        let inside = field.end().is_some_and(|end| end <= args.bytes);
        if !offset.is_multiple_of(bytes) || !inside {
            return Err(format!(
                "argument of {bytes} bytes at {offset}, expected aligned bytes inside the {} \
                 bytes of the block",
                args.bytes
            ));
        }
    }
    Ok(())
}
