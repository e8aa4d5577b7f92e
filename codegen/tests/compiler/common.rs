//! Random expressions, and their values by the interpreter.

use codegen::ir::{
    Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, ReduceOp, StoreMode, Unary, ranges_of,
};
use codegen::{DType, interp};

pub use crate::rng::Rng;

/// Elements of every input buffer.
pub const LEN: i64 = 12;
/// The input buffers: slot and type.
pub const INPUTS: [DType; 7] = [
    DType::I64,
    DType::I32,
    DType::U8,
    DType::F32,
    DType::F64,
    DType::Bool,
    DType::F16,
];

/// A generator of expressions over a few ranges.
pub struct Gen {
    pub g: Graph,
    pub rng: Rng,
    pub ranges: Vec<Id>,
    next_axis: u32,
}

impl Gen {
    pub fn new(rng: Rng) -> Self {
        let mut this = Gen {
            g: Graph::new(),
            rng,
            ranges: Vec::new(),
            next_axis: 0,
        };
        for _ in 0..3 {
            let extent = this.rng.int(1, 6);
            let r = this.fresh(extent, RangeKind::Loop);
            this.ranges.push(r);
        }
        this
    }

    pub fn fresh(&mut self, extent: i64, kind: RangeKind) -> Id {
        self.next_axis += 1;
        self.g.range(self.next_axis - 1, extent, kind)
    }

    pub fn c(&mut self, x: i64) -> Id {
        self.g.index(x)
    }

    pub fn bin(&mut self, op: Binary, a: Id, b: Id) -> Id {
        self.g.binary(op, a, b)
    }

    /// An index expression.
    pub fn index(&mut self, depth: u32) -> Id {
        if depth == 0 || self.rng.below(100) < 10 {
            return match self.rng.below(6) {
                0 => {
                    let x = self.rng.int(-9, 9);
                    self.c(x)
                }
                1 => {
                    let (lo, hi) = self.rng.pick(&[(0, 3), (2, 2), (-2, 2)]);
                    self.g.var((hi + 2 - lo) as u16 % 3, lo, hi)
                }
                _ => {
                    let n = self.ranges.len() as u64;
                    self.ranges[self.rng.below(n) as usize]
                }
            };
        }
        match self.rng.below(16) {
            0..=3 => {
                let (a, b) = (self.index(depth - 1), self.index(depth - 1));
                self.bin(Binary::Add, a, b)
            }
            4 => {
                let (a, b) = (self.index(depth - 1), self.index(depth - 1));
                self.bin(Binary::Sub, a, b)
            }
            5 | 6 => {
                let a = self.index(depth - 1);
                let k = self.rng.pick(&[-3, -1, 0, 1, 2, 3, 4, 6, 8, 12]);
                let k = self.c(k);
                self.bin(Binary::Mul, a, k)
            }
            7..=10 => {
                let a = self.index(depth - 1);
                let k = self.rng.pick(&[-2, 0, 1, 2, 3, 4, 6, 8, 12]);
                let k = self.c(k);
                let op = self.rng.pick(&[
                    Binary::FloorDiv,
                    Binary::FloorMod,
                    Binary::FloorDiv,
                    Binary::FloorMod,
                    Binary::TruncDiv,
                    Binary::TruncMod,
                ]);
                self.bin(op, a, k)
            }
            11 => {
                let (c, a, b) = (self.guard(2), self.index(depth - 1), self.index(depth - 1));
                self.g.select(c, a, b)
            }
            12 => {
                let op = self.rng.pick(&[Binary::Max, Binary::Min]);
                let (a, b) = (self.index(depth - 1), self.index(depth - 1));
                self.bin(op, a, b)
            }
            13 => {
                // x % c + c * (x / c), with the parts scaled alike
                let x = self.index(depth - 1);
                let (c, k) = (self.rng.int(2, 6), self.rng.int(1, 3));
                let (cc, kc, kk) = (self.c(c), self.c(c * k), self.c(k));
                let (m, d) = (
                    self.bin(Binary::FloorMod, x, cc),
                    self.bin(Binary::FloorDiv, x, cc),
                );
                let (m, d) = (self.bin(Binary::Mul, m, kk), self.bin(Binary::Mul, d, kc));
                self.bin(Binary::Add, m, d)
            }
            14 => {
                let a = self.index(depth - 1);
                let (op, k) = self.rng.pick(&[
                    (Binary::Shr, 2),
                    (Binary::Shl, 1),
                    (Binary::And, 3),
                    (Binary::And, 7),
                    (Binary::Or, 0),
                ]);
                let k = self.c(k);
                self.bin(op, a, k)
            }
            _ => {
                let dtype = self.rng.pick(&[DType::I64, DType::I32, DType::U8]);
                let x = self.load(dtype);
                self.g.cast(x, DType::I64)
            }
        }
    }

    /// A condition on indices.
    pub fn guard(&mut self, depth: u32) -> Id {
        match self.rng.below(8) {
            0 | 1 if depth > 0 => {
                let (a, b) = (self.guard(depth - 1), self.guard(depth - 1));
                let op = self
                    .rng
                    .pick(&[Binary::And, Binary::And, Binary::And, Binary::Or]);
                self.bin(op, a, b)
            }
            2 if depth > 0 => {
                let a = self.guard(depth - 1);
                self.g.unary(Unary::Not, a)
            }
            _ => {
                let a = self.index(depth.min(2));
                let b = if self.rng.below(100) < 60 {
                    let x = self.rng.int(-4, 14);
                    self.c(x)
                } else {
                    self.index(1)
                };
                let op = self
                    .rng
                    .pick(&[Binary::Lt, Binary::Lt, Binary::Eq, Binary::Ne]);
                if self.rng.below(100) < 50 {
                    self.bin(op, a, b)
                } else {
                    self.bin(op, b, a)
                }
            }
        }
    }

    /// A load that stays in bounds, gated or not.
    pub fn load(&mut self, dtype: DType) -> Id {
        let slot = INPUTS.iter().position(|&d| d == dtype).unwrap() as u16;
        let ptr = self.g.param(slot, dtype);
        let i = if self.rng.below(100) < 40 {
            let n = self.ranges.len() as u64;
            self.ranges[self.rng.below(n) as usize]
        } else {
            self.index(2)
        };
        let len = self.c(LEN);
        if self.rng.below(100) < 50 {
            let i = self.bin(Binary::FloorMod, i, len);
            let load = self.g.load(ptr, i);
            if self.rng.below(100) < 30 {
                // What a padded view looks like before its guard reaches the load.
                let c = self.guard(1);
                let k = self.constant(dtype);
                return if self.rng.below(100) < 50 {
                    self.g.select(c, load, k)
                } else {
                    self.g.select(c, k, load)
                };
            }
            return load;
        }
        let below = self.c(-1);
        let (a, b) = (self.bin(Binary::Lt, below, i), self.bin(Binary::Lt, i, len));
        let mut gate = self.bin(Binary::And, a, b);
        if self.rng.below(100) < 30 {
            let more = self.guard(1);
            gate = self.bin(Binary::And, gate, more);
        }
        let alt = self.constant(dtype);
        self.g.load_gated(ptr, i, gate, alt)
    }

    pub fn constant(&mut self, dtype: DType) -> Id {
        let x = self.rng.pick(&[0, 0, 0, 1, 1, 2, -1, -2, 3, 4, 100]);
        let mut bits = interp::scalar::constant(dtype, x);
        if dtype.is_float() && self.rng.below(100) < 20 {
            let x = self.rng.pick(&[-0.0, f64::INFINITY, f64::NAN, 0.5, 1e-30]);
            bits = interp::scalar::from_f64(dtype, x);
        }
        self.g.bits(dtype, bits)
    }

    /// A value of any type.
    pub fn value(&mut self, dtype: DType, depth: u32) -> Id {
        if depth == 0 || self.rng.below(100) < 8 {
            if self.rng.below(100) < 30 {
                return self.constant(dtype);
            }
            if dtype == DType::I64 {
                return self.index(1);
            }
            if INPUTS.contains(&dtype) && self.rng.below(100) < 75 {
                return self.load(dtype);
            }
            let i = self.index(1);
            return self.g.cast(i, dtype);
        }
        let d = depth - 1;
        match self.rng.below(14) {
            0..=3 => {
                let ops: &[Binary] = if dtype.is_float() {
                    &[
                        Binary::Add,
                        Binary::Sub,
                        Binary::Mul,
                        Binary::FDiv,
                        Binary::Max,
                        Binary::Min,
                        Binary::Pow,
                    ]
                } else if dtype == DType::Bool {
                    &[Binary::And, Binary::Or, Binary::Xor, Binary::Eq, Binary::Ne]
                } else {
                    &[
                        Binary::Add,
                        Binary::Sub,
                        Binary::Mul,
                        Binary::Max,
                        Binary::Min,
                        Binary::And,
                        Binary::Or,
                        Binary::Xor,
                        Binary::FloorDiv,
                        Binary::FloorMod,
                        Binary::TruncDiv,
                        Binary::TruncMod,
                        Binary::Shl,
                        Binary::Shr,
                    ]
                };
                let op = self.rng.pick(ops);
                let a = self.value(dtype, d);
                let b = match self.rng.below(4) {
                    0 => a,
                    1 => self.constant(dtype),
                    _ => self.value(dtype, d),
                };
                if op == Binary::Mul && self.rng.below(100) < 20 {
                    let minus = self.g.bits(dtype, interp::scalar::constant(dtype, -1));
                    return self.bin(op, a, minus);
                }
                if self.rng.below(100) < 20 {
                    self.bin(op, b, a)
                } else {
                    self.bin(op, a, b)
                }
            }
            4 => {
                let ops: &[Unary] = if dtype.is_float() {
                    &[
                        Unary::Neg,
                        Unary::Abs,
                        Unary::Floor,
                        Unary::Trunc,
                        Unary::RoundEven,
                    ]
                } else if dtype == DType::Bool {
                    &[Unary::Not]
                } else {
                    &[Unary::Neg, Unary::Not, Unary::Abs]
                };
                let a = self.value(dtype, d);
                let (x, y) = (self.rng.pick(ops), self.rng.pick(ops));
                let a = self.g.unary(x, a);
                if self.rng.below(100) < 60 {
                    self.g.unary(y, a)
                } else {
                    a
                }
            }
            5 | 6 => {
                let c = if self.rng.below(100) < 50 {
                    self.guard(1)
                } else {
                    self.value(DType::Bool, d)
                };
                let (a, mut b) = (self.value(dtype, d), self.constant(dtype));
                match self.rng.below(4) {
                    0 => b = self.value(dtype, d),
                    1 => {
                        // A selection inside of a selection.
                        let e = if self.rng.below(100) < 40 {
                            c
                        } else {
                            self.guard(1)
                        };
                        let inner = self.g.select(e, a, b);
                        return self.g.select(c, inner, b);
                    }
                    2 => {
                        let not = self.g.unary(Unary::Not, c);
                        return self.g.select(not, a, b);
                    }
                    _ => {}
                }
                self.g.select(c, a, b)
            }
            7 | 8 => {
                let all = [
                    DType::I64,
                    DType::I32,
                    DType::U8,
                    DType::I8,
                    DType::F32,
                    DType::F64,
                    DType::Bool,
                    DType::F16,
                    DType::BF16,
                    DType::F8E4M3,
                ];
                let middle = self.rng.pick(&all);
                let x = if self.rng.below(100) < 30 {
                    let c = self.guard(1);
                    if self.rng.below(100) < 50 {
                        self.g.cast(c, middle)
                    } else {
                        let (a, b) = (self.constant(middle), self.constant(middle));
                        self.g.select(c, a, b)
                    }
                } else {
                    self.value(middle, d)
                };
                let x = self.g.cast(x, dtype);
                if dtype.is_int() && self.rng.below(100) < 40 {
                    let y = self.value(dtype, d);
                    return self.bin(Binary::Mul, x, y);
                }
                x
            }
            9 if dtype.bits() == 32 => {
                // The bits of a NaN are not fixed: floats are made of bits, not looked into.
                let x = self.value(DType::I32, d);
                let x = self.g.add(Op::Bitcast, DType::F32, &[x]);
                if dtype == DType::F32 {
                    return x;
                }
                self.g.add(Op::Bitcast, dtype, &[x])
            }
            10 | 11 if dtype != DType::Bool => self.reduction(dtype, d.min(2)),
            12 if dtype == DType::Bool => {
                let of = self.rng.pick(&INPUTS);
                let op = self.rng.pick(&[Binary::Lt, Binary::Eq, Binary::Ne]);
                let a = if self.rng.below(100) < 40 {
                    let t = self.rng.pick(&[DType::Bool, DType::I64]);
                    let a = self.value(t, d);
                    let a = self.g.cast(a, of);
                    if t == DType::Bool && of != t {
                        let b = self.constant(of);
                        return self.bin(op, a, b);
                    }
                    a
                } else {
                    self.value(of, d)
                };
                let b = match self.rng.below(4) {
                    0 => a,
                    1 => self.value(of, d),
                    _ => self.constant(of),
                };
                self.bin(op, a, b)
            }
            13 if dtype == DType::Bool => {
                let (a, b) = (self.value(dtype, d), self.value(dtype, d));
                let (x, y) = self.rng.pick(&[
                    (Binary::And, Binary::Or),
                    (Binary::Or, Binary::And),
                    (Binary::And, Binary::And),
                ]);
                let inner = if self.rng.below(100) < 40 {
                    self.g.unary(Unary::Not, a)
                } else {
                    self.bin(y, a, b)
                };
                self.bin(x, inner, a)
            }
            _ => self.value(dtype, d),
        }
    }

    /// A reduction over one or two fresh ranges, often of the shapes that need no loop.
    pub fn reduction(&mut self, dtype: DType, depth: u32) -> Id {
        let outer = self.ranges.clone();
        let mut mine = Vec::new();
        for _ in 0..self.rng.int(1, 2) {
            let extent = self.rng.pick(&[1, 2, 3, 4, 5]);
            let r = self.fresh(extent, RangeKind::Reduce);
            mine.push(r);
        }
        let ops: &[ReduceOp] = if dtype.is_float() {
            &[ReduceOp::Add, ReduceOp::Add, ReduceOp::Max, ReduceOp::Mul]
        } else {
            &[
                ReduceOp::Add,
                ReduceOp::Add,
                ReduceOp::Min,
                ReduceOp::Or,
                ReduceOp::Mul,
            ]
        };
        let mut op = self.rng.pick(ops);
        let value = match self.rng.below(5) {
            0 => {
                let v = self.constant(dtype);
                if self.rng.below(100) < 50 {
                    v
                } else {
                    self.value(dtype, depth)
                }
            }
            1 | 2 => {
                op = ReduceOp::Add;
                // r == e or r < e, times a value that may depend on r
                let one_hot = self.rng.below(100) < 50;
                let e = self.index(2);
                let r = mine[0];
                let mut c = if one_hot {
                    self.bin(Binary::Eq, r, e)
                } else if self.rng.below(100) < 50 {
                    self.bin(Binary::Lt, r, e)
                } else {
                    self.bin(Binary::Lt, e, r)
                };
                if self.rng.below(100) < 30 {
                    let more = self.guard(0);
                    c = self.bin(Binary::And, c, more);
                }
                if self.rng.below(100) < 10 {
                    self.g.cast(c, dtype)
                } else {
                    if one_hot {
                        self.ranges.extend(&mine);
                    }
                    let v = if one_hot || dtype.is_int() && self.rng.below(100) < 50 {
                        self.value(dtype, depth)
                    } else {
                        self.constant(dtype)
                    };
                    let zero = self.g.bits(dtype, 0);
                    self.g.select(c, v, zero)
                }
            }
            _ => {
                self.ranges.extend(&mine);
                self.value(dtype, depth)
            }
        };
        self.ranges = outer;
        self.g.reduce(op, value, &mine)
    }
}

/// Random contents of the input buffers.
pub fn inputs(rng: &mut Rng) -> Vec<Vec<u8>> {
    INPUTS
        .iter()
        .map(|&dtype| {
            let mut bytes = Vec::new();
            for _ in 0..LEN {
                let bits = if dtype.is_float() {
                    let special = [0.0, -0.0, f64::INFINITY, f64::NAN, 1e6, -3.5];
                    let x = if rng.below(100) < 20 {
                        rng.pick(&special)
                    } else {
                        rng.int(-40, 40) as f64 / 8.0
                    };
                    interp::scalar::from_f64(dtype, x)
                } else if rng.below(100) < 10 {
                    interp::scalar::from_int(dtype, i128::from(rng.next() as i64))
                } else {
                    interp::scalar::constant(dtype, rng.int(-3, 8))
                };
                let mut element = vec![0; dtype.size()];
                interp::scalar::write(bits, &mut element);
                bytes.extend(element);
            }
            bytes
        })
        .collect()
}

pub const VARS: [i64; 3] = [2, 2, 2];

/// Every value of a node, for all values of `ranges`.
pub fn evaluate(g: &Graph, id: Id, ranges: &[Id], inputs: &[Vec<u8>]) -> Result<Vec<u64>, String> {
    let mut g = g.clone();
    let dtype = g.dtype(id);
    let mut index = g.index(0);
    let mut len = 1;
    for &r in ranges {
        let Op::Range { extent, .. } = g.op(r) else {
            continue;
        };
        let k = g.index(len);
        let term = g.binary(Binary::Mul, r, k);
        index = g.binary(Binary::Add, index, term);
        len *= extent;
    }
    let slot = INPUTS.len() as u16;
    let out = g.param(slot, dtype);
    let store = g.store(StoreMode::Set, out, index, id, None);
    let sink = g.sink(&[store]);
    let mut params: Vec<ParamInfo> = INPUTS
        .iter()
        .map(|&dtype| ParamInfo {
            dtype,
            len: LEN as usize,
            written: false,
            constant: false,
        })
        .collect();
    params.push(ParamInfo {
        dtype,
        len: len as usize,
        written: true,
        constant: false,
    });
    let kernel = Kernel {
        name: "test".into(),
        graph: g,
        sink,
        params,
        vars: 3,
    };
    let mut buffers = inputs.to_vec();
    buffers.push(vec![0; len as usize * dtype.size()]);
    interp::run(&kernel, &mut buffers, &VARS).map_err(|e| e.to_string())?;
    let out = &buffers[INPUTS.len()];
    Ok(out
        .chunks(dtype.size())
        .map(|b| {
            let bits = interp::scalar::read(dtype, b);
            let nan = dtype.is_float() && interp::scalar::to_f64(dtype, bits).is_nan();
            // Which NaN is not fixed.
            if nan { u64::MAX } else { bits }
        })
        .collect())
}

/// Both nodes have the same value everywhere.
#[track_caller]
pub fn assert_same(g: &Graph, old: Id, new: Id, inputs: &[Vec<u8>], what: &str) {
    let ranges = ranges_of(g, old);
    let print = |id| codegen::ir::print::print(g, id);
    let a = evaluate(g, old, &ranges, inputs);
    let a = a.unwrap_or_else(|e| panic!("{what}: before: {e}\n{}", print(old)));
    match evaluate(g, new, &ranges, inputs) {
        Ok(b) if a == b => {}
        Ok(b) => panic!(
            "{what}: values differ\nbefore:\n{}{a:x?}\nafter:\n{}{b:x?}",
            print(old),
            print(new)
        ),
        Err(e) => panic!("{what}: {e}\nbefore:\n{}after:\n{}", print(old), print(new)),
    }
}
