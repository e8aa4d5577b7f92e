//! Every rewrite rule, alone and together, against the interpreter on random expressions.
use crate::common;
use crate::rng;

use std::collections::HashMap;

use codegen::DType;
use codegen::ir::{Graph, Id, Op, ranges_of};
use codegen::rewrite::{Cx, rules, simplify, toposort};
use codegen::symbolic::{Bounds, Lin};
use common::{Gen, assert_same, evaluate, inputs};
use rng::Rng;

const TYPES: [DType; 9] = [
    DType::I64,
    DType::I64,
    DType::I64,
    DType::I32,
    DType::U8,
    DType::F32,
    DType::F64,
    DType::Bool,
    DType::F16,
];

fn small(g: &Graph, id: Id) -> bool {
    let points: i64 = ranges_of(g, id)
        .iter()
        .map(|&r| match g.op(r) {
            Op::Range { extent, .. } => extent,
            _ => 1,
        })
        .product();
    points <= 2000
}

#[test]
fn simplify_keeps_values() {
    let mut rng = Rng::seeded(1);
    for _ in 0..4000 {
        let data = inputs(&mut rng);
        let mut gen_ = Gen::new(Rng(rng.next() | 1));
        let dtype = rng.pick(&TYPES);
        let old = gen_.value(dtype, 4);
        if !small(&gen_.g, old) {
            continue;
        }
        let new = simplify(&mut gen_.g, old);
        assert_same(&gen_.g, old, new, &data, "simplify");
        assert_eq!(simplify(&mut gen_.g, new), new, "not a fixpoint");
    }
}

#[test]
fn index_expressions_by_brute_force() {
    let mut rng = Rng::seeded(2);
    for _ in 0..6000 {
        let data = inputs(&mut rng);
        let mut gen_ = Gen::new(Rng(rng.next() | 1));
        let x = gen_.index(5);
        let g = &mut gen_.g;
        let ranges = ranges_of(g, x);
        let values = evaluate(g, x, &ranges, &data).unwrap();
        if let Some((lo, hi)) = Bounds::default().of(g, x) {
            for &v in &values {
                assert!(
                    (lo..=hi).contains(&(v as i64)),
                    "{} not in {lo}..={hi}",
                    v as i64
                );
            }
        }
        let lin = Lin::of(g, x).to_graph(g);
        assert_eq!(evaluate(g, lin, &ranges, &data).unwrap(), values);
        let new = simplify(g, x);
        assert_same(g, x, new, &data, "index");
    }
}

/// Each rule is tried on each node, also of graphs that other rules already changed; wherever it
/// applies, both sides are evaluated. A rule that never applied would be untested: that fails.
#[test]
fn every_rule_alone() {
    let mut rng = Rng::seeded(3);
    let mut hits: HashMap<&str, u64> = HashMap::new();
    for _ in 0..2500 {
        let data = inputs(&mut rng);
        let mut gen_ = Gen::new(Rng(rng.next() | 1));
        let dtype = rng.pick(&TYPES);
        let mut root = gen_.value(dtype, 3);
        let g = &mut gen_.g;
        for _ in 0..3 {
            let mut found: Vec<(Id, Id)> = Vec::new();
            for n in toposort(g, root) {
                if matches!(g.op(n), Op::Param { .. }) || !small(g, n) {
                    continue;
                }
                let op = g.op(n);
                for rule in rules::ALL.all().iter().filter(|r| (r.on)(op)) {
                    let Some(new) = (rule.run)(g, &mut Cx::default(), n) else {
                        continue;
                    };
                    if new == n {
                        continue;
                    }
                    let seen = hits.entry(rule.name).or_default();
                    *seen += 1;
                    // The cheap rules fire everywhere; a few hundred checks each are enough.
                    if *seen < 400 {
                        assert_same(g, n, new, &data, rule.name);
                    }
                    found.push((n, new));
                }
            }
            if found.is_empty() {
                break;
            }
            let (n, new) = found[rng.below(found.len() as u64) as usize];
            if matches!(g.op(n), Op::Range { .. }) {
                break;
            }
            root = codegen::rewrite::substitute(g, root, &[(n, new)].into_iter().collect());
        }
    }
    store_rules(&mut hits);
    unit_reductions(&mut hits);
    for rule in rules::ALL.all() {
        let n = hits.get(rule.name).copied().unwrap_or(0);
        println!("{:24} {n}", rule.name);
    }
    for rule in rules::ALL.all() {
        let n = hits.get(rule.name).copied().unwrap_or(0);
        assert!(n >= 10, "rule {} was tested only {n} times", rule.name);
    }
}

/// A reduction over a constant is no graph that can run: the rule is tested with the one before it.
fn unit_reductions(hits: &mut HashMap<&str, u64>) {
    let mut rng = Rng::seeded(5);
    for _ in 0..300 {
        let data = inputs(&mut rng);
        let mut gen_ = Gen::new(Rng(rng.next() | 1));
        let dtype = rng.pick(&[DType::F32, DType::I32]);
        let old = gen_.reduction(dtype, 1);
        let mut cx = Cx::default();
        let g = &mut gen_.g;
        let new = codegen::rewrite::driver::fixpoint(g, &mut cx, &rules::ALL, old, |_| false);
        assert_same(g, old, new, &data, "unit reduction");
        *hits.entry("reduce_no_range").or_default() +=
            cx.hits.get("reduce_no_range").copied().unwrap_or(0);
    }
}

/// Rules about stores need whole kernels.
fn store_rules(hits: &mut HashMap<&str, u64>) {
    use codegen::ir::{Binary, Kernel, ParamInfo, RangeKind, StoreMode};
    let mut rng = Rng::seeded(4);
    for _ in 0..300 {
        let mut g = Graph::new();
        let (n, m) = (rng.int(2, 6), rng.int(2, 6));
        let r = g.range(0, n, RangeKind::Loop);
        let out = g.param(0, DType::I32);
        let limit = g.index(rng.int(-1, 8));
        let gate = g.binary(Binary::Lt, r, limit);
        let gate = if rng.below(100) < 30 {
            g.boolean(rng.below(100) < 50)
        } else {
            gate
        };
        let m = g.index(m);
        let wrapped = g.binary(Binary::FloorMod, r, m);
        let div = g.binary(Binary::FloorDiv, r, m);
        let whole = g.binary(Binary::Mul, div, m);
        // r, or something that is r below m
        let index = if rng.below(100) < 50 {
            wrapped
        } else {
            g.binary(Binary::Sub, r, whole)
        };
        let value = g.cast(r, DType::I32);
        let mode = StoreMode::Combine(codegen::ir::ReduceOp::Add);
        let a = g.store(mode, out, index, value, Some(gate));
        let one = g.bits(DType::I32, 1);
        let b = g.store(mode, out, r, one, None);
        // Combines into one element n times where n <= m.
        let c = g.store(mode, out, div, one, None);
        let sink = g.sink(&[a, b, c]);
        let mut kernel = Kernel {
            name: "stores".into(),
            graph: g,
            sink,
            params: vec![ParamInfo {
                dtype: DType::I32,
                len: 8,
                written: true,
                constant: false,
            }],
            vars: 0,
        };
        codegen::ir::verify::verify(&kernel).unwrap();
        let mut want = vec![vec![0u8; 32]];
        codegen::interp::run(&kernel, &mut want, &[]).unwrap();
        let mut cx = Cx::default();
        kernel.sink = codegen::rewrite::driver::fixpoint(
            &mut kernel.graph,
            &mut cx,
            &rules::ALL,
            sink,
            |_| false,
        );
        codegen::ir::verify::verify(&kernel).unwrap();
        let mut have = vec![vec![0u8; 32]];
        codegen::interp::run(&kernel, &mut have, &[]).unwrap();
        assert_eq!(have, want);
        for name in ["store_gate", "drop_dead_stores"] {
            *hits.entry(name).or_default() += cx.hits.get(name).copied().unwrap_or(0);
        }
    }
}

#[test]
fn deep_graphs_do_not_overflow_the_stack() {
    use codegen::ir::{Binary, RangeKind};
    let mut g = Graph::new();
    let p = g.param(0, DType::F32);
    let r = g.range(0, 4, RangeKind::Loop);
    let mut x = g.load(p, r);
    let two = g.bits(DType::F32, 2f32.to_bits().into());
    let y = x;
    for i in 0..100_000 {
        let op = if i % 2 == 0 { Binary::Add } else { Binary::Mul };
        x = g.binary(op, x, if i % 3 == 0 { two } else { y });
    }
    let mut i = r;
    for _ in 0..100_000 {
        i = g.binary(Binary::Add, i, r);
    }
    let i = g.cast(i, DType::F32);
    let x = g.binary(Binary::Add, x, i);
    let new = simplify(&mut g, x);
    assert!(toposort(&g, new).len() > 100_000);
    assert!(codegen::ir::print::print(&g, new).lines().count() > 100_000);
}
