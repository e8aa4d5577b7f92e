//! Models on the CPU device: captured per shape, with defaults, functions, files beside the model.

use crate::support;

use prost::Message;
use support::engine;
use tensor::onnx::proto::{FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model, OnnxError, Progress, Value};
use tensor::{DType, Engine, Tensor};

fn named(name: &str) -> Dim {
    Dim::Named(name.into())
}

fn floats(engine: &Engine, data: &[f32]) -> Tensor {
    Tensor::from_slice(engine, data, &[data.len()]).unwrap()
}

fn values(value: Option<&Tensor>) -> Vec<f32> {
    value.unwrap().to_vec().unwrap()
}

/// `y = x * w + w`, with `w` an input that has a default.
fn affine(engine: &Engine) -> Vec<u8> {
    let vector = write::tensor(DType::F32, &[named("n")]);
    let mut model = Writer::new("affine", 17);
    model.input("x", &vector);
    model.input("w", &write::tensor(DType::F32, &[Dim::Fixed(1)]));
    model.constant("w", &floats(engine, &[3.0])).unwrap();
    // Not in an order in which they can run.
    model.node("Add", &["p", "w"], &["y"], []);
    model.node("Mul", &["x", "w"], &["p"], []);
    model.output("y", &vector);
    model.finish()
}

#[test]
fn each_shape_is_captured_once_and_defaults_can_be_given() {
    let engine = engine();
    let model = Model::from_bytes("affine", affine(&engine)).unwrap();
    assert_eq!(model.inputs().count(), 1);
    assert_eq!(model.defaults().map(|(n, _)| n).collect::<Vec<_>>(), ["w"]);
    let session = model.on(&engine);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    session.on_progress(move |p| log.lock().unwrap().push(p));
    for (x, captures) in [(vec![1.0, 2.0], 1), (vec![5.0; 7], 2), (vec![0.5, 1.0], 2)] {
        let out = session.run([("x", floats(&engine, &x))]).unwrap();
        let wanted: Vec<f32> = x.iter().map(|x| x * 3.0 + 3.0).collect();
        assert_eq!(values(out.tensor("y")), wanted);
        assert_eq!(session.captures(), captures);
    }
    let given = [
        ("x", floats(&engine, &[1.0])),
        ("w", floats(&engine, &[10.0])),
    ];
    let out = session.run(given).unwrap();
    assert_eq!(values(out.tensor("y")), [20.0]);
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&Progress::Tracing(2, 2)) && seen.contains(&Progress::Compiling));
}

#[test]
fn outputs_of_an_earlier_run_stay() {
    let engine = engine();
    let session = Model::from_bytes("affine", affine(&engine))
        .unwrap()
        .on(&engine);
    let first = session.run([("x", floats(&engine, &[1.0]))]).unwrap();
    let second = session.run([("x", floats(&engine, &[2.0]))]).unwrap();
    assert_eq!(values(first.tensor("y")), [6.0]);
    assert_eq!(values(second.tensor("y")), [9.0]);
}

#[test]
fn a_model_that_ran_and_its_engine_are_freed() {
    let engine = engine();
    let left = std::sync::Arc::downgrade(&engine.0);
    let model = Model::from_bytes("affine", affine(&engine)).unwrap();
    let out = model.run([("x", floats(&engine, &[1.0]))]).unwrap();
    drop((model, out, engine));
    assert_eq!(left.strong_count(), 0);
}

#[test]
fn shapes_that_depend_on_small_inputs_are_captured_for_their_values() {
    let engine = engine();
    let mut model = Writer::new("reshape", 17);
    model.input("x", &write::tensor(DType::F32, &[named("n")]));
    model.input("shape", &write::tensor(DType::I64, &[named("rank")]));
    model.node("Reshape", &["x", "shape"], &["r"], []);
    model.node("Neg", &["r"], &["y"], []);
    model.output("y", &write::tensor(DType::F32, &[Dim::Any, Dim::Any]));
    let session = Model::from_bytes("reshape", model.finish())
        .unwrap()
        .on(&engine);
    for shape in [[2i64, 3], [3, 2], [6, 1], [2, 3]] {
        let x = floats(&engine, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let to = Tensor::from_slice(&engine, &shape, &[2]).unwrap();
        let out = session.run([("x", x), ("shape", to)]).unwrap();
        let y = out.tensor("y").unwrap();
        assert_eq!(y.shape(), [shape[0] as usize, shape[1] as usize]);
        assert_eq!(values(Some(y)), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    }
    assert_eq!(session.captures(), 3);
}

#[test]
fn inputs_must_fit_what_the_model_declares() {
    let engine = engine();
    let square = write::tensor(DType::F32, &[named("n"), named("n")]);
    let mut model = Writer::new("square", 17);
    model.input("x", &square);
    model.node("Relu", &["x"], &["y"], []);
    model.output("y", &square);
    let model = Model::from_bytes("square.onnx", model.finish()).unwrap();
    let fails = |inputs: Vec<(&str, Tensor)>, wanted: &[&str]| {
        let error = model.on(&engine).run(inputs).unwrap_err();
        assert!(matches!(error, OnnxError::Input { .. }), "{error}");
        for text in wanted {
            assert!(error.to_string().contains(text), "{text} is not in {error}");
        }
    };
    let of = |shape: &[usize], dtype| Tensor::zeros(&engine, shape, dtype).unwrap();
    fails(
        vec![],
        &["square.onnx: input \"x\"", "FLOAT [n, n]", "found no input"],
    );
    fails(
        vec![("x", of(&[2, 2], DType::F64))],
        &["FLOAT [n, n]", "DOUBLE [2, 2]"],
    );
    fails(vec![("x", of(&[2], DType::F32))], &["FLOAT [2]"]);
    let x = || of(&[2, 2], DType::F32);
    fails(vec![("x", x()), ("z", x())], &["no such input", "\"x\""]);
    fails(vec![("x", x()), ("x", x())], &["passed twice"]);
}

#[test]
fn sizes_of_one_name_may_differ_and_nodes_say_what_does_not_fit() {
    let engine = engine();
    let loose = |n: usize| write::tensor(DType::F32, &vec![named("?"); n]);
    let mut model = Writer::new("loose.onnx", 17);
    model.input("a", &loose(2));
    model.input("b", &loose(1));
    model.node("Add", &["a", "b"], &["y"], []);
    model.output("y", &loose(2));
    let session = Model::from_bytes("loose.onnx", model.finish())
        .unwrap()
        .on(&engine);
    let ones = |shape: &[usize]| Tensor::ones(&engine, shape, DType::F32).unwrap();
    let run = |a: &[usize], b: &[usize]| session.run([("a", ones(a)), ("b", ones(b))]);
    for (rows, columns) in [(2, 3), (5, 1), (2, 2)] {
        let out = run(&[rows, columns], &[columns]).unwrap();
        assert_eq!(values(out.tensor("y")), vec![2.0; rows * columns]);
    }
    let error = run(&[2, 3], &[4]).unwrap_err();
    assert!(matches!(error, OnnxError::Node { .. }), "{error}");
    for text in ["loose.onnx: node Add", "[2, 3]", "[4]"] {
        assert!(error.to_string().contains(text), "{text} is not in {error}");
    }
    let error = run(&[2], &[2]).unwrap_err();
    assert!(matches!(error, OnnxError::Input { .. }), "{error}");
}

#[test]
fn functions_are_put_in_the_place_of_their_calls() {
    let engine = engine();
    let vector = write::tensor(DType::F32, &[named("n")]);
    let mut model = Writer::new("calls", 17);
    model.import("mine", 1);
    model.input("x", &vector);
    model.node("Leak", &["x", ""], &["a"], [write::float("slope", 0.5)]);
    model.node("Leak", &["a", "x"], &["y"], []);
    model.output("y", &vector);
    let mut proto = ModelProto::decode(&model.finish()[..]).unwrap();
    for node in &mut proto.graph.as_mut().unwrap().node {
        node.domain = "mine".into();
    }
    let node = |op: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: op.into(),
        input: inputs.iter().map(|s| s.to_string()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    let mut leaky = node("LeakyRelu", &["v"], "leaked");
    let mut alpha = write::float("alpha", 0.0);
    alpha.ref_attr_name = "slope".into();
    leaky.attribute.push(alpha);
    proto.functions.push(FunctionProto {
        name: "Leak".into(),
        domain: "mine".into(),
        input: vec!["v".into(), "again".into()],
        output: vec!["out".into()],
        attribute_proto: vec![write::float("slope", 0.25)],
        // The second input is left out once: Clip takes it as no bound.
        node: vec![leaky, node("Identity", &["leaked"], "out")],
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 17,
        }],
        ..FunctionProto::default()
    });
    let model = Model::from_bytes("calls", proto.encode_to_vec()).unwrap();
    assert_eq!(model.summary().operators["LeakyRelu"], 2);
    let out = model.run([("x", floats(&engine, &[-8.0, 4.0]))]).unwrap();
    assert_eq!(values(out.tensor("y")), [-1.0, 4.0]);
}

#[test]
fn weights_may_lie_in_a_file_beside_the_model() {
    let engine = engine();
    let weights: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let vector = write::tensor(DType::F32, &[named("n")]);
    let mut model = Writer::new("beside", 17);
    model.input("x", &vector);
    model.constant("w", &floats(&engine, &weights)).unwrap();
    model.node("Add", &["x", "w"], &["y"], []);
    model.output("y", &vector);
    let mut proto = ModelProto::decode(&model.finish()[..]).unwrap();
    let tensor = &mut proto.graph.as_mut().unwrap().initializer[0];
    let bytes = tensor.raw_data.take().unwrap();
    tensor.data_location = tensor::onnx::proto::EXTERNAL;
    let length = bytes.len().to_string();
    for (key, value) in [
        ("location", "w.bin"),
        ("offset", "64"),
        ("length", length.as_str()),
    ] {
        tensor
            .external_data
            .push(tensor::onnx::proto::StringStringEntryProto {
                key: key.into(),
                value: value.into(),
            });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, proto.encode_to_vec()).unwrap();
    std::fs::write(
        folder.path().join("w.bin"),
        [&[0xff; 64][..], &bytes].concat(),
    )
    .unwrap();
    let model = Model::load(&path).unwrap();
    let out = model
        .run([("x", floats(&engine, &vec![1.0; 4096]))])
        .unwrap();
    let wanted: Vec<f32> = weights.iter().map(|w| w + 1.0).collect();
    assert_eq!(values(out.tensor("y")), wanted);
}

#[test]
fn constants_of_the_model_can_be_outputs() {
    let engine = engine();
    let vector = write::tensor(DType::F32, &[Dim::Fixed(2)]);
    let mut model = Writer::new("constant", 17);
    model.input("x", &vector);
    model.constant("w", &floats(&engine, &[1.5, 2.5])).unwrap();
    model.node("Sqrt", &["w"], &["root"], []);
    model.output("x", &vector);
    model.output("w", &vector);
    model.output("root", &vector);
    let session = Model::from_bytes("constant", model.finish())
        .unwrap()
        .on(&engine);
    for x in [[7.0f32, 8.0], [9.0, 10.0]] {
        let out = session.run([("x", floats(&engine, &x))]).unwrap();
        let names: Vec<&str> = out.0.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["x", "w", "root"]);
        assert_eq!(values(out.tensor("x")), x);
        assert_eq!(values(out.tensor("w")), [1.5, 2.5]);
        assert_eq!(values(out.tensor("root")), [1.5f32.sqrt(), 2.5f32.sqrt()]);
        assert!(matches!(out.get("w"), Some(Value::Tensor(_))));
    }
}
