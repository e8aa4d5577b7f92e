//! Accesses as data: every call of a transport as one [`Access`], every result as one [`Answer`].
//!
//! Middleware works on these, so each is written once and not once per transport. [`Direct`]
//! performs an access on a real transport; [`Over`] is a transport whose calls become accesses.
//!
//! An access with its answer is one line of text, which [`Record`] prints and parses:
//! ```text
//! 0000:03:00.0 read bar=0x5 offset=0x16a0 bytes=0x4 -> ok 0x1
//! /dev/kfd ioctl request=0x80084b01 name=AMDKFD_IOC_GET_VERSION data=0000 -> failed errno 0x10
//! ```
//! Memory is not traced: what passes through a DMA buffer or a mapping is seen by nobody.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use super::{
    BusRange, Clock, DevFile, Dma, Fault, Map, Pci, Prot, ResetKind, Setup, TransportError, UsbPipe,
};
use crate::addr::BusAddr;
use crate::mem::view::View;
use crate::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use crate::wait::Deadline;

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
    /// Resets: 0 function, 1 bus, 2 power.
    Reset = "reset" ["kind"];
    /// Waits for an interrupt; answers how often it fired.
    Irq = "irq" ["vector"];
    /// Calls an ioctl with data; answers its result and the data after it.
    Ioctl = "ioctl" ["request"];
    /// Maps a file: protection 1 read, 2 write, 3 both; address 0 for anywhere.
    Mmap = "mmap" ["offset" "len" "prot" "at"];
    /// Asks for the number of a file; answers it.
    Number = "number" [];
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

/// How long an access may take. Not part of its identity: it differs from run to run.
#[derive(Debug, Clone, Copy, Default)]
pub enum Patience {
    /// As long as it takes: the access does not wait.
    #[default]
    Unset,
    /// Until a deadline.
    Until(Deadline),
    /// For a time.
    For(Duration),
}

impl PartialEq for Patience {
    fn eq(&self, _: &Patience) -> bool {
        true
    }
}

impl Eq for Patience {}

/// One call of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub verb: Verb,
    /// Its arguments; see [`Verb::args`].
    pub args: Vec<u64>,
    /// Vendor's name of an ioctl, else empty.
    pub name: String,
    /// Bytes it carries to the device.
    pub data: Vec<u8>,
    /// How long it may take.
    pub patience: Patience,
}

impl Access {
    /// An access without name, data and limit.
    pub fn new(verb: Verb, args: impl Into<Vec<u64>>) -> Access {
        let (name, data) = (String::new(), Vec::new());
        Access {
            verb,
            args: args.into(),
            name,
            data,
            patience: Patience::Unset,
        }
    }

    /// Argument by its name; 0 if the verb has none of this name.
    pub fn arg(&self, name: &str) -> u64 {
        let at = self.verb.args().iter().position(|&arg| arg == name);
        at.and_then(|at| self.args.get(at)).copied().unwrap_or(0)
    }

    fn with_data(mut self, data: &[u8]) -> Access {
        self.data = data.to_vec();
        self
    }

    fn within(mut self, timeout: Duration) -> Access {
        self.patience = Patience::For(timeout);
        self
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

    fn first(&self) -> Result<u64, Fault> {
        self.values.first().copied().ok_or(Fault::Short {
            wanted: 1,
            moved: 0,
        })
    }

    /// All of `to`, from the data.
    fn fill(&self, to: &mut [u8]) -> Result<(), Fault> {
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
    fn fill_part(&self, to: &mut [u8]) -> Result<usize, Fault> {
        let (wanted, moved) = (to.len(), self.data.len());
        let part = to.get_mut(..moved).ok_or(Fault::Short { wanted, moved })?;
        part.copy_from_slice(&self.data);
        Ok(moved)
    }
}

/// Something that answers accesses.
pub trait Port: Send + Sync {
    /// Name of the device.
    fn name(&self) -> &str;
    /// Performs an access, or plays it.
    ///
    /// # Errors
    /// The way it failed; who asked knows the rest.
    fn access(&self, access: &Access) -> Result<Answer, Fault>;
}

/// Performs accesses on a real transport.
pub struct Direct {
    name: String,
    target: Target,
    windows: Mutex<HashMap<u64, Window>>,
}

enum Target {
    Pci(Arc<dyn Pci>),
    File(Arc<dyn DevFile>),
    Usb(Arc<dyn UsbPipe>),
    Clock(Arc<dyn Clock>),
}

impl Direct {
    /// On a PCI function.
    pub fn pci(pci: Arc<dyn Pci>) -> Direct {
        Direct::new(pci.name().to_owned(), Target::Pci(pci))
    }

    /// On a device file.
    pub fn file(file: Arc<dyn DevFile>) -> Direct {
        Direct::new(file.name().to_owned(), Target::File(file))
    }

    /// On a USB device.
    pub fn usb(usb: Arc<dyn UsbPipe>) -> Direct {
        Direct::new(usb.name().to_owned(), Target::Usb(usb))
    }

    /// On a clock, called `clock`.
    pub fn clock(clock: Arc<dyn Clock>) -> Direct {
        Direct::new("clock".to_owned(), Target::Clock(clock))
    }

    fn new(name: String, target: Target) -> Direct {
        Direct {
            name,
            target,
            windows: Mutex::default(),
        }
    }

    /// The window of a BAR, opened once.
    fn window(&self, pci: &dyn Pci, bar: u64) -> Result<Window, TransportError> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(window) = windows.get(&bar) {
            return Ok(window.clone());
        }
        let window = pci.bar(bar as u8)?;
        windows.insert(bar, window.clone());
        Ok(window)
    }

    fn on_pci(&self, pci: &dyn Pci, access: &Access) -> Result<Answer, TransportError> {
        let (offset, bytes) = (access.arg("offset"), access.arg("bytes"));
        let window = || self.window(pci, access.arg("bar"));
        let width = || {
            let unsupported = || Fault::Unsupported(format!("an access of {bytes} bytes"));
            let width = AccessWidth::from_bytes(bytes as usize).ok_or_else(unsupported);
            width.map_err(|fault| TransportError::new(&*self.name, access.to_string(), fault))
        };
        let value = access.arg("value");
        Ok(match access.verb {
            Verb::Bar => Answer::value(window()?.len()),
            Verb::Read => Answer::value(match width()? {
                AccessWidth::W8 => window()?.read::<u8>(offset)?.into(),
                AccessWidth::W16 => window()?.read::<u16>(offset)?.into(),
                AccessWidth::W32 => window()?.read::<u32>(offset)?.into(),
                AccessWidth::W64 => window()?.read::<u64>(offset)?,
            }),
            Verb::Write => {
                match width()? {
                    AccessWidth::W8 => window()?.write(offset, value as u8)?,
                    AccessWidth::W16 => window()?.write(offset, value as u16)?,
                    AccessWidth::W32 => window()?.write(offset, value as u32)?,
                    AccessWidth::W64 => window()?.write(offset, value)?,
                }
                Answer::default()
            }
            Verb::ReadBytes => {
                let mut data = vec![0; bytes as usize];
                window()?.read_bytes(offset, &mut data)?;
                Answer::data(data)
            }
            Verb::WriteBytes => {
                window()?.write_bytes(offset, &access.data)?;
                Answer::default()
            }
            Verb::Send => {
                window()?.send()?;
                Answer::default()
            }
            Verb::Flush => {
                window()?.flush()?;
                Answer::default()
            }
            Verb::ConfigRead => Answer::value(pci.config_read(offset as u16, width()?)?.into()),
            Verb::ConfigWrite => {
                pci.config_write(offset as u16, width()?, value as u32)?;
                Answer::default()
            }
            Verb::Dma => {
                let Dma { view, ranges } = pci.dma(bytes, access.arg("align"))?;
                let values = ranges.iter().flat_map(|r| [r.addr.0, r.bytes]).collect();
                Answer {
                    values,
                    view: Some(view),
                    ..Answer::default()
                }
            }
            Verb::Reset => {
                pci.reset(match access.arg("kind") {
                    0 => ResetKind::Function,
                    1 => ResetKind::Bus,
                    _ => ResetKind::Power,
                })?;
                Answer::default()
            }
            Verb::Irq => {
                let deadline = match access.patience {
                    Patience::Until(deadline) => deadline,
                    Patience::For(limit) => Deadline::after(limit),
                    Patience::Unset => Deadline::after(Duration::ZERO),
                };
                Answer::value(pci.wait_irq(access.arg("vector") as u32, deadline)?)
            }
            _ => return Err(self.unfit(access)),
        })
    }

    fn on_file(&self, file: &dyn DevFile, access: &Access) -> Result<Answer, TransportError> {
        Ok(match access.verb {
            Verb::Ioctl => {
                let mut data = access.data.clone();
                let request = access.arg("request") as u32;
                let result = file.ioctl(request, &access.name, &mut data)?;
                Answer {
                    values: vec![result as u64],
                    data,
                    view: None,
                }
            }
            Verb::Mmap => {
                let at = access.arg("at");
                let view = file.mmap(Map {
                    offset: access.arg("offset"),
                    len: access.arg("len") as usize,
                    prot: match access.arg("prot") {
                        1 => Prot::Read,
                        2 => Prot::Write,
                        _ => Prot::ReadWrite,
                    },
                    at: (at != 0).then_some(at),
                })?;
                Answer {
                    view: Some(view),
                    ..Answer::default()
                }
            }
            Verb::Number => Answer::value(file.number()?.into()),
            _ => return Err(self.unfit(access)),
        })
    }

    fn on_usb(&self, usb: &dyn UsbPipe, access: &Access) -> Result<Answer, TransportError> {
        let timeout = match access.patience {
            Patience::For(timeout) => timeout,
            _ => Duration::ZERO,
        };
        let setup = Setup {
            request_type: access.arg("type") as u8,
            request: access.arg("request") as u8,
            value: access.arg("value") as u16,
            index: access.arg("index") as u16,
        };
        let endpoint = access.arg("endpoint") as u8;
        let mut data = vec![0; access.arg("bytes") as usize];
        let moved = match access.verb {
            Verb::ControlIn => usb.control_in(setup, &mut data, timeout)?,
            Verb::BulkIn => usb.bulk_in(endpoint, &mut data, timeout)?,
            Verb::ControlOut => {
                return Ok(Answer::value(
                    usb.control_out(setup, &access.data, timeout)? as u64,
                ));
            }
            Verb::BulkOut => {
                return Ok(Answer::value(
                    usb.bulk_out(endpoint, &access.data, timeout)? as u64,
                ));
            }
            _ => return Err(self.unfit(access)),
        };
        data.truncate(moved);
        Ok(Answer::data(data))
    }

    fn unfit(&self, access: &Access) -> TransportError {
        let fault = Fault::Unsupported(format!("{} on this kind of device", access.verb.word()));
        TransportError::new(&*self.name, access.to_string(), fault)
    }
}

impl Port for Direct {
    fn name(&self) -> &str {
        &self.name
    }

    fn access(&self, access: &Access) -> Result<Answer, Fault> {
        let done = match &self.target {
            Target::Pci(pci) => self.on_pci(&**pci, access),
            Target::File(file) => self.on_file(&**file, access),
            Target::Usb(usb) => self.on_usb(&**usb, access),
            Target::Clock(clock) => match access.verb {
                Verb::Now => Ok(Answer::value(clock.now_ns())),
                Verb::Sleep => {
                    clock.sleep(Duration::from_nanos(access.arg("ns")));
                    Ok(Answer::default())
                }
                _ => Err(self.unfit(access)),
            },
        };
        done.map_err(|error| error.fault)
    }
}

/// A transport of any kind, whose calls are accesses of a [`Port`].
pub struct Over<P>(Arc<P>);

impl<P: Port + 'static> Over<P> {
    /// Over `port`.
    pub fn new(port: P) -> Over<P> {
        Over(Arc::new(port))
    }

    /// The port, e.g. to change a plan of faults while it is in use.
    pub fn port(&self) -> &P {
        &self.0
    }
}

fn call<P: Port + ?Sized>(port: &P, access: &Access) -> Result<Answer, TransportError> {
    port.access(access)
        .map_err(|fault| failed(port, access, fault))
}

/// The error for a failed access; data is too long for a message.
fn failed<P: Port + ?Sized>(port: &P, access: &Access, fault: Fault) -> TransportError {
    let mut operation = Access {
        data: Vec::new(),
        ..access.clone()
    }
    .to_string();
    if !access.data.is_empty() {
        let _ = write!(operation, " with {:#x} bytes", access.data.len());
    }
    TransportError::new(port.name(), operation, fault)
}

/// One BAR of a function behind a port.
struct Bar<P> {
    port: Arc<P>,
    bar: u64,
    len: u64,
}

impl<P: Port> RemoteWindow for Bar<P> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let access = Access::new(Verb::Read, [self.bar, offset, width.bytes() as u64]);
        let answer = call(&*self.port, &access)?;
        answer
            .first()
            .map_err(|fault| failed(&*self.port, &access, fault))
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let args = [self.bar, offset, width.bytes() as u64, value & width.ones()];
        call(&*self.port, &Access::new(Verb::Write, args)).map(drop)
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let access = Access::new(Verb::ReadBytes, [self.bar, offset, to.len() as u64]);
        let answer = call(&*self.port, &access)?;
        answer
            .fill(to)
            .map_err(|fault| failed(&*self.port, &access, fault))
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        pieces.iter().try_for_each(|(offset, from)| {
            let access = Access::new(Verb::WriteBytes, [self.bar, *offset]).with_data(from);
            call(&*self.port, &access).map(drop)
        })
    }

    fn send(&self) -> Result<(), TransportError> {
        call(&*self.port, &Access::new(Verb::Send, [self.bar])).map(drop)
    }

    fn flush(&self) -> Result<(), TransportError> {
        call(&*self.port, &Access::new(Verb::Flush, [self.bar])).map(drop)
    }
}

impl<P: Port> Over<P> {
    fn run<T>(
        &self,
        access: Access,
        take: impl FnOnce(Answer) -> Result<T, Fault>,
    ) -> Result<T, TransportError> {
        take(call(&*self.0, &access)?).map_err(|fault| failed(&*self.0, &access, fault))
    }
}

/// The memory of an answer, or host memory in its place.
fn memory(answer: &Answer, len: usize, align: u64) -> Result<View, Fault> {
    match &answer.view {
        Some(view) => Ok(view.clone()),
        None => View::alloc(len, align.clamp(1, 1 << 21) as usize).map_err(Fault::View),
    }
}

impl<P: Port + 'static> Pci for Over<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let len = self.run(Access::new(Verb::Bar, [n.into()]), |answer| answer.first())?;
        let bar = Bar {
            port: Arc::clone(&self.0),
            bar: n.into(),
            len,
        };
        Ok(Window::remote(
            format!("{} BAR{n}", self.0.name()),
            Arc::new(bar),
        ))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let access = Access::new(Verb::ConfigRead, [offset.into(), width.bytes() as u64]);
        self.run(access, |answer| Ok(answer.first()? as u32))
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let args = [offset.into(), width.bytes() as u64, value.into()];
        self.run(Access::new(Verb::ConfigWrite, args), |_| Ok(()))
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        self.run(Access::new(Verb::Dma, [bytes, align]), |answer| {
            let range = |pair: &[u64]| BusRange {
                addr: BusAddr(pair[0]),
                bytes: pair[1],
            };
            let ranges: Vec<_> = answer.values.chunks_exact(2).map(range).collect();
            let moved = ranges
                .iter()
                .fold(0u64, |sum, r| sum.saturating_add(r.bytes)) as usize;
            let wanted = bytes as usize;
            if moved < wanted || moved > wanted.saturating_add(1 << 21) {
                return Err(Fault::Short { wanted, moved });
            }
            Ok(Dma {
                view: memory(&answer, moved, align)?,
                ranges,
            })
        })
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        self.run(Access::new(Verb::Reset, [kind as u64]), |_| Ok(()))
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        let mut access = Access::new(Verb::Irq, [vector.into()]);
        access.patience = Patience::Until(deadline);
        self.run(access, |answer| answer.first())
    }
}

impl<P: Port + 'static> DevFile for Over<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn ioctl(&self, request: u32, name: &str, payload: &mut [u8]) -> Result<i32, TransportError> {
        let mut access = Access::new(Verb::Ioctl, [request.into()]).with_data(payload);
        name.clone_into(&mut access.name);
        self.run(access, |answer| {
            answer.fill(payload)?;
            Ok(answer.first()? as i32)
        })
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        let prot = match map.prot {
            Prot::Read => 1,
            Prot::Write => 2,
            Prot::ReadWrite => 3,
        };
        let args = [map.offset, map.len as u64, prot, map.at.unwrap_or(0)];
        self.run(Access::new(Verb::Mmap, args), |answer| {
            memory(&answer, map.len, 4096)
        })
    }

    fn number(&self) -> Result<u32, TransportError> {
        self.run(Access::new(Verb::Number, []), |answer| {
            Ok(answer.first()? as u32)
        })
    }
}

impl Setup {
    fn args(&self) -> [u64; 4] {
        let Setup {
            request_type,
            request,
            value,
            index,
        } = *self;
        [
            request_type.into(),
            request.into(),
            value.into(),
            index.into(),
        ]
    }
}

impl<P: Port + 'static> UsbPipe for Over<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn control_in(
        &self,
        s: Setup,
        to: &mut [u8],
        limit: Duration,
    ) -> Result<usize, TransportError> {
        let mut args = s.args().to_vec();
        args.push(to.len() as u64);
        self.run(Access::new(Verb::ControlIn, args).within(limit), |answer| {
            answer.fill_part(to)
        })
    }

    fn control_out(&self, s: Setup, from: &[u8], limit: Duration) -> Result<usize, TransportError> {
        let access = Access::new(Verb::ControlOut, s.args())
            .with_data(from)
            .within(limit);
        self.run(access, |answer| Ok(answer.first()? as usize))
    }

    fn bulk_in(&self, ep: u8, to: &mut [u8], limit: Duration) -> Result<usize, TransportError> {
        let access = Access::new(Verb::BulkIn, [ep.into(), to.len() as u64]).within(limit);
        self.run(access, |answer| answer.fill_part(to))
    }

    fn bulk_out(&self, ep: u8, from: &[u8], limit: Duration) -> Result<usize, TransportError> {
        let access = Access::new(Verb::BulkOut, [ep.into()])
            .with_data(from)
            .within(limit);
        self.run(access, |answer| Ok(answer.first()? as usize))
    }
}

impl<P: Port + 'static> Clock for Over<P> {
    /// A clock cannot fail; if its port does, time is over, and with it every deadline.
    fn now_ns(&self) -> u64 {
        self.run(Access::new(Verb::Now, []), |answer| answer.first())
            .unwrap_or(u64::MAX)
    }

    fn sleep(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // A port that fails to sleep fails to tell the time as well; see `now_ns`.
        let _ = self.run(Access::new(Verb::Sleep, [ns]), |_| Ok(()));
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
            text: text.to_owned(),
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
        let known = Verb::ALL.iter().find(|v| v.word() == verb);
        let mut access = Access::new(*known.ok_or(wrong("unknown verb", verb))?, []);
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
        let words: Vec<&str> = answered.split(' ').collect();
        let answer = match words.as_slice() {
            ["ok", rest @ ..] => {
                let mut answer = Answer::default();
                for word in rest {
                    match word.strip_prefix("data=") {
                        Some(data) => answer.data = unhex(data).ok_or(wrong("bad data", word))?,
                        None => answer.values.push(number(word)?),
                    }
                }
                Ok(answer)
            }
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
