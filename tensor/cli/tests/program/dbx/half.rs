//! `--half`: weights are half as large, and what positions are made of stays as it is.

use super::*;

use doorbell::Setup;

#[test]
fn half_takes_half_of_the_weights() {
    let place = place(&[("mlp.onnx", mlp()), ("conv.onnx", conv())]);
    for name in ["mlp", "conv"] {
        let (onnx, whole, half) = (
            format!("{name}.onnx"),
            format!("{name}.dbx"),
            format!("{name}-half.dbx"),
        );
        succeed(
            &place,
            &["compile", &onnx, "--target", "CPU", "-o", &whole],
            CPU,
        );
        succeed(
            &place,
            &["compile", &onnx, "--target", "CPU", "--half", "-o", &half],
            CPU,
        );
        let text = succeed(&place, &["verify", &half, "--model", &onnx], CPU).out;
        assert!(text.contains("ok within 0.02"), "{text}");
        let ran = place.run(
            &["verify", &half, "--model", &onnx, "--tolerance", "1e-7"],
            CPU,
        );
        assert_eq!(ran.code, 1, "{}", ran.out);
        let (whole, half) = (bundle(&place, &whole), bundle(&place, &half));
        let sizes = (whole.constant_bytes(), half.constant_bytes());
        assert!(sizes.1 * 100 < sizes.0 * 60, "{name}: {sizes:?}");
    }
}

/// Weights that `f16` does not hold: some are infinite there, and others zeros.
#[test]
fn weights_beyond_halves_stay() {
    let mut w = Writer::new("wide", 17);
    w.input("x", &floats(&[4, 64]));
    for (name, scale) in [("w1", 1e6), ("w2", 1e-7)] {
        let shape = [64, 64];
        let scaled = weights(&shape, 1).mul(scale).unwrap();
        w.constant(name, &scaled).unwrap();
    }
    w.node("MatMul", &["x", "w1"], &["a"], []);
    let less = Tensor::from_slice(&Engine::reference(), &[1e-6f32], &[]).unwrap();
    w.constant("less", &less).unwrap();
    w.node("Mul", &["a", "less"], &["b"], []);
    w.node("MatMul", &["b", "w2"], &["y"], []);
    w.output("y", &floats(&[4, 64]));
    let place = place(&[("wide.onnx", w.finish())]);
    let args = [
        "compile",
        "wide.onnx",
        "--target",
        "CPU",
        "--half",
        "-o",
        "wide.dbx",
    ];
    let ran = succeed(&place, &args, CPU);
    assert!(ran.err.contains("note: 2 of 4 operands"), "{}", ran.err);
    let text = succeed(&place, &["verify", "wide.dbx", "--model", "wide.onnx"], CPU).out;
    assert!(text.contains("ok within 0.02"), "{text}");
}

/// Of a camera: columns and rows of luma, and bytes of a row.
const FRAME: [usize; 3] = [1928, 1208, 2048];

/// Rows and columns of what is made of a frame.
const VIEW: [usize; 2] = [24, 40];

/// The pixels of a view, as columns, rows and ones.
fn grid() -> Vec<f32> {
    let [rows, columns] = VIEW;
    let count = rows * columns;
    let x = (0..count).map(|i| (i % columns) as f32);
    let y = (0..count).map(|i| (i / columns) as f32);
    x.chain(y).chain((0..count).map(|_| 1.0)).collect()
}

/// Pixels of a frame at the nearest places to those that a matrix gives, and a layer on them.
fn warp() -> Vec<u8> {
    let e = Engine::reference();
    let count = VIEW[0] * VIEW[1];
    let mut w = Writer::new("warp", 17);
    w.input(
        "frame",
        &write::tensor(DType::U8, &[Dim::Fixed(FRAME[1] * FRAME[2])]),
    );
    w.input("transform", &floats(&[3, 3]));
    let grid = Tensor::from_slice(&e, &grid(), &[3, count]).unwrap();
    w.constant("grid", &grid).unwrap();
    w.constant("dense", &weights(&[count, 8], 1)).unwrap();
    for (name, value) in [
        ("zero", 0.0),
        ("last_x", FRAME[0] as f32 - 1.0),
        ("last_y", FRAME[1] as f32 - 1.0),
        ("middle", 128.0),
    ] {
        let number = Tensor::from_slice(&e, &[value], &[]).unwrap();
        w.constant(name, &number).unwrap();
    }
    let stride = Tensor::from_slice(&e, &[FRAME[2] as i32], &[]).unwrap();
    w.constant("stride", &stride).unwrap();
    for n in 0..4i64 {
        let number = Tensor::from_slice(&e, &[n], &[1]).unwrap();
        w.constant(&n.to_string(), &number).unwrap();
    }
    w.node("MatMul", &["transform", "grid"], &["places"], []);
    for (name, from, to) in [("x", "0", "1"), ("y", "1", "2"), ("w", "2", "3")] {
        w.node("Slice", &["places", from, to, "0"], &[name], []);
    }
    for name in ["x", "y"] {
        let of = |step: &str| format!("{name}_{step}");
        let last = format!("last_{name}");
        w.node("Div", &[name, "w"], &[&of("place")], []);
        w.node("Round", &[&of("place")], &[&of("near")], []);
        w.node("Clip", &[&of("near"), "zero", &last], &[&of("in")], []);
        w.node("Cast", &[&of("in")], &[&of("whole")], [write::int("to", 6)]);
    }
    w.node("Mul", &["y_whole", "stride"], &["row"], []);
    w.node("Add", &["row", "x_whole"], &["index"], []);
    w.node("Gather", &["frame", "index"], &["pixels"], []);
    w.node("Cast", &["pixels"], &["seen"], [write::int("to", 1)]);
    w.node("Div", &["seen", "middle"], &["scaled"], []);
    w.node("MatMul", &["scaled", "dense"], &["features"], []);
    let pixels = [Dim::Fixed(1), Dim::Fixed(count)];
    w.output("pixels", &write::tensor(DType::U8, &pixels));
    w.output("features", &floats(&[1, 8]));
    w.finish()
}

/// A frame whose neighbours differ.
fn frame() -> Vec<u8> {
    let byte = |i: usize| (i % FRAME[2] * 37 + i / FRAME[2] * 91) as u8;
    (0..FRAME[1] * FRAME[2]).map(byte).collect()
}

/// Matrices from pixels of the view to those of the frame: the identity, all of the frame, turned by 30 degrees, tilted with
/// large shifts, and one whose places have more than eleven digits.
const TRANSFORMS: [[f32; 9]; 5] = [
    [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
    [49.37, 0.0, 0.31, 0.0, 52.43, 0.23, 0.0, 0.0, 1.0],
    [
        22.614, -13.137, 612.71, 13.137, 22.614, 94.33, 0.0, 0.0, 1.0,
    ],
    [31.7, -3.3, 1120.4, 2.9, 24.6, -310.7, 0.0021, -0.0017, 1.0],
    [
        0.37, 0.011, 1900.13, 0.013, 0.29, 1190.81, 0.00003, 0.0, 1.0,
    ],
];

/// What a bundle makes of a frame with each matrix.
fn warped(bundle: &ModelBundle, setup: &Setup) -> Vec<(Vec<u8>, Vec<f32>)> {
    let mut model = setup.chain().place(bundle).unwrap().model;
    model.write_input("frame", &frame()).unwrap();
    let mut all = Vec::new();
    for transform in TRANSFORMS {
        let bytes = transform.map(f32::to_le_bytes).concat();
        model.write_input("transform", &bytes).unwrap();
        model.run(Duration::from_secs(600)).unwrap();
        let mut pixels = vec![0; VIEW[0] * VIEW[1]];
        model.read_output("pixels", &mut pixels).unwrap();
        let mut features = vec![0; 4 * 8];
        model.read_output("features", &mut features).unwrap();
        let words = features.chunks_exact(4);
        let features = words.map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        all.push((pixels, features.collect()));
    }
    all
}

/// The pixel of a place, unless the place is near the middle of two.
fn known(transform: [f32; 9], at: usize, frame: &[u8]) -> Option<u8> {
    let grid = grid();
    let count = VIEW[0] * VIEW[1];
    let row = |r: usize| -> f64 {
        let terms =
            (0..3).map(|k| f64::from(transform[3 * r + k]) * f64::from(grid[k * count + at]));
        terms.sum()
    };
    let place = |r: usize, size: usize| {
        let place = row(r) / row(2);
        let inside = (place - place.floor() - 0.5).abs() > 1e-3;
        inside.then(|| place.round().clamp(0.0, size as f64 - 1.0) as usize)
    };
    let (x, y) = (place(0, FRAME[0])?, place(1, FRAME[1])?);
    Some(frame[y * FRAME[2] + x])
}

/// The same pixels with and without `--half`, and those of the places; the layer behind them is of halves.
fn same_pixels(target: &str, setup: &Setup) {
    let place = place(&[("warp.onnx", warp())]);
    let compiled = |file: &str, more: &[&str]| {
        let args = ["compile", "warp.onnx", "--target", target, "-o", file];
        let ran = succeed(&place, &[&args[..], more].concat(), CPU);
        (bundle(&place, file), ran.err)
    };
    let (whole, _) = compiled("whole.dbx", &[]);
    let (half, said) = compiled("half.dbx", &["--half"]);
    assert!(said.contains("note: 2 of 4 operands"), "{said}");
    let frame = frame();
    let (whole, half) = (warped(&whole, setup), warped(&half, setup));
    for ((transform, whole), half) in TRANSFORMS.iter().zip(&whole).zip(&half) {
        assert!(whole.0 == half.0, "{target} {transform:?}");
        let sure = (0..whole.0.len()).filter_map(|at| Some((at, known(*transform, at, &frame)?)));
        let sure: Vec<(usize, u8)> = sure.collect();
        assert!(sure.len() * 10 > whole.0.len() * 9, "{transform:?}");
        for (at, pixel) in sure {
            assert_eq!(half.0[at], pixel, "{target} {transform:?} {at}");
        }
        let largest = whole.1.iter().fold(1e-9f32, |m, x| m.max(x.abs()));
        let apart = whole.1.iter().zip(&half.1);
        let apart = apart.fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart > 0.0 && apart < largest * 0.02, "{apart} {largest}");
    }
}

#[test]
fn pixels_of_a_frame_are_the_same() {
    same_pixels("CPU", &Setup::of("CPU").unwrap());
}

#[cfg(feature = "twin")]
#[test]
fn pixels_of_a_frame_are_the_same_on_an_adreno() {
    let setup = Setup::of("TWINKGSL+QCOM::a630").unwrap();
    same_pixels("QCOM::a630", &setup);
    setup.check_rules().unwrap();
}

/// An image between whose pixels values are taken, at places that a product gives.
#[test]
fn values_between_pixels_are_within_half_a_step() {
    let e = Engine::reference();
    let [rows, columns] = VIEW;
    let count = rows * columns;
    let mut w = Writer::new("sample", 17);
    w.input("image", &floats(&[1, 1, FRAME[1], FRAME[0]]));
    w.input("theta", &floats(&[2, 3]));
    let centres: Vec<f32> = grid()
        .chunks_exact(count)
        .zip([columns, rows, 1])
        .flat_map(|(line, size)| {
            let of = move |x: &f32| {
                if size == 1 {
                    1.0
                } else {
                    (2.0 * x + 1.0) / size as f32 - 1.0
                }
            };
            line.iter().map(of).collect::<Vec<f32>>()
        })
        .collect();
    let base = Tensor::from_slice(&e, &centres, &[3, count]).unwrap();
    w.constant("base", &base).unwrap();
    let shape = [1, rows as i64, columns as i64, 2];
    let shape = Tensor::from_slice(&e, &shape, &[4]).unwrap();
    w.constant("shape", &shape).unwrap();
    w.node("MatMul", &["theta", "base"], &["places"], []);
    w.node("Transpose", &["places"], &["pairs"], []);
    w.node("Reshape", &["pairs", "shape"], &["points"], []);
    w.node("GridSample", &["image", "points"], &["y"], []);
    w.output("y", &floats(&[1, 1, rows, columns]));
    let place = place(&[("sample.onnx", w.finish())]);
    let compiled = |file: &str, more: &[&str]| {
        let args = ["compile", "sample.onnx", "--target", "CPU", "-o", file];
        succeed(&place, &[&args[..], more].concat(), CPU);
        bundle(&place, file)
    };
    let (whole, half) = (
        compiled("whole.dbx", &[]),
        compiled("half.dbx", &["--half"]),
    );
    let byte = |i: usize| (i % FRAME[0] * 37 + i / FRAME[0] * 91) as u8;
    let image = (0..FRAME[0] * FRAME[1]).flat_map(|i| f32::from(byte(i)).to_le_bytes());
    let image: Vec<u8> = image.collect();
    for theta in [
        [1.0f32, 0.0, 0.0, 0.0, 1.0, 0.0],
        [0.71, -0.13, 0.017, 0.21, 0.68, -0.11],
        [0.031, 0.003, 0.947, -0.002, 0.027, -0.933],
    ] {
        let sampled = |bundle: &ModelBundle| -> Vec<f32> {
            let mut model = Chain::parse("CPU").unwrap().place(bundle).unwrap().model;
            model.write_input("image", &image).unwrap();
            let bytes = theta.map(f32::to_le_bytes).concat();
            model.write_input("theta", &bytes).unwrap();
            model.run(Duration::from_secs(60)).unwrap();
            let mut y = vec![0; 4 * count];
            model.read_output("y", &mut y).unwrap();
            let words = y.chunks_exact(4);
            words
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect()
        };
        let (whole, half) = (sampled(&whole), sampled(&half));
        let apart = whole.iter().zip(&half);
        let apart = apart.fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart <= 0.5, "{theta:?}: {apart}");
        assert!(whole.iter().any(|x| *x > 100.0), "{theta:?}");
    }
}
