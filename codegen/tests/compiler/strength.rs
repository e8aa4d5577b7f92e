//! What the simplifier must achieve on the index expressions that views leave behind, as text.

use codegen::DType;
use codegen::ir::{Binary, Graph, Id, Kernel, ParamInfo, RangeKind, ReduceOp, StoreMode, Unary};
use codegen::ir::{print, verify};
use codegen::rewrite::simplify;

struct Ix {
    g: Graph,
    axis: u32,
}

impl Ix {
    fn new() -> Self {
        Ix {
            g: Graph::new(),
            axis: 0,
        }
    }
    fn range(&mut self, n: i64) -> Id {
        self.kind(n, RangeKind::Loop)
    }
    fn kind(&mut self, n: i64, kind: RangeKind) -> Id {
        self.axis += 1;
        self.g.range(self.axis - 1, n, kind)
    }
    fn op(&mut self, op: Binary, a: Id, c: i64) -> Id {
        let c = self.g.index(c);
        self.g.binary(op, a, c)
    }
    /// The flat index of coordinates in a row-major shape.
    fn flatten(&mut self, coordinates: &[Id], shape: &[i64]) -> Id {
        let mut sum = self.g.index(0);
        for (&c, &n) in coordinates.iter().zip(shape) {
            let scaled = self.op(Binary::Mul, sum, n);
            sum = self.g.binary(Binary::Add, scaled, c);
        }
        sum
    }
    /// Coordinates of a flat index in a row-major shape.
    fn unflatten(&mut self, flat: Id, shape: &[i64]) -> Vec<Id> {
        let mut inner = 1;
        let mut out = Vec::new();
        for &n in shape.iter().rev() {
            let q = self.op(Binary::FloorDiv, flat, inner);
            out.push(self.op(Binary::FloorMod, q, n));
            inner *= n;
        }
        out.reverse();
        out
    }
    #[track_caller]
    fn check(&mut self, id: Id, want: &str) {
        let new = simplify(&mut self.g, id);
        let text = print::print(&self.g, new);
        let text: Vec<&str> = text.lines().filter(|l| !l.contains("= range")).collect();
        let want: Vec<&str> = want
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        assert_eq!(text, want, "\n{}", text.join("\n"));
    }
}

#[test]
fn reshape_and_back_is_nothing() {
    let mut x = Ix::new();
    let c: Vec<Id> = [4, 6, 10].map(|n| x.range(n)).to_vec();
    let flat = x.flatten(&c, &[4, 6, 10]);
    let other = x.unflatten(flat, &[8, 30]);
    let again = x.flatten(&other, &[8, 30]);
    let back = x.unflatten(again, &[4, 6, 10]);
    for (i, b) in back.into_iter().enumerate() {
        let new = simplify(&mut x.g, b);
        assert_eq!(new, c[i], "\n{}", print::print(&x.g, new));
    }
}

#[test]
fn split_of_an_outer_dimension_divides_only_that() {
    let mut x = Ix::new();
    let c: Vec<Id> = [12, 5].map(|n| x.range(n)).to_vec();
    let flat = x.flatten(&c, &[12, 5]);
    let split = x.unflatten(flat, &[3, 4, 5]);
    x.check(split[0], "%0 = floordiv.i64 r0, 4");
    x.check(split[1], "%0 = floormod.i64 r0, 4");
    let new = simplify(&mut x.g, split[2]);
    assert_eq!(new, c[1]);
}

#[test]
fn a_split_range_loses_its_divisions() {
    // r -> ro*4 + ri inside of r / 4 and r % 4.
    let mut x = Ix::new();
    let (ro, ri) = (x.range(8), x.range(4));
    let r = x.flatten(&[ro, ri], &[8, 4]);
    let (q, m) = (x.op(Binary::FloorDiv, r, 4), x.op(Binary::FloorMod, r, 4));
    assert_eq!(simplify(&mut x.g, q), ro);
    assert_eq!(simplify(&mut x.g, m), ri);
}

#[test]
fn repeat_then_shrink_pooling() {
    // The pooling trick: windows of 3 over 10 as a view of repeated rows of 11.
    let mut x = Ix::new();
    let (o, k) = (x.range(8), x.range(3));
    let flat = x.flatten(&[k, o], &[3, 11]);
    let i = x.op(Binary::FloorMod, flat, 10);
    // k*11 + o = k*10 + (k + o), and k + o < 10.
    x.check(i, "%0 = add.i64 r0, r1");
}

#[test]
fn padding_guards() {
    let mut x = Ix::new();
    let (o, k) = (x.range(8), x.range(3));
    let sum = x.g.binary(Binary::Add, o, k);
    let i = x.op(Binary::Sub, sum, 1);
    let low = x.g.index(-1);
    let low = x.g.binary(Binary::Lt, low, i);
    let high = x.op(Binary::Lt, i, 8);
    let gate = x.g.binary(Binary::And, low, high);
    // Under the guard the wrapped index is the index.
    let wrapped = x.op(Binary::FloorMod, i, 8);
    let p = x.g.param(0, DType::F32);
    let zero = x.g.bits(DType::F32, 0);
    let load = x.g.load_gated(p, wrapped, gate, zero);
    x.check(
        load,
        "p0 = param f32
         %0 = add.i64 r0, r1
         %1 = add.i64 %0, -1
         %2 = lt.i64 0, %0
         %3 = lt.i64 %0, 9
         %4 = and.bool %2, %3
         %5 = load.f32 p0[%1] if %4 else 0.0:f32",
    );
}

#[test]
fn a_gate_that_always_holds_goes() {
    let mut x = Ix::new();
    let r = x.range(8);
    let i = x.op(Binary::Mul, r, 4);
    let gate = x.op(Binary::Lt, i, 29);
    let p = x.g.param(0, DType::F32);
    let zero = x.g.bits(DType::F32, 0);
    let load = x.g.load_gated(p, i, gate, zero);
    x.check(
        load,
        "p0 = param f32
         %0 = mul.i64 r0, 4
         %1 = load.f32 p0[%0]",
    );
}

#[test]
fn arange_is_an_index() {
    // arange(10) as the sum over k of (k <= i), less one.
    let mut x = Ix::new();
    let (i, k) = (x.range(10), x.kind(10, RangeKind::Reduce));
    let after = x.g.binary(Binary::Lt, i, k);
    let c = x.g.unary(Unary::Not, after);
    for (dtype, want) in [
        (DType::I32, "%0 = cast.i32 r0"),
        (
            DType::F32,
            "%0 = add.i64 r0, 1\n%1 = cast.f32 %0\n%2 = add.f32 %1, -1.0:f32",
        ),
    ] {
        let one = x.g.cast(c, dtype);
        let sum = x.g.reduce(ReduceOp::Add, one, &[k]);
        let minus = codegen::interp::scalar::constant(dtype, -1);
        let minus = x.g.bits(dtype, minus);
        let arange = x.g.binary(Binary::Add, sum, minus);
        x.check(arange, want);
    }
}

#[test]
fn one_hot_sum_is_a_gather() {
    let mut x = Ix::new();
    let (i, j, k) = (x.range(3), x.range(7), x.kind(50, RangeKind::Reduce));
    let (ids, table) = (x.g.param(0, DType::I32), x.g.param(1, DType::I32));
    let id = x.g.load(ids, i);
    let k32 = x.g.cast(k, DType::I32);
    let hot = x.g.binary(Binary::Eq, k32, id);
    let at = x.flatten(&[k, j], &[50, 7]);
    let v = x.g.load(table, at);
    let zero = x.g.bits(DType::I32, 0);
    let v = x.g.select(hot, v, zero);
    let sum = x.g.reduce(ReduceOp::Add, v, &[k]);
    let new = simplify(&mut x.g, sum);
    let text = print::print(&x.g, new);
    assert!(!text.contains("reduce"), "{text}");
    assert_eq!(text.matches("load").count(), 2, "{text}");
}

#[test]
fn simplified_kernels_verify() {
    let mut x = Ix::new();
    let (i, k) = (x.range(6), x.kind(4, RangeKind::Reduce));
    let (a, out) = (x.g.param(0, DType::F32), x.g.param(1, DType::F32));
    let at = x.flatten(&[i, k], &[6, 4]);
    let v = x.g.load(a, at);
    let sum = x.g.reduce(ReduceOp::Max, v, &[k]);
    let store = x.g.store(StoreMode::Set, out, i, sum, None);
    let sink = x.g.sink(&[store]);
    let param = |len, written| ParamInfo {
        dtype: DType::F32,
        len,
        written,
        constant: false,
    };
    let mut kernel = Kernel {
        name: "row_max".into(),
        sink: simplify(&mut x.g, sink),
        graph: x.g,
        params: vec![param(24, false), param(6, true)],
        vars: 0,
    };
    verify::verify(&kernel).unwrap();
    assert_eq!(
        print::print(&kernel.graph, kernel.sink),
        "p1 = param f32
r0 = range 6 loop
p0 = param f32
%0 = mul.i64 r0, 4
r1 = range 4 reduce
%1 = add.i64 %0, r1
%2 = load.f32 p0[%1]
%3 = reduce.max.f32 %2 over r1
%4 = store.f32 p1[r0] = %3
%5 = sink %4
"
    );
    kernel.params[1].written = false;
    let error = verify::verify(&kernel).unwrap_err().to_string();
    assert!(error.contains("mark the buffer as written"), "{error}");
    kernel.params[1].written = true;
    kernel.params[0].len = 10;
    let mut buffers = vec![vec![0; 96], vec![0; 24]];
    let error = codegen::interp::run(&kernel, &mut buffers, &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("accesses element 10 of 10"), "{error}");
    assert!(error.contains("r0=2 r1=2"), "{error}");
}
