//! A PCI function: configuration space, BARs, memory of the host, resets. Register models plug in behind its BARs.
//!
//! What is modelled: a type 0 header with up to six BARs (32 and 64 bits), sizing by writing all ones, the memory
//! and master enable bits, capabilities (`config`), function level reset by the driver's `reset` and by the
//! capability, and memory of the host at bus addresses ([`Bus`]). Interrupts are counted for who listens at the
//! [`Bus`]; a driver polls. What is not modelled of configuration space reads 0, as what is
//! reserved does (PCI Local Bus Specification 3.0, 6.1); writes there break `PCI-UNMODELLED`.
//! [`Function::with_interrupts`] has a driver wait for interrupts, as VFIO lets it.

mod bus;
mod config;
mod vectors;
mod window;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use drivers_spec::pci::{
    CONFIG_BYTES, PCI_CLASS_REVISION, PCI_COMMAND, PCI_DEVICE_ID, PCI_HEADER_TYPE, PCI_STATUS,
    PCI_VENDOR_ID,
};
use hcq::mem::window::{AccessWidth, Window};
use hcq::sync::lock;
use hcq::transport::{Dma, Fault, Pci, ResetKind, TransportError};
use hcq::wait::Deadline;

use crate::rule::{Journal, Proof, Rule};
use config::{Space, Wrote};
use vectors::Vectors;
use window::BarWindow;

pub use config::{Capabilities, MsiX};

pub use bus::{Behind, Bus, FREED, GIVEN, HostMemory, MASTER, OnInterrupt};

/// Memory accesses are answered only while the command register enables them.
pub static MEM_DECODE: Rule = Rule {
    name: "PCI-MEM-DECODE",
    text: "a BAR is accessed while PCI_COMMAND_MEMORY is set; otherwise reads are all ones and writes are lost",
    source: "PCI Local Bus Specification 3.0, 6.2.2",
    proof: Proof::Sourced,
};

/// Configuration accesses are aligned.
pub static CONFIG_ALIGNED: Rule = Rule {
    name: "PCI-CONFIG-ALIGNED",
    text: "a configuration access of 1, 2 or 4 bytes is aligned to its size and inside of 4096 bytes",
    source: "PCI Local Bus Specification 3.0, 3.2.2.3; PCI Express Base Specification 5.0, 7.2",
    proof: Proof::Sourced,
};

/// The identity of a function cannot be written.
pub static READ_ONLY: Rule = Rule {
    name: "PCI-READ-ONLY",
    text: "vendor, device, revision, class code and header type are read-only",
    source: "PCI Local Bus Specification 3.0, 6.2.1",
    proof: Proof::Sourced,
};

/// The model knows nothing there.
pub static UNMODELLED: Rule = Rule {
    name: "PCI-UNMODELLED",
    text: "only modelled configuration registers are written",
    source: "this twin: src/pci/config.rs, front page",
    proof: Proof::Twin,
};

/// A broken rule, and what was done.
pub type Broken = (&'static Rule, String);

/// Registers or memory behind a BAR. Accesses are inside of its size, and but for bytes aligned.
pub trait Target: Send {
    /// A read of `width` at `offset`.
    ///
    /// # Errors
    /// The rule that it breaks, and what was done.
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken>;

    /// A write of `width` at `offset`.
    ///
    /// # Errors
    /// The rule that it breaks, and what was done.
    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken>;

    /// Reads bytes, one by one where the target has no better way.
    ///
    /// # Errors
    /// The rule that it breaks, and what was done.
    fn read_bytes(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Broken> {
        for (at, byte) in (offset..).zip(to) {
            *byte = self.read(at, AccessWidth::W8)? as u8;
        }
        Ok(())
    }

    /// Writes bytes, as [`Target::read_bytes`].
    ///
    /// # Errors
    /// The rule that it breaks, and what was done.
    fn write_bytes(&mut self, offset: u64, from: &[u8]) -> Result<(), Broken> {
        for (at, byte) in (offset..).zip(from) {
            self.write(at, AccessWidth::W8, u64::from(*byte))?;
        }
        Ok(())
    }

    /// The BAR has an address from now on; 0 if it has lost it.
    fn placed(&mut self, at: u64) {
        let _ = at;
    }

    /// A register of configuration space that is the vendor's own was written.
    fn configured(&mut self, offset: u16, value: u32) {
        let _ = (offset, value);
    }

    /// The function was reset.
    fn reset(&mut self, kind: ResetKind);

    /// Whether nothing goes on behind it until somebody accesses it, or changes memory that it waits for.
    fn is_idle(&self) -> bool {
        true
    }

    /// What other functions reach through the BAR, if anything.
    fn behind(&self) -> Option<Behind> {
        None
    }
}

/// A BAR and what is behind it.
pub struct Bar {
    /// Its number; a 64-bit BAR takes the next number too.
    pub number: u8,
    /// Size in bytes, a power of two of at least 16.
    pub bytes: u64,
    /// 64 bits wide.
    pub wide: bool,
    /// Prefetchable.
    pub prefetch: bool,
    /// What answers.
    pub target: Box<dyn Target>,
}

struct Slot {
    number: u8,
    bytes: u64,
    target: Arc<Mutex<Box<dyn Target>>>,
}

/// A modelled PCI function.
pub struct Function {
    name: String,
    /// As firmware left it.
    fresh: Space,
    space: Arc<Mutex<Space>>,
    slots: Vec<Slot>,
    bus: Arc<Bus>,
    journal: Arc<Journal>,
    /// What the machine can reset it by.
    resets: Vec<ResetKind>,
    /// Where a driver waits for interrupts.
    vectors: Option<Arc<Vectors>>,
}

/// What a function says it is.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Vendor identifier.
    pub vendor: u16,
    /// Device identifier.
    pub device: u16,
    /// Base class, subclass and interface, 24 bits.
    pub class: u32,
    /// Revision.
    pub revision: u8,
}

impl Function {
    /// A function as firmware leaves it: BARs at 0, memory decoding off.
    ///
    /// # Panics
    /// If a BAR's size or number is impossible: the model is wrong then.
    pub fn new(
        name: &str,
        identity: Identity,
        bars: Vec<Bar>,
        bus: Arc<Bus>,
        journal: Arc<Journal>,
    ) -> Function {
        Function::with(name, (identity, Capabilities::RADEON), bars, bus, journal)
    }

    /// The same, with capabilities where a card has them.
    ///
    /// # Panics
    /// As above.
    pub fn with(
        name: &str,
        (identity, capabilities): (Identity, Capabilities),
        bars: Vec<Bar>,
        bus: Arc<Bus>,
        journal: Arc<Journal>,
    ) -> Function {
        let mut taken = [false; 6];
        for bar in &bars {
            let number = bar.number;
            let size = bar.bytes.is_power_of_two() && bar.bytes >= 16;
            assert!(size, "BAR{number} size");
            for n in number..=number + u8::from(bar.wide) {
                let before = std::mem::replace(&mut taken[usize::from(n)], true);
                assert!(!before, "BAR{n} twice");
            }
        }
        let fresh = Space::new(identity, &bars, capabilities);
        let slots = bars.into_iter().map(|bar| Slot {
            number: bar.number,
            bytes: bar.bytes,
            target: Arc::new(Mutex::new(bar.target)),
        });
        bus.set_command(0);
        let space = Arc::new(Mutex::new(fresh.clone()));
        bus.set_space(&space);
        Function {
            name: name.into(),
            space,
            fresh,
            slots: slots.collect(),
            bus,
            journal,
            resets: vec![ResetKind::Function, ResetKind::Bus, ResetKind::Power],
            vectors: None,
        }
    }

    /// The machine can reset it in these ways only.
    #[must_use]
    pub fn resetting(mut self, resets: &[ResetKind]) -> Function {
        self.resets = resets.to_vec();
        self
    }

    /// The same, with so many interrupts that a driver can wait for.
    #[must_use]
    pub fn with_interrupts(mut self, vectors: usize) -> Function {
        let counts = Arc::new(Vectors::new(vectors));
        self.vectors = Some(counts.clone());
        self.bus
            .on_interrupt(Arc::new(move |vector| counts.fire(vector)));
        self
    }

    /// Whether nothing goes on in it until somebody accesses it, or changes memory that it waits for: what it was told
    /// to do is done, and what was wrong with that is reported.
    pub fn is_idle(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|slot| lock(&slot.target).is_idle())
    }

    /// Its way to memory of the host.
    pub fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    fn error(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(&*self.name, operation, fault)
    }

    fn fail(&self, operation: String, rule: &'static Rule, what: String) -> TransportError {
        let report = self.journal.broken(rule, what);
        self.error(operation, Fault::Unsupported(report.to_string()))
    }

    fn aligned(
        &self,
        verb: &str,
        offset: u16,
        width: AccessWidth,
    ) -> Result<String, TransportError> {
        let operation = format!("config {verb} {offset:#x} {} bytes", width.bytes());
        let bytes = width.bytes() as u16;
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= CONFIG_BYTES);
        if bytes > 4 || !offset.is_multiple_of(bytes) || !inside {
            let what = operation.clone();
            return Err(self.fail(operation, &CONFIG_ALIGNED, what));
        }
        self.journal.event(operation.clone());
        Ok(operation)
    }

    /// Says to others where BARs are.
    fn show(&self, places: &[u64]) {
        for (slot, at) in self.slots.iter().zip(places) {
            let mut target = lock(&slot.target);
            target.placed(*at);
            let behind = target.behind();
            drop(target);
            if let Some(behind) = behind {
                let place = (*at, slot.bytes);
                self.bus
                    .memory()
                    .show(&self.bus, slot.number, place, behind);
            }
        }
    }

    fn reset_targets(&self, kind: ResetKind) {
        for slot in &self.slots {
            lock(&slot.target).reset(kind);
        }
    }
}

impl Pci for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let slot = self.slots.iter().find(|slot| slot.number == n);
        let slot = slot.ok_or_else(|| {
            let what = format!("BAR{n} of a function without it");
            self.error(format!("map BAR{n}"), Fault::Unsupported(what))
        })?;
        let name = format!("{} BAR{n}", self.name);
        let window = BarWindow {
            name: name.clone(),
            bytes: slot.bytes,
            target: slot.target.clone(),
            bus: self.bus.clone(),
            journal: self.journal.clone(),
        };
        Ok(Window::remote(name, Arc::new(window)))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.aligned("read", offset, width)?;
        let mut space = lock(&self.space);
        if offset & !3 == PCI_COMMAND {
            space.set_command(self.bus.command());
        }
        Ok(space.read(offset, width))
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let operation = self.aligned("write", offset, width)?;
        let identity = [PCI_VENDOR_ID, PCI_DEVICE_ID, PCI_STATUS, PCI_HEADER_TYPE];
        let fixed = identity.contains(&offset) || (PCI_CLASS_REVISION..0x0c).contains(&offset);
        let mut space = lock(&self.space);
        let broken = match space.knows(offset, width.bytes() as u16) {
            _ if fixed => Some(&READ_ONLY),
            true => None,
            false => Some(&UNMODELLED),
        };
        if let Some(rule) = broken {
            drop(space);
            let what = format!("{operation}, value {value:#x}");
            return Err(self.fail(operation, rule, what));
        }
        let wrote = space.write(offset, width, value);
        if wrote == Wrote::Reset {
            // 6.6.2: configuration starts anew with the function.
            *space = self.fresh.clone();
        }
        if let Some(what) = self.bus.set_command(space.command()) {
            self.journal.broken(&MASTER, what);
        }
        let places: Vec<_> = self
            .slots
            .iter()
            .map(|slot| space.place(slot.number))
            .collect();
        let owns = space.owns(offset);
        drop(space);
        if owns {
            for slot in &self.slots {
                lock(&slot.target).configured(offset, value);
            }
        }
        self.show(&places);
        if wrote == Wrote::Reset {
            self.journal.event("function level reset".into());
            self.reset_targets(ResetKind::Function);
        }
        Ok(())
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        self.journal
            .event(format!("{bytes:#x} bytes for DMA, aligned to {align:#x}"));
        let given = self.bus.memory().give(bytes, align);
        given.map_err(|errno| self.error("dma", Fault::Errno(errno)))
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        if !self.resets.contains(&kind) {
            let what = format!("it can be reset by {:?}", self.resets);
            return Err(self.error(format!("{kind} reset"), Fault::Unsupported(what)));
        }
        self.journal.event(format!("reset {kind}"));
        // The header is restored by the operating system after a reset, but for the command
        // register, which a driver sets again.
        lock(&self.space).set_command(0);
        self.bus.set_command(0);
        self.reset_targets(kind);
        if kind == ResetKind::Bus {
            self.bus.was_reset();
        }
        Ok(())
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        let waited = match &self.vectors {
            Some(vectors) => vectors.wait(vector, deadline),
            None => {
                let what =
                    format!("nobody waits for interrupts of this model, vector {vector}; poll");
                Err(Fault::Unsupported(what))
            }
        };
        waited.map_err(|fault| self.error("wait for interrupt", fault))
    }
}
