//! A card that is sent to memory which nobody gave it: behind an IOMMU it must not get there.

use std::sync::Arc;
use std::time::Duration;

use doorbell::{Error, Setup};
use drivers::select::Transport;
use drivers_host::machine::Host;
use hcq::addr::{BusAddr, BusRange, BusRanges, Domain};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{
    DevFile, Dma, Fault, Machine, Pci, PerProcess, Reserved, ResetKind, TransportError,
};
use hcq::{Command, Deadline, QueueKind, Stream, Val};

/// How far beside its memory the card is sent.
const BESIDE: u64 = 1 << 38;
/// How long the word is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// This machine, but what its functions are told of memory is wrong.
struct Beside(Arc<dyn Machine>);

struct Function(Arc<dyn Pci>);

impl Machine for Beside {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.0.open(path)
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.0.read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.0.list(path)
    }

    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        Ok(Arc::new(Function(self.0.open_pci(address)?)))
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.0.reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.0.memory(bytes, align)
    }

    fn per_process(&self) -> &PerProcess {
        self.0.per_process()
    }
}

impl Pci for Function {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        self.0.bar(n)
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.0.config_read(offset, width)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.0.config_write(offset, width, value)
    }

    fn domain(&self) -> Domain {
        self.0.domain()
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let Dma { view, ranges } = self.0.dma(bytes, align)?;
        let domain = self.0.domain();
        let ranges = ranges.for_domain(domain).map_err(|error| {
            let fault = Fault::Unsupported(error.to_string());
            TransportError::new(self.name(), "pin", fault)
        })?;
        let beside = ranges.iter().map(|range| BusRange {
            addr: BusAddr(range.addr.0 + BESIDE),
            bytes: range.bytes,
        });
        Ok(Dma {
            view,
            ranges: BusRanges::new(domain, beside.collect()),
        })
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        self.0.reset(kind)
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        self.0.wait_irq(vector, deadline)
    }
}

/// Has a card that no kernel driver has write a word to memory of the host. What stopped it; an error if nothing did.
///
/// # Errors
/// The variables; no card, or one that does not start.
pub fn run() -> Result<Result<String, String>, Error> {
    let setup = Setup::from_env()?;
    let mut target = setup.target();
    target.interface = Some(Transport::Pci.interface(true));
    let machine: Arc<dyn Machine> = Arc::new(Beside(Host::get()));
    // The card starts with what lies in its own memory.
    let device = drivers::open_with(&target, setup.settings(), Some(&machine))?;
    let signal = device.signal("a word of the host")?;
    let queue = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let write = Command::Signal {
        signal: &signal,
        value: Val::Const(1),
    };
    let written = queue.submit(&[], &[write]);
    let seen = written.and_then(|_| signal.wait(1, Deadline::after(PATIENCE)));
    Ok(match seen {
        Err(error) => Ok(error.to_string()),
        Ok(()) => Err("the card has written beside the memory that it was given".into()),
    })
}
