//! Two ONNX models, each asked by a thread of its own with batches of changing size; then both threads ask
//! one model.

use doorbell::onnx::write::{self, Writer};
use doorbell::onnx::{Dim, Model, Session};
use doorbell::{DType, Engine, Result, Tensor};

use super::check::{all_close, wave};

/// The last rows of the outputs, by the size of the batch.
type Rows = [(usize, &'static [f64])];

// PyTorch 2.15.0: softmax(relu(x w1 + b1) w2).
const CLASSIFIER: &Rows = &[
    (1, &[0.3643347, 0.3269171, 0.3087482]),
    (2, &[0.3478394, 0.3328041, 0.3193566]),
    (3, &[0.3542614, 0.3256402, 0.3200983]),
    (5, &[0.3627782, 0.3318084, 0.3054134]),
];

// PyTorch 2.15.0: 2 tanh(tanh(x v1) v2) - 1.
const REGRESSION: &Rows = &[
    (1, &[-1.51605, -0.8098419]),
    (2, &[-0.3515348, -1.202402]),
    (3, &[-1.475231, -0.8591487]),
    (5, &[-0.9811019, -0.8761563]),
];

fn floats(width: usize) -> doorbell::onnx::Type {
    write::tensor(DType::F32, &[Dim::Named("n".into()), Dim::Fixed(width)])
}

fn classifier(engine: &Engine) -> Result<Model> {
    let mut writer = Writer::new("classifier", 17);
    writer.input("x", &floats(4));
    writer.constant("w1", &wave(engine, &[4, 8], 13.0, 0.5)?)?;
    writer.constant("b1", &wave(engine, &[8], 14.0, 0.5)?)?;
    writer.constant("w2", &wave(engine, &[8, 3], 15.0, 0.5)?)?;
    writer.node("Gemm", &["x", "w1", "b1"], &["a"], []);
    writer.node("Relu", &["a"], &["b"], []);
    writer.node("MatMul", &["b", "w2"], &["c"], []);
    writer.node("Softmax", &["c"], &["y"], [write::int("axis", -1)]);
    writer.output("y", &floats(3));
    Ok(Model::from_bytes("classifier", writer.finish())?)
}

fn regression(engine: &Engine) -> Result<Model> {
    let mut writer = Writer::new("regression", 17);
    writer.input("x", &floats(3));
    writer.constant("v1", &wave(engine, &[3, 6], 16.0, 0.7)?)?;
    writer.constant("v2", &wave(engine, &[6, 2], 17.0, 0.7)?)?;
    writer.constant("two", &Tensor::scalar(engine, 2.0, DType::F32)?)?;
    writer.constant("one", &Tensor::scalar(engine, 1.0, DType::F32)?)?;
    writer.node("MatMul", &["x", "v1"], &["a"], []);
    writer.node("Tanh", &["a"], &["b"], []);
    writer.node("MatMul", &["b", "v2"], &["c"], []);
    writer.node("Tanh", &["c"], &["d"], []);
    writer.node("Mul", &["d", "two"], &["e"], []);
    writer.node("Sub", &["e", "one"], &["y"], []);
    writer.output("y", &floats(2));
    Ok(Model::from_bytes("regression", writer.finish())?)
}

/// Asks again and again; keeps the first answers, and looks at them once more at the end.
fn ask(session: &Session, width: usize, seed: f64, rows: &Rows) -> Result<usize> {
    let mut kept = Vec::new();
    for i in 0..40 {
        let (n, expected) = rows[i % rows.len()];
        let x = wave(session.engine(), &[n, width], seed + n as f64, 1.0)?;
        let outputs = session.run([("x", x)])?;
        let y = outputs.tensor("y").cloned();
        let y = y.ok_or_else(|| std::io::Error::other("the model has no output y"))?;
        assert_eq!(y.shape(), [n, expected.len()], "rows and columns");
        let values: Vec<f32> = y.to_vec()?;
        let last = &values[values.len() - expected.len()..];
        all_close(&format!("request {i} of {n} rows"), last, expected, 1e-4);
        if i < 8 {
            kept.push((y, values));
        }
    }
    for (y, values) in &kept {
        assert_eq!(y.to_vec::<f32>()?, *values, "an old answer");
    }
    Ok(40)
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, Result<usize>>) -> Result<usize> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let classifier = classifier(&engine)?.on(&engine);
    let regression = regression(&engine)?.on(&engine);
    let mut asked = 0;
    for same in [false, true] {
        asked += std::thread::scope(|scope| {
            let one = scope.spawn(|| ask(&classifier, 4, 400.0, CLASSIFIER));
            let two = scope.spawn(|| match same {
                true => ask(&classifier, 4, 400.0, CLASSIFIER),
                false => ask(&regression, 3, 500.0, REGRESSION),
            });
            Ok::<_, doorbell::Error>(joined(one)? + joined(two)?)
        })?;
    }
    println!(
        "serving: {asked} requests from two threads, {} and {} graphs",
        classifier.captures(),
        regression.captures()
    );
    Ok(())
}
