//! The registers of a warp.

use super::source::{Condition, Flag, From, Lanes, Pairs, Place, Source};

/// The banks of constant memory that a program sees, by number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Constants<'a> {
    banks: [&'a [u8]; 32],
}

impl<'a> Constants<'a> {
    /// With nothing in them.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a bank.
    ///
    /// # Panics
    /// There are 32 banks.
    #[must_use]
    pub fn with(mut self, bank: u8, bytes: &'a [u8]) -> Self {
        self.banks[usize::from(bank)] = bytes;
        self
    }

    /// What is there, unless the bank ends before.
    pub(crate) fn bytes(&self, bank: u8, at: usize, len: usize) -> Option<&'a [u8]> {
        self.banks
            .get(usize::from(bank))?
            .get(at..at.checked_add(len)?)
    }

    /// A word that is known to be there: a program says at its start what it reads.
    fn word(&self, bank: u8, at: u16) -> u32 {
        let bytes = self.bytes(bank, usize::from(at), 4);
        bytes
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// All registers and predicates of a warp.
pub(crate) struct State {
    /// That of zeros, then those that the program has.
    registers: Vec<Lanes>,
    pub uniform: [u32; 256],
    /// A bit for each lane; the last is true.
    pub predicates: [u32; 8],
    /// All bits or none.
    pub uniform_predicates: [u32; 8],
}

impl State {
    /// With so many registers.
    pub fn new(registers: usize) -> Self {
        let mut predicates = [0; 8];
        predicates[7] = u32::MAX;
        Self {
            registers: vec![[0; 32]; registers + 1],
            uniform: [0; 256],
            predicates,
            uniform_predicates: predicates,
        }
    }

    /// A register.
    #[inline(always)]
    pub fn register(&self, n: u8) -> &Lanes {
        // The one of zeros is 255, and the first here.
        &self.registers[usize::from(n.wrapping_add(1))]
    }

    /// What is in a place.
    #[inline(always)]
    pub fn read(&self, place: Place) -> Lanes {
        match place {
            Place::Register(n) => *self.register(n),
            Place::Uniform(n) => [self.uniform[usize::from(n)]; 32],
        }
    }

    /// A source, without what is done to it.
    #[inline(always)]
    pub fn raw(&self, from: From, constants: &Constants) -> Lanes {
        match from {
            From::Register(n) => *self.register(n),
            From::Uniform(n) => [self.uniform[usize::from(n)]; 32],
            From::Immediate(low, _) => [low; 32],
            From::Constant(bank, at) => [constants.word(bank, at); 32],
        }
    }

    /// The word after a source, of those that are two.
    #[inline(always)]
    pub fn raw_high(&self, from: From, constants: &Constants) -> Lanes {
        match from {
            From::Register(255) => [0; 32],
            From::Register(n) => *self.register(n + 1),
            From::Uniform(255) => [0; 32],
            From::Uniform(n) => [self.uniform[usize::from(n) + 1]; 32],
            From::Immediate(_, high) => [high; 32],
            From::Constant(bank, at) => [constants.word(bank, at + 4); 32],
        }
    }

    #[inline(always)]
    pub fn get(&self, source: &Source, constants: &Constants) -> Lanes {
        let mut value = self.raw(source.from, constants);
        if !source.plain() {
            for x in &mut value {
                *x = ((*x & source.and) ^ source.xor).wrapping_add(source.plus);
            }
        }
        value
    }

    /// The same, without a copy where it is a register as it stands; `room` is for what is not.
    #[inline(always)]
    pub fn look<'a>(&'a self, source: &Source, c: &Constants, room: &'a mut Lanes) -> &'a Lanes {
        if let (From::Register(n), true) = (source.from, source.plain()) {
            return self.register(n);
        }
        *room = self.get(source, c);
        room
    }

    /// The same of three.
    #[inline(always)]
    pub fn look_at<'a>(
        &'a self,
        of: &[Source; 3],
        c: &Constants,
        room: &'a mut [Lanes; 3],
    ) -> [&'a Lanes; 3] {
        let [p, q, r] = room;
        [
            self.look(&of[0], c, p),
            self.look(&of[1], c, q),
            self.look(&of[2], c, r),
        ]
    }

    /// A double, or what else has its sign in the upper word.
    pub fn pair(&self, source: &Source, constants: &Constants) -> Pairs {
        let low = self.raw(source.from, constants);
        let high = self.raw_high(source.from, constants);
        each(|i| u64::from((high[i] & source.and) ^ source.xor) << 32 | u64::from(low[i]))
    }

    /// An integer of 64 bits, all of it inverted if it is to be, and 1 more to add if it is to be negative.
    pub fn wide(&self, source: &Source, constants: &Constants) -> (Pairs, u64) {
        let low = self.raw(source.from, constants);
        let high = self.raw_high(source.from, constants);
        let value =
            each(|i| u64::from(high[i] ^ source.xor) << 32 | u64::from(low[i] ^ source.xor));
        (value, u64::from(source.plus))
    }

    /// Writes the lanes of a mask.
    #[inline(always)]
    pub fn put(&mut self, place: Place, mask: u32, value: &Lanes) {
        match place {
            Place::Register(255) | Place::Uniform(255) => {}
            Place::Register(n) => {
                let register = &mut self.registers[usize::from(n) + 1];
                if mask == u32::MAX {
                    *register = *value;
                } else {
                    for (i, x) in register.iter_mut().enumerate() {
                        *x = if mask >> i & 1 != 0 { value[i] } else { *x };
                    }
                }
            }
            // Only what is the same in all lanes is written here.
            Place::Uniform(n) => self.uniform[usize::from(n)] = value[0],
        }
    }

    pub fn put_pair(&mut self, place: Place, mask: u32, value: &Pairs) {
        self.put(place, mask, &value.map(|x| x as u32));
        self.put(place.after(1), mask, &value.map(|x| (x >> 32) as u32));
    }

    /// A bit for each lane.
    #[inline(always)]
    pub fn test(&self, condition: Condition) -> u32 {
        let predicates = if condition.uniform {
            &self.uniform_predicates
        } else {
            &self.predicates
        };
        let value = predicates[usize::from(condition.number)];
        if condition.inverted { !value } else { value }
    }

    #[inline(always)]
    pub fn set(&mut self, flag: Flag, mask: u32, value: u32) {
        if flag.number == 7 {
            return;
        }
        let n = usize::from(flag.number);
        if flag.uniform {
            self.uniform_predicates[n] = if value & 1 != 0 { u32::MAX } else { 0 };
        } else {
            self.predicates[n] = self.predicates[n] & !mask | value & mask;
        }
    }
}

impl Place {
    /// The register some places on; after that of zeros are none.
    pub fn after(self, count: u8) -> Self {
        match self {
            Self::Register(255) | Self::Uniform(255) => self,
            Self::Register(n) => Self::Register(n.saturating_add(count)),
            Self::Uniform(n) => Self::Uniform(n.saturating_add(count)),
        }
    }
}

/// A value for each lane. An array that is filled in a loop, which compilers make vectors of.
#[inline(always)]
pub(crate) fn each<T: Copy + Default>(of: impl Fn(usize) -> T) -> [T; 32] {
    let mut values = [T::default(); 32];
    for (i, value) in values.iter_mut().enumerate() {
        *value = of(i);
    }
    values
}

/// A mask of the lanes for which something holds.
#[inline(always)]
pub(crate) fn mask(holds: impl Fn(usize) -> bool) -> u32 {
    (0..32).fold(0, |mask, i| mask | u32::from(holds(i)) << i)
}
