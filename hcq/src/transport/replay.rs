//! [`Replay`]: answers from a recorded trace, strictly in its order.
//!
//! The first access that differs is an error that names the line; nothing is searched or skipped.
//! Bytes of an ioctl that cannot be the same twice (addresses, file descriptors) are named with
//! [`Tape::ignore`]. Memory starts zeroed and stays what the driver makes of it: a trace does not
//! hold what a device wrote there.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::Fault;
use super::access::{Access, Answer, ParseError, Port, Record};

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
        let state = State {
            records,
            next: 0,
            ignored: Vec::new(),
            first_error: None,
        };
        Ok(Tape(Arc::new(Mutex::new(state))))
    }

    /// Lets the bytes in `range` of what the ioctl called `name` carries differ.
    pub fn ignore(&self, name: &str, range: Range<usize>) {
        self.state().ignored.push((name.to_owned(), range));
    }

    /// The device called `name` on this tape.
    pub fn device(&self, name: &str) -> Replay {
        Replay {
            name: name.to_owned(),
            tape: self.clone(),
        }
    }

    /// Ends the replay.
    ///
    /// # Errors
    /// [`Fault::Replay`]: the first difference, or the first line that was not reached.
    pub fn finish(&self) -> Result<(), Fault> {
        let state = self.state();
        if let Some(error) = &state.first_error {
            return Err(error.clone());
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
        let seen = format!("{device} {access}");
        let fault = match state.records.get(state.next) {
            None => {
                let line = state.records.last().map_or(1, |(line, _)| line + 1);
                Fault::Replay {
                    line,
                    expected: "the end".into(),
                    seen,
                }
            }
            Some((line, record)) => {
                if record.device == device && state.same(&record.access, access) {
                    let answer = record.answer.clone();
                    state.next += 1;
                    return answer;
                }
                let expected = format!("{} {}", record.device, record.access);
                Fault::Replay {
                    line: *line,
                    expected,
                    seen,
                }
            }
        };
        state.first_error = Some(fault.clone());
        Err(fault)
    }

    fn state(&self) -> impl std::ops::DerefMut<Target = State> + '_ {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn same(&self, recorded: &Access, seen: &Access) -> bool {
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
        blank(recorded) == blank(seen)
    }
}

/// One device of a [`Tape`].
pub struct Replay {
    name: String,
    tape: Tape,
}

impl Port for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn access(&self, access: &Access) -> Result<Answer, Fault> {
        self.tape.play(&self.name, access)
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::{Direct, Over};
    use super::super::null::Null;
    use super::super::trace::{Trace, TraceLog};
    use super::super::{Clock, DevFile, Map, Pci, Prot, ResetKind, Setup, TransportError, UsbPipe};
    use super::*;
    use crate::mem::window::AccessWidth;
    use crate::transport::VirtualClock;
    use crate::wait::Deadline;
    use std::time::Duration;

    /// Uses every call of every transport; `salt` changes one byte of an ioctl.
    fn session(
        pci: &dyn Pci,
        file: &dyn DevFile,
        usb: &dyn UsbPipe,
        clock: &dyn Clock,
        salt: u8,
    ) -> Result<String, TransportError> {
        let bar = pci.bar(5)?;
        bar.write(0x10, 0xabcdu16)?;
        let mut bytes = [9; 3];
        bar.read_bytes(0x21, &mut bytes)?;
        bar.write_bytes(0x40, b"ring")?;
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
        let mut payload = [1, 2, salt, 4];
        let result = file.ioctl(0xc004_4b01, "IOC_TEST", &mut payload)?;
        let refused = file.ioctl(0xdead, "IOC_REFUSED", &mut []);
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
        let moved = [
            usb.control_in(setup, &mut [0; 8], Duration::from_secs(1))?,
            usb.control_out(setup, &[1, 2], Duration::from_secs(1))?,
            usb.bulk_in(0x81, &mut [0; 16], Duration::from_secs(1))?,
            usb.bulk_out(2, &[7; 5], Duration::from_secs(1))?,
        ];
        clock.sleep(Duration::from_nanos(50));
        let now = clock.now_ns();
        let errors = (
            irq.map_err(|e| e.to_string()),
            refused.map_err(|e| e.to_string()),
        );
        let sizes = (bar.len(), dma.ranges, map.len());
        Ok(format!(
            "{seen:#x} {bytes:?} {config} {result} {payload:?} {moved:?} {now} {errors:?} {sizes:?}"
        ))
    }

    fn record() -> (String, String) {
        let log = TraceLog::memory();
        let null = |name| {
            let (read, refused) = (Verb::Read, Access::new(Verb::Ioctl, [0xdead]));
            let refused = Access {
                name: "IOC_REFUSED".into(),
                ..refused
            };
            Null::new(name)
                .with(
                    Access::new(read, [5, 8, 8]),
                    Ok(Answer::value(0x1122_3344_5566_7788)),
                )
                .with(refused, Err(Fault::Errno(25)))
                .with(
                    Access::new(Verb::Irq, [1]),
                    Err(Fault::TimedOut(Duration::ZERO)),
                )
        };
        let log = &log;
        let pci = Over::new(Trace::new(
            Direct::pci(Arc::new(Over::new(null("gpu 0")))),
            log.clone(),
        ));
        let file = Over::new(Trace::new(null("/dev/x"), log.clone()));
        let usb = Over::new(Trace::new(
            Direct::usb(Arc::new(Over::new(null("usb")))),
            log.clone(),
        ));
        let clock = Direct::clock(Arc::new(VirtualClock::new()));
        let clock = Over::new(Trace::new(clock, log.clone()));
        let seen = session(&pci, &file, &usb, &clock, 3).unwrap();
        (log.to_string(), seen)
    }

    use super::super::access::Verb;

    fn replay(tape: &Tape, salt: u8) -> Result<String, TransportError> {
        let over = |name| Over::new(tape.device(name));
        session(
            &over("gpu 0"),
            &over("/dev/x"),
            &over("usb"),
            &over("clock"),
            salt,
        )
    }

    #[test]
    fn what_was_recorded_replays_alike() {
        let (text, seen) = record();
        assert!(text.starts_with("gpu%200 bar bar=0x5 -> ok "), "{text}");
        assert!(seen.starts_with("0x1122334455667788 [0, 0, 0]"), "{seen}");
        assert!(
            seen.contains("ioctl request=0xdead name=IOC_REFUSED: errno 25 (ENOTTY"),
            "{seen}"
        );
        let tape = Tape::parse(&text).unwrap();
        assert_eq!(replay(&tape, 3).unwrap(), seen);
        assert_eq!(tape.finish(), Ok(()));
    }

    #[test]
    fn a_difference_names_line_expected_and_seen() {
        let (text, _) = record();
        let tape = Tape::parse(&text).unwrap();
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
        assert_eq!(
            tape.finish(),
            Err(error.fault),
            "the first difference is kept"
        );
    }

    #[test]
    fn ignored_bytes_may_differ() {
        let (text, _) = record();
        let tape = Tape::parse(&text).unwrap();
        tape.ignore("IOC_TEST", 2..3);
        assert!(replay(&tape, 4).is_ok());
    }

    #[test]
    fn a_tape_ends_where_it_ends() {
        let tape = Tape::parse("# made by hand\n\nx flush bar=0x0 -> ok\n").unwrap();
        let flush = Access::new(Verb::Flush, [0]);
        assert!(matches!(tape.finish(), Err(Fault::Replay { line: 3, .. })));
        let device = tape.device("x");
        assert!(device.access(&flush).is_ok());
        assert_eq!(tape.finish(), Ok(()));
        let error = device.access(&flush).unwrap_err();
        assert_eq!(
            error.to_string(),
            "trace line 4: expected `the end`, seen `x flush bar=0x0`"
        );
        assert_eq!(Tape::parse("\nx flush").err().map(|e| e.0), Some(2));
    }

    #[test]
    fn a_clock_that_leaves_the_tape_ends_all_waits() {
        let tape = Tape::parse("").unwrap();
        assert_eq!(Over::new(tape.device("clock")).now_ns(), u64::MAX);
    }
}
