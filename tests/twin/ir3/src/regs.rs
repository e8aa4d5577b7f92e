//! The registers of a wave.
//!
//! Full and half registers, apart or merged; those that the wave shares; addresses and predicates. A register is 16
//! or 32 bits of each fiber. What was written is known by halves, so that a register of either size has a value only if
//! all of it was written.
//!
//! Source: Mesa src/freedreno/ir3/ir3.h, `ir3_reg_file_offset`: with merged registers half register n is half of full
//! register n / 2, the lower half if n is even; shared registers are always merged.

use crate::fault::{Result, Stop, broken};
use crate::launch::Launch;
use crate::rules;

/// The most fibers of a wave.
pub const LANES: usize = 128;

/// A value of each fiber.
pub type Lanes = [u32; LANES];

/// A set of fibers.
pub type Mask = u128;

/// r48.x: the first shared register.
pub const SHARED: u16 = 48 * 4;
/// Behind the last shared one, r55.w.
const SHARED_END: u16 = 56 * 4;
/// a0.x.
pub const A0: u16 = 61 * 4;
/// a1.x.
pub const A1: u16 = A0 + 1;
/// p0.x.
pub const P0: u16 = 62 * 4;
/// r63.x: what is written there is discarded.
pub const DISCARD: u16 = 63 * 4;

/// A register by its component number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg {
    pub number: u16,
    pub half: bool,
}

impl Reg {
    pub fn full(number: u16) -> Self {
        let half = false;
        Self { number, half }
    }

    /// The n-th behind it.
    pub fn plus(self, n: u16) -> Self {
        Self {
            number: self.number.saturating_add(n),
            ..self
        }
    }

    pub fn is_shared(self) -> bool {
        (SHARED..SHARED_END).contains(&self.number)
    }

    /// Its name.
    pub fn name(self) -> String {
        let component = ['x', 'y', 'z', 'w'][usize::from(self.number) & 3];
        let (prefix, number) = match self.number {
            A0 => return "a0.x".into(),
            A1 => return "a1.x".into(),
            P0..DISCARD => ("p", 0),
            number => (if self.half { "hr" } else { "r" }, number / 4),
        };
        format!("{prefix}{number}.{component}")
    }
}

/// Where a register is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Full(usize),
    /// Half of a full register: its number, whether the upper half.
    Part(usize, bool),
    /// A register of the file of half registers.
    Half(usize),
    Shared(usize),
    SharedPart(usize, bool),
    A0,
    A1,
    P(usize),
    Discard,
}

/// Halves of registers, by which writes are known: full registers, the file of half registers, shared ones, a0.x, a1.x
/// and predicates.
const HALVES: usize = 2 * 48 * 4;
const SPLIT: usize = HALVES;
const SHARED_HALVES: usize = SPLIT + 48 * 4;
const SPECIAL: usize = SHARED_HALVES + 64;
/// How many there are.
pub const SLOTS: usize = SPECIAL + 6;

/// A range of halves: the first and how many.
pub type Slots = (usize, usize);

pub struct Registers {
    lanes: usize,
    merged: bool,
    full: Vec<Lanes>,
    half: Vec<Lanes>,
    shared: [u32; 32],
    a0: Lanes,
    a1: u32,
    predicates: [Mask; 4],
    written: Vec<Mask>,
}

impl Registers {
    pub fn new(launch: &Launch) -> Self {
        let half = match launch.merged_registers {
            true => 0,
            false => launch.half_footprint as usize * 4,
        };
        Self {
            lanes: launch.wave_size() as usize,
            merged: launch.merged_registers,
            full: vec![[0; LANES]; launch.full_footprint as usize * 4],
            half: vec![[0; LANES]; half],
            shared: [0; 32],
            a0: [0; LANES],
            a1: 0,
            predicates: [0; 4],
            written: vec![0; SLOTS],
        }
    }

    /// All fibers of the wave.
    pub fn all(&self) -> Mask {
        Mask::MAX >> (LANES - self.lanes)
    }

    fn place(&self, reg: Reg) -> Result<Place> {
        let n = usize::from(reg.number);
        let missing = |what: &str| {
            let name = reg.name();
            broken(&rules::REGISTER, format!("{name}: {what}"))
        };
        let outside = |what: &str, count: usize| {
            let (name, vectors) = (reg.name(), count / 4);
            broken(
                &rules::FOOTPRINT,
                format!("{name}, with {vectors} vectors of {what} registers"),
            )
        };
        match reg.number {
            A0 => Ok(Place::A0),
            A1 => Ok(Place::A1),
            P0..DISCARD => Ok(Place::P(n - usize::from(P0))),
            DISCARD => Ok(Place::Discard),
            SHARED..SHARED_END => {
                let n = n - usize::from(SHARED);
                Ok(match reg.half {
                    true => Place::SharedPart(n / 2, n % 2 == 1),
                    false => Place::Shared(n),
                })
            }
            0..SHARED if reg.half && self.merged => match n / 2 < self.full.len() {
                true => Ok(Place::Part(n / 2, n % 2 == 1)),
                false => outside("full", self.full.len()),
            },
            0..SHARED if reg.half => match n < self.half.len() {
                true => Ok(Place::Half(n)),
                false => outside("half", self.half.len()),
            },
            0..SHARED => match n < self.full.len() {
                true => Ok(Place::Full(n)),
                false => outside("full", self.full.len()),
            },
            _ => missing("there is no such register"),
        }
    }

    /// The halves that a register takes; none if it is discarded.
    pub fn slots(&self, reg: Reg) -> Result<Slots> {
        Ok(match self.place(reg)? {
            Place::Full(n) => (2 * n, 2),
            Place::Part(n, high) => (2 * n + usize::from(high), 1),
            Place::Half(n) => (SPLIT + n, 1),
            Place::Shared(n) => (SHARED_HALVES + 2 * n, 2),
            Place::SharedPart(n, high) => (SHARED_HALVES + 2 * n + usize::from(high), 1),
            Place::A0 => (SPECIAL, 1),
            Place::A1 => (SPECIAL + 1, 1),
            Place::P(n) => (SPECIAL + 2 + n, 1),
            Place::Discard => (0, 0),
        })
    }

    /// The halves that the registers of the other size with its number take, as Mesa counts slots; none where a register
    /// has none, or takes them itself.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_legalize.c, `get_ready_slot`: half register n is of full register n / 2, whether
    /// or not the files are merged.
    pub fn alias(&self, reg: Reg) -> Option<Slots> {
        let n = usize::from(reg.number);
        match (reg.half, self.merged) {
            _ if reg.number >= SHARED => None,
            (true, _) => Some((n / 2 * 2, 2)),
            (false, false) if n * 2 < SHARED_HALVES - SPLIT => Some((SPLIT + 2 * n, 2)),
            (false, _) => None,
        }
    }

    /// Whether a range of halves is an address or a predicate.
    pub fn is_special(slots: Slots) -> bool {
        slots.0 >= SPECIAL
    }

    /// The fibers for which all of a register was written.
    fn defined(&self, (first, count): Slots) -> Mask {
        let range = self.written.get(first..first + count).unwrap_or_default();
        range.iter().fold(Mask::MAX, |all, one| all & one)
    }

    /// Reads a register of the fibers of a mask.
    pub fn read(&self, reg: Reg, mask: Mask) -> Result<Lanes> {
        let place = self.place(reg)?;
        if place == Place::Discard {
            return broken(&rules::REGISTER, "r63.x is read, which holds nothing");
        }
        let missing = mask & !self.defined(self.slots(reg)?);
        if missing != 0 {
            let what = format!("{} is read and was never written", reg.name());
            let lane = missing.trailing_zeros() as usize;
            return Err(Stop::rule(&rules::REG_UNDEFINED, what).of(lane));
        }
        Ok(match place {
            Place::Full(n) => self.full[n],
            Place::Part(n, high) => part(&self.full[n], high),
            Place::Half(n) => self.half[n],
            Place::Shared(n) => [self.shared[n]; LANES],
            Place::SharedPart(n, high) => part(&[self.shared[n]; LANES], high),
            Place::A0 => self.a0,
            Place::A1 => [self.a1; LANES],
            Place::P(n) => std::array::from_fn(|lane| (self.predicates[n] >> lane & 1) as u32),
            Place::Discard => [0; LANES],
        })
    }

    /// Writes a register of the fibers of a mask.
    pub fn write(&mut self, reg: Reg, mask: Mask, values: &Lanes) -> Result<()> {
        if mask == 0 {
            return self.place(reg).map(drop);
        }
        let place = self.place(reg)?;
        let (first, count) = self.slots(reg)?;
        let mut marks = mask;
        match place {
            Place::Full(n) => copy(&mut self.full[n], mask, values, 0, u32::MAX),
            Place::Part(n, false) => copy(&mut self.full[n], mask, values, 0, 0xffff),
            Place::Part(n, true) => copy(&mut self.full[n], mask, values, 16, 0xffff),
            Place::Half(n) => copy(&mut self.half[n], mask, values, 0, 0xffff),
            Place::Shared(n) => {
                self.shared[n] = uniform(reg, mask, values)?;
                marks = Mask::MAX;
            }
            Place::SharedPart(n, high) => {
                let value = uniform(reg, mask, values)? & 0xffff;
                let shift = if high { 16 } else { 0 };
                self.shared[n] = self.shared[n] & !(0xffff << shift) | value << shift;
                marks = Mask::MAX;
            }
            Place::A0 => copy(&mut self.a0, mask, values, 0, u32::MAX),
            Place::A1 => {
                self.a1 = uniform(reg, mask, values)? & 0xffff;
                marks = Mask::MAX;
            }
            Place::P(n) => {
                let set = lanes(mask).filter(|&lane| values[lane] != 0);
                let set = set.fold(0, |bits, lane| bits | 1 << lane);
                self.predicates[n] = self.predicates[n] & !mask | set;
            }
            Place::Discard => {}
        }
        for slot in self.written.iter_mut().skip(first).take(count) {
            *slot |= marks;
        }
        Ok(())
    }

    /// Leaves a register of the fibers of a mask without a value.
    pub fn undefine(&mut self, reg: Reg, mask: Mask) -> Result<()> {
        let (first, count) = self.slots(reg)?;
        for slot in self.written.iter_mut().skip(first).take(count) {
            *slot &= !mask;
        }
        Ok(())
    }

    /// A predicate of the fibers of a mask.
    pub fn predicate(&self, component: usize, mask: Mask) -> Result<Mask> {
        let reg = Reg::full(P0 + component as u16);
        self.read(reg, mask)?;
        Ok(self.predicates[component & 3])
    }
}

/// The fibers of a mask, in order.
pub fn lanes(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some(lane)
    })
}

fn part(values: &Lanes, high: bool) -> Lanes {
    let shift = if high { 16 } else { 0 };
    values.map(|value| value >> shift & 0xffff)
}

fn copy(to: &mut Lanes, mask: Mask, from: &Lanes, shift: u32, bits: u32) {
    const HALF: usize = LANES / 2;
    let keep = !(bits << shift);
    for (n, (to, from)) in to.chunks_mut(HALF).zip(from.chunks(HALF)).enumerate() {
        match (mask >> (n * HALF)) as u64 {
            0 => {}
            u64::MAX if bits == u32::MAX => to.copy_from_slice(from),
            mask => {
                for (lane, (to, from)) in to.iter_mut().zip(from).enumerate() {
                    if mask >> lane & 1 != 0 {
                        *to = *to & keep | (from & bits) << shift;
                    }
                }
            }
        }
    }
}

/// The value that all fibers of a mask have.
pub fn same(mask: Mask, values: &Lanes) -> Option<u32> {
    let first = lanes(mask).next().map(|lane| values[lane])?;
    lanes(mask)
        .all(|lane| values[lane] == first)
        .then_some(first)
}

fn uniform(reg: Reg, mask: Mask, values: &Lanes) -> Result<u32> {
    match same(mask, values) {
        Some(value) => Ok(value),
        None => broken(
            &rules::SHARED_UNIFORM,
            format!("{} is written with different values", reg.name()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Cause;

    fn registers(merged: bool) -> Registers {
        let mut launch = crate::launch::tests::launch();
        launch.merged_registers = merged;
        launch.full_footprint = 2;
        launch.half_footprint = 3;
        Registers::new(&launch)
    }

    fn half(number: u16) -> Reg {
        let half = true;
        Reg { number, half }
    }

    fn name(error: Stop) -> &'static str {
        match *error.cause {
            Cause::Rule { rule, .. } => rule.name,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn merged_halves_are_parts_of_full_registers() {
        let mut all = registers(true);
        all.write(half(2), 1, &[0xaaaa; LANES]).unwrap();
        assert_eq!(
            name(all.read(Reg::full(1), 1).unwrap_err()),
            "IR3-REG-UNDEFINED"
        );
        all.write(half(3), 1, &[0xbbbb; LANES]).unwrap();
        assert_eq!(all.read(Reg::full(1), 1).unwrap()[0], 0xbbbb_aaaa);
        all.write(Reg::full(0), 1, &[0x1234_5678; LANES]).unwrap();
        assert_eq!(all.read(half(1), 1).unwrap()[0], 0x1234);
        assert_eq!(name(all.read(half(16), 1).unwrap_err()), "IR3-FOOTPRINT");
    }

    #[test]
    fn separate_halves_are_registers_of_their_own() {
        let mut all = registers(false);
        all.write(half(2), 1, &[0x1_aaaa; LANES]).unwrap();
        assert_eq!(all.read(half(2), 1).unwrap()[0], 0xaaaa);
        assert_eq!(
            name(all.read(Reg::full(1), 1).unwrap_err()),
            "IR3-REG-UNDEFINED"
        );
        assert_eq!(name(all.read(half(12), 1).unwrap_err()), "IR3-FOOTPRINT");
        assert_eq!(
            name(all.read(Reg::full(8), 1).unwrap_err()),
            "IR3-FOOTPRINT"
        );
        assert_eq!(
            name(all.read(Reg::full(56 * 4), 1).unwrap_err()),
            "IR3-REGISTER"
        );
    }

    #[test]
    fn shared_registers_have_one_value() {
        let mut all = registers(false);
        let mut values = [7; LANES];
        all.write(Reg::full(SHARED), 3, &values).unwrap();
        assert_eq!(all.read(Reg::full(SHARED), 4).unwrap()[2], 7);
        values[1] = 8;
        let error = all.write(Reg::full(SHARED), 3, &values).unwrap_err();
        assert_eq!(name(error), "IR3-SHARED-UNIFORM");
    }

    #[test]
    fn fibers_are_written_apart() {
        let mut all = registers(false);
        all.write(Reg::full(0), 0b101, &[5; LANES]).unwrap();
        let error = all.read(Reg::full(0), 0b111).unwrap_err();
        assert_eq!(error.fiber, Some(1));
        all.undefine(Reg::full(0), 0b100).unwrap();
        assert_eq!(all.read(Reg::full(0), 0b100).unwrap_err().fiber, Some(2));
    }
}
