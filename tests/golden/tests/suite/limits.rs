//! What reaches the limits of a GPU: more groups, arguments, operations or bytes than a launch or a
//! kernel can have; nothing at all; one function over inputs of changing shapes.
use golden::engines::{self, Rig};
use golden::suite::download;
use tensor::exec::Options;
use tensor::ops::conv::ConvParams;
use tensor::{DType, Engine, Jit, Parameter, Tensor};

/// One chip of each generation.
const CHIPS: [&str; 8] = [
    "gfx1030",
    "gfx1100",
    "gfx1201",
    "gfx942,xcc=1",
    "sm_86",
    "sm_89:PTX",
    "sm_90",
    "sm_120:PTX",
];

type Made = Result<Vec<Tensor>, tensor::Error>;

/// Runs a program on a chip of each generation, and compares bits with what the host makes of it.
fn same(what: &str, program: impl Fn(&Engine) -> Made) {
    let host = Engine::reference();
    let want: Vec<_> = program(&host)
        .unwrap()
        .iter()
        .map(|t| download(t).unwrap())
        .collect();
    for chip in CHIPS {
        let made = engines::gpu(chip, Options::default());
        let Some(rig) = Rig::of_test(made) else {
            continue;
        };
        let found = program(&rig.engine).unwrap_or_else(|e| panic!("{what} on {chip}: {e}"));
        rig.engine
            .realize(&found.iter().collect::<Vec<_>>())
            .unwrap_or_else(|e| panic!("{what} on {chip}: {e}"));
        for (i, (want, found)) in want.iter().zip(&found).enumerate() {
            let found = download(found).unwrap();
            assert!(
                want.shape == found.shape && want.bytes == found.bytes,
                "{what} on {chip}: result {i}"
            );
        }
        rig.finish().unwrap();
    }
}

fn count(engine: &Engine, shape: &[usize], dtype: DType) -> tensor::Result<Tensor> {
    let n: usize = shape.iter().product();
    Tensor::iota(engine, n, DType::I32)?
        .fmod(97)?
        .cast(dtype)?
        .reshape(shape)?
        .contiguous()
}

#[test]
fn axes_longer_than_a_launch_is_high() {
    same("transposed", |e| {
        let a = count(e, &[70_001, 2, 3], DType::U8)?;
        let b = count(e, &[3, 70_001], DType::U8)?;
        Ok(vec![
            a.permute(&[2, 1, 0])?.contiguous()?,
            a.permute(&[1, 0, 2])?.add(&b.t()?)?,
            a.cast(DType::I32)?.sum(&[1], false)?,
            b.cast(DType::I32)?.sum(&[1], false)?,
        ])
    });
}

#[test]
fn many_operands_and_results() {
    same("sum of many", |e| {
        let all: Vec<Tensor> = (0..300)
            .map(|i| count(e, &[65], DType::F32)?.add(i))
            .map(|t| t?.contiguous())
            .collect::<Result<_, _>>()?;
        let mut sum = all[0].clone();
        for t in &all[1..] {
            sum = sum.add(t)?;
        }
        let mut results: Vec<Tensor> = all.iter().map(|t| t.mul(&sum)).collect::<Result<_, _>>()?;
        results.push(Tensor::cat(&all.iter().collect::<Vec<_>>(), 0)?);
        results.push(sum);
        Ok(results)
    });
}

#[test]
fn deep_expressions() {
    same("chain", |e| {
        let a = count(e, &[130], DType::I32)?;
        let b = count(e, &[130], DType::I32)?.add(3)?.contiguous()?;
        let (mut x, mut y) = (a.clone(), b.clone());
        for i in 0..600 {
            let next = x.mul(&b)?.bitxor(&y)?.add(i)?;
            y = x.sub(&y.shr(1)?)?;
            x = next;
        }
        // Many values that are alive at once.
        let terms: Vec<Tensor> = (1..200)
            .map(|i| a.mul(i)?.bitxor(&b))
            .collect::<Result<_, _>>()?;
        let mut product = terms[0].clone();
        for t in terms.iter().chain(terms.iter().rev()) {
            product = product.mul(3)?.add(t)?;
        }
        Ok(vec![x, y, product])
    });
}

/// By digits, with stores that no order is kept of; and rows that are searched by halves.
#[test]
fn axes_that_are_too_long_to_compare_all() {
    same("sorted", |e| {
        let x = count(e, &[2950], DType::I32)?.mul(31)?.fmod(101)?.sub(50)?;
        let y = x.cast(DType::F32)?.mul(0.5)?.cast(DType::F16)?;
        let (values, from) = y.sort(0, true)?;
        let bytes = x.cast(DType::I8)?.sort(0, false)?.0;
        let found = bytes.searchsorted(&bytes.narrow(0, 0, 2900)?, false)?;
        Ok(vec![values, from, bytes, found])
    });
}

#[test]
fn transposed_convolutions_by_phases() {
    same("transposed", |e| {
        let x = count(e, &[1, 4, 5, 3], DType::F32)?;
        let mut found = Vec::new();
        for k in [4, 3] {
            let w = count(e, &[4, 3, k, k], DType::F32)?;
            let sliding = ConvParams::strided(2, 2).padded(1, 2);
            found.push(x.conv_transpose(&w, None, &sliding, &[1, 0], 1)?);
        }
        Ok(found)
    });
}

#[test]
fn nothing_and_one() {
    same("empty", |e| {
        let none = count(e, &[0, 5], DType::F32)?;
        let b = count(e, &[5, 4], DType::F32)?;
        let one = Tensor::full(e, &[], 2.5, DType::F32)?.contiguous()?;
        Ok(vec![
            none.matmul(&b)?,
            b.t()?.narrow(1, 0, 0)?.matmul(&none.add(1.0)?)?,
            none.sum(&[0], false)?,
            none.cumsum(0)?,
            none.sort(1, false)?.0,
            Tensor::cat(&[&none, &none], 0)?,
            one.add(&one)?,
            one.sum(&[], false)?,
            one.reshape(&[1, 1])?.matmul(&one.reshape(&[1, 1])?)?,
            one.reshape(&[1])?.softmax(0)?,
        ])
    });
}

/// A captured function over inputs of several shapes, with state.
#[test]
fn captured_functions_follow_their_inputs() {
    let run = |e: &Engine| -> Vec<Vec<u8>> {
        let total = Parameter::buffer(count(e, &[7], DType::F32).unwrap());
        let state = total.clone();
        let f = Jit::new(e, move |x: &[Tensor]| {
            let rows = x[0].matmul(&x[1])?;
            let sum = state.get().add(&rows.sum(&[0], false)?)?;
            state.set(sum.clone())?;
            Ok(vec![rows.mul(2.0)?, sum])
        });
        let mut found = Vec::new();
        for n in [3, 3, 17, 3, 17, 33, 17, 33, 3, 33, 1, 1, 1] {
            let x = count(e, &[n, 5], DType::F32).unwrap();
            let x = x.add(found.len() as i64).unwrap();
            let w = count(e, &[5, 7], DType::F32).unwrap();
            for t in f.call(&[x, w]).unwrap() {
                found.push(t.to_bytes().unwrap());
            }
            found.push(total.get().to_bytes().unwrap());
        }
        found
    };
    let want = run(&Engine::reference());
    for chip in CHIPS {
        let made = engines::gpu(chip, Options::default());
        let Some(rig) = Rig::of_test(made) else {
            continue;
        };
        assert!(run(&rig.engine) == want, "{chip}");
        rig.finish().unwrap();
    }
}
