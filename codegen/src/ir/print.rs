//! A readable, stable text of a graph: one line per node, sources first, constants in place.

use std::fmt::Write;

use hashbrown::HashMap;

use super::order::toposort;
use super::{Graph, Id, Op, StoreMode, scalar};
use crate::dtype::DType;

/// Everything reachable from `root`. Names are numbered in the order of the walk, so equal graphs
/// print equally whatever else their arenas hold.
pub fn print(g: &Graph, root: Id) -> String {
    let mut out = String::new();
    let mut names: HashMap<Id, String> = HashMap::new();
    let mut next = 0;
    for id in toposort(g, root) {
        if let Op::Const(bits) = g.op(id) {
            names.insert(id, constant(g, id, bits));
            if id != root {
                continue;
            }
        }
        let name = match g.op(id) {
            Op::Range { axis, .. } => format!("r{axis}"),
            Op::Param { slot } => format!("p{slot}"),
            Op::Local { block, .. } if g.src(id).is_empty() => format!("l{block}"),
            Op::Var { slot, .. } => format!("v{slot}"),
            _ => {
                next += 1;
                format!("%{}", next - 1)
            }
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name} = {}", line(g, id, &names));
        names.insert(id, name);
    }
    out
}

/// One node, its sources by name where `names` has one.
fn line(g: &Graph, id: Id, names: &HashMap<Id, String>) -> String {
    let node = g.node(id);
    let dtype = node.dtype;
    let src: Vec<&str> = node
        .src
        .iter()
        .map(|s| names.get(s).map_or("?", String::as_str))
        .collect();
    let list = src.join(", ");
    let lower = |x: &dyn std::fmt::Debug| format!("{x:?}").to_lowercase();
    match node.op {
        Op::Const(bits) => constant(g, id, bits),
        Op::Param { .. } => format!("param {dtype}"),
        Op::Var { min, max, .. } => format!("var {min}..={max}"),
        Op::Range { extent, kind, .. } => format!("range {extent} {}", lower(&kind)),
        Op::Unary(op) => format!("{}.{dtype} {list}", lower(&op)),
        Op::Binary(op) if op.is_compare() => {
            let of = node.src.first().map_or(dtype, |&s| g.dtype(s));
            format!("{}.{of} {list}", lower(&op))
        }
        Op::Binary(op) => format!("{}.{dtype} {list}", lower(&op)),
        Op::Where => format!("where.{dtype} {list}"),
        Op::Fma => format!("fma.{dtype} {list}"),
        Op::Dot => format!("dot.{dtype} {list}"),
        Op::Cast => format!("cast.{dtype} {list}"),
        Op::Bitcast => format!("bitcast.{dtype} {list}"),
        Op::Load => match src.as_slice() {
            [ptr, index, gate, alt] => format!("load.{dtype} {ptr}[{index}] if {gate} else {alt}"),
            [ptr, index] => format!("load.{dtype} {ptr}[{index}]"),
            _ => format!("load.{dtype} ({list})"),
        },
        Op::Reduce(op) => match src.split_first() {
            Some((value, ranges)) => {
                format!(
                    "reduce.{}.{dtype} {value} over {}",
                    lower(&op),
                    ranges.join(", ")
                )
            }
            None => "reduce ()".into(),
        },
        Op::Scan(op) => match src.as_slice() {
            [value, range] => format!("scan.{}.{dtype} {value} along {range}", lower(&op)),
            _ => format!("scan.{}.{dtype} ({list})", lower(&op)),
        },
        Op::Store(mode) => {
            let how = match mode {
                StoreMode::Set => "store".to_owned(),
                StoreMode::Combine(op) => format!("combine.{}", lower(&op)),
                StoreMode::Atomic(op) => format!("atomic.{}", lower(&op)),
            };
            match src.as_slice() {
                [ptr, index, value, gate] => {
                    format!("{how}.{dtype} {ptr}[{index}] = {value} if {gate}")
                }
                [ptr, index, value] => format!("{how}.{dtype} {ptr}[{index}] = {value}"),
                _ => format!("{how}.{dtype} ({list})"),
            }
        }
        Op::Check => format!("check.{dtype} {list}"),
        Op::Local { block, len } => format!("local {block} {dtype}[{len}] {list}"),
        Op::Fence { ahead: 0, early: 0 } => format!("fence {list}"),
        Op::Fence { ahead: 0, early } => format!("fence early {early} {list}"),
        Op::Fence { ahead, .. } => format!("fence ahead {ahead} {list}"),
        Op::Box { rows } => format!("box.{dtype} {rows} rows {list}"),
        Op::Operand(rows) => {
            let turned = if rows.turned { " turned" } else { "" };
            format!("place.{dtype}{turned} {list}")
        }
        Op::Mma(d) => {
            let [a, b] = d.operands;
            format!("mma.{}x{}x{}.{a}.{b}.{dtype} {list}", d.m, d.n, d.k)
        }
        Op::Sink => format!("sink {list}"),
    }
}

fn constant(g: &Graph, id: Id, bits: u64) -> String {
    let dtype = g.dtype(id);
    if dtype.is_float() {
        format!("{:?}:{dtype}", scalar::to_f64(dtype, bits))
    } else if dtype == DType::I64 {
        format!("{}", bits as i64)
    } else if dtype == DType::Bool {
        format!("{}", bits != 0)
    } else {
        format!("{}:{dtype}", scalar::to_int(dtype, bits))
    }
}

/// One node for an error message: the operation and the ids of its sources.
pub fn describe(g: &Graph, id: Id) -> String {
    let names = g
        .src(id)
        .iter()
        .map(|&s| (s, format!("#{}", s.0)))
        .collect();
    format!("#{} = {}", id.0, line(g, id, &names))
}
