//! [`RuntimeHardware`]: a queue of a runtime for [`drivers_gpu`]: encoder, thread, stream; and its kernels.

use std::ffi::CString;
use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{Code, Load, Loader, refused};
use drivers_gpu::memory::pool::Piece;
use drivers_gpu::span;
use drivers_gpu::submit::decode::{Doing, Packet as Done, Test, peek_words};
use drivers_gpu::submit::{Hardware, Stand};
use hcq::kernels::Kernel;
use hcq::{Command, CommandBuffer, Compare, GpuVa, KernelImage, Program, Result, Signal};

use crate::calls::Gpu;
use crate::encode::Encoder;
use crate::packet::{Packet, decode};
use crate::process::{KERNEL_STEP, Process};
use crate::way::{Calls, named};
use crate::worker::Worker;

/// A queue of a runtime.
pub struct RuntimeHardware {
    // Ended first: nothing below is used by the stream then.
    worker: Worker,
    calls: Calls,
    encoder: Encoder,
    /// Where fences are counted, and words that polls fetch.
    _memory: Piece,
}

/// What the queues of a device have in common.
pub struct Kernels {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) process: Arc<Process>,
    /// The instruction set, as compilers know it.
    pub(crate) arch: String,
}

impl RuntimeHardware {
    pub(crate) fn new(
        worker: Worker,
        places: u32,
        encoder: Encoder,
        memory: Piece,
    ) -> RuntimeHardware {
        RuntimeHardware {
            calls: Calls::new(worker.shared(), places),
            worker,
            encoder,
            _memory: memory,
        }
    }
}

impl Hardware for RuntimeHardware {
    type Way = Calls;
    // A value that a stream writes wakes nobody; the thread of each queue wakes all when its stream is idle.
    const WAKES_ALL: bool = true;

    fn way(&self) -> &Calls {
        &self.calls
    }

    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        self.encoder.encode(commands, out)
    }

    fn raise(&self, signal: &Signal, value: u64, out: &mut CommandBuffer) -> Result<()> {
        Encoder::raise(signal, value.into(), out);
        Ok(())
    }

    /// Nothing: a stream does one thing after the other, and host memory is coherent.
    fn begin(&self, _: &mut CommandBuffer) -> Result<()> {
        Ok(())
    }

    fn names_words(&self) -> bool {
        true
    }

    fn binds_words(&self) -> bool {
        true
    }

    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        if words.is_empty() {
            return;
        }
        // The length of memory that packets fill fits: it is below 16 GiB.
        out.extend_from_slice(&[address as u32, (address >> 32) as u32, words.len() as u32]);
    }

    fn stop(&self) -> bool {
        self.worker.stop()
    }

    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Done> {
        let mut found = Vec::new();
        for (at, count) in named(words) {
            match peek_words(core, at, count as usize) {
                Some(list) => walk(&list, start, &mut found),
                None => found.push(Done {
                    position: start,
                    doing: Doing::Unknown { word: at as u32 },
                }),
            }
        }
        found
    }

    fn stand(&self) -> Option<Stand> {
        Some(self.calls.shared().stand())
    }
}

/// Packets as others know them.
fn walk(words: &[u32], position: u64, found: &mut Vec<Done>) {
    let mut at = 0;
    while at < words.len() {
        let mut push = |doing| found.push(Done { position, doing });
        let Some((packet, length)) = decode(&words[at..]) else {
            // The memory has other packets by now.
            return push(Doing::Unknown { word: words[at] });
        };
        match packet {
            Packet::Wait { at, value } => push(Doing::Wait {
                at,
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
                bytes: span::bytes(width) as usize,
                mask,
                value,
                test: match compare {
                    Compare::Equal => Test::Equal,
                    Compare::NotEqual => Test::NotEqual,
                    Compare::GreaterEqual => Test::GreaterEqual,
                },
            }),
            Packet::Signal { at, value } | Packet::Write { at, value, .. } => {
                push(Doing::Signal { at, value });
            }
            Packet::Exec { kernel, .. } => push(Doing::Launch {
                code: kernel,
                arguments: std::iter::empty().collect(),
            }),
            Packet::Copy { dst, src, bytes } => push(Doing::Copy { dst, src, bytes }),
            Packet::Fill { at, value, bytes } => push(Doing::Fill { at, value, bytes }),
            Packet::Timestamp { .. } => {}
        }
        at += length;
    }
}

impl Load for RuntimeHardware {
    type Shared = Kernels;

    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program> {
        let refused = |why: &str| refused(on.core, image, &why);
        let (is_for, runs) = (
            image.arch.split(':').next(),
            on.shared.arch.split(':').next(),
        );
        if is_for != runs {
            let (is, runs) = (&image.arch, &on.shared.arch);
            return Err(refused(&format!(
                "compiled for {is}, this device runs {runs}; compile it for this device"
            )));
        }
        let entry = CString::new(image.entry.as_str());
        let entry = entry.map_err(|_| refused("the name of its entry has a zero byte"))?;
        let loaded = on.shared.gpu.load(&image.bytes, &entry, image.local_bytes);
        let function = loaded.map_err(|refusal| match refusal.is_sticky {
            true => on.core.lose(refusal.error(&on.core.id)),
            false => refused(&format!("{refusal}. {}", refusal.hint)),
        })?;
        let function = Arc::new(function);
        let number = on.shared.process.name(&function);
        let known = Kernel {
            name: image.name.as_str().into(),
            argument_bytes: image.args.bytes,
        };
        let range = number..number + KERNEL_STEP;
        let registration = on.core.kernels.register(range, known);
        Ok(Program {
            name: image.name.clone(),
            entry: GpuVa(number),
            args: image.args.clone(),
            local_bytes: image.local_bytes,
            launch_words: Box::new([]),
            owner: Box::new(Code::new(on.core, (registration, function))),
        })
    }
}
