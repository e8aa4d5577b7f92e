//! [`Tap`]: an interceptor between a driver and its transports that sees every access.
//!
//! [`Tapped`] is a transport of any kind with a tap in front of it; objects opened through it are tapped, too, so one
//! tap on a [`Machine`] sees all accesses of a driver, transparently.

use std::sync::Arc;
use std::time::Duration;

use super::access::{Access, Answer, Verb};
use super::found::{PciFunction, UsbDevice};
use super::ioctl::Request;
use super::listed;
use super::machine::{Machine, PerProcess, Reserved};
use super::{
    BusRange, DevFile, Dma, Fault, Map, Pci, Prot, Relay, ResetKind, Setup, TransportError,
    UsbPipe, shown_on_bus,
};
use crate::addr::{BusAddr, BusRanges, Domain};
use crate::mem::view::View;
use crate::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use crate::wait::Deadline;

/// Sees accesses before and after they are made.
pub trait Tap: Send + Sync {
    /// Before an access to the device called `device`: answers in its place, or lets it pass, maybe
    /// with other data.
    fn before(&self, device: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        let _ = (device, access);
        None
    }

    /// Whether accesses to memory are to be seen as well, that the host has by [`Pci::window`] or [`Machine::window`]. Each
    /// is a call then, not a load or a store.
    fn sees_memory(&self) -> bool {
        false
    }

    /// After it, with its answer, which may be replaced.
    fn after(&self, device: &str, access: &Access, answer: &mut Result<Answer, Fault>) {
        let _ = (device, access, answer);
    }
}

/// A transport with a tap in front of it; or, for a tap that answers everything, only that.
pub struct Tapped<T: ?Sized> {
    name: String,
    inner: Option<Arc<T>>,
    tap: Arc<dyn Tap>,
    kept: PerProcess,
}

impl<T: ?Sized> Tapped<T> {
    fn of(name: &str, inner: Option<Arc<T>>, tap: Arc<dyn Tap>) -> Arc<Tapped<T>> {
        Arc::new(Tapped {
            name: name.to_owned(),
            inner,
            tap,
            kept: PerProcess::default(),
        })
    }

    /// Nothing behind a tap that answers everything, under a name.
    pub fn alone(name: &str, tap: Arc<dyn Tap>) -> Arc<Tapped<T>> {
        Tapped::of(name, None, tap)
    }

    /// Makes an access and takes its answer apart.
    fn run<R>(
        &self,
        access: Access,
        perform: impl FnOnce(&T, &Access) -> Result<Answer, TransportError>,
        take: impl FnOnce(Answer) -> Result<R, Fault>,
    ) -> Result<R, TransportError> {
        let inner = self.inner.as_deref();
        pass(&self.name, &*self.tap, access, inner, perform, take)
    }
}

impl Tapped<dyn Pci> {
    /// A PCI function behind a tap.
    pub fn pci(inner: Arc<dyn Pci>, tap: Arc<dyn Tap>) -> Arc<dyn Pci> {
        let name = inner.name().to_owned();
        Tapped::of(&name, Some(inner), tap)
    }
}

impl Tapped<dyn DevFile> {
    /// A device file behind a tap.
    pub fn file(inner: Arc<dyn DevFile>, tap: Arc<dyn Tap>) -> Arc<dyn DevFile> {
        let name = inner.name().to_owned();
        Tapped::of(&name, Some(inner), tap)
    }
}

impl Tapped<dyn UsbPipe> {
    /// A USB device behind a tap.
    pub fn usb(inner: Arc<dyn UsbPipe>, tap: Arc<dyn Tap>) -> Arc<dyn UsbPipe> {
        let name = inner.name().to_owned();
        Tapped::of(&name, Some(inner), tap)
    }
}

impl Tapped<dyn Machine> {
    /// A machine behind a tap, called `machine`, with all that is opened on it.
    pub fn machine(inner: Arc<dyn Machine>, tap: Arc<dyn Tap>) -> Arc<dyn Machine> {
        Tapped::of("machine", Some(inner), tap)
    }
}

fn pass<T: ?Sized, R>(
    name: &str,
    tap: &dyn Tap,
    mut access: Access,
    inner: Option<&T>,
    perform: impl FnOnce(&T, &Access) -> Result<Answer, TransportError>,
    take: impl FnOnce(Answer) -> Result<R, Fault>,
) -> Result<R, TransportError> {
    let mut answer = match (tap.before(name, &mut access), inner) {
        (Some(answer), _) => answer,
        (None, Some(inner)) => perform(inner, &access).map_err(|error| error.fault),
        (None, None) => Err(Fault::Unsupported("this tap has no inner transport".into())),
    };
    tap.after(name, &access, &mut answer);
    answer.and_then(take).map_err(|fault| {
        // Data is too long for a message.
        let bytes = std::mem::take(&mut access.data).len();
        let operation = match bytes {
            0 => access.to_string(),
            _ => format!("{access} with {bytes:#x} bytes"),
        };
        TransportError::new(name, operation, fault)
    })
}

fn nothing(_: Answer) -> Result<(), Fault> {
    Ok(())
}

fn done(_: ()) -> Answer {
    Answer::default()
}

/// The memory of an answer, or host memory in its place.
fn memory(answer: &Answer, len: usize, align: u64) -> Result<View, Fault> {
    match &answer.view {
        Some(view) => Ok(view.clone()),
        None => View::alloc(len, align.clamp(1, 1 << 21) as usize).map_err(Fault::View),
    }
}

/// One BAR of a function behind a tap, or its DMA memory.
struct Part {
    name: String,
    tap: Arc<dyn Tap>,
    inner: Option<Window>,
    verbs: Verbs,
    /// The number of the BAR, or the address of the memory.
    of: u64,
    len: u64,
}

/// What accesses to a part are called.
#[derive(Clone, Copy)]
struct Verbs {
    read: Verb,
    write: Verb,
    read_bytes: Verb,
    write_bytes: Verb,
}

const BAR: Verbs = Verbs {
    read: Verb::Read,
    write: Verb::Write,
    read_bytes: Verb::ReadBytes,
    write_bytes: Verb::WriteBytes,
};

const MEMORY: Verbs = Verbs {
    read: Verb::Load,
    write: Verb::Store,
    read_bytes: Verb::LoadBytes,
    write_bytes: Verb::StoreBytes,
};

impl Part {
    fn run<R>(
        &self,
        access: Access,
        perform: impl FnOnce(&Window, &Access) -> Result<Answer, TransportError>,
        take: impl FnOnce(Answer) -> Result<R, Fault>,
    ) -> Result<R, TransportError> {
        let inner = self.inner.as_ref();
        pass(&self.name, &*self.tap, access, inner, perform, take)
    }
}

impl RemoteWindow for Part {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let read = |window: &Window, _: &Access| {
            Ok(Answer::value(match width {
                AccessWidth::W8 => window.read::<u8>(offset)?.into(),
                AccessWidth::W16 => window.read::<u16>(offset)?.into(),
                AccessWidth::W32 => window.read::<u32>(offset)?.into(),
                AccessWidth::W64 => window.read::<u64>(offset)?,
            }))
        };
        let args = [self.of, offset, width.bytes() as u64];
        self.run(Access::new(self.verbs.read, args), read, |a| a.first())
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let bytes = to.len();
        let read = |window: &Window, _: &Access| {
            let mut data = vec![0; bytes];
            window.read_bytes(offset, &mut data)?;
            Ok(Answer::data(data))
        };
        let access = Access::new(self.verbs.read_bytes, [self.of, offset, bytes as u64]);
        self.run(access, read, |a| a.fill(to))
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let write = |window: &Window, access: &Access| {
            let value = access.arg("value");
            match width {
                AccessWidth::W8 => window.write(offset, value as u8),
                AccessWidth::W16 => window.write(offset, value as u16),
                AccessWidth::W32 => window.write(offset, value as u32),
                AccessWidth::W64 => window.write(offset, value),
            }
            .map(done)
        };
        let args = [self.of, offset, width.bytes() as u64, value & width.ones()];
        self.run(Access::new(self.verbs.write, args), write, nothing)
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        pieces.iter().try_for_each(|(offset, from)| {
            let write =
                |window: &Window, access: &Access| window.write_bytes(*offset, &access.data);
            let access = Access::new(self.verbs.write_bytes, [self.of, *offset]).with_data(from);
            self.run(access, |w, a| write(w, a).map(done), nothing)
        })
    }

    fn send(&self) -> Result<(), TransportError> {
        if self.verbs.read == Verb::Load {
            // Memory has nothing under way.
            return Ok(());
        }
        let access = Access::new(Verb::Send, [self.of]);
        self.run(access, |window, _| window.send().map(done), nothing)
    }

    fn flush(&self) -> Result<(), TransportError> {
        if self.verbs.read == Verb::Load {
            return Ok(());
        }
        let access = Access::new(Verb::Flush, [self.of]);
        self.run(access, |window, _| window.flush().map(done), nothing)
    }
}

impl Pci for Tapped<dyn Pci> {
    fn name(&self) -> &str {
        &self.name
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let mut inner = None;
        let open = |pci: &(dyn Pci + 'static), _: &Access| {
            let window = inner.insert(pci.bar(n)?);
            Ok(Answer::value(window.len()))
        };
        let access = Access::new(Verb::Bar, [n.into()]);
        let len = self.run(access, open, |a| a.first())?;
        let bar = Part {
            name: self.name.clone(),
            tap: self.tap.clone(),
            inner,
            verbs: BAR,
            of: n.into(),
            len,
        };
        Ok(Window::remote(
            format!("{} BAR{n}", self.name),
            Arc::new(bar),
        ))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let access = Access::new(Verb::ConfigRead, [offset.into(), width.bytes() as u64]);
        let read = |pci: &(dyn Pci + 'static), _: &Access| {
            Ok(Answer::value(pci.config_read(offset, width)?.into()))
        };
        self.run(access, read, |a| Ok(a.first()? as u32))
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let args = [offset.into(), width.bytes() as u64, value.into()];
        let write = |pci: &(dyn Pci + 'static), access: &Access| {
            let value = access.arg("value") as u32;
            pci.config_write(offset, width, value).map(done)
        };
        self.run(Access::new(Verb::ConfigWrite, args), write, nothing)
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let access = Access::new(Verb::Dma, [bytes, align]);
        let make = |pci: &(dyn Pci + 'static), _: &Access| {
            let Dma { view, ranges } = pci.dma(bytes, align)?;
            let values = ranges.recorded().iter();
            let values = values.flat_map(|r| [r.addr.0, r.bytes]).collect();
            Ok(Answer {
                values,
                view: Some(view),
                ..Answer::default()
            })
        };
        self.run(access, make, |answer| {
            let range = |pair: &[u64]| BusRange {
                addr: BusAddr(pair[0]),
                bytes: pair[1],
            };
            let ranges: Vec<_> = answer.values.chunks_exact(2).map(range).collect();
            let all = |sum: u64, r: &BusRange| sum.saturating_add(r.bytes);
            let moved = ranges.iter().fold(0, all) as usize;
            let wanted = bytes as usize;
            if moved < wanted || moved > wanted.saturating_add(1 << 21) {
                return Err(Fault::Short { wanted, moved });
            }
            Ok(Dma {
                view: memory(&answer, moved, align)?,
                ranges: BusRanges::new(self.domain(), ranges),
            })
        })
    }

    fn condition(&self) -> Vec<[String; 2]> {
        let inner = self.inner.as_ref();
        inner.map_or_else(Vec::new, |inner| inner.condition())
    }

    fn domain(&self) -> Domain {
        let inner = self.inner.as_ref();
        inner.map_or(Domain::BUS, |inner| inner.domain())
    }

    fn shown(&self, n: u8, bytes: u64) -> Result<BusRanges, TransportError> {
        match &self.inner {
            Some(inner) if inner.domain() != Domain::BUS => inner.shown(n, bytes),
            // Its reads go through the tap.
            _ => shown_on_bus(self, n, bytes),
        }
    }

    fn reaches_host(&self) -> bool {
        self.inner.as_ref().is_none_or(|pci| pci.reaches_host())
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        // What goes there are transfers, which a tap on their pipe sees.
        self.inner.as_ref()?.relay()
    }

    fn window(&self, name: &str, dma: &Dma) -> Window {
        let inner = Window::mapped(name, dma.view.clone());
        if !self.tap.sees_memory() {
            return inner;
        }
        let memory = Part {
            name: self.name.clone(),
            tap: self.tap.clone(),
            inner: Some(inner),
            verbs: MEMORY,
            of: dma
                .ranges
                .recorded()
                .first()
                .map_or(0, |range| range.addr.0),
            len: dma.view.len() as u64,
        };
        Window::remote(name.to_owned(), Arc::new(memory))
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        let access = Access::new(Verb::Reset, [kind as u64]);
        self.run(access, |pci, _| pci.reset(kind).map(done), nothing)
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        let access = Access::new(Verb::Irq, [vector.into()]);
        let wait = |pci: &(dyn Pci + 'static), _: &Access| {
            Ok(Answer::value(pci.wait_irq(vector, deadline)?))
        };
        self.run(access, wait, |a| a.first())
    }
}

impl DevFile for Tapped<dyn DevFile> {
    fn name(&self) -> &str {
        &self.name
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        let access = Access::new(Verb::Ioctl, [request.ioctl().request.into()])
            .named(request.ioctl().name)
            .with_data(&request.data());
        let request = std::cell::RefCell::new(request);
        let call = |file: &(dyn DevFile + 'static), access: &Access| {
            let mut request = request.borrow_mut();
            let changed = request.set_data(&access.data);
            changed.map_err(|fault| TransportError::new(file.name(), "ioctl", fault))?;
            let result = file.ioctl(&mut request)?;
            Ok(Answer {
                values: vec![result as u64],
                data: request.data(),
                view: None,
            })
        };
        self.run(access, call, |answer| {
            request.borrow_mut().set_data(&answer.data)?;
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
        let make = |file: &(dyn DevFile + 'static), _: &Access| {
            Ok(Answer {
                view: Some(file.mmap(map)?),
                ..Answer::default()
            })
        };
        let take = |answer: Answer| memory(&answer, map.len, 4096);
        self.run(Access::new(Verb::Mmap, args), make, take)
    }

    fn poll(&self, limit: Duration) -> Result<bool, TransportError> {
        let ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let wait = |file: &(dyn DevFile + 'static), _: &Access| {
            Ok(Answer::value(file.poll(limit)?.into()))
        };
        let take = |answer: Answer| Ok(answer.first()? != 0);
        self.run(Access::new(Verb::Poll, [ns]), wait, take)
    }

    fn number(&self) -> Result<u32, TransportError> {
        let number =
            |file: &(dyn DevFile + 'static), _: &Access| Ok(Answer::value(file.number()?.into()));
        let take = |answer: Answer| Ok(answer.first()? as u32);
        self.run(Access::new(Verb::Number, []), number, take)
    }
}

impl Machine for Tapped<dyn Machine> {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        let mut inner = None;
        let open = |machine: &(dyn Machine + 'static), _: &Access| {
            inner = Some(machine.open(path)?);
            Ok(Answer::default())
        };
        self.run(Access::new(Verb::Open, []).named(path), open, nothing)?;
        let file: Arc<Tapped<dyn DevFile>> = Tapped::of(path, inner, self.tap.clone());
        Ok(file)
    }

    fn open_pci(&self, function: &str) -> Result<Arc<dyn Pci>, TransportError> {
        let mut inner = None;
        let open = |machine: &(dyn Machine + 'static), _: &Access| {
            inner = Some(machine.open_pci(function)?);
            Ok(Answer::default())
        };
        self.run(Access::new(Verb::Open, []).named(function), open, nothing)?;
        let pci: Arc<Tapped<dyn Pci>> = Tapped::of(function, inner, self.tap.clone());
        Ok(pci)
    }

    fn open_usb(&self, device: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        let mut inner = None;
        let open = |machine: &(dyn Machine + 'static), _: &Access| {
            inner = Some(machine.open_usb(device)?);
            Ok(Answer::default())
        };
        self.run(Access::new(Verb::Open, []).named(device), open, nothing)?;
        let usb: Arc<Tapped<dyn UsbPipe>> = Tapped::of(device, inner, self.tap.clone());
        Ok(usb)
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        let read = |machine: &(dyn Machine + 'static), _: &Access| {
            Ok(Answer::data(machine.read(path)?.into_bytes()))
        };
        self.run(Access::new(Verb::Text, []).named(path), read, text)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        let list = |machine: &(dyn Machine + 'static), _: &Access| {
            Ok(Answer::data(machine.list(path)?.join("\n").into_bytes()))
        };
        let take = |answer| Ok(text(answer)?.lines().map(str::to_owned).collect());
        self.run(Access::new(Verb::List, []).named(path), list, take)
    }

    fn pci_functions(&self) -> Result<Vec<PciFunction>, TransportError> {
        let list = |machine: &(dyn Machine + 'static), _: &Access| {
            let all = listed::of_functions(&machine.pci_functions()?);
            Ok(Answer::data(all.into_bytes()))
        };
        let take = |answer| listed::functions(&text(answer)?);
        self.run(Access::new(Verb::Functions, []), list, take)
    }

    fn usb_devices(&self) -> Result<Vec<UsbDevice>, TransportError> {
        let list = |machine: &(dyn Machine + 'static), _: &Access| {
            let all = listed::of_devices(&machine.usb_devices()?);
            Ok(Answer::data(all.into_bytes()))
        };
        let take = |answer| listed::devices(&text(answer)?);
        self.run(Access::new(Verb::Devices, []), list, take)
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        let mut owner: Option<Reserved> = None;
        let reserve = |machine: &(dyn Machine + 'static), _: &Access| {
            let made = owner.insert(machine.reserve(bytes, align, below)?);
            Ok(Answer {
                values: vec![made.base(), made.bytes()],
                ..Answer::default()
            })
        };
        let access = Access::new(Verb::Reserve, [bytes, align, below]);
        let (base, len) = self.run(access, reserve, |answer| match answer.values[..] {
            [base, len] => Ok((base, len)),
            _ => Err(Fault::Short {
                wanted: 2,
                moved: answer.values.len(),
            }),
        })?;
        // Without a machine behind the tap, the addresses are those of the trace and are not reserved.
        Ok(owner.unwrap_or_else(|| Reserved::new(base, len, Arc::new(()))))
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        let make = |machine: &(dyn Machine + 'static), _: &Access| {
            let view = machine.memory(bytes, align)?;
            Ok(Answer {
                values: vec![view.as_ptr().addr() as u64],
                view: Some(view),
                ..Answer::default()
            })
        };
        let access = Access::new(Verb::Memory, [bytes, align]);
        self.run(access, make, |answer| {
            memory(&answer, bytes as usize, align)
        })
    }

    fn window(&self, name: &str, at: u64, view: View) -> Window {
        let len = view.len() as u64;
        let inner = Window::mapped(name, view);
        if !self.tap.sees_memory() {
            return inner;
        }
        let memory = Part {
            name: self.name.clone(),
            tap: self.tap.clone(),
            inner: Some(inner),
            verbs: MEMORY,
            of: at,
            len,
        };
        Window::remote(name.to_owned(), Arc::new(memory))
    }

    fn per_process(&self) -> &PerProcess {
        match &self.inner {
            Some(machine) => machine.per_process(),
            None => &self.kept,
        }
    }
}

fn text(answer: Answer) -> Result<String, Fault> {
    let not_text = |_| Fault::Unsupported("the file is not UTF-8 text".into());
    String::from_utf8(answer.data).map_err(not_text)
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

impl UsbPipe for Tapped<dyn UsbPipe> {
    fn name(&self) -> &str {
        &self.name
    }

    fn control_in(
        &self,
        setup: Setup,
        to: &mut [u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        let bytes = to.len();
        let mut args = setup.args().to_vec();
        args.push(bytes as u64);
        let read = |usb: &(dyn UsbPipe + 'static), _: &Access| {
            let mut data = vec![0; bytes];
            let moved = usb.control_in(setup, &mut data, timeout)?;
            data.truncate(moved);
            Ok(Answer::data(data))
        };
        self.run(Access::new(Verb::ControlIn, args), read, |a| {
            a.fill_part(to)
        })
    }

    fn control_out(
        &self,
        setup: Setup,
        from: &[u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        let write = |usb: &(dyn UsbPipe + 'static), access: &Access| {
            let moved = usb.control_out(setup, &access.data, timeout)?;
            Ok(Answer::value(moved as u64))
        };
        let access = Access::new(Verb::ControlOut, setup.args()).with_data(from);
        self.run(access, write, |a| Ok(a.first()? as usize))
    }

    fn clear_halt(&self, endpoint: u8) -> Result<(), TransportError> {
        // As the device sees it: CLEAR_FEATURE(ENDPOINT_HALT).
        let setup = Setup {
            request_type: 0x02,
            request: 1,
            value: 0,
            index: endpoint.into(),
        };
        let clear = |usb: &(dyn UsbPipe + 'static), _: &Access| {
            usb.clear_halt(endpoint)?;
            Ok(Answer::value(0))
        };
        self.run(Access::new(Verb::ControlOut, setup.args()), clear, nothing)
    }

    fn bulk_in(
        &self,
        endpoint: u8,
        to: &mut [u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        let bytes = to.len();
        let read = |usb: &(dyn UsbPipe + 'static), _: &Access| {
            let mut data = vec![0; bytes];
            let moved = usb.bulk_in(endpoint, &mut data, timeout)?;
            data.truncate(moved);
            Ok(Answer::data(data))
        };
        let access = Access::new(Verb::BulkIn, [endpoint.into(), bytes as u64]);
        self.run(access, read, |a| a.fill_part(to))
    }

    fn bulk_out(
        &self,
        endpoint: u8,
        from: &[u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        let write = |usb: &(dyn UsbPipe + 'static), access: &Access| {
            let moved = usb.bulk_out(endpoint, &access.data, timeout)?;
            Ok(Answer::value(moved as u64))
        };
        let access = Access::new(Verb::BulkOut, [endpoint.into()]).with_data(from);
        self.run(access, write, |a| Ok(a.first()? as usize))
    }
}
