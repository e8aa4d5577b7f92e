//! A PCI function: configuration space, BAR sizing, decoding, function level reset. Register models
//! plug in behind its BARs.
//!
//! What is modelled: a type 0 header with up to six BARs (32 and 64 bits), sizing by writing all
//! ones, the memory and master enable bits, the vendor and class fields, function level reset by
//! the driver's `reset`. Not modelled: capabilities, interrupts, DMA. Config accesses outside of
//! what is modelled break `PCI-UNMODELLED`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers_spec::pci::{
    CONFIG_BYTES, Command, PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_PREFETCH,
    PCI_BASE_ADDRESS_MEM_TYPE_64, PCI_CLASS_REVISION, PCI_COMMAND, PCI_DEVICE_ID, PCI_HEADER_TYPE,
    PCI_STATUS, PCI_VENDOR_ID,
};
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::{Dma, Fault, Pci, ResetKind, TransportError};
use hcq::wait::Deadline;

use crate::rule::{Journal, Proof, Rule};

/// Memory accesses are answered only while the command register enables them.
pub static MEM_DECODE: Rule = Rule {
    name: "PCI-MEM-DECODE",
    text: "a BAR answers only while PCI_COMMAND_MEMORY is set; else reads are all ones and writes \
           are lost",
    source: "PCI Local Bus Specification 3.0, 6.2.2",
    proof: Proof::Sourced,
};

/// Configuration accesses are aligned.
pub static CONFIG_ALIGNED: Rule = Rule {
    name: "PCI-CONFIG-ALIGNED",
    text: "a configuration access of 1, 2 or 4 bytes is aligned to its size and inside of 256 bytes",
    source: "PCI Local Bus Specification 3.0, 3.2.2.3",
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
    text: "only modelled configuration registers are used",
    source: "this twin: src/pci.rs, front page",
    proof: Proof::Twin,
};

/// Registers or memory behind a BAR. Accesses are inside of its size and aligned.
pub trait Target: Send {
    /// A read of `width` at `offset`.
    ///
    /// # Errors
    /// The rule that it breaks, and what was done.
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, (&'static Rule, String)>;

    /// A write of `width` at `offset`.
    ///
    /// # Errors
    /// The rule that it breaks, and what was done.
    fn write(
        &mut self,
        offset: u64,
        width: AccessWidth,
        value: u64,
    ) -> Result<(), (&'static Rule, String)>;

    /// The function was reset.
    fn reset(&mut self);
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
    low_bits: u32,
    wide: bool,
    address: u64,
    target: Arc<Mutex<Box<dyn Target>>>,
}

struct State {
    command: Command,
    slots: Vec<Slot>,
}

/// A modelled PCI function.
pub struct Function {
    name: String,
    identity: Identity,
    state: Arc<Mutex<State>>,
    journal: Arc<Journal>,
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
    pub fn new(name: &str, identity: Identity, bars: Vec<Bar>, journal: Arc<Journal>) -> Function {
        let mut taken = [false; 6];
        let slots = bars
            .into_iter()
            .map(|bar| {
                assert!(
                    bar.bytes.is_power_of_two() && bar.bytes >= 16,
                    "BAR{} size",
                    bar.number
                );
                for n in bar.number..=bar.number + u8::from(bar.wide) {
                    assert!(
                        !std::mem::replace(&mut taken[n as usize], true),
                        "BAR{n} twice"
                    );
                }
                let wide = if bar.wide {
                    PCI_BASE_ADDRESS_MEM_TYPE_64
                } else {
                    0
                };
                let prefetch = if bar.prefetch {
                    PCI_BASE_ADDRESS_MEM_PREFETCH
                } else {
                    0
                };
                Slot {
                    number: bar.number,
                    bytes: bar.bytes,
                    low_bits: wide | prefetch,
                    wide: bar.wide,
                    address: 0,
                    target: Arc::new(Mutex::new(bar.target)),
                }
            })
            .collect();
        let state = Arc::new(Mutex::new(State {
            command: Command::empty(),
            slots,
        }));
        Function {
            name: name.into(),
            identity,
            state,
            journal,
        }
    }

    fn fail(&self, operation: String, rule: &'static Rule, what: String) -> TransportError {
        let report = self.journal.broken(rule, what);
        TransportError::new(
            &*self.name,
            operation,
            Fault::Unsupported(report.to_string()),
        )
    }

    fn aligned(
        &self,
        verb: &str,
        offset: u16,
        width: AccessWidth,
    ) -> Result<String, TransportError> {
        let operation = format!("config {verb} {offset:#x} {} bytes", width.bytes());
        let bytes = width.bytes() as u16;
        if bytes > 4 || !offset.is_multiple_of(bytes) || offset + bytes > CONFIG_BYTES {
            let what = operation.clone();
            return Err(self.fail(operation, &CONFIG_ALIGNED, what));
        }
        self.journal.event(operation.clone());
        Ok(operation)
    }
}

/// The 32 bits of a base address register: half 0 or 1 of the slot.
fn base_register(slot: &Slot, half: u8) -> u32 {
    // Address bits below the size are wired to zero: that is how sizing works (6.2.5.1).
    let address = slot.address & !(slot.bytes - 1);
    if half == 0 {
        address as u32 | slot.low_bits
    } else {
        (address >> 32) as u32
    }
}

fn slot_of(state: &mut State, offset: u16) -> Option<(&mut Slot, u8)> {
    if !(PCI_BASE_ADDRESS_0..PCI_BASE_ADDRESS_0 + 24).contains(&offset) {
        return None;
    }
    let number = ((offset - PCI_BASE_ADDRESS_0) / 4) as u8;
    state.slots.iter_mut().find_map(|slot| {
        let half = number.checked_sub(slot.number)?;
        (half <= u8::from(slot.wide)).then_some((slot, half))
    })
}

impl Pci for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let state = lock(&self.state);
        let slot = state.slots.iter().find(|s| s.number == n).ok_or_else(|| {
            let what = format!("BAR{n} of a function without it");
            TransportError::new(&*self.name, format!("map BAR{n}"), Fault::Unsupported(what))
        })?;
        let name = format!("{} BAR{n}", self.name);
        let window = BarWindow {
            name: name.clone(),
            bytes: slot.bytes,
            target: slot.target.clone(),
            state: self.state.clone(),
            journal: self.journal.clone(),
        };
        Ok(Window::remote(name, Arc::new(window)))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let operation = self.aligned("read", offset, width)?;
        let mut state = lock(&self.state);
        let id = self.identity;
        let word = match offset & !3 {
            PCI_VENDOR_ID => u32::from(id.vendor) | u32::from(id.device) << 16,
            PCI_COMMAND => u32::from(state.command.bits()),
            PCI_CLASS_REVISION => u32::from(id.revision) | id.class << 8,
            // Cache line size, latency timer, header type 0, BIST: none of them used by us.
            at if at == PCI_HEADER_TYPE & !3 => 0,
            at if (PCI_BASE_ADDRESS_0..PCI_BASE_ADDRESS_0 + 24).contains(&at) => {
                slot_of(&mut state, at).map_or(0, |(slot, half)| base_register(slot, half))
            }
            _ => {
                drop(state);
                let what = operation.clone();
                return Err(self.fail(operation, &UNMODELLED, what));
            }
        };
        Ok((word >> ((offset & 3) * 8)) & width.ones() as u32)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let operation = self.aligned("write", offset, width)?;
        let mut state = lock(&self.state);
        if offset == PCI_COMMAND {
            state.command = Command::from_bits_truncate(value as u16);
            return Ok(());
        }
        if let (Some((slot, half)), AccessWidth::W32) = (slot_of(&mut state, offset), width) {
            let shift = u32::from(half) * 32;
            slot.address = slot.address & !(0xffff_ffff << shift) | u64::from(value) << shift;
            return Ok(());
        }
        drop(state);
        let identity = [PCI_VENDOR_ID, PCI_DEVICE_ID, PCI_STATUS, PCI_HEADER_TYPE];
        let fixed = identity.contains(&offset) || (PCI_CLASS_REVISION..0x0c).contains(&offset);
        let rule = if fixed { &READ_ONLY } else { &UNMODELLED };
        let what = format!("{operation}, value {value:#x}");
        Err(self.fail(operation, rule, what))
    }

    fn dma(&self, _bytes: u64, _align: u64) -> Result<Dma, TransportError> {
        let what = "this model has no bus mastering".to_owned();
        Err(TransportError::new(
            &*self.name,
            "dma",
            Fault::Unsupported(what),
        ))
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        self.journal.event(format!("reset {kind}"));
        let mut state = lock(&self.state);
        // The header is restored by the operating system after a reset, but for the command
        // register, which a driver sets again.
        state.command = Command::empty();
        for slot in &state.slots {
            lock(&slot.target).reset();
        }
        Ok(())
    }

    fn wait_irq(&self, vector: u32, _deadline: Deadline) -> Result<u64, TransportError> {
        let what = format!("this model raises no interrupts, vector {vector}; poll");
        Err(TransportError::new(
            &*self.name,
            "wait for interrupt",
            Fault::Unsupported(what),
        ))
    }
}

struct BarWindow {
    name: String,
    bytes: u64,
    target: Arc<Mutex<Box<dyn Target>>>,
    state: Arc<Mutex<State>>,
    journal: Arc<Journal>,
}

impl BarWindow {
    fn access<T>(
        &self,
        operation: String,
        run: impl FnOnce(&mut dyn Target) -> Result<T, (&'static Rule, String)>,
    ) -> Result<T, TransportError> {
        let decoding = lock(&self.state).command.contains(Command::MEMORY);
        let done = if decoding {
            self.journal.event(format!("{} {operation}", self.name));
            run(lock(&self.target).as_mut())
        } else {
            Err((&MEM_DECODE, format!("{} {operation}", self.name)))
        };
        done.map_err(|(rule, what)| {
            let report = self.journal.broken(rule, what);
            TransportError::new(
                &*self.name,
                operation,
                Fault::Unsupported(report.to_string()),
            )
        })
    }
}

impl RemoteWindow for BarWindow {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let operation = format!("read {offset:#x} {} bytes", width.bytes());
        self.access(operation, |t| t.read(offset, width))
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let operation = format!("write {offset:#x} {} bytes {value:#x}", width.bytes());
        self.access(operation, |t| t.write(offset, width, value))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        for (i, byte) in to.iter_mut().enumerate() {
            *byte = RemoteWindow::read(self, offset + i as u64, AccessWidth::W8)? as u8;
        }
        Ok(())
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        for (offset, from) in pieces {
            for (i, byte) in from.iter().enumerate() {
                RemoteWindow::write(self, offset + i as u64, AccessWidth::W8, u64::from(*byte))?;
            }
        }
        Ok(())
    }

    fn send(&self) -> Result<(), TransportError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in a model is a failed test already; what it left is only read for the report.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fires::fires;
    use drivers_spec::pci::VENDOR_AMD;

    static SCRATCH_ONLY: Rule = Rule {
        name: "TEST-SCRATCH",
        text: "only register 0 exists",
        source: "this test",
        proof: Proof::Guess,
    };

    struct Scratch(u32);

    impl Target for Scratch {
        fn read(&mut self, offset: u64, _: AccessWidth) -> Result<u64, (&'static Rule, String)> {
            if offset != 0 {
                return Err((&SCRATCH_ONLY, format!("read {offset:#x}")));
            }
            Ok(self.0.into())
        }
        fn write(
            &mut self,
            offset: u64,
            _: AccessWidth,
            v: u64,
        ) -> Result<(), (&'static Rule, String)> {
            if offset != 0 {
                return Err((&SCRATCH_ONLY, format!("write {offset:#x}")));
            }
            self.0 = v as u32;
            Ok(())
        }
        fn reset(&mut self) {
            self.0 = 0;
        }
    }

    fn function() -> (Function, Arc<Journal>) {
        let journal = Arc::new(Journal::new());
        let identity = Identity {
            vendor: VENDOR_AMD,
            device: 0x744c,
            class: 0x030000,
            revision: 0xc8,
        };
        let bar = Bar {
            number: 0,
            bytes: 1 << 28,
            wide: true,
            prefetch: true,
            target: Box::new(Scratch(0)),
        };
        (
            Function::new("0000:03:00.0", identity, vec![bar], journal.clone()),
            journal,
        )
    }

    fn named(journal: &Journal) -> Vec<&'static str> {
        let violations = journal.violations();
        violations.iter().map(|v| v.rule.name).collect()
    }

    #[test]
    fn identity_and_sizing() {
        let (f, journal) = function();
        assert_eq!(
            f.config_read(PCI_VENDOR_ID, AccessWidth::W32).unwrap(),
            0x744c_1002
        );
        assert_eq!(
            f.config_read(PCI_DEVICE_ID, AccessWidth::W16).unwrap(),
            0x744c
        );
        assert_eq!(
            f.config_read(PCI_CLASS_REVISION + 3, AccessWidth::W8)
                .unwrap(),
            0x03
        );
        f.config_write(PCI_BASE_ADDRESS_0, AccessWidth::W32, !0)
            .unwrap();
        f.config_write(PCI_BASE_ADDRESS_0 + 4, AccessWidth::W32, !0)
            .unwrap();
        let low = f.config_read(PCI_BASE_ADDRESS_0, AccessWidth::W32).unwrap();
        let high = f
            .config_read(PCI_BASE_ADDRESS_0 + 4, AccessWidth::W32)
            .unwrap();
        assert_eq!(low & 0xf, 0xc);
        let size = (u64::from(high) << 32 | u64::from(low & !0xf)).wrapping_neg();
        assert_eq!(size, 1 << 28);
        assert!(journal.violations().is_empty());
    }

    #[test]
    fn access_before_decoding_breaks_a_rule() {
        let (f, journal) = function();
        let bar = f.bar(0).unwrap();
        let text = bar.read::<u32>(0).unwrap_err().to_string();
        fires("PCI-MEM-DECODE").only(&named(&journal));
        assert!(text.contains("rule PCI-MEM-DECODE"), "{text}");
        f.config_write(PCI_COMMAND, AccessWidth::W16, Command::MEMORY.bits().into())
            .unwrap();
        bar.write::<u32>(0, 7).unwrap();
        assert_eq!(bar.read::<u32>(0).unwrap(), 7);
        f.reset(ResetKind::Function).unwrap();
        assert!(bar.read::<u32>(0).is_err(), "decoding is off after a reset");
        assert_eq!(journal.violations().len(), 2);
    }

    #[test]
    fn broken_rules_are_named() {
        let (f, journal) = function();
        f.config_write(PCI_COMMAND, AccessWidth::W16, Command::MEMORY.bits().into())
            .unwrap();
        let bar = f.bar(0).unwrap();
        let cases = [
            (
                f.config_write(PCI_VENDOR_ID, AccessWidth::W16, 0).err(),
                fires("PCI-READ-ONLY"),
            ),
            (
                f.config_read(0x50, AccessWidth::W32).err(),
                fires("PCI-UNMODELLED"),
            ),
            (
                f.config_read(0x01, AccessWidth::W16).err(),
                fires("PCI-CONFIG-ALIGNED"),
            ),
            (bar.read::<u32>(4).err(), fires("TEST-SCRATCH")),
        ];
        let broken = named(&journal);
        assert_eq!(broken.len(), cases.len());
        for ((done, rule), broken) in cases.into_iter().zip(broken) {
            rule.only(&[broken]);
            let text = done.unwrap().to_string();
            assert!(text.contains(broken), "{text}");
        }
    }
}
