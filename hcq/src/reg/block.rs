//! [`Block`]: reads and writes registers by name.

use std::fmt;

use crate::clock::Clock;
use crate::reg::bus::Bus;
use crate::reg::error::{RegError, RegFault};
use crate::reg::{At, Field, Generations, IpVersion, Register, Value};
use crate::wait::{Deadline, Look, poll_until};

/// An instance of a hardware block, as reported by the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block<G: Generations> {
    /// Name for errors and traces: the vendor's, and which one it is; e.g. `GC` or `SDMA1`.
    pub name: String,
    /// Its IP version, which determines register offsets.
    pub version: IpVersion,
    /// The generation of the chip, which determines the fields.
    pub one: G::One,
    /// Where each of its segments starts, in dwords.
    pub segments: Vec<u64>,
}

impl<G: Generations> Block<G> {
    /// Its registers, by a bus.
    pub fn on<'a>(&'a self, bus: &'a dyn Bus) -> Registers<'a, G> {
        Registers {
            block: self,
            bus,
            step: 0,
        }
    }

    /// The byte address of a register.
    fn address(&self, register: &Register<G>) -> Result<u64, RegFault> {
        let dword = match register.at {
            At::Fixed(dword) => u64::from(dword),
            At::Rows(rows) => {
                let row = rows.iter().find(|row| row.version == self.version);
                let row = row.ok_or_else(|| {
                    let known = rows.iter().map(|row| row.version.to_string());
                    RegFault::Version {
                        version: self.version,
                        known: known.collect::<Vec<_>>().join(", "),
                    }
                })?;
                let start = self.segments.get(usize::from(row.segment));
                let start = start.ok_or(RegFault::Segment(row.segment))?;
                start.saturating_add(row.dword.into())
            }
        };
        Ok(dword.saturating_mul(4))
    }
}

/// The registers of a block, by a bus.
#[derive(Clone, Copy)]
pub struct Registers<'a, G: Generations> {
    block: &'a Block<G>,
    bus: &'a dyn Bus,
    step: u64,
}

/// Values for fields, by the vendor's names.
pub type Fields<'a> = &'a [(&'a str, u32)];

impl<G: Generations> Registers<'_, G> {
    /// The registers at an offset in dwords: those of another identical unit, of which the table has the first.
    #[must_use]
    pub fn step(self, dwords: u32) -> Self {
        let step = self.step + u64::from(dwords) * 4;
        Registers { step, ..self }
    }

    fn address(&self, register: &Register<G>) -> Result<u64, RegFault> {
        Ok(self.block.address(register)?.saturating_add(self.step))
    }

    /// The byte address of a register: for those that lead to others.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn place(&self, register: &Register<G>) -> Result<u64, RegError> {
        let at = self.address(register);
        at.map_err(|fault| self.failed(register, fault))
    }

    /// The field of a name, on this generation.
    fn find(&self, register: &Register<G>, name: &str) -> Result<Field<G>, RegFault> {
        let one = self.block.one;
        register.word.field(one, name).ok_or_else(|| {
            let fields = register.word.fields.iter();
            let names = fields.filter(|field| field.on.has(one));
            RegFault::Field {
                field: name.to_owned(),
                one: format!("{one:?}"),
                known: names.map(|field| field.name).collect::<Vec<_>>().join(", "),
            }
        })
    }

    /// A value with fields replaced.
    fn replaced(
        &self,
        register: &Register<G>,
        bits: u32,
        fields: Fields<'_>,
    ) -> Result<u32, RegFault> {
        fields.iter().try_fold(bits, |bits, &(name, value)| {
            let field = self.find(register, name)?;
            if field.get(field.put(value)) != value {
                return Err(RegFault::Wide {
                    field: name.to_owned(),
                    bits: field.mask().count_ones(),
                    value,
                });
            }
            Ok(bits & !field.mask() | field.put(value))
        })
    }

    /// Reads a field of a register.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn field(&self, register: &Register<G>, name: &str) -> Result<u32, RegError> {
        let field = self.find(register, name);
        let field = field.map_err(|fault| self.failed(register, fault))?;
        Ok(field.get(self.read(register)?.bits()))
    }

    /// Writes a register: these fields, and zeros.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn put(&self, register: &Register<G>, fields: Fields<'_>) -> Result<(), RegError> {
        let bits = self.replaced(register, 0, fields);
        self.write(
            register,
            bits.map_err(|fault| self.failed(register, fault))?,
        )
    }

    /// Changes these fields of a register, and returns what was written.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn set(&self, register: &Register<G>, fields: Fields<'_>) -> Result<Value<G>, RegError> {
        let bits = self.read(register)?.bits();
        let bits = self.replaced(register, bits, fields);
        let bits = bits.map_err(|fault| self.failed(register, fault))?;
        self.write(register, bits)?;
        Ok(self.value(register, bits))
    }

    /// Reads a register.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn read(&self, register: &Register<G>) -> Result<Value<G>, RegError> {
        let read = || {
            let at = self.address(register)?;
            let value = self.value(register, self.bus.read(at)?);
            self.note("read", at, value);
            Ok(value)
        };
        read().map_err(|fault| self.failed(register, fault))
    }

    /// Writes all bits of a register.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn write(&self, register: &Register<G>, bits: u32) -> Result<(), RegError> {
        let write = || {
            let at = self.address(register)?;
            self.note("write", at, self.value(register, bits));
            Ok(self.bus.write(at, bits)?)
        };
        write().map_err(|fault| self.failed(register, fault))
    }

    /// Reads a register, changes it, writes it back, and returns what was written.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn update(
        &self,
        register: &Register<G>,
        change: impl FnOnce(Value<G>) -> Value<G>,
    ) -> Result<Value<G>, RegError> {
        let value = change(self.read(register)?);
        self.write(register, value.bits())?;
        Ok(value)
    }

    /// Polls a register until `done` returns true; `what` names the awaited event.
    ///
    /// # Errors
    /// [`RegError`]: on timeout, with the last value; at once if the device has left its bus ([`Bus::has_left`]).
    pub fn poll(
        &self,
        register: &Register<G>,
        clock: &dyn Clock,
        deadline: Deadline,
        what: &str,
        mut done: impl FnMut(Value<G>) -> bool,
    ) -> Result<Value<G>, RegError> {
        let mut last = None;
        let mut poll = || {
            let at = self.address(register)?;
            let value = poll_until(clock, deadline, what, || {
                let value = self.value(register, self.bus.read(at)?);
                if value.bits() == u32::MAX && self.bus.has_left() {
                    let what = what.to_owned();
                    return Err(RegFault::Left { what });
                }
                last = Some(value);
                Ok::<_, RegFault>(match done(value) {
                    true => Look::Done(value),
                    false => Look::Not(value.bits().into()),
                })
            })?;
            self.note("polled", at, value);
            Ok(value)
        };
        poll().map_err(|mut fault| {
            if let RegFault::Timeout {
                timeout,
                last: named,
            } = &mut fault
            {
                // The text has the value's fields.
                timeout.last = None;
                *named = last.map(|value| format!("{value:?}"));
            }
            self.failed(register, fault)
        })
    }

    fn value(&self, register: &Register<G>, bits: u32) -> Value<G> {
        Value::new(register.word, self.block.one, bits)
    }

    fn note(&self, what: &str, at: u64, value: Value<G>) {
        tracing::trace!(target: "hcq::reg", block = self.block.name, at, ?value, "{what}");
    }

    #[cold]
    fn failed(&self, register: &Register<G>, fault: RegFault) -> RegError {
        RegError {
            register: format!("{}.{}", self.block.name, register.word.name),
            bus: self.bus.name(),
            fault: Box::new(fault),
        }
    }
}

impl<G: Generations> fmt::Debug for Registers<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.block.name, self.bus.name())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::clock::VirtualClock;
    use crate::reg::bus::Select;
    use crate::reg::bus::card::Card;
    use crate::reg::table::{ACTIVE, CP_HQD_ACTIVE, Chip, Chips, LEVEL, MM_INDEX, VMID};

    fn block(version: IpVersion, segments: &[u64]) -> Block<Chips> {
        Block {
            name: "GC1".into(),
            version,
            one: Chip::New,
            segments: segments.into(),
        }
    }

    #[test]
    fn registers_are_where_the_version_says() {
        let (card, bar) = Card::new();
        let new = block(IpVersion(11, 0, 0), &[0, 0x20]);
        let registers = new.on(&bar);
        let value = registers.update(&CP_HQD_ACTIVE, |value| value.with(VMID, 3).with(ACTIVE, 1));
        let text = "CP_HQD_ACTIVE(0x00000031) { ACTIVE: 0x1, VMID: 0x3, LEVEL: 0x0 }";
        assert_eq!(format!("{:?}", value.unwrap()), text);
        registers.write(&MM_INDEX, 5).unwrap();
        assert_eq!(registers.read(&MM_INDEX).unwrap().bits(), 5);
        assert_eq!(card.seen(), ["r88", "w88=31", "w0=5", "r0"]);
        let old = block(IpVersion(9, 4, 3), &[0x8]);
        old.on(&bar).write(&CP_HQD_ACTIVE, LEVEL.put(1)).unwrap();
        assert_eq!(card.seen(), ["w60=10000000"]);
        assert_eq!(format!("{registers:?}"), "GC1 on BAR5");
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let (card, bar) = Card::new();
        let gc = block(IpVersion(11, 0, 0), &[0, 0x20]);
        let registers = gc.on(&bar);
        registers
            .put(&CP_HQD_ACTIVE, &[("VMID", 3), ("LEVEL", 0xa)])
            .unwrap();
        let value = registers.set(&CP_HQD_ACTIVE, &[("VMID", 1), ("ACTIVE", 1)]);
        assert_eq!(value.unwrap().bits(), 0xa000_0011);
        assert_eq!(registers.field(&CP_HQD_ACTIVE, "LEVEL"), Ok(0xa));
        let seen = card.seen();
        assert_eq!(seen, ["w88=a0000030", "r88", "w88=a0000011", "r88"]);
        // Another queue's, four dwords further.
        registers.step(4).put(&CP_HQD_ACTIVE, &[]).unwrap();
        assert_eq!(card.seen(), ["w98=0"]);
        let error = registers.set(&CP_HQD_ACTIVE, &[("PRIORITY", 1)]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "GC1.CP_HQD_ACTIVE on BAR5: no field PRIORITY on New; fields: ACTIVE, VMID, LEVEL"
        );
        _ = card.seen();
        let error = registers.put(&CP_HQD_ACTIVE, &[("VMID", 16)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "GC1.CP_HQD_ACTIVE on BAR5: 0x10 does not fit the 4-bit field VMID"
        );
        assert!(registers.field(&CP_HQD_ACTIVE, "PRIORITY").is_err());
        assert!(card.seen().is_empty(), "nothing is written");
    }

    #[test]
    fn errors_name_block_register_and_bus() {
        let (card, bar) = Card::new();
        let text = |block: &Block<Chips>| {
            let error = block.on(&bar).read(&CP_HQD_ACTIVE).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            text(&block(IpVersion(12, 0, 0), &[])),
            "GC1.CP_HQD_ACTIVE on BAR5: no address known for IP version 12.0.0, only for 9.4.3, \
             11.0.0"
        );
        assert_eq!(
            text(&block(IpVersion(11, 0, 0), &[0])),
            "GC1.CP_HQD_ACTIVE on BAR5: base of segment 1 of the block unknown: not in the device's \
             discovery table"
        );
        assert_eq!(
            text(&block(IpVersion(11, 0, 0), &[0, u64::MAX])),
            "GC1.CP_HQD_ACTIVE on BAR5: BAR5: read 0x4 bytes at 0xffffffffffffffff: 0x4 bytes at \
             offset 0xffffffffffffffff are out of bounds of a view of 0x100 \
             bytes"
        );
        *card.broken.lock().unwrap() = Some(0x88);
        assert_eq!(
            text(&block(IpVersion(11, 0, 0), &[0, 0x20])),
            "GC1.CP_HQD_ACTIVE on BAR5: BAR5: r88: endpoint stalled"
        );
    }

    #[test]
    fn banked_registers_by_name() {
        let (card, bar) = Card::new();
        let select = Select::new(Arc::new(bar), "GC1.GRBM_GFX_CNTL", 0x80, 0);
        let gc = block(IpVersion(11, 0, 0), &[0, 0x20]);
        let active = |bus: &dyn Bus| gc.on(bus).update(&CP_HQD_ACTIVE, |v| v.with(ACTIVE, 1));
        select.with(0x4, active).unwrap();
        assert_eq!(card.seen(), ["w80=4", "r88", "w88=1", "w80=0"]);
        *card.broken.lock().unwrap() = Some(0x88);
        let error = select.with(0x4, active).unwrap_err().to_string();
        let text = "GC1.CP_HQD_ACTIVE on BAR5 GC1.GRBM_GFX_CNTL=0x4: BAR5: r88: endpoint stalled";
        assert_eq!(error, text);
        assert_eq!(card.seen(), ["w80=4", "r88", "w80=0"]);
        *card.broken.lock().unwrap() = Some(0x80);
        let error = select.with(0x4, active).unwrap_err().to_string();
        assert_eq!(
            error,
            "GC1.GRBM_GFX_CNTL on BAR5: BAR5: w80=4: endpoint stalled"
        );
    }

    #[test]
    fn polling_ends_with_the_fields_that_were_there_last() {
        let (card, bar) = Card::new();
        let clock = VirtualClock::new();
        let gc = block(IpVersion(11, 0, 0), &[0, 0x20]);
        let limit = || Deadline::on(&clock, Duration::from_millis(10));
        let idle = |value: Value<Chips>| value.get(ACTIVE) == 0;
        let poll = || {
            let registers = gc.on(&bar);
            registers.poll(&CP_HQD_ACTIVE, &clock, limit(), "an idle queue", idle)
        };
        assert_eq!(poll().unwrap().bits(), 0);
        card.held.lock().unwrap().insert(0x88, 0x21);
        let error = poll().unwrap_err();
        let text = error.to_string();
        let (head, rest) = text.split_once(" (waited ").unwrap();
        assert_eq!(
            head,
            "GC1.CP_HQD_ACTIVE on BAR5: timed out waiting for an idle queue: limit 10ms"
        );
        let (_, last) = rest.split_once("), ").unwrap();
        assert_eq!(
            last,
            "last CP_HQD_ACTIVE(0x00000021) { ACTIVE: 0x1, VMID: 0x2, LEVEL: 0x0 }"
        );
        *card.broken.lock().unwrap() = Some(0x88);
        assert!(matches!(*poll().unwrap_err().fault, RegFault::Access(_)));
    }
}
