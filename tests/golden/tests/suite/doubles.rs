//! What is computed in `f64` for its digits alone, on a device that has none: it has the digits of `f32`, and is not refused.
use golden::engines::{self, Rig};
use tensor::exec::Options;
use tensor::onnx::{Dim, Model, Type, write};
use tensor::{DType, Engine, Result, Tensor, gradients};

fn adreno() -> Rig {
    engines::gpu("a630", Options::default()).unwrap()
}

/// The error of `n` roundings, each of half a unit in the last place, of which few go the same way.
fn near(what: &str, n: usize, got: f64, want: f64) {
    let error = (got - want).abs() / want.abs();
    let most = f64::from(f32::EPSILON) * 2.0 * (n as f64).sqrt();
    println!("{what:32} {n:6} {error:9.1e} of {most:9.1e}");
    assert!(error <= most, "{what} of {n}: {got:e} instead of {want:e}");
}

/// Factors on both sides of one.
fn factors(n: usize) -> Vec<f32> {
    let mut state = n as u64 | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    (0..n).map(|_| 1.0 + (next() - 0.5) / 32.0).collect()
}

#[test]
fn products_of_many() {
    let rig = adreno();
    for n in [17, 1000, 20_000] {
        let values = factors(n);
        let x = Tensor::from_slice(&rig.engine, &values, &[n]).unwrap();
        let want: f64 = values.iter().map(|&x| f64::from(x)).product();
        let all = x.prod(&[], false).unwrap();
        near("product", n, all.item::<f32>().unwrap().into(), want);
        let running: Vec<f32> = x.cumprod(0).unwrap().to_vec().unwrap();
        let mut so_far = 1.0;
        for (i, (&got, &x)) in running.iter().zip(&values).enumerate() {
            so_far *= f64::from(x);
            if i % 997 == n % 997 || i + 1 == n {
                near("running product", i + 2, got.into(), so_far);
            }
        }
        if n <= 1000 {
            let slopes = gradients(&all, &[&x]).unwrap()[0].to_vec::<f32>().unwrap();
            for at in [0, n / 2, n - 1] {
                let want = want / f64::from(values[at]);
                near("gradient", 2 * n, slopes[at].into(), want);
            }
        }
    }
    rig.finish().unwrap();
}

/// The same function on the device and by the reference.
fn same(e: &Engine, what: &str, f: impl Fn(&Engine) -> Result<Tensor>) {
    let [got, want] = [e, &Engine::reference()].map(|e| f(e).unwrap().to_f64_vec().unwrap());
    let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let apart = got.iter().zip(&want).map(|(a, b)| (a - b).abs());
    let apart = apart.fold(0.0f64, f64::max) / largest;
    println!("{what:32} {apart:9.1e}");
    assert!(got.len() == want.len() && apart < 1e-5, "{what}: {apart:e}");
}

#[test]
fn means_and_variances() {
    let rig = adreno();
    let whole = |e: &Engine, dtype| {
        Tensor::iota(e, 300, dtype)?
            .mul(7)?
            .sub(900)?
            .reshape(&[3, 100])
    };
    for dtype in [DType::I32, DType::I64] {
        same(&rig.engine, "mean", |e| whole(e, dtype)?.mean(&[1], false));
        same(&rig.engine, "var", |e| {
            whole(e, dtype)?.var(&[1], 1.0, false)
        });
        same(&rig.engine, "std", |e| {
            whole(e, dtype)?.std(&[], 0.0, false)
        });
        same(&rig.engine, "nanmean", |e| {
            whole(e, dtype)?.nanmean(&[0], true)
        });
        let float = |e: &Engine| whole(e, dtype)?.cast(DType::F32)?.mul(0.01);
        same(&rig.engine, "logsumexp", |e| {
            float(e)?.logsumexp(&[1], false)
        });
        same(&rig.engine, "cumsum", |e| float(e)?.cumsum(1));
        same(&rig.engine, "logcumsumexp", |e| float(e)?.logcumsumexp(1));
    }
    rig.finish().unwrap();
}

/// A node of one output on inputs of `f32` whose elements are from -1 to 1.
fn node(e: &Engine, op: &str, inputs: &[&[usize]], more: &[(&str, Tensor)]) -> Result<Tensor> {
    let mut w = write::Writer::new(op, 20);
    let floats = |shape: &[usize]| {
        let dims: Vec<Dim> = shape.iter().map(|&n| Dim::Fixed(n)).collect();
        write::tensor(DType::F32, &dims)
    };
    let mut names = Vec::new();
    let mut given = Vec::new();
    for (i, shape) in inputs.iter().enumerate() {
        let name = format!("x{i}");
        w.input(&name, &floats(shape));
        let count: usize = shape.iter().product();
        let values = Tensor::iota(e, count, DType::I32)?.mul(29)?.fmod(101)?;
        let values = values.cast(DType::F32)?.mul(0.02)?.sub(1.0)?;
        given.push((name.clone(), values.reshape(shape)?));
        names.push(name);
    }
    for (name, constant) in more {
        w.constant(name, constant)?;
        names.push((*name).into());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mode = (op == "Resize").then(|| write::string("mode", "cubic"));
    w.node(op, &names, &["y"], mode);
    w.output("y", &Type::Tensor(DType::F32.into(), None));
    let model = Model::from_bytes(op, w.finish()).unwrap();
    let outputs = model.on(e).run(given).unwrap();
    Ok(outputs.tensor("y").unwrap().clone())
}

#[test]
fn nodes_of_models() {
    let rig = adreno();
    let host = Engine::reference();
    let numbers = |list: &[f32]| Tensor::from_slice(&host, list, &[list.len()]).unwrap();
    let whole = |list: &[i64]| Tensor::from_slice(&host, list, &[list.len()]).unwrap();
    let none = Tensor::from_slice(&host, &[0f32; 0], &[0]).unwrap();
    let scales = [("roi", none), ("scales", numbers(&[1.0, 1.0, 1.5, 0.75]))];
    let image: &[usize] = &[1, 2, 6, 8];
    same(&rig.engine, "Mean", |e| {
        node(e, "Mean", &[image, image], &[])
    });
    same(&rig.engine, "Resize", |e| {
        node(e, "Resize", &[image], &scales)
    });
    same(&rig.engine, "GridSample", |e| {
        node(e, "GridSample", &[image, &[1, 4, 5, 2]], &[])
    });
    same(&rig.engine, "AffineGrid", |e| {
        node(
            e,
            "AffineGrid",
            &[&[1, 2, 3]],
            &[("size", whole(&[1, 1, 5, 6]))],
        )
    });
    same(&rig.engine, "DFT", |e| node(e, "DFT", &[&[1, 24, 1]], &[]));
    rig.finish().unwrap();
}
