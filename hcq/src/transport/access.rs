//! Accesses as data: every call of a transport as one [`Access`], every result as one [`Answer`].
//!
//! What stands between a driver and a transport ([`tap`](super::tap)) sees these, so each is written
//! once and not once per transport.
//!
//! An access with its answer is one line of text, which [`Record`] prints and parses:
//! ```text
//! 0000:03:00.0 read bar=0x5 offset=0x16a0 bytes=0x4 -> ok 0x1
//! /dev/kfd ioctl request=0x80084b01 name=AMDKFD_IOC_GET_VERSION data=0000 -> failed errno 0x10
//! ```
//! Registers and doorbells in a BAR are traced, and DMA memory that the host has by [`Pci::window`](super::Pci::window);
//! other memory is not: what passes through a view of DMA memory, or the mapping of a file, is seen by nobody. The data of an ioctl is its argument, with zeros for the
//! addresses in it, and behind it the memory that they name.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::Fault;
use crate::mem::view::View;

macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident = $text:literal [$($arg:literal)*];)*) => {
        /// What an access does; its arguments are all numbers, in this order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Verb {
            $($(#[$doc])* $verb,)*
        }

        impl Verb {
            const ALL: &'static [Verb] = &[$(Verb::$verb,)*];

            /// Its word in a trace.
            pub fn word(self) -> &'static str {
                match self { $(Verb::$verb => $text,)* }
            }

            /// Names of its arguments.
            pub fn args(self) -> &'static [&'static str] {
                match self { $(Verb::$verb => &[$($arg),*],)* }
            }
        }
    };
}

verbs! {
    /// Opens a BAR; answers its length.
    Bar = "bar" ["bar"];
    /// Reads an element of a BAR; answers its value.
    Read = "read" ["bar" "offset" "bytes"];
    /// Writes an element of a BAR.
    Write = "write" ["bar" "offset" "bytes" "value"];
    /// Reads bytes of a BAR; answers data.
    ReadBytes = "read-bytes" ["bar" "offset" "bytes"];
    /// Writes data to a BAR.
    WriteBytes = "write-bytes" ["bar" "offset"];
    /// Puts the queued writes of a BAR on their way.
    Send = "send" ["bar"];
    /// Flushes a BAR.
    Flush = "flush" ["bar"];
    /// Reads config space; answers the value.
    ConfigRead = "config-read" ["offset" "bytes"];
    /// Writes config space.
    ConfigWrite = "config-write" ["offset" "bytes" "value"];
    /// Allocates DMA memory; answers address and length of each range in turn.
    Dma = "dma" ["bytes" "align"];
    /// Reads an element of DMA memory, by the address of its first range and how far it is from its start; answers
    /// its value.
    Load = "load" ["at" "offset" "bytes"];
    /// Writes an element of DMA memory.
    Store = "store" ["at" "offset" "bytes" "value"];
    /// Reads bytes of DMA memory; answers data.
    LoadBytes = "load-bytes" ["at" "offset" "bytes"];
    /// Writes data to DMA memory.
    StoreBytes = "store-bytes" ["at" "offset"];
    /// Resets: 0 function, 1 bus, 2 power.
    Reset = "reset" ["kind"];
    /// Waits for an interrupt; answers how often it fired.
    Irq = "irq" ["vector"];
    /// Opens the device file of a name.
    Open = "open" [];
    /// Reads the text file of a name; answers data.
    Text = "text" [];
    /// Lists the folder of a name; answers data, one name a line.
    List = "list" [];
    /// Lists the PCI functions; answers data, one a line.
    Functions = "functions" [];
    /// Lists the USB devices; answers data, one a line.
    Devices = "devices" [];
    /// Reserves addresses, all below one; answers the first and the length.
    Reserve = "reserve" ["bytes" "align" "below"];
    /// Memory of the process; answers its address.
    Memory = "memory" ["bytes" "align"];
    /// Calls an ioctl with data; answers its result and the data after it.
    Ioctl = "ioctl" ["request"];
    /// Maps a file: protection 1 read, 2 write, 3 both; address 0 for anywhere.
    Mmap = "mmap" ["offset" "len" "prot" "at"];
    /// Queries the number of a file; answers it.
    Number = "number" [];
    /// Waits for an event of a file; answers whether one arrived.
    Poll = "poll" ["ns"];
    /// USB control transfer to the host; answers data.
    ControlIn = "control-in" ["type" "request" "value" "index" "bytes"];
    /// USB control transfer of data to the device; answers the number of bytes moved.
    ControlOut = "control-out" ["type" "request" "value" "index"];
    /// USB bulk transfer to the host; answers data.
    BulkIn = "bulk-in" ["endpoint" "bytes"];
    /// USB bulk transfer of data to the device; answers the number of bytes moved.
    BulkOut = "bulk-out" ["endpoint"];
    /// Reads the clock; answers nanoseconds.
    Now = "now" [];
    /// Sleeps.
    Sleep = "sleep" ["ns"];
}

/// One call of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub verb: Verb,
    /// Its arguments; see [`Verb::args`].
    pub args: Vec<u64>,
    /// Vendor's name of an ioctl, path of a file or folder, else empty.
    pub name: String,
    /// Bytes it carries to the device.
    pub data: Vec<u8>,
    /// Whether it is one of [`by_clock`]. A trace has `?` before its verb.
    pub is_by_clock: bool,
}

thread_local! {
    static BY_CLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Does what a driver does again whenever some time has passed, such as looking for faults while it waits: where and how
/// often is the clock's choice, so that a [replay](super::replay) does not insist on it.
pub fn by_clock<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            BY_CLOCK.set(self.0);
        }
    }
    let _before = Before(BY_CLOCK.replace(true));
    work()
}

impl Access {
    /// An access without name and data.
    pub fn new(verb: Verb, args: impl Into<Vec<u64>>) -> Access {
        let (name, data) = (String::new(), Vec::new());
        Access {
            verb,
            args: args.into(),
            name,
            data,
            is_by_clock: BY_CLOCK.get(),
        }
    }

    /// Argument by its name; 0 if the verb has none of this name.
    pub fn arg(&self, name: &str) -> u64 {
        let at = self.verb.args().iter().position(|&arg| arg == name);
        at.and_then(|at| self.args.get(at)).copied().unwrap_or(0)
    }

    pub(super) fn with_data(mut self, data: &[u8]) -> Access {
        self.data = data.to_vec();
        self
    }

    pub(super) fn named(mut self, name: &str) -> Access {
        name.clone_into(&mut self.name);
        self
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_by_clock {
            f.write_str("?")?;
        }
        f.write_str(self.verb.word())?;
        for (name, value) in self.verb.args().iter().zip(&self.args) {
            write!(f, " {name}={value:#x}")?;
        }
        if !self.name.is_empty() {
            write!(f, " name={}", escape(&self.name))?;
        }
        if !self.data.is_empty() {
            write!(f, " data={}", hex(&self.data))?;
        }
        Ok(())
    }
}

/// What an access gave.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Numbers; see [`Verb`].
    pub values: Vec<u64>,
    /// Bytes from the device.
    pub data: Vec<u8>,
    /// Memory that came into being, in this process only; without it, host memory stands in.
    pub view: Option<View>,
}

impl Answer {
    /// An answer of one number.
    pub fn value(value: u64) -> Answer {
        Answer {
            values: vec![value],
            ..Answer::default()
        }
    }

    /// An answer of bytes.
    pub fn data(data: Vec<u8>) -> Answer {
        Answer {
            data,
            ..Answer::default()
        }
    }

    pub(super) fn first(&self) -> Result<u64, Fault> {
        self.values.first().copied().ok_or(Fault::Short {
            wanted: 1,
            moved: 0,
        })
    }

    /// All of `to`, from the data.
    pub(super) fn fill(&self, to: &mut [u8]) -> Result<(), Fault> {
        if self.data.len() != to.len() {
            return Err(Fault::Short {
                wanted: to.len(),
                moved: self.data.len(),
            });
        }
        to.copy_from_slice(&self.data);
        Ok(())
    }

    /// The start of `to`, from the data; returns its length.
    pub(super) fn fill_part(&self, to: &mut [u8]) -> Result<usize, Fault> {
        let (wanted, moved) = (to.len(), self.data.len());
        let part = to.get_mut(..moved).ok_or(Fault::Short { wanted, moved })?;
        part.copy_from_slice(&self.data);
        Ok(moved)
    }
}

/// An access of a device with its answer: one line of a trace.
#[derive(Debug, Clone)]
pub struct Record {
    /// Name of the device.
    pub device: String,
    /// What was asked.
    pub access: Access,
    /// What came of it.
    pub answer: Result<Answer, Fault>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> ", escape(&self.device), self.access)?;
        match &self.answer {
            Ok(answer) => {
                f.write_str("ok")?;
                for value in &answer.values {
                    write!(f, " {value:#x}")?;
                }
                if !answer.data.is_empty() {
                    write!(f, " data={}", hex(&answer.data))?;
                }
                Ok(())
            }
            Err(Fault::Errno(errno)) => write!(f, "failed errno {errno:#x}"),
            Err(Fault::TimedOut(after)) => write!(f, "failed timed-out {:#x}", after.as_nanos()),
            Err(Fault::Gone) => f.write_str("failed gone"),
            Err(Fault::Stall) => f.write_str("failed stall"),
            Err(Fault::Short { wanted, moved }) => write!(f, "failed short {wanted:#x} {moved:#x}"),
            Err(Fault::Unsupported(what)) => write!(f, "failed unsupported {}", escape(what)),
            Err(other) => write!(f, "failed unsupported {}", escape(&other.to_string())),
        }
    }
}

/// Characters of a line that is no record that its error has at most.
const SHOWN: usize = 120;

/// A line that is no record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a line of a trace: {reason} in `{text}`")]
pub struct ParseError {
    /// What is wrong.
    pub reason: &'static str,
    /// The word or line that is.
    pub text: String,
}

impl FromStr for Record {
    type Err = ParseError;

    fn from_str(line: &str) -> Result<Record, ParseError> {
        let wrong = |reason, text: &str| ParseError {
            reason,
            // Some lines are long.
            text: text.chars().take(SHOWN).collect(),
        };
        let number = |text: &str| {
            let digits = text
                .strip_prefix("0x")
                .ok_or(wrong("number without 0x", text))?;
            u64::from_str_radix(digits, 16).map_err(|_| wrong("bad number", text))
        };
        let (asked, answered) = line.split_once(" -> ").ok_or(wrong("no answer", line))?;
        let mut words = asked.split(' ');
        let device = unescape(words.next().unwrap_or("")).ok_or(wrong("bad name", asked))?;
        let verb = words.next().unwrap_or("");
        let (verb, is_by_clock) = match verb.strip_prefix('?') {
            Some(verb) => (verb, true),
            None => (verb, false),
        };
        let known = Verb::ALL.iter().find(|v| v.word() == verb);
        let mut access = Access::new(*known.ok_or(wrong("unknown verb", verb))?, []);
        access.is_by_clock = is_by_clock;
        for name in access.verb.args() {
            let word = words.next().unwrap_or("");
            let value = word
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='));
            access
                .args
                .push(number(value.ok_or(wrong("wrong argument", word))?)?);
        }
        for word in words {
            if let Some(name) = word.strip_prefix("name=") {
                access.name = unescape(name).ok_or(wrong("bad name", word))?;
            } else if let Some(data) = word.strip_prefix("data=") {
                access.data = unhex(data).ok_or(wrong("bad data", word))?;
            } else {
                return Err(wrong("unknown word", word));
            }
        }
        let mut words = answered.split(' ');
        if words.next() == Some("ok") {
            let mut answer = Answer::default();
            for word in words {
                match word.strip_prefix("data=") {
                    Some(data) => answer.data = unhex(data).ok_or(wrong("bad data", word))?,
                    None => answer.values.push(number(word)?),
                }
            }
            return Ok(Record {
                device,
                access,
                answer: Ok(answer),
            });
        }
        // A failure has few words; the last is the text of an unknown one.
        let words: Vec<&str> = answered.splitn(5, ' ').collect();
        let answer = match words.as_slice() {
            ["failed", "errno", n] => Err(Fault::Errno(number(n)? as i32)),
            ["failed", "timed-out", n] => Err(Fault::TimedOut(Duration::from_nanos(number(n)?))),
            ["failed", "gone"] => Err(Fault::Gone),
            ["failed", "stall"] => Err(Fault::Stall),
            ["failed", "short", wanted, moved] => {
                let (wanted, moved) = (number(wanted)? as usize, number(moved)? as usize);
                Err(Fault::Short { wanted, moved })
            }
            ["failed", "unsupported", what] => Err(Fault::Unsupported(
                unescape(what).ok_or(wrong("bad text", what))?,
            )),
            _ => return Err(wrong("unknown answer", answered)),
        };
        Ok(Record {
            device,
            access,
            answer,
        })
    }
}

/// One word for any text: everything but graphic ASCII, and `%`, as `%xx` per byte.
fn escape(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            word.push(byte.into());
        } else {
            let _ = write!(word, "%{byte:02x}");
        }
    }
    word
}

fn unescape(word: &str) -> Option<String> {
    let mut parts = word.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_that_are_no_records_are_named() {
        let error = |line: &str| line.parse::<Record>().unwrap_err().reason;
        assert_eq!(error("gpu read bar=0x0"), "no answer");
        assert_eq!(error("gpu peek -> ok"), "unknown verb");
        assert_eq!(
            error("gpu read bar=0x0 at=0x0 bytes=0x4 -> ok 0x1"),
            "wrong argument"
        );
        assert_eq!(error("gpu flush bar=5 -> ok"), "number without 0x");
        assert_eq!(error("gpu flush bar=0x5 -> maybe"), "unknown answer");
        assert_eq!(error("gpu flush bar=0x5 data=012 -> ok"), "bad data");
        assert_eq!(error("g%zz flush bar=0x5 -> ok"), "bad name");
    }

    proptest! {
        #[test]
        fn lines_round_trip(
            verb in prop::sample::select(Verb::ALL),
            numbers in any::<[u64; 5]>(),
            device in "\\PC{0,12}",
            name in "\\PC{0,12}",
            data in any::<Vec<u8>>(),
            values in any::<Vec<u64>>(),
            fault in prop::option::of(prop::sample::select(vec![
                Fault::Errno(22), Fault::Gone, Fault::Stall, Fault::TimedOut(Duration::from_millis(7)),
                Fault::Short { wanted: 9, moved: 2 }, Fault::Unsupported("no irq %".into()),
            ])),
        ) {
            let mut access = Access::new(verb, &numbers[..verb.args().len()]).with_data(&data);
            access.name = name;
            let answer = match fault {
                Some(fault) => Err(fault),
                None => Ok(Answer { values, data, view: None }),
            };
            let record = Record { device, access, answer };
            let line = record.to_string();
            prop_assert!(!line.contains('\n'));
            let back: Record = line.parse().unwrap();
            prop_assert_eq!(&back.device, &record.device);
            prop_assert_eq!(&back.access, &record.access);
            prop_assert_eq!(back.to_string(), line);
        }

        #[test]
        fn no_text_panics(line in "\\PC*") {
            let _ = line.parse::<Record>();
        }
    }
}
