//! Commands to words: see [`crate::packet`].

use drivers_gpu::span;
use hcq::command_buffer::{CommandBuffer, Part, Patch, Section, place};
use hcq::{Command, DeviceId, Error, Program, QueueKind, Result, Signal, Val};

use crate::packet::{EXEC_FIXED, MAX_WORDS, bytes_of, header, how, op};

/// Groups of a launch in each dimension, and work-items of a group in all of them.
///
/// Source: CUDA C++ Programming Guide 12.4, table "Technical Specifications per Compute Capability": the same since 3.0.
/// HIP takes as many groups.
const GROUPS: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
const ITEMS: u64 = 1024;

/// Bytes of arguments that a launch takes.
///
/// Source: CUDA C++ Programming Guide 12.4, function parameters: 4 KiB, from Volta on 32,764 bytes.
const ARGUMENTS: u32 = 4096;

/// Bits of an address.
const ADDRESS_BITS: u32 = 57;

/// Encodes for one queue. The names are for errors only.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    device: DeviceId,
    kind: QueueKind,
    index: u32,
    /// Work-items of a launch in one dimension, at most.
    items: u64,
}

impl Encoder {
    pub(crate) fn new(device: DeviceId, kind: QueueKind, index: u32, items: u64) -> Encoder {
        Encoder {
            device,
            kind,
            index,
            items,
        }
    }

    /// The queue, as messages name it.
    pub(crate) fn unit(&self) -> String {
        format!("{} {}", self.kind, self.index)
    }

    /// Appends the packet of [`Command::Signal`].
    pub(crate) fn raise(signal: &Signal, value: Val, out: &mut CommandBuffer) {
        out.word(header(op::SIGNAL, 5));
        out.quad(signal.va().0);
        out.val(value);
    }

    /// Appends the packets of `commands`.
    ///
    /// # Errors
    /// [`Error::Command`] for a kernel on a copy queue, a launch that does not fit its kernel or the GPU, and a range that
    /// cannot be.
    pub(crate) fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        for command in commands {
            let checked = self.append(command, out);
            checked.map_err(|why| {
                let name = match command {
                    Command::Exec { program, .. } => format!("exec {}", program.name),
                    other => other.name().into(),
                };
                self.refused(name, why)
            })?;
        }
        Ok(())
    }

    fn append(
        &self,
        command: &Command<'_>,
        out: &mut CommandBuffer,
    ) -> std::result::Result<(), String> {
        match *command {
            Command::Wait { signal, value } => {
                out.word(header(op::WAIT, 5));
                out.quad(signal.va().0);
                out.val(value);
            }
            Command::Signal { signal, value } => Encoder::raise(signal, value, out),
            Command::Timestamp { signal } => {
                out.word(header(op::TIMESTAMP, 3));
                out.quad(signal.va().0);
            }
            // A stream does one thing after the other, and what a kernel wrote is visible to the device at its end and to
            // the system at the signal behind it.
            Command::Barrier { .. } => {}
            Command::Exec {
                program,
                args,
                grid,
                block,
            } => self.exec(program, args, (grid, block), out)?,
            Command::Copy { dst, src, bytes } => {
                span::reached(dst, bytes, ADDRESS_BITS)?;
                span::reached(src, bytes, ADDRESS_BITS)?;
                span::check_disjoint(dst, src, bytes)?;
                out.word(header(op::COPY, 7));
                out.val(dst);
                out.val(src);
                out.quad(bytes);
            }
            Command::Fill { at, value, bytes } => {
                span::aligned(at, hcq::Width::W32)?;
                span::words(bytes)?;
                span::reached(at, bytes, ADDRESS_BITS)?;
                out.word(header(op::FILL, 6));
                out.val(at);
                out.word(value);
                out.quad(bytes);
            }
            Command::Write { at, value, width } => {
                span::aligned(at, width)?;
                out.word(header(op::WRITE, 6));
                out.val(at);
                out.val(value);
                out.word(bytes_of(width));
            }
            Command::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                span::aligned(at, width)?;
                out.word(header(op::POLL, 8));
                out.val(at);
                out.quad(mask);
                out.val(value);
                out.word(how(compare, width));
            }
        }
        Ok(())
    }

    fn exec(
        &self,
        program: &Program,
        args: &[Val],
        (grid, block): ([u32; 3], [u32; 3]),
        out: &mut CommandBuffer,
    ) -> std::result::Result<(), String> {
        self.check(program, args.len(), grid, block)?;
        if grid.contains(&0) {
            // The runtimes refuse a launch without groups.
            return Ok(());
        }
        // Arguments are handed over in units of 8 bytes.
        let block_words = program.args.bytes.div_ceil(8) as usize * 2;
        let base = out.words.len() + EXEC_FIXED;
        out.word(header(op::EXEC, EXEC_FIXED + block_words));
        out.quad(program.entry.0);
        out.words.extend_from_slice(&grid);
        out.words.extend_from_slice(&block);
        out.word(program.args.bytes);
        out.words.resize(base + block_words, 0);
        for (field, &val) in program.args.fields.iter().zip(args) {
            let inside = field.end().is_some_and(|end| end <= program.args.bytes);
            if !inside || !field.offset.is_multiple_of(field.kind.bytes()) {
                return Err(format!(
                    "the field at {} of {} bytes, expected aligned bytes inside the argument block of {} bytes",
                    field.offset,
                    field.kind.bytes(),
                    program.args.bytes
                ));
            }
            let offset = base as u32 * 4 + field.offset;
            let part = match field.kind.bytes() {
                8 => Part::Whole,
                _ => Part::Low,
            };
            match val {
                Val::Const(value) => place(&mut out.words, offset, part, value),
                Val::Slot(slot, add) => out.patches.push(Patch {
                    section: Section::Words,
                    offset,
                    part,
                    slot,
                    add,
                }),
            }
        }
        Ok(())
    }

    /// Whether a launch fits its kernel, this queue and the GPU.
    fn check(
        &self,
        program: &Program,
        given: usize,
        grid: [u32; 3],
        block: [u32; 3],
    ) -> std::result::Result<(), String> {
        let takes = program.args.fields.len();
        let items: u64 = block.iter().map(|&n| u64::from(n)).product();
        let bytes = program.args.bytes;
        if self.kind == QueueKind::Copy {
            return Err("copy queues cannot run kernels: submit it to a compute queue".into());
        }
        if given != takes {
            return Err(format!("{given} arguments given, the kernel takes {takes}"));
        }
        if items == 0 || items > ITEMS {
            return Err(format!(
                "block {block:?} has {items} work-items, expected 1 to {ITEMS}"
            ));
        }
        if grid.iter().zip(GROUPS).any(|(&groups, most)| groups > most) {
            return Err(format!(
                "grid {grid:?}, expected at most {GROUPS:?} groups: split it"
            ));
        }
        let in_one = grid
            .iter()
            .zip(block)
            .map(|(&groups, items)| u64::from(groups) * u64::from(items))
            .max();
        if in_one > Some(self.items) {
            return Err(format!(
                "grid {grid:?} of blocks {block:?}, expected at most {} work-items in a dimension: split it",
                self.items
            ));
        }
        if bytes > ARGUMENTS {
            return Err(format!(
                "argument block of {bytes} bytes, expected at most {ARGUMENTS}"
            ));
        }
        debug_assert!(EXEC_FIXED + ARGUMENTS as usize / 4 < MAX_WORDS);
        Ok(())
    }

    #[cold]
    fn refused(&self, command: String, why: String) -> Error {
        Error::Command {
            device: self.device.clone(),
            queue: self.unit(),
            command,
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hcq::{ArgKind, ArgLayout, Compare, Deadline, GpuVa, Scope, SignalMemory, Slot, Width};

    use super::*;
    use crate::packet::{Packet, decode};

    struct Nowhere;

    impl SignalMemory for Nowhere {
        fn value(&self) -> Result<u64> {
            Ok(0)
        }
        fn set(&self, _: u64) -> Result<()> {
            Ok(())
        }
        fn timestamp(&self) -> Result<u64> {
            Ok(0)
        }
        fn wait(&self, _: u64, _: Deadline) -> Result<()> {
            Ok(())
        }
    }

    fn encoder(kind: QueueKind) -> Encoder {
        Encoder::new(DeviceId::new("CUDA", 0), kind, 0, u32::MAX.into())
    }

    fn program() -> Program {
        let small = ArgKind::Value(Width::W32);
        Program {
            name: "scale".into(),
            entry: GpuVa(0x7000),
            args: ArgLayout::new([ArgKind::Buffer, small, ArgKind::Buffer]),
            local_bytes: 0,
            launch_words: Box::new([]),
            owner: Box::new(()),
        }
    }

    /// All packets, as text.
    fn shown(out: &CommandBuffer) -> Vec<String> {
        let (mut at, mut found) = (0, Vec::new());
        while at < out.words.len() {
            let (packet, length) = decode(&out.words[at..]).unwrap();
            found.push(format!("{packet:x?}"));
            at += length;
        }
        found
    }

    #[test]
    fn every_command_comes_back() {
        let signal = Signal::new("s", GpuVa(0x100), Arc::new(Nowhere));
        let program = program();
        let args = [Val::Const(0x1000), Val::Const(5), Val::Slot(Slot(1), 8)];
        let commands = [
            Command::Wait {
                signal: &signal,
                value: Val::Const(1 << 40),
            },
            Command::Barrier {
                scope: Scope::System,
            },
            Command::Exec {
                program: &program,
                args: &args,
                grid: [2, 3, 4],
                block: [32, 2, 1],
            },
            Command::Exec {
                program: &program,
                args: &args,
                grid: [2, 0, 4],
                block: [32, 2, 1],
            },
            Command::Copy {
                dst: Val::Slot(Slot(0), 0),
                src: Val::Const(0x2000),
                bytes: 12,
            },
            Command::Fill {
                at: Val::Const(0x3000),
                value: 7,
                bytes: 64,
            },
            Command::Write {
                at: Val::Const(0x3008),
                value: Val::Const(9),
                width: Width::W64,
            },
            Command::Poll {
                at: Val::Const(0x3004),
                mask: 0xff,
                value: Val::Const(3),
                compare: Compare::GreaterEqual,
                width: Width::W32,
            },
            Command::Timestamp { signal: &signal },
            Command::Signal {
                signal: &signal,
                value: Val::Const(2),
            },
        ];
        let mut out = CommandBuffer::new();
        encoder(QueueKind::Compute)
            .encode(&commands, &mut out)
            .unwrap();
        assert_eq!(out.patch(&[0x9000, 0xa000]), Ok(()));
        let expected = [
            "Wait { at: 100, value: 10000000000 }",
            "Exec { kernel: 7000, grid: [2, 3, 4], block: [20, 2, 1], arguments: [1000, 0, 5, 0, a008, 0] }",
            "Copy { dst: 9000, src: 2000, bytes: c }",
            "Fill { at: 3000, value: 7, bytes: 40 }",
            "Write { at: 3008, value: 9, width: W64 }",
            "Poll { at: 3004, mask: ff, value: 3, compare: GreaterEqual, width: W32 }",
            "Timestamp { at: 100 }",
            "Signal { at: 100, value: 2 }",
        ];
        assert_eq!(shown(&out), expected);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let program = program();
        let args = [Val::Const(0x1000), Val::Const(5), Val::Const(0x2000)];
        let exec = |args, grid, block| Command::Exec {
            program: &program,
            args,
            grid,
            block,
        };
        let one = [1, 1, 1];
        let copy = |dst, src| Command::Copy {
            dst: Val::Const(dst),
            src: Val::Const(src),
            bytes: 16,
        };
        for (kind, command, expected) in [
            (
                QueueKind::Copy,
                exec(&args, one, one),
                "copy queues cannot run kernels",
            ),
            (
                QueueKind::Compute,
                exec(&args[..1], one, one),
                "1 arguments given, the kernel takes 3",
            ),
            (
                QueueKind::Compute,
                exec(&args, one, [1024, 2, 1]),
                "2048 work-items",
            ),
            (
                QueueKind::Compute,
                exec(&args, one, [0, 2, 1]),
                "0 work-items",
            ),
            (
                QueueKind::Compute,
                exec(&args, [1, 65536, 1], one),
                "split it",
            ),
            (
                QueueKind::Compute,
                exec(&args, [1 << 22, 1, 1], [1024, 1, 1]),
                "expected at most 4294967295 work-items",
            ),
            (QueueKind::Compute, copy(8, 0), "overlap"),
            (QueueKind::Compute, copy(u64::MAX - 3, 0), "run past"),
            (
                QueueKind::Copy,
                Command::Fill {
                    at: Val::Const(2),
                    value: 0,
                    bytes: 4,
                },
                "not aligned",
            ),
            (
                QueueKind::Copy,
                Command::Fill {
                    at: Val::Const(4),
                    value: 0,
                    bytes: 6,
                },
                "4-byte word",
            ),
        ] {
            let error = encoder(kind).encode(&[command], &mut CommandBuffer::new());
            let text = error.unwrap_err().to_string();
            assert!(
                text.contains(expected) && text.contains(command.name()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_packet_says_what_it_was_made_of() {
        let signal = Signal::new("s", GpuVa(0x100), Arc::new(Nowhere));
        let mut out = CommandBuffer::new();
        Encoder::raise(&signal, Val::Const(3), &mut out);
        let expected = Packet::Signal {
            at: 0x100,
            value: 3,
        };
        assert_eq!(decode(&out.words), Some((expected, 5)));
    }
}
