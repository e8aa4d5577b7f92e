//! Matrix instructions of a wave: which element of its operands each lane holds.

use crate::dtype::DType;

/// A digit of a mixed-radix number with `n` values; each increment moves by `step` along the two coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Digit {
    /// Number of values.
    pub n: u8,
    /// Distance of an increment along each coordinate.
    pub step: [u8; 2],
}

impl Digit {
    /// No digit.
    pub const NONE: Digit = Digit::new(1, [0, 0]);

    /// One with `n` values.
    pub const fn new(n: u8, step: [u8; 2]) -> Digit {
        Digit { n, step }
    }
}

/// Which elements of a matrix the lanes of a wave hold. The number of a lane and that of an element in the lane's
/// vector are read as three digits, the lowest one first; what all of them step over is the coordinates.
/// A digit that steps nowhere repeats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fragment {
    /// Of the number of a lane.
    pub lane: [Digit; 3],
    /// Of the number of an element in its vector: neighbours first.
    pub element: [Digit; 3],
}

impl Fragment {
    /// Of an operand that the instruction reads in local memory: no lane holds anything of it.
    pub const NOWHERE: Fragment = Fragment::plain([Digit::NONE; 2], Digit::NONE);

    /// One whose elements are a single digit.
    pub const fn plain([low, high]: [Digit; 2], element: Digit) -> Fragment {
        Fragment {
            lane: [low, high, Digit::NONE],
            element: [element, Digit::NONE, Digit::NONE],
        }
    }

    const fn count(digits: &[Digit]) -> u32 {
        let (mut n, mut i) = (1, 0);
        while i < digits.len() {
            n *= digits[i].n as u32;
            i += 1;
        }
        n
    }

    /// Lanes of the wave.
    pub const fn lanes(&self) -> u32 {
        Self::count(&self.lane)
    }

    /// Elements of a lane.
    pub const fn elements(&self) -> u32 {
        Self::count(&self.element)
    }

    /// The coordinates of an element of a lane.
    pub fn at(&self, lane: i64, element: i64) -> [i64; 2] {
        let mut out = [0; 2];
        let numbers = [(&self.lane[..], lane), (&self.element[..], element)];
        for (digits, mut number) in numbers {
            for digit in digits {
                let value = number % i64::from(digit.n);
                number /= i64::from(digit.n);
                for (sum, step) in out.iter_mut().zip(digit.step) {
                    *sum += value * i64::from(step);
                }
            }
        }
        out
    }
}

/// How the lanes of a wave share the operands and the result of a matrix instruction.
///
/// Which lane holds which `k` does not matter as long as both operands agree, so the order may be the one in which
/// a lane reads neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Fragments {
    /// Row and `k` of the elements of the first operand.
    pub a: Fragment,
    /// Column and `k` of those of the second one.
    pub b: Fragment,
    /// Row and column of those of the accumulator.
    pub c: Fragment,
}

/// A building block of contractions: `acc[m, n] += a[m, k] * b[k, n]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MmaDesc {
    /// Rows of the accumulator tile.
    pub m: u16,
    /// Columns of the accumulator tile.
    pub n: u16,
    /// Depth of one step.
    pub k: u16,
    /// Types of the operands.
    pub operands: [DType; 2],
    /// Type of the accumulator.
    pub acc: DType,
    /// How the lanes of a wave share the operands; `None` if one thread executes it alone.
    pub fragments: Option<&'static Fragments>,
}

impl MmaDesc {
    /// Whether it multiplies operands of these types: its own, or 8-bit floats where it takes
    /// `F16`, which has all their values.
    pub fn takes(&self, operands: [DType; 2]) -> bool {
        let narrow = |t| matches!(t, DType::F8E4M3 | DType::F8E5M2);
        let mut both = operands.into_iter().zip(self.operands);
        both.all(|(is, own)| is == own || own == DType::F16 && narrow(is))
    }

    /// Lanes of the wave that executes it.
    pub const fn wave(&self) -> u32 {
        match self.fragments {
            None => 1,
            Some(f) => f.c.lanes(),
        }
    }

    /// Elements of `a`, of `b` and of the accumulator that a lane holds.
    pub const fn elements(&self) -> [u32; 3] {
        match self.fragments {
            None => [
                self.m as u32 * self.k as u32,
                self.n as u32 * self.k as u32,
                self.m as u32 * self.n as u32,
            ],
            Some(f) => [f.a.elements(), f.b.elements(), f.c.elements()],
        }
    }

    /// Whether it reads its operands in local memory, as [`Rows`].
    pub fn in_memory(&self) -> bool {
        self.fragments.is_some_and(|f| f.a == Fragment::NOWHERE)
    }

    /// Whether the sum has all bits of its type. What is read in local memory of 8-bit floats is added up with
    /// fourteen ("DeepSeek-V3 Technical Report", 3.3.2).
    pub fn keeps_sums(&self) -> bool {
        let [a, b] = self.operands;
        !(self.in_memory() && a.is_float() && a.size() == 1 && b.size() == 1)
    }

    /// The transposed product is the same instruction with its operands exchanged.
    pub fn transposes(&self) -> bool {
        self.m == self.n && !self.in_memory() && self.fragments.is_some_and(|f| f.a == f.b)
    }
}

/// Bytes of a row of an operand that an instruction reads in local memory.
pub const ROW: usize = 128;
/// Bytes of what is moved within a row.
const PIECE: usize = 16;
/// Rows with the same order of their pieces are so many apart.
const EIGHT: usize = 8;

/// How an operand lies in local memory where an instruction reads it there: in rows of 128 bytes, one behind the
/// other. In row `r` piece `p` of 16 bytes is at place `p ^ r % 8`, so that neither a row nor a column of pieces meets
/// in a bank. What does not fit the rows is in further columns of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Rows {
    /// A row goes along the rows (or columns) of the operand; else along the sum.
    pub turned: bool,
    /// Elements from a column of rows to the next one.
    pub slab: u32,
}

impl Rows {
    /// Elements of a row.
    pub const fn width(dtype: DType) -> i64 {
        (ROW / dtype.size()) as i64
    }

    /// Elements of a piece.
    pub const fn piece(dtype: DType) -> i64 {
        (PIECE / dtype.size()) as i64
    }

    /// Whether the place of a piece in its row depends on the row, which is one of so many.
    pub const fn orders() -> i64 {
        EIGHT as i64
    }

    /// Where an element is of a matrix that begins at element `start`: `side` rows (or columns) and `k` summed
    /// elements behind it. This is how the instruction finds it: it mixes the bits of the address.
    pub fn at(&self, dtype: DType, start: i64, side: i64, k: i64) -> i64 {
        let (across, row) = if self.turned { (side, k) } else { (k, side) };
        let width = Self::width(dtype);
        let plain = start + across / width * i64::from(self.slab) + row * width + across % width;
        let piece = Self::piece(dtype);
        let order = plain / width % Self::orders();
        ((plain / piece) ^ order) * piece + plain % piece
    }
}
