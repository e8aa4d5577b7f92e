//! Sums of many floats on every kind of GPU: as near as those of the CPU, however their kernels share the work.
use golden::engines::{self, Rig};
use tensor::exec::Options;
use tensor::{Engine, Tensor};

/// The error that sums of `f32` may have, relative to the sum of the sizes of their terms.
const MOST: f64 = 1e-6;

/// A matrix with its values: all the same, so that every addition to a growing sum rounds the same way, or from 0 to 1.
struct Matrix {
    tensor: Tensor,
    values: Vec<f32>,
    width: usize,
}

impl Matrix {
    fn new(e: &Engine, [rows, width]: [usize; 2], same: bool) -> Matrix {
        let mut state = (rows * width) as u64 | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if same {
                0.1
            } else {
                (state >> 40) as f32 / (1 << 24) as f32
            }
        };
        let values: Vec<f32> = (0..rows * width).map(|_| next()).collect();
        Matrix {
            tensor: Tensor::from_slice(e, &values, &[rows, width]).unwrap(),
            values,
            width,
        }
    }

    fn row(&self, r: usize) -> impl Iterator<Item = f64> + '_ {
        self.values[r * self.width..][..self.width]
            .iter()
            .map(|&x| f64::from(x))
    }

    fn column(&self, c: usize) -> impl Iterator<Item = f64> + '_ {
        self.values[c..]
            .iter()
            .step_by(self.width)
            .map(|&x| f64::from(x))
    }
}

fn check(what: &str, found: &Tensor, at: usize, want: f64) {
    let found = f64::from(found.to_vec::<f32>().unwrap()[at]);
    let error = (found - want).abs() / want;
    println!("{what:56} {error:9.1e}");
    assert!(
        error <= MOST,
        "{what}: {found} instead of {want}, error {error:e}"
    );
}

fn sums(chip: &str, e: &Engine, same: bool) {
    let name = |what: &str, [rows, width]: [usize; 2]| {
        let terms = if same { "equal" } else { "random" };
        format!("{chip}: {what} of {rows}x{width}, {terms}")
    };
    for size in [[1, 1 << 19], [1 << 15, 16], [16, 1 << 15], [1000, 333]] {
        let x = Matrix::new(e, size, same);
        let (t, last) = (&x.tensor, [size[0] - 1, size[1] - 1]);
        let all: f64 = x.values.iter().map(|&x| f64::from(x)).sum();
        check(&name("sum", size), &t.sum(&[], false).unwrap(), 0, all);
        let norm: f64 = x.values.iter().map(|&x| f64::from(x).powi(2)).sum();
        check(
            &name("norm", size),
            &t.norm(2.0, &[], false).unwrap(),
            0,
            norm.sqrt(),
        );
        let rows = t.sum(&[1], false).unwrap();
        check(&name("rows", size), &rows, last[0], x.row(last[0]).sum());
        let columns = t.sum(&[0], false).unwrap();
        check(
            &name("columns", size),
            &columns,
            last[1],
            x.column(last[1]).sum(),
        );
    }
}

/// Products. Those that go through local memory have one level of sums, as those of the vendors' libraries have:
/// equal terms are no case for them.
fn products(chip: &str, e: &Engine) {
    for (m, k, n) in [
        (16, 1 << 15, 16),
        (40, 9999, 33),
        (64, 2048, 64),
        (1, 1 << 17, 5),
        (3, 1 << 17, 1),
    ] {
        let (a, b) = (Matrix::new(e, [m, k], false), Matrix::new(e, [k, n], false));
        let product = a.tensor.matmul(&b.tensor).unwrap();
        let want = a.row(m - 1).zip(b.column(n - 1)).map(|(x, y)| x * y).sum();
        check(
            &format!("{chip}: product of {m}x{k}x{n}"),
            &product,
            m * n - 1,
            want,
        );
    }
}

macro_rules! chips {
    ($($name:ident: $chip:literal;)*) => {$(
        #[test]
        fn $name() {
            let Some(rig) = Rig::of_test(engines::gpu($chip, Options::default())) else {
                return;
            };
            sums($chip, &rig.engine, true);
            sums($chip, &rig.engine, false);
            products($chip, &rig.engine);
            rig.finish().unwrap();
        }
    )*};
}

chips! {
    gfx942: "gfx942,xcc=1";
    gfx1100: "gfx1100";
    gfx1201: "gfx1201";
    sm_86: "sm_86";
    sm_90: "sm_90:PTX";
}
