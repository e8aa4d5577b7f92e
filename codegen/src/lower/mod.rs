//! From an optimised kernel to a linear program.
//!
//! Ranges of kind `Upcast` and `Unroll` are replicated, the others become loops (`Global`, `Loop`,
//! `Serial`, `Reduce`), lanes (`Vec`) or work-items (`Local`, `GroupReduce`).

pub mod exec;
mod expand;
mod lanes;
mod linear;
mod nest;
pub mod program;

pub use program::{Access, Acc, Arg, Inst, Mem, Program, Reg, Ty};

use crate::DType;
use crate::error::{Error, Result};
use crate::ir::{Kernel, ReduceOp};

/// Lowers an optimised kernel; `entry` becomes the name of the program.
pub fn lower(kernel: &Kernel, entry: &str) -> Result<Program> {
    let mut g = kernel.graph.clone();
    let too_many = || Error::Invalid {
        kernel: kernel.name.clone(),
        what: "more than 128 loop ranges".into(),
    };
    let sink = expand::expand(&mut g, kernel.sink);
    let sink = nest::separate(&mut g, sink).ok_or_else(too_many)?;
    let sink = nest::isolate(&mut g, sink).ok_or_else(too_many)?;
    let sink = nest::fuse_siblings(&mut g, sink).ok_or_else(too_many)?;
    let ranges = nest::Ranges::collect(&g, sink).ok_or_else(too_many)?;
    let (free, above) = nest::ancestors(&g, sink, &ranges);
    let lanes = lanes::analyse(&mut g, sink, &ranges, &free);
    linear::linearize(linear::Input { kernel, entry, g: &g, sink, ranges, free, above, lanes })
}

/// True if stores of the kernel have to run in the order of its sink, so that its work must not
/// be spread over groups.
pub fn ordered(kernel: &Kernel) -> bool {
    nest::has_hazard(&kernel.graph, kernel.sink)
}

/// The result of a reduction over nothing, as constant bits of the type.
pub fn identity(op: ReduceOp, dtype: DType) -> u64 {
    let bits = dtype.bits();
    let ones = u64::MAX >> (64 - bits);
    match op {
        ReduceOp::Add | ReduceOp::Or => 0,
        ReduceOp::Mul => match dtype {
            DType::F8E4M3 => 0x38,
            DType::F8E5M2 => 0x3c,
            DType::F16 => 0x3c00,
            DType::BF16 => 0x3f80,
            DType::F32 => u64::from(1f32.to_bits()),
            DType::F64 => 1f64.to_bits(),
            _ => 1,
        },
        ReduceOp::And => match dtype {
            DType::Bool => 1,
            t if t.is_signed() => u64::MAX,
            _ => ones,
        },
        ReduceOp::Max | ReduceOp::Min => {
            let max = matches!(op, ReduceOp::Max);
            let infinity = match dtype {
                // No infinity: the largest finite value bounds all the others.
                DType::F8E4M3 => 0x7e,
                DType::F8E5M2 => 0x7c,
                DType::F16 => 0x7c00,
                DType::BF16 => 0x7f80,
                DType::F32 => u64::from(f32::INFINITY.to_bits()),
                DType::F64 => f64::INFINITY.to_bits(),
                DType::Bool => return u64::from(!max),
                t if t.is_signed() => {
                    let smallest = i64::MIN >> (64 - bits);
                    return if max { smallest as u64 } else { !smallest as u64 };
                }
                _ => return if max { 0 } else { ones },
            };
            if max { infinity | 1 << (bits - 1) } else { infinity }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_neutral() {
        assert_eq!(identity(ReduceOp::Max, DType::I8) as i64, -128);
        assert_eq!(identity(ReduceOp::Min, DType::I8) as i64, 127);
        assert_eq!(identity(ReduceOp::Min, DType::U16), 0xffff);
        assert_eq!(f32::from_bits(identity(ReduceOp::Max, DType::F32) as u32), f32::NEG_INFINITY);
        assert_eq!(identity(ReduceOp::And, DType::I32), u64::MAX);
        assert_eq!(identity(ReduceOp::And, DType::U32), 0xffff_ffff);
    }
}
