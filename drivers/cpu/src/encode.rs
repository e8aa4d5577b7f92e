//! Commands to packets, pure: see [`crate::packet`] for the format.

use hcq::command_buffer::{CommandBuffer, Part, Patch, Section, place};
use hcq::{
    ArgField, Command, Compare, DeviceId, Error, Program, QueueKind, Result, Scope, Signal, Val,
    Width,
};

use crate::packet::{EXEC_FIXED, MAX_WORDS, header, op};

/// Encodes for one queue. The names are for errors only.
#[derive(Clone, Debug)]
pub struct Encoder {
    device: DeviceId,
    kind: QueueKind,
    index: u32,
}

impl Encoder {
    /// An encoder for a queue of a device.
    pub fn new(device: DeviceId, kind: QueueKind, index: u32) -> Encoder {
        Encoder {
            device,
            kind,
            index,
        }
    }

    /// The queue, as messages name it.
    pub fn unit(&self) -> String {
        format!("{} {}", self.kind, self.index)
    }

    /// Appends the packet of [`Command::Signal`].
    #[inline]
    pub fn raise(&self, signal: &Signal, value: u64, out: &mut CommandBuffer) {
        let (va, value) = (signal.va(), [value as u32, (value >> 32) as u32]);
        let words = [header(op::SIGNAL, 5), va.lo(), va.hi(), value[0], value[1]];
        out.words.extend_from_slice(&words);
    }

    /// Appends the packets of `commands`. Never allocates while `out` has room.
    ///
    /// # Errors
    /// [`Error::Command`] for a kernel on a copy queue, a launch that does not fit its kernel, and
    /// a misaligned address.
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        for command in commands {
            match *command {
                Command::Wait { signal, value } => raise(op::WAIT, signal, value, out),
                Command::Signal { signal, value } => raise(op::SIGNAL, signal, value, out),
                Command::Timestamp { signal } => {
                    out.word(header(op::TIMESTAMP, 3));
                    out.quad(signal.va().0);
                }
                Command::Barrier { scope } => {
                    out.word(header(op::BARRIER, 2));
                    out.word(match scope {
                        Scope::Queue => 0,
                        Scope::Device => 1,
                        Scope::System => 2,
                    });
                }
                Command::Exec {
                    program,
                    args,
                    grid,
                    block,
                } => {
                    self.exec(program, args, grid, block, out)?;
                }
                Command::Copy { dst, src, bytes } => {
                    out.word(header(op::COPY, 7));
                    out.val(dst);
                    out.val(src);
                    out.quad(bytes);
                }
                Command::Fill { at, value, bytes } => {
                    self.check_aligned("fill", at, Width::W32)?;
                    if !bytes.is_multiple_of(4) {
                        let why = format!("{bytes} bytes, expected a multiple of the 4-byte word");
                        return Err(self.refused("fill".into(), why));
                    }
                    out.word(header(op::FILL, 6));
                    out.val(at);
                    out.word(value);
                    out.quad(bytes);
                }
                Command::Write { at, value, width } => {
                    self.check_aligned("write", at, width)?;
                    out.word(header(op::WRITE, 6));
                    out.val(at);
                    out.val(value);
                    out.word(width_bytes(width));
                }
                Command::Poll {
                    at,
                    mask,
                    value,
                    compare,
                    width,
                } => {
                    self.check_aligned("poll", at, width)?;
                    out.word(header(op::POLL, 8));
                    out.val(at);
                    out.quad(mask);
                    out.val(value);
                    let compare = match compare {
                        Compare::Equal => 0,
                        Compare::NotEqual => 1,
                        Compare::GreaterEqual => 2,
                    };
                    out.word(width_bytes(width) | compare << 8);
                }
            }
        }
        Ok(())
    }

    fn exec(
        &self,
        program: &Program,
        args: &[Val],
        grid: [u32; 3],
        block: [u32; 3],
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let fields = &program.args.fields;
        let groups = (u64::from(grid[0]) * u64::from(grid[1])).checked_mul(grid[2].into());
        let block_words = program.args.bytes.div_ceil(8) as usize * 2;
        let fits = args.len() == fields.len() && EXEC_FIXED + block_words <= MAX_WORDS;
        let fits = fits && block == [items(program), 1, 1];
        let (QueueKind::Compute, Some(groups), true) = (self.kind, groups, fits) else {
            return Err(self.unfit(program, args.len(), grid, block));
        };
        let (entry, base) = (program.entry, out.words.len() + EXEC_FIXED);
        let end = base + block_words;
        out.words.reserve(EXEC_FIXED + block_words);
        out.words.extend_from_slice(&[
            header(op::EXEC, EXEC_FIXED + block_words),
            entry.lo(),
            entry.hi(),
            groups as u32,
            (groups >> 32) as u32,
        ]);
        for (field, &val) in fields.iter().zip(args) {
            let at = base + field.offset as usize / 4;
            let part = match field.kind.bytes() {
                8 => Part::Whole,
                _ => Part::Low,
            };
            let value = match val {
                Val::Const(value) => value,
                Val::Slot(slot, add) => {
                    out.patches.push(Patch {
                        section: Section::Words,
                        offset: at as u32 * 4,
                        part,
                        slot,
                        add,
                    });
                    0
                }
            };
            // They are mostly adjacent: nothing is written twice.
            if out.words.len() == at && part == Part::Whole && at + 2 <= end {
                out.quad(value);
                continue;
            }
            let words = field.kind.bytes() as usize / 4;
            if at + words > end {
                return Err(self.outside(program, *field));
            }
            if out.words.len() < at + words {
                out.words.resize(at + words, 0);
            }
            place(&mut out.words, at as u32 * 4, part, value);
        }
        if out.words.len() < end {
            out.words.resize(end, 0);
        }
        Ok(())
    }

    /// Why a launch does not fit its kernel, or this queue.
    #[cold]
    fn unfit(&self, program: &Program, given: usize, grid: [u32; 3], block: [u32; 3]) -> Error {
        let takes = program.args.fields.len();
        let why = if self.kind == QueueKind::Copy {
            "copy queues cannot run kernels: submit it to a compute queue".into()
        } else if given != takes {
            format!("{given} arguments given, the kernel takes {takes}")
        } else if block != [items(program), 1, 1] && items(program) > 1 {
            let items = items(program);
            format!(
                "block {block:?}: the kernel was built for [{items}, 1, 1]; launch it with that"
            )
        } else if block != [items(program), 1, 1] {
            format!(
                "block {block:?}: expected [1, 1, 1] (one work-item per group on the CPU); put all of \
                 the parallel work into the grid"
            )
        } else if grid
            .iter()
            .try_fold(1u64, |all, &n| all.checked_mul(n.into()))
            .is_none()
        {
            format!("grid {grid:?}: number of groups exceeds 64 bits")
        } else {
            let bytes = program.args.bytes;
            format!("argument block of {bytes} bytes, expected at most 64 MiB")
        };
        self.refused(format!("exec {}", program.name), why)
    }

    #[cold]
    fn outside(&self, program: &Program, field: ArgField) -> Error {
        let why = format!(
            "the field at {} of {} bytes is outside the argument block of {} bytes",
            field.offset,
            field.kind.bytes(),
            program.args.bytes
        );
        self.refused(format!("exec {}", program.name), why)
    }

    fn check_aligned(&self, command: &str, at: Val, width: Width) -> Result<()> {
        let bytes = width_bytes(width) as u64;
        match at {
            Val::Const(at) if !at.is_multiple_of(bytes) => {
                let why = format!("address {at:#x} is not aligned to the {bytes}-byte word");
                Err(self.refused(command.into(), why))
            }
            // An address given later is checked by the command processor.
            _ => Ok(()),
        }
    }

    fn refused(&self, command: String, why: String) -> Error {
        Error::Command {
            device: self.device.clone(),
            queue: self.unit(),
            command,
            why,
        }
    }
}

/// Work-items of a group: a runtime's kernel says how many it was built for.
fn items(program: &Program) -> u32 {
    program.launch_words.first().copied().unwrap_or(1)
}

/// The packets that name a signal and a value.
#[inline]
fn raise(op: u8, signal: &Signal, value: Val, out: &mut CommandBuffer) {
    let va = signal.va();
    out.words
        .extend_from_slice(&[header(op, 5), va.lo(), va.hi()]);
    out.val(value);
}

fn width_bytes(width: Width) -> u32 {
    match width {
        Width::W32 => 4,
        Width::W64 => 8,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hcq::{ArgKind, ArgLayout, GpuVa, SignalMemory, Slot};

    use super::*;
    use crate::packet::{Listing, Packet, decode};

    /// Encoding reads nothing but the address, so the memory may be absent.
    struct Absent;
    impl SignalMemory for Absent {
        fn value(&self) -> Result<u64> {
            Err(Error::Graph("no memory".into()))
        }
        fn set(&self, _: u64) -> Result<()> {
            Err(Error::Graph("no memory".into()))
        }
        fn timestamp(&self) -> Result<u64> {
            Err(Error::Graph("no memory".into()))
        }
        fn wait(&self, _: u64, _: hcq::Deadline) -> Result<()> {
            Err(Error::Graph("no memory".into()))
        }
    }

    fn encoder(kind: QueueKind) -> Encoder {
        Encoder::new(DeviceId::new("CPU", 0), kind, 0)
    }

    fn program(args: ArgLayout) -> Program {
        Program {
            name: "k".into(),
            entry: GpuVa(0x7000),
            args,
            local_bytes: 0,
            launch_words: Box::new([]),
            owner: Box::new(()),
        }
    }

    #[test]
    fn every_command_decodes_to_what_was_asked() {
        let signal = Signal::new("s", GpuVa(0x1_0000_0010), Arc::new(Absent));
        let value = ArgKind::Value(Width::W32);
        let layout = ArgLayout::new([ArgKind::Buffer, ArgKind::Buffer, value]);
        assert_eq!(layout.bytes, 20);
        let program = program(layout);
        let slot = |n, add| Val::Slot(Slot(n), add);
        let commands = [
            Command::Wait {
                signal: &signal,
                value: slot(0, 1),
            },
            Command::Exec {
                program: &program,
                args: &[slot(1, 4), Val::Const(0xffff_ffff_ffff), slot(2, 0)],
                grid: [3, 4, 5],
                block: [1, 1, 1],
            },
            Command::Copy {
                dst: Val::Const(0x20),
                src: slot(1, 0),
                bytes: 1 << 33,
            },
            Command::Fill {
                at: slot(1, 8),
                value: 0xdead_beef,
                bytes: 36,
            },
            Command::Write {
                at: Val::Const(0x40),
                value: slot(0, 0),
                width: Width::W32,
            },
            Command::Poll {
                at: Val::Const(0x48),
                mask: 0xff,
                value: Val::Const(7),
                compare: Compare::GreaterEqual,
                width: Width::W64,
            },
            Command::Barrier {
                scope: Scope::System,
            },
            Command::Timestamp { signal: &signal },
            Command::Signal {
                signal: &signal,
                value: slot(0, 2),
            },
        ];
        let mut out = CommandBuffer::new();
        encoder(QueueKind::Compute)
            .encode(&commands, &mut out)
            .unwrap();
        assert!(out.data.is_empty() && out.relocs.is_empty());
        out.patch(&[1 << 40, 0x3000, 9]).unwrap();
        let text = Listing(&out.words).to_string();
        let lines: Vec<&str> = text
            .lines()
            .map(|l| l.split_once(": ").unwrap().1)
            .collect();
        assert_eq!(
            lines,
            [
                "WAIT [0x100000010] >= 1099511627777",
                "EXEC 0x7000 groups 60 args 0x3004 0xffffffffffff 0x9",
                "COPY 0x20 <- 0x3000 x 8589934592",
                "FILL 0x3008 <- 0xdeadbeef x 36",
                "WRITE32 [0x40] = 0x10000000000",
                "POLL64 [0x48] & 0xff >= 0x7",
                "BARRIER System",
                "TIMESTAMP [0x100000010+8]",
                "SIGNAL [0x100000010] = 1099511627778",
            ]
        );
        let (first, n) = decode(&out.words, 0).unwrap();
        assert_eq!(
            (first, n),
            (
                Packet::Wait {
                    va: 0x1_0000_0010,
                    value: (1 << 40) + 1
                },
                5
            )
        );
    }

    #[test]
    fn what_the_queue_cannot_take_is_refused_with_the_reason() {
        let program = program(ArgLayout::buffers(1));
        let refused = |kind, command: Command<'_>| {
            encoder(kind)
                .encode(&[command], &mut CommandBuffer::new())
                .unwrap_err()
                .to_string()
        };
        let exec = |args, grid, block| Command::Exec {
            program: &program,
            args,
            grid,
            block,
        };
        let one = &[Val::Const(1)];
        let text = refused(QueueKind::Copy, exec(one, [1; 3], [1; 3]));
        assert_eq!(
            text,
            "CPU:0 copy 0 queue: exec k: copy queues cannot run kernels: submit it to a compute queue"
        );
        let text = refused(QueueKind::Compute, exec(&[], [1; 3], [1; 3]));
        assert!(
            text.ends_with("0 arguments given, the kernel takes 1"),
            "{text}"
        );
        let text = refused(QueueKind::Compute, exec(one, [1; 3], [64, 1, 1]));
        assert!(text.contains("block [64, 1, 1]"), "{text}");
        let text = refused(QueueKind::Compute, exec(one, [u32::MAX; 3], [1; 3]));
        assert!(text.contains("number of groups exceeds 64 bits"), "{text}");
        let at = Val::Const(0x44);
        let write = Command::Write {
            at,
            value: Val::Const(1),
            width: Width::W64,
        };
        assert!(refused(QueueKind::Copy, write).contains("0x44 is not aligned to the 8-byte word"));
    }
}
