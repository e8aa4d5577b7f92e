//! [`Bus`]: access to 32-bit registers, at byte addresses.
//!
//! * A [`Window`] of registers is one, directly.
//! * [`Indirect`] reaches registers beyond it through an index/data register pair.
//! * [`Select`] is a register that selects a bank of others: a [`Banked`] bus is one bank.
//!
//! Operations of more than one access hold a lock. Writes are queued as the window does it.

use std::sync::{Arc, Mutex};

use crate::mem::window::Window;
use crate::reg::error::{RegError, RegFault};
use crate::sync::lock;
use crate::transport::{Fault, TransportError};

/// Access to 32-bit registers.
pub trait Bus: Send + Sync {
    /// Name for errors and traces, e.g. `0000:03:00.0 BAR5`.
    fn name(&self) -> String;

    /// Reads the register at a byte address.
    ///
    /// # Errors
    /// What the transport reports.
    fn read(&self, at: u64) -> Result<u32, TransportError>;

    /// Writes the register at a byte address.
    ///
    /// # Errors
    /// What the transport reports.
    fn write(&self, at: u64, value: u32) -> Result<(), TransportError>;

    /// Flushes queued writes when no read follows: see [`Window::send`].
    ///
    /// # Errors
    /// What the transport reports.
    fn send(&self) -> Result<(), TransportError>;

    /// Whether the device has left the bus, so that all reads return ones. Asked when a polled register reads all
    /// ones; decided by a register that never does.
    fn has_left(&self) -> bool {
        false
    }
}

impl Bus for Window {
    fn name(&self) -> String {
        Window::name(self).to_owned()
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        Window::load(self, at)
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        Window::store(self, at, value)
    }

    fn send(&self) -> Result<(), TransportError> {
        Window::send(self)
    }
}

/// Registers that reach others: byte offsets in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Takes the low 32 bits of the address.
    pub index: u64,
    /// Takes those above, where they are not 0; rests at 0.
    pub high: Option<u64>,
    /// Is the register there.
    pub data: u64,
}

/// A bus over an index/data register pair.
pub struct Indirect {
    window: Window,
    name: &'static str,
    pair: Pair,
    /// Offsets below this are accessed directly.
    direct: u64,
    turn: Mutex<()>,
}

impl Indirect {
    /// The registers behind a pair in `window`, e.g. `PCIE_INDEX2` and its data. All accesses by one
    /// pair have to go through one of these.
    pub fn new(window: Window, name: &'static str, pair: Pair) -> Indirect {
        Indirect {
            window,
            name,
            pair,
            direct: 0,
            turn: Mutex::new(()),
        }
    }

    /// Accesses registers inside the window directly; the pair is for those above the BAR.
    #[must_use]
    pub fn above_window(self) -> Indirect {
        Indirect {
            direct: self.window.len(),
            ..self
        }
    }

    /// Holds the pair for one access to its data register.
    fn access<T>(
        &self,
        at: u64,
        access: impl FnOnce(u64) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        let Pair { index, high, data } = self.pair;
        let (low, above) = (at as u32, (at >> 32) as u32);
        let high = match (high, above) {
            (_, 0) => None,
            (Some(high), _) => Some(high),
            (None, _) => {
                let fault = Fault::Unsupported("the index register is 32-bit".into());
                return Err(TransportError::new(self.name(), format!("{at:#x}"), fault));
            }
        };
        let _turn = lock(&self.turn);
        // No read-back in between: a read does not overtake the writes before it, nor does a write.
        let chosen = self.window.write(index, low);
        let chosen = chosen.and_then(|()| match high {
            Some(high) => self.window.write(high, above),
            None => Ok(()),
        });
        let done = chosen.and_then(|()| access(data));
        let rests = high.map_or(Ok(()), |high| self.window.write(high, 0u32));
        done.and_then(|value| rests.map(|()| value))
    }
}

impl Bus for Indirect {
    fn name(&self) -> String {
        format!("{} by {}", self.window.name(), self.name)
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        match at < self.direct {
            true => Bus::read(&self.window, at),
            false => self.access(at, |data| Bus::read(&self.window, data)),
        }
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        match at < self.direct {
            true => Bus::write(&self.window, at, value),
            false => self.access(at, |data| Bus::write(&self.window, data, value)),
        }
    }

    fn send(&self) -> Result<(), TransportError> {
        self.window.send()
    }
}

/// A register that selects a bank of others, e.g. `GRBM_GFX_CNTL`. All accesses to the banked registers must go
/// through it.
pub struct Select {
    bus: Arc<dyn Bus>,
    name: String,
    at: u64,
    rest: u32,
    turn: Mutex<()>,
}

impl Select {
    /// The register at byte address `at` of a bus, which otherwise holds `rest`. Its name is for errors:
    /// the block and the register, e.g. `GC1.GRBM_GFX_CNTL`.
    pub fn new(bus: Arc<dyn Bus>, name: impl Into<String>, at: u64, rest: u32) -> Arc<Select> {
        Arc::new(Select {
            bus,
            name: name.into(),
            at,
            rest,
            turn: Mutex::new(()),
        })
    }

    /// One bank, selected for each access.
    pub fn bank(self: &Arc<Self>, value: u32) -> Banked {
        Banked {
            select: self.clone(),
            value,
        }
    }

    /// Selects a bank for all accesses of `run`, which gets its bus. No other bank is accessible meanwhile, not even
    /// to `run`. The register is restored afterwards, also after an error.
    ///
    /// # Errors
    /// Those of `run`, and of the register.
    pub fn with<T, E: From<RegError>>(
        &self,
        value: u32,
        run: impl FnOnce(&dyn Bus) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |error| RegError {
            register: self.name.clone(),
            bus: self.bus.name(),
            fault: Box::new(RegFault::Access(error)),
        };
        self.hold(value, run, |error| failed(error).into())
    }

    fn hold<T, E>(
        &self,
        value: u32,
        run: impl FnOnce(&dyn Bus) -> Result<T, E>,
        failed: impl Fn(TransportError) -> E,
    ) -> Result<T, E> {
        let _turn = lock(&self.turn);
        let select = self;
        let done = match self.bus.write(self.at, value) {
            Ok(()) => run(&Selected { select, value }),
            Err(error) => Err(failed(error)),
        };
        let rests = self.bus.write(self.at, self.rest);
        done.and_then(|value| rests.map(|()| value).map_err(failed))
    }
}

/// A bank while it is selected.
struct Selected<'a> {
    select: &'a Select,
    value: u32,
}

impl Bus for Selected<'_> {
    fn name(&self) -> String {
        let Select { bus, name, .. } = self.select;
        format!("{} {name}={:#x}", bus.name(), self.value)
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        self.select.bus.read(at)
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        self.select.bus.write(at, value)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.select.bus.send()
    }

    fn has_left(&self) -> bool {
        self.select.bus.has_left()
    }
}

/// The bus to one bank of a [`Select`].
pub struct Banked {
    select: Arc<Select>,
    value: u32,
}

impl Bus for Banked {
    fn name(&self) -> String {
        let (select, value) = (&*self.select, self.value);
        Selected { select, value }.name()
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        self.select
            .hold(self.value, |bus| bus.read(at), |error| error)
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        let write = |bus: &dyn Bus| bus.write(at, value);
        self.select.hold(self.value, write, |error| error)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.select.bus.send()
    }

    fn has_left(&self) -> bool {
        self.select.bus.has_left()
    }
}

/// A model of registers for these tests; it records the accesses.
#[cfg(test)]
pub(crate) mod card {
    use std::collections::BTreeMap;

    use super::*;
    use crate::mem::window::{AccessWidth, Piece, RemoteWindow};

    /// Dwords 0 and 1 are a pair, 2 is the high part of its index; a register after it that was never
    /// written holds the sum of its address.
    #[derive(Default)]
    pub struct Card {
        pub held: Mutex<BTreeMap<u64, u32>>,
        pub behind: Mutex<BTreeMap<u64, u32>>,
        pub seen: Mutex<Vec<String>>,
        /// The register whose accesses fail.
        pub broken: Mutex<Option<u64>>,
    }

    impl Card {
        pub fn new() -> (Arc<Card>, Window) {
            let card = Arc::new(Card::default());
            (card.clone(), Window::remote("BAR5", card))
        }

        pub fn seen(&self) -> Vec<String> {
            std::mem::take(&mut *self.seen.lock().unwrap())
        }

        fn note(&self, what: String, at: u64) -> Result<(), TransportError> {
            self.seen.lock().unwrap().push(what.clone());
            match *self.broken.lock().unwrap() {
                Some(broken) if broken == at => {
                    Err(TransportError::new("BAR5", what, Fault::Stall))
                }
                _ => Ok(()),
            }
        }

        fn behind(&self) -> u64 {
            let held = self.held.lock().unwrap();
            let of = |at| u64::from(held.get(&at).copied().unwrap_or(0));
            of(0) | of(8) << 32
        }
    }

    impl RemoteWindow for Card {
        fn len(&self) -> u64 {
            0x100
        }
        fn read(&self, at: u64, width: AccessWidth) -> Result<u64, TransportError> {
            assert_eq!(width, AccessWidth::W32);
            self.note(format!("r{at:x}"), at)?;
            let value = match at {
                4 => {
                    let to = self.behind();
                    let behind = self.behind.lock().unwrap().get(&to).copied();
                    behind.unwrap_or((to >> 32) as u32 + to as u32)
                }
                _ => self.held.lock().unwrap().get(&at).copied().unwrap_or(0),
            };
            Ok(value.into())
        }
        fn write(&self, at: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
            assert_eq!(width, AccessWidth::W32);
            self.note(format!("w{at:x}={value:x}"), at)?;
            match at {
                4 => self
                    .behind
                    .lock()
                    .unwrap()
                    .insert(self.behind(), value as u32),
                _ => self.held.lock().unwrap().insert(at, value as u32),
            };
            Ok(())
        }
        fn read_bytes(&self, _: u64, _: &mut [u8]) -> Result<(), TransportError> {
            panic!("registers are no memory")
        }
        fn write_many(&self, _: &[Piece<'_>]) -> Result<(), TransportError> {
            panic!("registers are no memory")
        }
        fn send(&self) -> Result<(), TransportError> {
            self.note("send".into(), u64::MAX)
        }
        fn flush(&self) -> Result<(), TransportError> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::card::Card;
    use super::*;

    const PAIR: Pair = Pair {
        index: 0,
        high: Some(8),
        data: 4,
    };

    #[test]
    fn the_index_goes_before_the_data_and_its_high_part_rests() {
        let (card, window) = Card::new();
        let smn = Indirect::new(window, "SMN", PAIR);
        assert_eq!(smn.read(0x1234), Ok(0x1234));
        assert_eq!(card.seen(), ["w0=1234", "r4"]);
        smn.write(0x4_0000_0010, 7).unwrap();
        assert_eq!(card.seen(), ["w0=10", "w8=4", "w4=7", "w8=0"]);
        assert_eq!(smn.read(0x4_0000_0010), Ok(7));
        smn.send().unwrap();
        assert_eq!(card.seen(), ["w0=10", "w8=4", "r4", "w8=0", "send"]);
        *card.broken.lock().unwrap() = Some(4);
        let error = smn.read(0x4_0000_0010).unwrap_err();
        assert_eq!(error.to_string(), "BAR5: r4: endpoint stalled");
        assert_eq!(card.seen(), ["w0=10", "w8=4", "r4", "w8=0"]);
    }

    #[test]
    fn what_the_window_has_is_reached_directly() {
        let (card, window) = Card::new();
        let pair = Pair { high: None, ..PAIR };
        let bus = Indirect::new(window, "RSMU", pair).above_window();
        bus.write(0xfc, 1).unwrap();
        bus.write(0x100, 2).unwrap();
        assert_eq!((bus.read(0xfc), bus.read(0x100)), (Ok(1), Ok(2)));
        let seen = card.seen();
        assert_eq!(seen, ["wfc=1", "w0=100", "w4=2", "rfc", "w0=100", "r4"]);
        let error = bus.read(1 << 32).unwrap_err().to_string();
        let text = "BAR5 by RSMU: 0x100000000: not supported: the index register is 32-bit";
        assert_eq!(error, text);
        assert!(card.seen().is_empty());
    }

    #[test]
    fn nobody_comes_between_index_and_data() {
        let (card, window) = Card::new();
        let smn = Indirect::new(window, "SMN", PAIR);
        std::thread::scope(|scope| {
            for thread in 1..5u64 {
                let smn = &smn;
                scope.spawn(move || {
                    for i in 0..100 {
                        let at = thread << 32 | i << 2;
                        assert_eq!(smn.read(at), Ok((thread + (i << 2)) as u32));
                        smn.write(at, at as u32 ^ 0x5555).unwrap();
                        assert_eq!(smn.read(at), Ok(at as u32 ^ 0x5555));
                    }
                });
            }
        });
        for access in card.seen().chunks(4) {
            assert!(access[0].starts_with("w0="), "{access:?}");
            assert!(access[2].starts_with("r4") || access[2].starts_with("w4="));
            assert_eq!(access[3], "w8=0");
        }
    }

    #[test]
    fn a_bank_is_selected_before_and_rests_after_also_after_an_error() {
        let (card, window) = Card::new();
        let select = Select::new(Arc::new(window), "GC1.GRBM_GFX_CNTL", 0x88, 0);
        let queue = select.bank(0x4);
        queue.write(0x40, 1).unwrap();
        assert_eq!(queue.read(0x40), Ok(1));
        let seen = card.seen();
        assert_eq!(seen, ["w88=4", "w40=1", "w88=0", "w88=4", "r40", "w88=0"]);
        let all = select.with(0x8, |bus| {
            assert_eq!(bus.name(), queue.name().replace("=0x4", "=0x8"));
            let mut all = (0x40..0x4c).step_by(4);
            Ok::<_, RegError>(all.try_for_each(|at| bus.write(at, 9)))
        });
        assert_eq!(all, Ok(Ok(())));
        let seen = card.seen();
        assert_eq!(seen, ["w88=8", "w40=9", "w44=9", "w48=9", "w88=0"]);
        *card.broken.lock().unwrap() = Some(0x44);
        assert!(select.bank(0x8).read(0x44).is_err());
        assert_eq!(card.seen(), ["w88=8", "r44", "w88=0"]);
        *card.broken.lock().unwrap() = Some(0x88);
        assert!(queue.read(0x40).is_err());
        assert_eq!(card.seen(), ["w88=4", "w88=0"]);
    }

    #[test]
    fn one_bank_at_a_time() {
        let (card, window) = Card::new();
        let select = Select::new(Arc::new(window), "GC1.GRBM_GFX_CNTL", 0x88, 0);
        std::thread::scope(|scope| {
            for bank in 1..5 {
                let select = &select;
                scope.spawn(move || {
                    for _ in 0..100 {
                        select.bank(bank).write(0x40, bank).unwrap();
                    }
                });
            }
        });
        for access in card.seen().chunks(3) {
            let bank = access[0].strip_prefix("w88=").unwrap();
            assert_eq!(access[1], format!("w40={bank}"));
            assert_eq!(access[2], "w88=0");
        }
    }
}
