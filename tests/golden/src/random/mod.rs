//! Random programs of operators: shapes that nothing divides, every type, views in front of
//! operands, work behind results, gradients. A number makes the same program on every engine, which
//! [`compare`] runs node by node on the host and on a device.

mod families;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tensor::autograd::gradients_from;
use tensor::{DType, Engine, Jit, Tensor};

use crate::array::{Array, Tolerance};
use crate::suite::download;

pub use families::FAMILIES;

type Result<T> = std::result::Result<T, tensor::Error>;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which may be 0: then 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A program in the making: the same seed makes the same one on every engine.
pub struct Maker<'a> {
    random: Random,
    engine: &'a Engine,
    /// What has been made, for messages.
    story: String,
    /// Tensors that gradients are taken with respect to.
    leaves: Vec<Tensor>,
    /// Results.
    outputs: Vec<Tensor>,
    /// Numbers are small multiples of a quarter: sums of their products are exact.
    exact: bool,
    /// Tensors of data, in order; those of a run before take their place.
    data: Vec<Tensor>,
    given: Option<&'a [Tensor]>,
}

impl Maker<'_> {
    fn say(&mut self, text: impl std::fmt::Display) {
        self.story += &format!(" {text}");
    }

    /// Numbers of a type; floats are leaves.
    fn data(&mut self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let n: usize = shape.iter().product();
        let exact = self.exact;
        let values: Vec<f64> = (0..n)
            .map(|_| match dtype {
                DType::Bool => self.random.below(2) as f64,
                d if d.is_unsigned() => self.random.below(8) as f64,
                d if d.is_int() => self.random.below(13) as f64 - 6.0,
                _ if exact => (self.random.below(13) as f64 - 6.0) / 4.0,
                _ => self.random.next() as f64 / u64::MAX as f64 * 3.0 - 1.5,
            })
            .collect();
        self.say(format_args!("{dtype}{shape:?}"));
        let t = self.tensor(shape, dtype, || {
            // Through f64 on the host, so that the device gets the bytes of its type.
            let host = Engine::reference();
            let wide = Tensor::from_slice(&host, &values, shape)?;
            wide.cast(dtype)?.to_bytes()
        })?;
        if dtype.is_float() {
            self.leaves.push(t.clone());
        }
        Ok(t)
    }

    /// The next tensor of data.
    fn tensor(
        &mut self,
        shape: &[usize],
        dtype: DType,
        bytes: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Tensor> {
        let t = match self.given {
            Some(given) => given[self.data.len()].clone(),
            None => Tensor::from_bytes(self.engine, bytes()?, shape, dtype)?,
        };
        self.data.push(t.clone());
        Ok(t)
    }

    /// Positions below `limit`.
    fn positions(&mut self, shape: &[usize], limit: usize) -> Result<Tensor> {
        let n: usize = shape.iter().product();
        let dtype = self.random.pick(&[DType::I32, DType::I64, DType::U8]);
        let bytes = (0..n)
            .flat_map(|_| {
                let at = self.random.below(limit.min(250)) as u64;
                at.to_le_bytes()[..dtype.size()].to_vec()
            })
            .collect::<Vec<u8>>();
        self.say(format_args!("index {dtype}{shape:?}<{limit}"));
        self.tensor(shape, dtype, || Ok(bytes))
    }

    fn out(&mut self, t: &Tensor) {
        self.outputs.push(t.clone());
    }

    /// The gradients of the last result, where it has some, are results too.
    fn backward(&mut self) -> Result<()> {
        let Some(of) = self.outputs.last().cloned() else {
            return Ok(());
        };
        let narrow = |t: &Tensor| !t.dtype().is_float() || t.dtype().size() == 1;
        if self.leaves.is_empty() || narrow(&of) || self.leaves.iter().any(narrow) {
            return Ok(());
        }
        self.say("backward");
        let leaves = std::mem::take(&mut self.leaves);
        let seed = self.data(of.shape(), of.dtype())?;
        let with: Vec<&Tensor> = leaves.iter().collect();
        self.outputs.extend(gradients_from(&of, &seed, &with)?);
        Ok(())
    }
}

/// What rounding in another order may make, as a share of the largest number of a result.
fn slack(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        DType::F8E4M3 | DType::F8E5M2 => 0.3,
        _ => 2e-4,
    }
}

/// Compares a result with the reference. A narrower type on the way rounds more.
fn check(want: &Array, got: &Array, narrowest: f64) -> std::result::Result<(), String> {
    if !want.dtype.is_float() {
        return want.check(got, Tolerance::Exact).map_err(|e| e.to_string());
    }
    let finite = want.floats().into_iter().filter(|x| x.is_finite());
    let scale = finite.fold(0.1, |m: f64, x| m.max(x.abs()));
    let tolerance = Tolerance::Near {
        relative: 0.0,
        absolute: scale * narrowest.max(slack(want.dtype)),
    };
    want.check(got, tolerance).map_err(|e| e.to_string())
}

/// Makes the tensors of a program.
fn make<'a>(
    engine: &'a Engine,
    family: usize,
    seed: u64,
    given: Option<&'a [Tensor]>,
) -> (Maker<'a>, Result<()>) {
    let mut maker = Maker {
        random: Random(seed),
        engine,
        story: String::new(),
        leaves: Vec::new(),
        outputs: Vec::new(),
        exact: false,
        data: Vec::new(),
        given,
    };
    maker.exact = maker.random.one_in(2);
    let made = FAMILIES[family].1(&mut maker);
    (maker, made)
}

/// What a program did, its results, and the slack of its narrowest type. Captured, the results are
/// those of a replay.
fn run(
    engine: &Engine,
    family: usize,
    seed: u64,
    captured: bool,
) -> (String, Result<Vec<Array>>, f64) {
    let (maker, made) = make(engine, family, seed, None);
    // Integers become f32 on their way.
    let data = maker.data.iter().map(|t| match t.dtype() {
        d if d.is_float() => d,
        _ => DType::F32,
    });
    let outputs = maker.outputs.iter().map(Tensor::dtype);
    let floats = data.chain(outputs.filter(|d| d.is_float()));
    let narrowest = floats.map(slack).fold(0.0, f64::max);
    let results = made.and_then(|()| {
        let mut outputs = maker.outputs;
        if captured && !maker.data.is_empty() {
            let again = |given: &[Tensor]| {
                let (maker, made) = make(engine, family, seed, Some(given));
                made.map(|()| maker.outputs)
            };
            let function = Jit::new(engine, again);
            for _ in 0..3 {
                outputs = function.call(&maker.data)?;
            }
        }
        // Together, so that the engine sees the whole graph, as in use.
        engine.realize(&outputs.iter().collect::<Vec<_>>())?;
        outputs.iter().map(download).collect()
    });
    (maker.story, results, narrowest)
}

/// Runs a program of a family on the host and on a device; what is wrong, if anything is.
pub fn compare(host: &Engine, device: &Engine, family: usize, seed: u64) -> Option<String> {
    let (story, want, narrowest) = run(host, family, seed, false);
    let captured = seed.is_multiple_of(3);
    let found = catch_unwind(AssertUnwindSafe(|| run(device, family, seed, captured).1));
    let fault = match (want, found) {
        (_, Err(_)) => Some("panicked".to_owned()),
        // A program that makes no sense has to be refused by both.
        (Err(_), Ok(Err(_))) => None,
        (Err(e), Ok(Ok(_))) => Some(format!("only the host refuses it: {e}")),
        (Ok(_), Ok(Err(e))) => Some(e.to_string()),
        (Ok(want), Ok(Ok(got))) => (0..want.len()).find_map(|i| {
            let fault = check(&want[i], &got[i], narrowest).err()?;
            Some(format!("result {i}: {fault}"))
        }),
    };
    let how = if captured { ", captured" } else { "" };
    fault.map(|fault| format!("{fault}; program{how}:{story}"))
}
