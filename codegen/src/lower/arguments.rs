//! Arguments of any type, passed as integers: every entry point takes 64 bits for each.

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::ir::{Graph, Id, Op, scalar, toposort};
use crate::rewrite::substitute;

/// The unsigned integer of the same width.
const fn unsigned(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// Writes every argument that is not an `I64` as a conversion of one that is.
pub(super) fn integers(g: &mut Graph, root: Id) -> Id {
    let mut new: HashMap<Id, Id> = HashMap::new();
    for id in toposort(g, root) {
        let dtype = g.dtype(id);
        let Op::Var { slot, .. } = g.op(id) else {
            continue;
        };
        if dtype == DType::I64 {
            continue;
        }
        let bits = if dtype.is_float() {
            unsigned(dtype)
        } else {
            dtype
        };
        let (min, max) = match bits {
            DType::Bool => (0, 1),
            // Its bits, as they are.
            DType::U64 => (i64::MIN, i64::MAX),
            _ => {
                let (min, max) = scalar::int_limits(bits);
                (min as i64, max as i64)
            }
        };
        let word = g.var(slot, min, max);
        let value = g.cast(word, bits);
        let value = match dtype.is_float() {
            true => g.add(Op::Bitcast, dtype, &[value]),
            false => value,
        };
        new.insert(id, value);
    }
    match new.is_empty() {
        true => root,
        false => substitute(g, root, &new),
    }
}
