//! The loop of a product of matrices.

use crate::simd::{self, Kernel};

/// Where rows are among what registers hold: element `e` of lane `l` at `e * lanes + l`. The columns
/// of a row of B or D are in consecutive lanes.
pub(super) struct Shape {
    /// Lanes of the wave.
    pub lanes: usize,
    /// Rows and columns of D.
    pub mn: usize,
    /// Elements of a row of A, as many as are stored.
    pub k: usize,
    /// `[block][i][k]` of A.
    pub a: Vec<u16>,
    /// The first column of `[block][k]` of B; `k` runs over all of it where A is sparse.
    pub b: Vec<u16>,
    /// The first column of `[block][i]` of D.
    pub d: Vec<u16>,
    /// Two of each four elements of A along `k` are stored.
    pub sparse: bool,
}

impl Shape {
    /// Whether A and B fit into so many elements.
    pub fn fits(&self, elements: usize) -> bool {
        let most = self.a.iter().chain(&self.b).max();
        most.is_none_or(|&at| (usize::from(at) / self.lanes + 1) * self.lanes <= elements)
    }
}

/// A type of elements, and the product of one of A and one of B added to one of D.
pub(super) trait Number: Copy + Default {
    /// `self * b + c`.
    fn multiply_add(self, b: Self, c: Self) -> Self;

    /// The sum; that of integers saturates.
    fn saturating_add(self, other: Self) -> Self;

    /// Runs the loop.
    fn multiply(job: Job<Self>) {
        match (job.shape.mn, job.shape.sparse) {
            (4, _) => simd::run(Sized::<Self, 4, false>(job)),
            (16, false) => simd::run(Sized::<Self, 16, false>(job)),
            (16, true) => simd::run(Sized::<Self, 16, true>(job)),
            (_, false) => simd::run(Sized::<Self, 32, false>(job)),
            (_, true) => simd::run(Sized::<Self, 32, true>(job)),
        }
    }
}

impl Number for f32 {
    fn saturating_add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

impl Number for f64 {
    fn saturating_add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

impl Number for i32 {
    fn saturating_add(self, other: Self) -> Self {
        i32::saturating_add(self, other)
    }

    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        self.wrapping_mul(b).wrapping_add(c)
    }
}

/// What is multiplied.
pub(super) struct Job<'a, T> {
    /// Where everything is.
    pub shape: &'a Shape,
    /// Registers of A.
    pub a: &'a [T],
    /// Registers of B.
    pub b: &'a [T],
    /// Registers of C, then of D.
    pub d: &'a mut [T],
    /// Where the stored elements of a sparse A are, for each lane.
    pub indices: &'a [u32; 64],
}

struct Sized<'a, T, const MN: usize, const SPARSE: bool>(Job<'a, T>);

/// `sum += x * row`. The sum is stored whole: what the compiler keeps in registers from one row to the
/// next it keeps number by number, without SIMD.
#[inline(always)]
fn add_row<T: Number, const MN: usize>(sum: &mut [T], x: T, row: &[T]) {
    let (Some(sum), Some(row)) = (sum.first_chunk_mut::<MN>(), row.first_chunk::<MN>()) else {
        return;
    };
    let mut to = [T::default(); MN];
    for j in 0..MN {
        to[j] = x.multiply_add(row[j], sum[j]);
    }
    *sum = to;
}

impl<T: Number, const MN: usize, const SPARSE: bool> Kernel for Sized<'_, T, MN, SPARSE> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Job {
            shape,
            a,
            b,
            d,
            indices,
        } = self.0;
        let all = if SPARSE { 2 * shape.k } else { shape.k };
        for (block, rows_of_b) in shape.b.chunks_exact(all).enumerate() {
            let rows_of_d = &shape.d[block * MN..(block + 1) * MN];
            let rows_of_a = &shape.a[block * MN * shape.k..(block + 1) * MN * shape.k];
            // One k after the other for all rows: the sum of a row is not waited for.
            for k in 0..shape.k {
                for (i, &row_of_d) in rows_of_d.iter().enumerate() {
                    let at = usize::from(rows_of_a[i * shape.k + k]);
                    let row_of_b = if SPARSE {
                        // Which row of B an element of A meets depends on its index.
                        let (slot, lane) = (at / shape.lanes, at % shape.lanes);
                        rows_of_b[k / 2 * 4 + (indices[lane] >> (2 * slot) & 3) as usize]
                    } else {
                        rows_of_b[k]
                    };
                    let sum = &mut d[usize::from(row_of_d)..];
                    add_row::<T, MN>(sum, a[at], &b[usize::from(row_of_b)..]);
                }
            }
        }
    }
}
