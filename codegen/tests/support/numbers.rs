//! Arguments of kernels that are no buffers.

use codegen::DType;
use codegen::ir::{Binary, Id, Kernel, Op};

use super::Make;

/// Values for the arguments of a kernel that are no buffers: where types end, or the middle of a place.
pub fn numbers(kernel: &Kernel) -> Vec<i64> {
    use codegen::interp::scalar;
    let mut out = vec![0; usize::from(kernel.vars)];
    for n in 0..kernel.graph.len() as u32 {
        let Op::Var { slot, min, max } = kernel.graph.op(Id(n)) else {
            continue;
        };
        let dtype = kernel.graph.dtype(Id(n));
        let bits = match dtype {
            DType::I64 if max < i64::MAX => ((min + max) / 2) as u64,
            _ if dtype.is_float() => {
                let all = [-1.75, 0.0, f64::INFINITY, 3.0, -0.0];
                scalar::from_f64(dtype, all[usize::from(slot) % all.len()])
            }
            _ => {
                let (least, most) = scalar::int_limits(dtype);
                scalar::from_int(dtype, [most, least, most - 1][usize::from(slot) % 3])
            }
        };
        out[usize::from(slot)] = bits as i64;
    }
    out
}

/// Arguments of a type: stored as they are, chosen, and added or combined with what is in memory.
pub fn arguments(dtype: DType) -> Kernel {
    let n = 37;
    let mut m = Make::new();
    let outs = [(); 3].map(|()| m.buffer(dtype, n, true));
    let (x, c) = (m.buffer(dtype, n, false), m.buffer(DType::Bool, n, false));
    let i = m.l(n as i64);
    let (x, c) = (m.load(x, &[(i, 1)]), m.load(c, &[(i, 1)]));
    let args: Vec<Id> = (0..3).map(|slot| m.g.argument(slot, dtype)).collect();
    let chosen = m.g.select(c, x, args[1]);
    let op = if dtype == DType::Bool {
        Binary::Xor
    } else {
        Binary::Max
    };
    let combined = m.g.binary(op, x, args[2]);
    for (out, value) in outs.into_iter().zip([args[0], chosen, combined]) {
        m.store(out, &[(i, 1)], value);
    }
    let mut kernel = m.kernel(&format!("arguments_{dtype}"));
    kernel.vars = 3;
    kernel
}

/// A product of a part of a matrix that begins at an argument, times an argument.
pub fn part_of_a_product(size: i64) -> Kernel {
    let rows = 2 * size + 9;
    let mut m = Make::new();
    let out = m.buffer(DType::F32, (size * size) as usize, true);
    let a = m.buffer(DType::F32, (rows * size) as usize, false);
    let b = m.buffer(DType::F32, (size * size) as usize, false);
    let (i, j, k) = (m.l(size), m.l(size), m.r(size));
    let begin = m.g.var(0, 0, rows - size);
    let row = m.add(i, begin);
    let a = m.load(a, &[(row, size), (k, 1)]);
    let factor = m.g.argument(1, DType::F32);
    // Not infinite, whatever it is.
    let two = m.f32(2.0);
    let factor = m.g.binary(Binary::Min, factor, two);
    let a = m.mul(a, factor);
    let b = m.load(b, &[(k, size), (j, 1)]);
    let product = m.mul(a, b);
    let sum = m.sum(product, &[k]);
    m.store(out, &[(i, size), (j, 1)], sum);
    let mut kernel = m.kernel("part_of_a_product");
    kernel.vars = 2;
    kernel
}
