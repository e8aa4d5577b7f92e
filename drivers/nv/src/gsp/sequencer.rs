//! Programs of register accesses that RM on GSP has the host run, where GSP itself is a part of them: to reset its
//! falcon, to run other microcode on it, and to start RM again.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp: kernel_gsp.c
//! (`kgspExecuteSequencerBuffer_IMPL`), arch/ampere/kernel_gsp_ga102.c (`kgspExecuteSequencerCommand_GA102`);
//! src/nvidia/arch/nvalloc/common/inc/rmgspseq.h.

use std::time::Duration;

use drivers_spec::nv::gsp::{RpcRunCpuSequencer, sequencer as op};
use drivers_spec::nv::mmio::falcon::{GSP, SEC2};
use drivers_spec::nv::mmio::{NV_PGC6_BSI_SECURE_SCRATCH_14, scratch_14};
use hcq::addr::BusAddr;
use hcq::wait::{Deadline, Look, Timeout, poll_until};
use zerocopy::FromBytes;

use super::card::Card;
use super::error::Cause;
use super::falcon::Falcon;

/// How long SEC2 may take to load RM again.
const RESUME: Duration = Duration::from_secs(4);
/// The longest wait that a program may ask for.
const LONGEST: Duration = Duration::from_secs(10);

/// What RM is started again with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resume {
    /// Where the arguments of GSP's operating system are.
    pub libos: BusAddr,
    /// The version of the boot loader.
    pub version: u32,
}

/// A step of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Write {
        at: u32,
        value: u32,
    },
    Modify {
        at: u32,
        mask: u32,
        value: u32,
    },
    Poll {
        at: u32,
        mask: u32,
        value: u32,
        us: u32,
        number: u32,
    },
    Delay {
        us: u32,
    },
    /// The value is for RM's own dump.
    Store {
        at: u32,
    },
    Reset,
    Start,
    WaitHalt,
    Resume,
}

/// Places for registers that are kept.
const PLACES: u32 = 8;

fn wrong(what: impl Into<String>, at: usize) -> Cause {
    let what = what.into();
    Cause::Program { what, at }
}

/// The steps of a message: none of them is taken of a program that is wrong somewhere.
fn steps(bytes: &[u8]) -> Result<Vec<Step>, Cause> {
    let (head, rest) = RpcRunCpuSequencer::read_from_prefix(bytes)
        .map_err(|_| wrong(format!("{} bytes, expected 40 or more", bytes.len()), 0))?;
    let word = |bytes: &[u8]| {
        let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
        u32::from_le_bytes(bytes)
    };
    let words: Vec<u32> = rest.chunks_exact(4).map(word).collect();
    let end = head.cmd_index as usize;
    if head.cmd_index >= head.buffer_size_dword || end > words.len() {
        let room = words.len().min(head.buffer_size_dword as usize);
        return Err(wrong(format!("{end} dwords in room for {room}"), 0));
    }
    let program = words.get(..end).unwrap_or_default();
    let (mut steps, mut at) = (Vec::new(), 0);
    while let Some(&opcode) = program.get(at) {
        let count = op::arguments(opcode);
        let count =
            count.ok_or_else(|| wrong(format!("operation {opcode}, expected 0 to 8"), at))?;
        let arguments = program.get(at + 1..at + 1 + count);
        let arguments = arguments.ok_or_else(|| wrong("it ends within an operation", at))?;
        steps.push(match (opcode, arguments) {
            (op::REG_WRITE, &[at, value]) => Step::Write { at, value },
            (op::REG_MODIFY, &[at, mask, value]) => Step::Modify { at, mask, value },
            (op::REG_POLL, &[at, mask, value, us, number]) => Step::Poll {
                at,
                mask,
                value,
                us,
                number,
            },
            (op::DELAY_US, &[us]) => Step::Delay { us },
            (op::REG_STORE, &[at, place]) if place < PLACES => Step::Store { at },
            (op::CORE_RESET, []) => Step::Reset,
            (op::CORE_START, []) => Step::Start,
            (op::CORE_WAIT_FOR_HALT, []) => Step::WaitHalt,
            (op::CORE_RESUME, []) => Step::Resume,
            _ => return Err(wrong(format!("operation {opcode} with {arguments:x?}"), at)),
        });
        at += 1 + count;
    }
    Ok(steps)
}

/// Runs a program, before a deadline: who waits for GSP does not wait longer because of it.
///
/// # Errors
/// [`Cause::Program`], before anything is done; [`Cause::Waited`]; the registers'.
pub(super) fn run(
    card: &Card,
    resume: &Resume,
    bytes: &[u8],
    deadline: Deadline,
) -> Result<(), Cause> {
    let steps = steps(bytes)?;
    tracing::debug!(target: "hcq::nv::gsp", steps = steps.len(), "running the CPU sequencer buffer");
    for (number, step) in (0..).zip(&steps) {
        if deadline.expired(card.clock()) {
            let what = "the CPU sequencer buffer to finish";
            return Err(deadline.timeout(card.clock(), what, Some(number)).into());
        }
        let longest = LONGEST.min(deadline.remaining(card.clock()));
        take(card, resume, step, longest)?;
    }
    Ok(())
}

fn take(card: &Card, resume: &Resume, step: &Step, longest: Duration) -> Result<(), Cause> {
    let (bus, gsp) = (card.bus(), Falcon::of(card, GSP));
    match *step {
        Step::Write { at, value } => bus.write(at.into(), value)?,
        Step::Modify { at, mask, value } => {
            let old = bus.read(at.into())?;
            bus.write(at.into(), old & !mask | value)?;
        }
        Step::Poll {
            at,
            mask,
            value,
            us,
            number,
        } => {
            let limit = Duration::from_micros(us.into()).min(longest);
            let what = "a register that GSP has named";
            let polled = poll_until(card.clock(), card.within(limit), what, || {
                let seen = bus.read(at.into())?;
                Ok::<_, Polled>(match seen & mask == value {
                    true => Look::Done(()),
                    false => Look::Not(seen.into()),
                })
            });
            polled.map_err(|polled| match polled {
                Polled::Bus(error) => error.into(),
                Polled::Late(timeout) => Cause::Polled {
                    at,
                    mask,
                    expected: value,
                    number,
                    timeout,
                },
            })?;
        }
        Step::Delay { us } => {
            card.mmio().send()?;
            card.clock()
                .sleep(Duration::from_micros(us.into()).min(longest));
        }
        Step::Store { at } => {
            let value = bus.read(at.into())?;
            tracing::trace!(target: "hcq::nv::gsp", at, value, "register kept");
        }
        Step::Reset => {
            gsp.reset()?;
            gsp.allow_physical()?;
        }
        Step::Start => gsp.start()?,
        Step::WaitHalt => gsp.wait_halt("GSP's falcon")?,
        Step::Resume => start_again(card, &gsp, resume)?,
    }
    Ok(())
}

/// Why a register was not as it should be.
enum Polled {
    Bus(hcq::transport::TransportError),
    Late(Timeout),
}

impl From<hcq::transport::TransportError> for Polled {
    fn from(error: hcq::transport::TransportError) -> Polled {
        Polled::Bus(error)
    }
}

impl From<Timeout> for Polled {
    fn from(timeout: Timeout) -> Polled {
        Polled::Late(timeout)
    }
}

/// Has SEC2, which was left waiting by the booter, start RM again.
fn start_again(card: &Card, gsp: &Falcon<'_>, resume: &Resume) -> Result<(), Cause> {
    gsp.reset_into_riscv()?;
    gsp.set_mailboxes([resume.libos.lo(), resume.libos.hi()])?;
    let sec2 = Falcon::of(card, SEC2);
    sec2.start()?;
    card.io().poll(
        &NV_PGC6_BSI_SECURE_SCRATCH_14,
        card.clock(),
        card.within(RESUME),
        "SEC2 to load RM on GSP again",
        |value| value.get(scratch_14::BOOT_STAGE_3_HANDOFF) == 1,
    )?;
    let [code, _] = sec2.mailboxes()?;
    if code != 0 {
        return Err(Cause::Booter {
            what: "SEC2, to start RM on GSP again",
            code,
        });
    }
    gsp.set_version(resume.version)?;
    match gsp.riscv()? {
        (_, true) => Ok(()),
        (value, false) => Err(Cause::Inactive {
            value,
            what: "was not started again",
        }),
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn message(words: &[u32], room: u32) -> Vec<u8> {
        let head = RpcRunCpuSequencer {
            buffer_size_dword: room,
            cmd_index: words.len() as u32,
            ..RpcRunCpuSequencer::default()
        };
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn programs_become_steps() {
        let words = [
            0, 0x11_0040, 7, 1, 0x88, 0xf0, 0x10, 2, 0x10_0000, 1, 1, 500, 3, 3, 20, 4, 0x11_0040,
            0, 5, 6, 7, 8,
        ];
        let expected = [
            Step::Write {
                at: 0x11_0040,
                value: 7,
            },
            Step::Modify {
                at: 0x88,
                mask: 0xf0,
                value: 0x10,
            },
            Step::Poll {
                at: 0x10_0000,
                mask: 1,
                value: 1,
                us: 500,
                number: 3,
            },
            Step::Delay { us: 20 },
            Step::Store { at: 0x11_0040 },
            Step::Reset,
            Step::Start,
            Step::WaitHalt,
            Step::Resume,
        ];
        assert_eq!(steps(&message(&words, 64)).unwrap(), expected);
        assert!(steps(&message(&[], 1)).unwrap().is_empty());
    }

    #[test]
    fn a_program_that_is_wrong_is_refused_as_a_whole() {
        for (words, room, text) in [
            (&[0, 1][..], 64, "it ends within an operation at dword 0"),
            (&[5, 9, 1], 64, "operation 9, expected 0 to 8 at dword 1"),
            (&[4, 0x40, 8], 64, "operation 4 with [40, 8] at dword 0"),
            (&[5, 6], 2, "2 dwords in room for 2 at dword 0"),
        ] {
            let error = steps(&message(words, room)).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let error = steps(&[0; 12]).unwrap_err().to_string();
        assert!(error.contains("12 bytes, expected 40 or more"), "{error}");
        let mut short = message(&[5, 6], 64);
        short.truncate(44);
        let error = steps(&short).unwrap_err().to_string();
        assert!(error.contains("2 dwords in room for 1"), "{error}");
    }
}
