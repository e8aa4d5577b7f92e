//! [`Tape`]: answers from a recorded trace, in its order.
//!
//! The first differing access is an error with its line. Use [`Tape::ignore`] for ioctl bytes that vary (addresses,
//! file descriptors). Accesses made [by the clock](super::access::by_clock) may occur more or less often: one that the
//! recording lacks is answered as it last was, or as if the device changed nothing; a recorded one that the driver does
//! not make is skipped, unless it failed. Memory not in the trace starts zeroed and is written by the driver only.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

use super::Fault;
use super::access::{Access, Answer, ParseError, Record, Verb};
use super::tap::Tap;

/// A recorded trace with a position. Clones share the position.
#[derive(Clone)]
pub struct Tape(Arc<Mutex<State>>);

struct State {
    records: Vec<(usize, Record)>,
    next: usize,
    ignored: Vec<(String, Range<usize>)>,
    first_error: Option<Fault>,
}

impl Tape {
    /// A tape of the lines of a trace; empty lines and lines that start with `#` are skipped.
    ///
    /// # Errors
    /// The number of the first wrong line, from 1, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Tape, (usize, ParseError)> {
        let mut records = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                records.push((at + 1, line.parse().map_err(|error| (at + 1, error))?));
            }
        }
        Ok(Tape::of(records))
    }

    /// A tape of records, each with its line, from 1.
    pub fn of(records: Vec<(usize, Record)>) -> Tape {
        let state = State {
            records,
            next: 0,
            ignored: Vec::new(),
            first_error: None,
        };
        Tape(Arc::new(Mutex::new(state)))
    }

    /// Lets the bytes in `range` of what the ioctl called `name` carries differ.
    pub fn ignore(&self, name: &str, range: Range<usize>) {
        self.state().ignored.push((name.to_owned(), range));
    }

    /// Ends the replay.
    ///
    /// # Errors
    /// [`Fault::Replay`]: the first difference, or the first line that was not reached.
    pub fn finish(&self) -> Result<(), Fault> {
        let mut state = self.state();
        if let Some(error) = &state.first_error {
            return Err(error.clone());
        }
        while state.is_repetition() {
            state.next += 1;
        }
        match state.records.get(state.next) {
            None => Ok(()),
            Some((line, record)) => Err(Fault::Replay {
                line: *line,
                expected: format!("{} {}", record.device, record.access),
                seen: "the end".into(),
            }),
        }
    }

    fn play(&self, device: &str, access: &Access) -> Result<Answer, Fault> {
        let mut state = self.state();
        // After the first difference nothing can be believed: it stays the answer.
        if let Some(error) = &state.first_error {
            return Err(error.clone());
        }
        while !state.is_next(device, access) {
            if access.is_by_clock {
                return state.answered(device, access).unwrap_or_else(|| {
                    Ok(Answer {
                        values: vec![0],
                        data: access.data.clone(),
                        view: None,
                    })
                });
            }
            if !state.is_repetition() {
                let fault = state.differs(format!("{device} {access}"));
                state.first_error = Some(fault.clone());
                return Err(fault);
            }
            state.next += 1;
        }
        let answer = state.records[state.next].1.answer.clone();
        state.next += 1;
        answer
    }

    fn state(&self) -> impl std::ops::DerefMut<Target = State> + '_ {
        // Nothing panics while the lock is held.
        lock(&self.0)
    }
}

impl State {
    /// The access differs from the next one of the recording.
    fn differs(&self, seen: String) -> Fault {
        let (line, expected) = match self.records.get(self.next) {
            Some((line, record)) => (*line, format!("{} {}", record.device, record.access)),
            None => (
                self.records.last().map_or(1, |(line, _)| line + 1),
                "the end".into(),
            ),
        };
        Fault::Replay {
            line,
            expected,
            seen,
        }
    }

    fn is_next(&self, device: &str, access: &Access) -> bool {
        let next = self.records.get(self.next);
        next.is_some_and(|(_, record)| record.device == device && self.same(&record.access, access))
    }

    /// The last answer to an access until now.
    fn answered(&self, device: &str, access: &Access) -> Option<Result<Answer, Fault>> {
        let before = &self.records[..self.next];
        let mut before = before.iter().rev().map(|(_, record)| record);
        let like = before.find(|one| one.device == device && self.same(&one.access, access))?;
        Some(like.answer.clone())
    }

    /// Whether the next record is a question that need not be asked there, and was answered.
    fn is_repetition(&self) -> bool {
        let next = self.records.get(self.next);
        next.is_some_and(|(_, one)| one.access.is_by_clock && one.answer.is_ok())
    }

    fn same(&self, recorded: &Access, seen: &Access) -> bool {
        if self.ignored.iter().all(|(name, _)| *name != seen.name) {
            return is_same(recorded, seen);
        }
        let blank = |access: &Access| {
            let mut access = access.clone();
            for (_, range) in self.ignored.iter().filter(|(name, _)| *name == access.name) {
                let end = range.end.min(access.data.len());
                if let Some(bytes) = access.data.get_mut(range.start.min(end)..end) {
                    bytes.fill(0);
                }
            }
            access
        };
        is_same(&blank(recorded), &blank(seen))
    }
}

/// Whether both ask for the same, by the clock or not.
fn is_same(one: &Access, other: &Access) -> bool {
    (one.verb, &one.args, &one.name, &one.data)
        == (other.verb, &other.args, &other.name, &other.data)
}

/// Answers in the place of every device: see [`Tapped::alone`](super::tap::Tapped::alone).
impl Tap for Tape {
    /// As it was recorded.
    fn sees_memory(&self) -> bool {
        let is_memory = |(_, record): &(usize, Record)| {
            let verb = record.access.verb;
            [Verb::Load, Verb::Store, Verb::LoadBytes, Verb::StoreBytes].contains(&verb)
        };
        self.state().records.iter().any(is_memory)
    }

    fn before(&self, device: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        Some(self.play(device, access))
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::by_clock;
    use super::super::ioctl::{Ioctl, Request};
    use super::super::tap::Tapped;
    use super::super::tests::Zeros;
    use super::super::trace::{Trace, TraceLog};
    use super::super::{Machine, Map, Pci, Prot, ResetKind, Setup, TransportError, UsbPipe};
    use super::*;
    use crate::mem::window::AccessWidth;
    use crate::wait::Deadline;
    use std::time::Duration;

    /// What a driver is given.
    struct Way {
        pci: Arc<dyn Pci>,
        usb: Arc<dyn UsbPipe>,
        machine: Arc<dyn Machine>,
    }

    /// Uses every call of every transport; `salt` changes one byte of an ioctl.
    fn session(way: &Way, salt: u8) -> Result<String, TransportError> {
        let Way { pci, usb, machine } = way;
        let bar = pci.bar(5)?;
        bar.write(0x10, 0xabcdu16)?;
        let mut bytes = [9; 3];
        bar.read_bytes(0x21, &mut bytes)?;
        bar.write_bytes(0x40, b"ring")?;
        bar.ring(0x48, 7u64)?;
        bar.flush()?;
        let seen = bar.read::<u64>(8)?;
        pci.config_write(4, AccessWidth::W16, 6)?;
        let config = pci.config_read(0, AccessWidth::W32)?;
        let dma = pci.dma(0x3000, 0x1000)?;
        dma.view
            .write(0x2ff8, 1u64)
            .map_err(|e| TransportError::new("", "", Fault::View(e)))?;
        pci.reset(ResetKind::Bus)?;
        let irq = pci.wait_irq(1, Deadline::after(Duration::ZERO));
        let names = machine.list("/sys/folder")?;
        let text = machine.read("/sys/folder/a")?;
        let reserved = machine.reserve(0x4000, 0x1000, 1 << 40)?;
        let own = machine.memory(0x1000, 0x1000)?;
        let file = machine.open("/dev/x")?;
        let mut payload = [1, 2, salt, 4];
        let ioctl = |name, nr, payload| {
            let ioctl = Ioctl::new(name, Ioctl::READ | Ioctl::WRITE, b'K', nr, 4);
            // SAFETY: no kernel is asked here.
            #[allow(unsafe_code)]
            let mut request = unsafe { Request::raw(ioctl, payload) };
            file.ioctl(&mut request)
        };
        let result = ioctl("IOC_TEST", 1, &mut payload)?;
        let refused = ioctl("IOC_REFUSED", 2, &mut [0; 4]);
        let at = Some(0x7000_0000);
        let map = file.mmap(Map {
            offset: 1,
            len: 0x2000,
            prot: Prot::Write,
            at,
        })?;
        let setup = Setup {
            request_type: 0xc0,
            request: 0xe4,
            value: 1,
            index: 2,
        };
        let second = Duration::from_secs(1);
        let moved = [
            usb.control_in(setup, &mut [0; 8], second)?,
            usb.control_out(setup, &[1, 2], second)?,
            usb.bulk_in(0x81, &mut [0; 16], second)?,
            usb.bulk_out(2, &[7; 5], second)?,
        ];
        let errors = (
            irq.map_err(|e| e.to_string()),
            refused.map_err(|e| e.to_string()),
        );
        let sizes = (bar.len(), dma.ranges, map.len(), own.len(), reserved);
        Ok(format!(
            "{seen:#x} {bytes:?} {config} {result} {payload:?} {moved:?} {errors:?} {sizes:?} {names:?} {text}"
        ))
    }

    fn record() -> (String, String) {
        let log = TraceLog::memory();
        let trace = Trace::new(log.clone());
        let way = Way {
            pci: Tapped::pci(Arc::new(Zeros), trace.clone()),
            usb: Tapped::usb(Arc::new(Zeros), trace.clone()),
            machine: Tapped::machine(Arc::new(Zeros), trace),
        };
        let seen = session(&way, 3).unwrap();
        (log.to_string(), seen)
    }

    fn replay(tape: &Arc<Tape>, salt: u8) -> Result<String, TransportError> {
        let way = Way {
            pci: Tapped::<dyn Pci>::alone("zeros", tape.clone()),
            usb: Tapped::<dyn UsbPipe>::alone("zeros", tape.clone()),
            machine: Tapped::<dyn Machine>::alone("machine", tape.clone()),
        };
        session(&way, salt)
    }

    fn tape(text: &str) -> Arc<Tape> {
        Arc::new(Tape::parse(text).unwrap())
    }

    #[test]
    fn what_was_recorded_replays_alike() {
        let (text, seen) = record();
        assert!(text.starts_with("zeros bar bar=0x5 -> ok 0x"), "{text}");
        assert!(
            text.contains("zeros write bar=0x5 offset=0x48 bytes=0x8 value=0x7 -> ok\nzeros send")
        );
        assert!(seen.contains("ENOTTY"), "{seen}");
        let tape = tape(&text);
        assert_eq!(replay(&tape, 3).unwrap(), seen);
        assert_eq!(tape.finish(), Ok(()));
    }

    #[test]
    fn a_difference_names_line_expected_and_seen() {
        let (text, _) = record();
        let tape = tape(&text);
        let line = 1 + text.lines().position(|l| l.contains("IOC_TEST")).unwrap();
        let error = replay(&tape, 4).unwrap_err();
        assert_eq!(
            error.fault,
            Fault::Replay {
                line,
                expected: "/dev/x ioctl request=0xc0044b01 name=IOC_TEST data=01020304".into(),
                seen: "/dev/x ioctl request=0xc0044b01 name=IOC_TEST data=01020404".into(),
            }
        );
        let finish = tape.finish();
        assert_eq!(finish, Err(error.fault), "the first difference is kept");
    }

    #[test]
    fn ignored_bytes_may_differ() {
        let (text, _) = record();
        let tape = tape(&text);
        tape.ignore("IOC_TEST", 2..3);
        assert!(replay(&tape, 4).is_ok());
    }

    #[test]
    fn what_the_clock_repeats_may_be_asked_more_or_less_often() {
        let flush = |bar| match bar {
            0 => by_clock(|| Access::new(Verb::Flush, [0])),
            _ => Access::new(Verb::Flush, [bar]),
        };
        let text = "x ?flush bar=0x0 -> ok 0x5\nx flush bar=0x1 -> ok\nx ?flush bar=0x0 -> ok 0x6\nx flush bar=0x2 -> ok\n";
        let made = || Tape::parse(text).unwrap();
        let answer = |tape: &Tape, bar| tape.play("x", &flush(bar)).unwrap().values;
        // Less often.
        let tape = made();
        for bar in [0, 1, 2] {
            answer(&tape, bar);
        }
        assert_eq!(tape.finish(), Ok(()));
        // More often.
        let tape = made();
        let numbers = [0, 0, 1, 0, 0, 2, 0].map(|bar| answer(&tape, bar));
        let wanted: [&[u64]; 7] = [&[5], &[5], &[], &[6], &[6], &[], &[6]];
        assert_eq!(numbers, wanted);
        assert_eq!(tape.finish(), Ok(()));
        // A refusal is no repetition of an answer.
        let tape =
            Tape::parse("x ?flush bar=0x0 -> ok\nx ?flush bar=0x0 -> failed errno 0x13\n").unwrap();
        answer(&tape, 0);
        assert!(matches!(tape.finish(), Err(Fault::Replay { line: 2, .. })));
        // One that was never answered is not changed, and the others' order stays.
        let never = Access {
            data: vec![7],
            ..flush(0)
        };
        let tape = Tape::parse("x flush bar=0x1 -> ok\n").unwrap();
        assert_eq!(tape.play("x", &never).unwrap().data, [7]);
        answer(&tape, 1);
        assert_eq!(tape.finish(), Ok(()));
        let tape = made();
        answer(&tape, 0);
        assert!(tape.play("x", &flush(2)).is_err());
    }

    #[test]
    fn a_tape_ends_where_it_ends() {
        let tape = tape("# made by hand\n\nx flush bar=0x0 -> ok\n");
        let flush = Access::new(Verb::Flush, [0]);
        assert!(matches!(tape.finish(), Err(Fault::Replay { line: 3, .. })));
        assert!(tape.play("x", &flush).is_ok());
        assert_eq!(tape.finish(), Ok(()));
        let error = tape.play("x", &flush).unwrap_err();
        assert_eq!(
            error.to_string(),
            "trace line 4: expected `the end`, seen `x flush bar=0x0`"
        );
        assert_eq!(Tape::parse("\nx flush").err().map(|e| e.0), Some(2));
    }
}
