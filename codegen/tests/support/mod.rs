//! Runs compiled kernels in this process: links the object to a shared library and loads that.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used)]

mod numbers;

use std::process::Command;

use codegen::build::StageArg;
use codegen::ir::{Binary, Graph, Id, Kernel, ParamInfo, RangeKind, ReduceOp, StoreMode, Unary};
use codegen::{Built, DType};
// Some tests use none of them.
#[allow(unused_imports)]
pub use numbers::{arguments, numbers, part_of_a_product};

/// A small generator of numbers that look random (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Bytes of `len` elements with moderate values, so that sums stay comparable.
    pub fn bytes(&mut self, dtype: DType, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len * dtype.size());
        for _ in 0..len {
            let bits = if dtype.is_float() {
                let x = (self.next() % 2001) as f64 / 1000.0 - 1.0;
                codegen::interp::scalar::from_f64(dtype, x)
            } else if dtype == DType::Bool {
                self.next() & 1
            } else {
                let x = (self.next() % 15) as i128 - if dtype.is_signed() { 7 } else { 0 };
                codegen::interp::scalar::from_int(dtype, x)
            };
            out.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
        }
        out
    }
}

pub type Entry = unsafe extern "C" fn(*const u64, u64, u64);

/// A compiled kernel that can be called.
pub struct Loaded {
    pub built: Built,
    libraries: Vec<libloading::Library>,
    _dir: tempfile::TempDir,
}

impl Loaded {
    pub fn new(built: Built) -> Loaded {
        let dir = tempfile::tempdir().unwrap();
        let mut libraries = Vec::new();
        for (i, stage) in built.stages.iter().enumerate() {
            let object = dir.path().join(format!("{i}.o"));
            let library = dir.path().join(format!("{i}.so"));
            std::fs::write(&object, &stage.object[..]).unwrap();
            // -z defs: a kernel must not need anything that the loader does not give it.
            let status = Command::new("cc")
                .args(["-shared", "-nostdlib", "-Wl,-z,defs", "-o"])
                .args([&library, &object])
                .status()
                .unwrap();
            assert!(
                status.success(),
                "linking {}\n{}",
                stage.name,
                built.report.source[i]
            );
            // SAFETY: the library holds one function without initialisers.
            libraries.push(unsafe { libloading::Library::new(&library) }.unwrap());
        }
        Loaded {
            built,
            libraries,
            _dir: dir,
        }
    }

    /// Runs all stages, their groups in uneven parts.
    pub fn run(&self, buffers: &mut [Vec<u8>], vars: &[i64]) {
        let mut scratch: Vec<Vec<u64>> = self
            .built
            .scratch
            .iter()
            .map(|s| vec![0x7ff8_0000_7fc0_0000u64; s.bytes.div_ceil(8) + 8])
            .collect();
        let base: Vec<u64> = scratch
            .iter_mut()
            .map(|s| (s.as_mut_ptr() as u64).next_multiple_of(64))
            .collect();
        self.run_at(buffers, vars, &base);
    }

    /// Prints how long each stage takes.
    pub fn time_stages(&self, buffers: &mut [Vec<u8>], scratch: &[u64]) {
        for i in 0..self.built.stages.len() {
            let mut best = f64::INFINITY;
            for _ in 0..10 {
                let start = std::time::Instant::now();
                self.run_stages(i..i + 1, buffers, &[], scratch);
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("    {:8.3} ms {}", best * 1e3, self.built.stages[i].name);
        }
    }

    pub fn run_at(&self, buffers: &mut [Vec<u8>], vars: &[i64], scratch: &[u64]) {
        self.run_stages(0..self.built.stages.len(), buffers, vars, scratch);
    }

    fn run_stages(
        &self,
        which: std::ops::Range<usize>,
        buffers: &mut [Vec<u8>],
        vars: &[i64],
        scratch: &[u64],
    ) {
        for i in which {
            let (stage, library) = (&self.built.stages[i], &self.libraries[i]);
            let args: Vec<u64> = stage
                .args
                .iter()
                .map(|a| match *a {
                    StageArg::Param(slot) => buffers[slot as usize].as_mut_ptr() as u64,
                    StageArg::Scratch(i) => scratch[i as usize],
                    StageArg::Var(slot) => vars[slot as usize] as u64,
                    StageArg::Number(n) => n as u64,
                })
                .collect();
            // SAFETY: the symbol has the type that `Stage::entry` documents; the buffers have the
            // sizes that the kernel was compiled for.
            unsafe {
                let entry: libloading::Symbol<'_, Entry> =
                    library.get(stage.entry.as_bytes()).unwrap();
                let groups = u64::from(stage.grid[0]);
                let cut = groups / 3;
                if cut > 0 {
                    entry(args.as_ptr(), 0, cut);
                }
                entry(args.as_ptr(), cut, groups);
            }
        }
    }
}

/// Compares two buffers, floats with a tolerance for another order of summation.
pub fn same(dtype: DType, got: &[u8], want: &[u8], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got
        .chunks(dtype.size())
        .zip(want.chunks(dtype.size()))
        .enumerate()
    {
        let (g, w) = (
            codegen::interp::scalar::read(dtype, g),
            codegen::interp::scalar::read(dtype, w),
        );
        if dtype.is_float() {
            let (g, w) = (
                codegen::interp::scalar::to_f64(dtype, g),
                codegen::interp::scalar::to_f64(dtype, w),
            );
            let close = (g.is_nan() && w.is_nan())
                || g == w
                || (g - w).abs() <= tolerance * (1.0 + w.abs());
            assert!(close, "{what}: element {i}: got {g}, expected {w}");
        } else {
            assert_eq!(g, w, "{what}: element {i}");
        }
    }
}

/// A kernel under construction.
pub struct Make {
    pub g: Graph,
    pub params: Vec<ParamInfo>,
    axis: u32,
    stores: Vec<Id>,
}

impl Make {
    pub fn new() -> Make {
        Make {
            g: Graph::new(),
            params: Vec::new(),
            axis: 0,
            stores: Vec::new(),
        }
    }

    pub fn buffer(&mut self, dtype: DType, len: usize, written: bool) -> Id {
        self.params.push(ParamInfo {
            dtype,
            len,
            written,
            constant: false,
        });
        self.g.param(self.params.len() as u16 - 1, dtype)
    }

    pub fn range(&mut self, extent: i64, kind: RangeKind) -> Id {
        self.axis += 1;
        self.g.range(self.axis - 1, extent, kind)
    }

    pub fn l(&mut self, extent: i64) -> Id {
        self.range(extent, RangeKind::Loop)
    }

    pub fn r(&mut self, extent: i64) -> Id {
        self.range(extent, RangeKind::Reduce)
    }

    pub fn add(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Add, a, b)
    }

    pub fn mul(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Mul, a, b)
    }

    /// `sum of range * stride + offset`.
    pub fn at(&mut self, terms: &[(Id, i64)], offset: i64) -> Id {
        let mut sum = self.g.index(offset);
        for &(r, stride) in terms {
            let s = self.g.index(stride);
            let p = self.mul(r, s);
            sum = self.add(sum, p);
        }
        sum
    }

    pub fn load(&mut self, ptr: Id, terms: &[(Id, i64)]) -> Id {
        let index = self.at(terms, 0);
        self.g.load(ptr, index)
    }

    pub fn f32(&mut self, x: f32) -> Id {
        self.g.bits(DType::F32, u64::from(x.to_bits()))
    }

    pub fn unary(&mut self, op: Unary, a: Id) -> Id {
        self.g.unary(op, a)
    }

    pub fn sum(&mut self, v: Id, ranges: &[Id]) -> Id {
        self.g.reduce(ReduceOp::Add, v, ranges)
    }

    pub fn store(&mut self, ptr: Id, terms: &[(Id, i64)], value: Id) {
        let index = self.at(terms, 0);
        let s = self.g.store(StoreMode::Set, ptr, index, value, None);
        self.stores.push(s);
    }

    pub fn store_as(&mut self, s: Id) {
        self.stores.push(s);
    }

    pub fn kernel(mut self, name: &str) -> Kernel {
        let sink = self.g.sink(&self.stores);
        Kernel {
            name: name.into(),
            graph: self.g,
            sink,
            params: self.params,
            vars: 0,
        }
    }
}

/// Buffers for a kernel.
pub fn fill(kernel: &Kernel, random: &mut Random) -> Vec<Vec<u8>> {
    kernel
        .params
        .iter()
        .map(|p| random.bytes(p.dtype, p.len))
        .collect()
}

/// What the interpreter makes of them.
pub fn expected(kernel: &Kernel, buffers: &[Vec<u8>], vars: &[i64]) -> Vec<Vec<u8>> {
    let mut out = buffers.to_vec();
    codegen::interp::run(kernel, &mut out, vars).unwrap();
    out
}

/// Buffers with every kind of value: zeros of both signs, infinities, NaN, limits, small integers.
pub fn edges(kernel: &Kernel, random: &mut Random) -> Vec<Vec<u8>> {
    let mut buffers = fill(kernel, random);
    for (buffer, p) in buffers.iter_mut().zip(&kernel.params) {
        let size = p.dtype.size();
        for chunk in buffer.chunks_mut(size) {
            let bits = match random.below(6) {
                0 if p.dtype != DType::Bool => random.next(),
                1 if p.dtype == DType::Bool => 2,
                1 if p.dtype.is_float() => {
                    let all = [
                        0.0,
                        -0.0,
                        f64::INFINITY,
                        f64::NEG_INFINITY,
                        f64::NAN,
                        1.0,
                        -1.5,
                    ];
                    codegen::interp::scalar::from_f64(p.dtype, all[random.below(7) as usize])
                }
                1 => {
                    let (min, max) = codegen::interp::scalar::int_limits(p.dtype);
                    let all = [min, max, 0, 1, if min < 0 { -1 } else { 2 }];
                    codegen::interp::scalar::from_int(p.dtype, all[random.below(5) as usize])
                }
                _ => continue,
            };
            chunk.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
    }
    buffers
}

pub fn elementwise(n: i64) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, n as usize, true);
    let a = m.buffer(DType::F32, n as usize, false);
    let b = m.buffer(DType::F32, n as usize, false);
    let i = m.l(n);
    let (x, y) = (m.load(a, &[(i, 1)]), m.load(b, &[(i, 1)]));
    let p = m.mul(x, y);
    let z = m.add(p, x);
    m.store(o, &[(i, 1)], z);
    m.kernel("elementwise")
}

/// `o[i] = a[max(i, back) - back]`: an index with a negative constant behind one that is not negative.
pub fn clamped(n: i64, back: i64) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, n as usize, true);
    let a = m.buffer(DType::F32, n as usize, false);
    let i = m.l(n);
    let least = m.g.index(back);
    let most = m.g.binary(Binary::Max, i, least);
    let at = m.at(&[(most, 1)], -back);
    let x = m.g.load(a, at);
    m.store(o, &[(i, 1)], x);
    m.kernel("clamped")
}

pub fn matmul(mm: i64, n: i64, k: i64, ta: bool, tb: bool, relu: bool) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (mm * n) as usize, true);
    let a = m.buffer(DType::F32, (mm * k) as usize, false);
    let b = m.buffer(DType::F32, (k * n) as usize, false);
    let bias = m.buffer(DType::F32, n as usize, false);
    let (i, j, r) = (m.l(mm), m.l(n), m.r(k));
    let x = m.load(
        a,
        &if ta {
            [(i, 1), (r, mm)]
        } else {
            [(i, k), (r, 1)]
        },
    );
    let y = m.load(
        b,
        &if tb {
            [(j, k), (r, 1)]
        } else {
            [(j, 1), (r, n)]
        },
    );
    let p = m.mul(x, y);
    let mut s = m.sum(p, &[r]);
    if relu {
        let c = m.load(bias, &[(j, 1)]);
        s = m.add(s, c);
        let zero = m.f32(0.0);
        s = m.g.binary(Binary::Max, s, zero);
    }
    m.store(o, &[(i, n), (j, 1)], s);
    m.kernel("matmul")
}

/// Normalises rows to sum 1: three dependent loops over each row (without exp2, which is not
/// what is tested here).
pub fn row_normalise(rows: i64, n: i64) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (rows * n) as usize, true);
    let a = m.buffer(DType::F32, (rows * n) as usize, false);
    let (r, k1, k2, j) = (m.l(rows), m.r(n), m.r(n), m.l(n));
    let x1 = m.load(a, &[(r, n), (k1, 1)]);
    let max = m.g.reduce(ReduceOp::Max, x1, &[k1]);
    let x2 = m.load(a, &[(r, n), (k2, 1)]);
    let d2 = m.g.binary(Binary::Sub, x2, max);
    let q2 = m.mul(d2, d2);
    let s = m.sum(q2, &[k2]);
    let x3 = m.load(a, &[(r, n), (j, 1)]);
    let d3 = m.g.binary(Binary::Sub, x3, max);
    let q3 = m.mul(d3, d3);
    let y = m.g.binary(Binary::FDiv, q3, s);
    m.store(o, &[(r, n), (j, 1)], y);
    m.kernel("row_normalise")
}

/// `out[r, j] = sum over k of x[r, k, j]`, or over other axes of a cube.
pub fn cube_sum(shape: [i64; 3], axis: usize, op: ReduceOp, dtype: DType) -> Kernel {
    let mut m = Make::new();
    let total = shape.iter().product::<i64>();
    let o = m.buffer(dtype, (total / shape[axis]) as usize, true);
    let a = m.buffer(dtype, total as usize, false);
    let strides = [shape[1] * shape[2], shape[2], 1];
    let mut terms = Vec::new();
    let mut out = Vec::new();
    let mut stride = total / shape[axis];
    for (i, &n) in shape.iter().enumerate().filter(|(i, _)| *i != axis) {
        let r = m.l(n);
        stride /= n;
        terms.push((r, strides[i]));
        out.push((r, stride));
    }
    let k = m.r(shape[axis]);
    terms.push((k, strides[axis]));
    let x = m.load(a, &terms);
    let s = m.g.reduce(op, x, &[k]);
    m.store(o, &out, s);
    m.kernel("cube_sum")
}

/// A convolution with padding: the loads outside of the image are gated.
pub fn conv(batch: i64, ci: i64, co: i64, hw: i64, window: i64) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (batch * co * hw * hw) as usize, true);
    let x = m.buffer(DType::F32, (batch * ci * hw * hw) as usize, false);
    let w = m.buffer(DType::F32, (co * ci * window * window) as usize, false);
    let (b, c, y, xx) = (m.l(batch), m.l(co), m.l(hw), m.l(hw));
    let (k, dy, dx) = (m.r(ci), m.r(window), m.r(window));
    let pad = window / 2;
    let sy = m.at(&[(y, 1), (dy, 1)], -pad);
    let sx = m.at(&[(xx, 1), (dx, 1)], -pad);
    let zero = m.g.index(-1);
    let end = m.g.index(hw);
    let mut gate = m.g.boolean(true);
    for s in [sy, sx] {
        let low = m.g.binary(Binary::Lt, zero, s);
        let high = m.g.binary(Binary::Lt, s, end);
        let both = m.g.binary(Binary::And, low, high);
        gate = m.g.binary(Binary::And, gate, both);
    }
    let index = m.at(&[(b, ci * hw * hw), (k, hw * hw), (sy, hw), (sx, 1)], 0);
    let alt = m.f32(0.0);
    let image = m.g.load_gated(x, index, gate, alt);
    let filter = m.load(
        w,
        &[
            (c, ci * window * window),
            (k, window * window),
            (dy, window),
            (dx, 1),
        ],
    );
    let p = m.mul(image, filter);
    let s = m.sum(p, &[k, dy, dx]);
    m.store(o, &[(b, co * hw * hw), (c, hw * hw), (y, hw), (xx, 1)], s);
    m.kernel("conv")
}

/// A convolution of a picture with its padding in memory, with a bias, and what is not negative of it.
pub fn padded_conv(ci: i64, co: i64, [h, w]: [i64; 2], window: i64) -> Kernel {
    let mut m = Make::new();
    let (wide, high) = (w + window - 1, h + window - 1);
    let o = m.buffer(DType::F32, (co * h * w) as usize, true);
    let x = m.buffer(DType::F32, (ci * high * wide) as usize, false);
    let filter = m.buffer(DType::F32, (co * ci * window * window) as usize, false);
    let bias = m.buffer(DType::F32, co as usize, false);
    let (c, y, xx) = (m.l(co), m.l(h), m.l(w));
    let (k, dy, dx) = (m.r(ci), m.r(window), m.r(window));
    let at = [(k, high * wide), (y, wide), (dy, wide), (xx, 1), (dx, 1)];
    let image = m.load(x, &at);
    let area = window * window;
    let filter = m.load(filter, &[(c, ci * area), (k, area), (dy, window), (dx, 1)]);
    let p = m.mul(image, filter);
    let s = m.sum(p, &[k, dy, dx]);
    let bias = m.load(bias, &[(c, 1)]);
    let s = m.g.binary(Binary::Add, s, bias);
    let zero = m.f32(0.0);
    let s = m.g.binary(Binary::Max, s, zero);
    m.store(o, &[(c, h * w), (y, w), (xx, 1)], s);
    m.kernel("padded_conv")
}

/// Prefix sums along rows.
pub fn prefix(rows: i64, n: i64, op: ReduceOp, along_rows: bool) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (rows * n) as usize, true);
    let a = m.buffer(DType::F32, (rows * n) as usize, false);
    let (r, k) = (m.l(rows), m.range(n, RangeKind::Serial));
    let at = if along_rows {
        [(r, n), (k, 1)]
    } else {
        [(r, 1), (k, rows)]
    };
    let x = m.load(a, &at);
    let s = m.g.add(codegen::ir::Op::Scan(op), DType::F32, &[x, k]);
    m.store(o, &at, s);
    m.kernel("prefix")
}

/// `out[index[k], j] op= x[k, j]`.
pub fn scatter(n: i64, k: i64, width: i64, op: ReduceOp, dtype: DType) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(dtype, (n * width) as usize, true);
    let index = m.buffer(DType::U8, k as usize, false);
    let x = m.buffer(dtype, (k * width) as usize, false);
    let (s, j) = (m.range(k, RangeKind::Serial), m.l(width));
    let row = m.load(index, &[(s, 1)]);
    let row = m.g.cast(row, DType::I64);
    let at = m.at(&[(row, width), (j, 1)], 0);
    let v = m.load(x, &[(s, width), (j, 1)]);
    // Only rows that there are: the gate is the same in all lanes.
    let top = m.g.index(n);
    let gate = m.g.binary(Binary::Lt, row, top);
    let store = m.g.store(StoreMode::Combine(op), o, at, v, Some(gate));
    m.store_as(store);
    m.kernel("scatter")
}

/// The gradient of the weights of a convolution: the columns of the product are input channel and
/// place in the window, the sum is over images and pixels.
pub fn weight_gradient(batch: i64, ci: i64, co: i64, hw: i64, window: i64) -> Kernel {
    let mut m = Make::new();
    let wide = hw + window - 1;
    let o = m.buffer(DType::F32, (co * ci * window * window) as usize, true);
    let grad = m.buffer(DType::F32, (batch * co * hw * hw) as usize, false);
    let x = m.buffer(DType::F32, (batch * ci * wide * wide) as usize, false);
    let (c, k, dy, dx) = (m.l(co), m.l(ci), m.l(window), m.l(window));
    let (b, y, xx) = (m.r(batch), m.r(hw), m.r(hw));
    let g = m.load(grad, &[(b, co * hw * hw), (c, hw * hw), (y, hw), (xx, 1)]);
    let image = m.load(
        x,
        &[
            (b, ci * wide * wide),
            (k, wide * wide),
            (y, wide),
            (dy, wide),
            (xx, 1),
            (dx, 1),
        ],
    );
    let p = m.mul(g, image);
    let s = m.sum(p, &[b, y, xx]);
    m.store(
        o,
        &[
            (c, ci * window * window),
            (k, window * window),
            (dy, window),
            (dx, 1),
        ],
        s,
    );
    m.kernel("weight_gradient")
}

/// Mean and variance of each row in one kernel with two results.
pub fn moments(rows: i64, n: i64) -> Kernel {
    let mut m = Make::new();
    let o1 = m.buffer(DType::F32, rows as usize, true);
    let o2 = m.buffer(DType::F32, rows as usize, true);
    let a = m.buffer(DType::F32, (rows * n) as usize, false);
    let (r, k1, k2) = (m.l(rows), m.r(n), m.r(n));
    let x1 = m.load(a, &[(r, n), (k1, 1)]);
    let s1 = m.sum(x1, &[k1]);
    let x2 = m.load(a, &[(r, n), (k2, 1)]);
    let q2 = m.mul(x2, x2);
    let s2 = m.sum(q2, &[k2]);
    m.store(o1, &[(r, 1)], s1);
    m.store(o2, &[(r, 1)], s2);
    m.kernel("moments")
}

/// A transposed copy with an integer gather along the way.
pub fn transpose(rows: i64, cols: i64, dtype: DType) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(dtype, (rows * cols) as usize, true);
    let a = m.buffer(dtype, (rows * cols) as usize, false);
    let (i, j) = (m.l(cols), m.l(rows));
    let x = m.load(a, &[(j, cols), (i, 1)]);
    m.store(o, &[(i, rows), (j, 1)], x);
    m.kernel("transpose")
}

/// Softmax over rows, gelu-like activations: what needs functions that no processor has.
pub fn softmax(rows: i64, n: i64) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (rows * n) as usize, true);
    let a = m.buffer(DType::F32, (rows * n) as usize, false);
    let (r, k1, k2, j) = (m.l(rows), m.r(n), m.r(n), m.l(n));
    let x1 = m.load(a, &[(r, n), (k1, 1)]);
    let max = m.g.reduce(ReduceOp::Max, x1, &[k1]);
    let log2e = m.f32(std::f32::consts::LOG2_E);
    let e = |m: &mut Make, k: Id| {
        let x = m.load(a, &[(r, n), (k, 1)]);
        let d = m.g.binary(Binary::Sub, x, max);
        let d = m.mul(d, log2e);
        m.unary(Unary::Exp2, d)
    };
    let e2 = e(&mut m, k2);
    let s = m.sum(e2, &[k2]);
    let e3 = e(&mut m, j);
    let y = m.g.binary(Binary::FDiv, e3, s);
    m.store(o, &[(r, n), (j, 1)], y);
    m.kernel("softmax")
}

/// Many operations on every element (pair of elements), each with a result of its own.
pub fn operations(
    n: i64,
    dtype: DType,
    unary: &[Unary],
    binary: &[Binary],
    casts: &[DType],
) -> Kernel {
    let mut m = Make::new();
    let a = m.buffer(dtype, n as usize, false);
    let b = m.buffer(dtype, n as usize, false);
    let i = m.l(n);
    let (x, y) = (m.load(a, &[(i, 1)]), m.load(b, &[(i, 1)]));
    let mut results: Vec<Id> = unary.iter().map(|&op| m.g.unary(op, x)).collect();
    results.extend(binary.iter().map(|&op| m.g.binary(op, x, y)));
    results.extend(casts.iter().map(|&to| m.g.cast(x, to)));
    for value in results {
        let o = m.buffer(m.g.dtype(value), n as usize, true);
        m.store(o, &[(i, 1)], value);
    }
    m.kernel("operations")
}

/// Two results that share a reduction: for one alone lanes along the reduction are best, for the
/// other one lanes along its output.
pub fn shared_sum(rows: i64, n: i64) -> Kernel {
    let mut m = Make::new();
    let o1 = m.buffer(DType::F32, rows as usize, true);
    let o2 = m.buffer(DType::F32, rows as usize, true);
    let a = m.buffer(DType::F32, (rows * n) as usize, false);
    let b = m.buffer(DType::F32, (n * rows) as usize, false);
    let (r, k) = (m.l(rows), m.r(n));
    let x = m.load(a, &[(r, n), (k, 1)]);
    let s = m.sum(x, &[k]);
    let y = m.load(b, &[(k, rows), (r, 1)]);
    let p = m.mul(x, y);
    let t = m.sum(p, &[k]);
    let t = m.add(t, s);
    m.store(o1, &[(r, 1)], s);
    m.store(o2, &[(r, 1)], t);
    m.kernel("shared_sum")
}
