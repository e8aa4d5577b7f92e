//! What compilers without LLVM share: code of virtual registers, and the passes from there to registers of a machine.
//!
//! A backend selects instructions of its own type, which implements [`Instruction`], and gets them back in an order and
//! with locations:
//!
//! | pass | module | owner |
//! |---|---|---|
//! | selection: a linear program to a [`Function`] | `render` | the backend |
//! | what nobody reads is removed | [`dead`] | here |
//! | copies are removed where both sides fit one register | [`coalesce`] | here |
//! | the order of each block before allocation: latency, then pressure | [`schedule`] | here, with the backend's [`schedule::Machine`] |
//! | what is live where; the ranges of each lane | [`live`] | here |
//! | locations; what does not fit is spilled | [`allocate`] | here, with the backend's [`allocate::File`] |
//! | code of spills and constants that are made again | [`spill`] | here, with the backend's [`spill::Memory`] |
//! | the order after allocation, waits, delays, words | `ir3` | the backend |
//!
//! A [`Value`] is not in SSA form: it may be written more than once, and has the same location everywhere. It has
//! one lane or several, which lie in neighbouring registers; instructions read and write runs of lanes ([`Part`]).
//! Loops need no copies at their ends, then, and vector loads and stores no moves around them: a copy into a lane of
//! a vector is one that [`coalesce`] removes.
//!
//! Locations are numbered in units, the smallest register that a class has. A register of a wider class is several.
//!
//! Nothing here names an instruction set.

pub mod allocate;
mod bits;
pub mod coalesce;
pub mod dead;
pub mod live;
pub mod schedule;
pub mod spill;
#[cfg(test)]
mod tests;

pub use bits::Bits;

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(pub u32);

/// A kind of registers, by a number that the backend gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Class(pub u8);

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Where its lanes may be.
    pub class: Class,
    /// Registers that are neighbours.
    pub lanes: u8,
}

/// Neighbouring lanes of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The value.
    pub value: Value,
    /// The first one.
    pub lane: u8,
    /// How many.
    pub lanes: u8,
}

impl Part {
    /// One lane.
    pub const fn of(value: Value, lane: u8) -> Part {
        Part {
            value,
            lane,
            lanes: 1,
        }
    }

    /// Its lanes one by one.
    pub fn each(self) -> impl Iterator<Item = Part> {
        (self.lane..self.lane + self.lanes).map(move |lane| Part::of(self.value, lane))
    }
}

/// A read or a write by an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// What.
    pub part: Part,
    /// It is written.
    pub writes: bool,
    /// An instruction that repeats reads and writes in steps: step `n` reads before it writes, and both before what
    /// step `n + 1` reads.
    pub step: u8,
}

/// What the passes ask of an instruction.
pub trait Instruction: Clone {
    /// All reads, and then all writes.
    fn accesses(&self, see: &mut dyn FnMut(Access));

    /// The lanes that it copies without a change, as destination and source: it can be left out if both are in one
    /// place.
    fn copies(&self) -> Option<(Part, Part)>;

    /// Other values instead of those that it has.
    fn rename(&mut self, by: &mut dyn FnMut(Part, bool) -> Part);

    /// Steps of [`Access::step`], at least 1.
    fn steps(&self) -> u8;
}

/// Instructions that run one after the other.
#[derive(Clone, Debug)]
pub struct Block<I> {
    /// In order.
    pub insts: Vec<I>,
    /// Blocks that may follow. The first one is the next one of the layout if there is no jump.
    pub next: Vec<usize>,
    /// Loops around it.
    pub depth: u32,
}

impl<I> Block<I> {
    /// An empty one.
    pub const fn new(depth: u32) -> Self {
        Block {
            insts: Vec::new(),
            next: Vec::new(),
            depth,
        }
    }
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Function<I> {
    /// Blocks in the order of the layout; the first one is the entry.
    pub blocks: Vec<Block<I>>,
    /// By the number of a value.
    pub shapes: Vec<Shape>,
    /// Values that are there at the entry, with the unit where their first lane is.
    pub inputs: Vec<(Value, u32)>,
}

impl<I: Instruction> Function<I> {
    /// One without blocks.
    pub const fn new() -> Self {
        Function {
            blocks: Vec::new(),
            shapes: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// A new value.
    pub fn value(&mut self, class: Class, lanes: u8) -> Value {
        self.shapes.push(Shape { class, lanes });
        Value(self.shapes.len() as u32 - 1)
    }

    /// What a value is.
    pub fn shape(&self, value: Value) -> Shape {
        self.shapes[value.0 as usize]
    }

    /// The blocks before each block.
    pub fn before(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.blocks.len()];
        for (at, block) in self.blocks.iter().enumerate() {
            for &next in &block.next {
                before[next].push(at);
            }
        }
        before
    }
}

impl<I: Instruction> Default for Function<I> {
    fn default() -> Self {
        Function::new()
    }
}

/// Numbers of lanes: those of a value are neighbours.
#[derive(Clone, Debug)]
pub struct Lanes {
    first: Vec<u32>,
}

impl Lanes {
    /// Of all values of a function.
    pub fn new(shapes: &[Shape]) -> Lanes {
        let mut first = Vec::with_capacity(shapes.len() + 1);
        let mut next = 0;
        for shape in shapes {
            first.push(next);
            next += u32::from(shape.lanes);
        }
        first.push(next);
        Lanes { first }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.first.last().map_or(0, |&n| n as usize)
    }

    /// The numbers of a part.
    pub fn of(&self, part: Part) -> std::ops::Range<usize> {
        let first = self.first[part.value.0 as usize] as usize + usize::from(part.lane);
        first..first + usize::from(part.lanes)
    }

    /// The numbers of a value.
    pub fn all(&self, value: Value) -> std::ops::Range<usize> {
        let at = value.0 as usize;
        self.first[at] as usize..self.first[at + 1] as usize
    }
}
