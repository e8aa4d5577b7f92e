//! From an optimised kernel to a linear program.
//!
//! Ranges of kind `Upcast` and `Unroll` are replicated, the others become loops (`Global`, `Loop`,
//! `Serial`, `Reduce`), lanes (`Vec`) or work-items (`Local`, `GroupReduce`). What follows a sum may be a
//! loop over copies instead.
//!
//! Backends whose compiler does not unroll loops have [`unroll()`] and [`fold()`] do it.

mod accumulate;
mod arguments;
mod blocked;
pub mod decomp;
mod epilogue;
pub mod exec;
mod expand;
mod fold;
mod inst;
mod interval;
mod lanes;
mod linear;
mod narrow;
mod nest;
mod print;
pub mod program;
mod share;
pub(crate) mod tensor;
mod unroll;

pub use fold::fold;
pub use interval::{Interval, Intervals};
pub use narrow::narrow;
pub use program::{Acc, Access, Arg, BoxOf, Extent, Inst, Mem, Operand, Program, Reg, Tensor, Ty};
pub use share::share;
pub use unroll::{Limits, unroll};

use crate::error::{Error, Result};
use crate::ir::Kernel;

/// Lowers an optimised kernel. Operations missing in `caps` are decomposed.
pub fn lower(kernel: &Kernel, caps: &decomp::Caps) -> Result<Program> {
    let mut g = kernel.graph.clone();
    let too_many = || Error::Limit {
        kernel: kernel.name.clone(),
        of: "the compiler".into(),
        what: "more than 128 loop ranges".into(),
    };
    let sink = arguments::integers(&mut g, kernel.sink);
    let mut sink = expand::unrolls(&mut g, sink);
    if caps.stack {
        sink = epilogue::roll(&mut g, sink);
    }
    let sink = expand::upcasts(&mut g, sink);
    let sink = accumulate::widen(&mut g, sink, caps);
    let sink = blocked::split(&mut g, sink);
    let sink = decomp::decompose(&mut g, sink, caps);
    let sink = nest::separate(&mut g, sink).ok_or_else(too_many)?;
    let sink = nest::isolate(&mut g, sink).ok_or_else(too_many)?;
    let sink = nest::fuse_siblings(&mut g, sink).ok_or_else(too_many)?;
    let ranges = nest::Ranges::collect(&g, sink).ok_or_else(too_many)?;
    let (free, above) = nest::ancestors(&g, sink, &ranges);
    let lanes = lanes::analyse(&mut g, sink, &ranges, &free);
    linear::linearize(linear::Input {
        kernel,
        caps,
        g: &g,
        sink,
        ranges,
        free,
        above,
        lanes,
    })
}
