//! Models that hang on values: captured for those of small inputs, evaluated at every run otherwise.

use crate::support;

use support::engine;
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model, Session, Type, Value};
use tensor::{DType, Engine, Tensor};

fn floats(dims: &[Dim]) -> Type {
    write::tensor(DType::F32, dims)
}

fn any() -> Type {
    floats(&[Dim::Any, Dim::Any])
}

fn load(model: Writer) -> Model {
    Model::from_bytes("model", model.finish()).unwrap()
}

fn ramp(engine: &Engine, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let list: Vec<f32> = (0..count).map(|i| i as f32 * 0.25 - 1.0).collect();
    Tensor::from_slice(engine, &list, shape).unwrap()
}

fn ints(engine: &Engine, list: &[i64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(engine, list, shape).unwrap()
}

/// The output `y`, on an engine.
fn run(session: &Session, inputs: &[(&str, &Tensor)]) -> (Vec<usize>, Vec<f32>) {
    let inputs = inputs.iter().map(|(n, t)| (*n, (*t).clone()));
    let outputs = session.run(inputs).unwrap();
    let y = outputs.tensor("y").unwrap();
    (y.shape().to_vec(), y.to_vec().unwrap())
}

/// The same without anything that could be captured.
fn plainly(model: &Model, inputs: &[(&str, &Tensor)]) -> (Vec<usize>, Vec<f32>) {
    let host = Engine::reference();
    let moved: Vec<(&str, Tensor)> = inputs
        .iter()
        .map(|(n, t)| (*n, t.to(&host).unwrap()))
        .collect();
    let moved: Vec<(&str, &Tensor)> = moved.iter().map(|(n, t)| (*n, t)).collect();
    run(&model.on(&host), &moved)
}

/// An `If` as two graphs of one output.
fn branch(model: &mut Writer, condition: &str, to: &str, yes: Writer, no: Writer) {
    let branches = [
        write::graph("then_branch", yes.into_graph()),
        write::graph("else_branch", no.into_graph()),
    ];
    model.node("If", &[condition], &[to], branches);
}

/// One node as the graph of a branch.
fn only(op: &str, inputs: &[&str], output: &str) -> Writer {
    let mut graph = Writer::new(output, 17);
    graph.node(op, inputs, &[output], []);
    graph.output(output, &any());
    graph
}

/// A detector of speech in small: one net for each of two rates, padding by the shape of the input,
/// a state that goes around.
fn speech(engine: &Engine) -> Writer {
    let mut model = Writer::new("speech", 17);
    model.input("x", &any());
    model.input("state", &floats(&[Dim::Fixed(2), Dim::Fixed(5)]));
    model.input("sr", &write::tensor(DType::I64, &[]));
    for (name, list) in [("high", [16000]), ("low", [8000]), ("six", [6])] {
        model.constant(name, &ints(engine, &list, &[1])).unwrap();
    }
    for (name, rows) in [("w6", 6), ("w3", 3)] {
        let weight = ramp(engine, &[rows, 5]);
        model.constant(name, &weight).unwrap();
    }
    model.node("Shape", &["x"], &["width"], [write::int("start", 1)]);
    model.node("Equal", &["width", "six"], &["wide"], []);
    model.node("Equal", &["sr", "high"], &["is_high"], []);
    // The products only fit one width each: what is not taken would be an error.
    let mut high = Writer::new("high", 17);
    let (fits, fails) = (only("Relu", &["x"], "a"), only("MatMul", &["x", "w3"], "b"));
    branch(&mut high, "wide", "c", fits, fails);
    high.node("MatMul", &["c", "w6"], &["d"], []);
    high.output("d", &any());
    let mut low = Writer::new("low", 17);
    low.node("MatMul", &["x", "w3"], &["e"], []);
    low.output("e", &any());
    branch(&mut model, "is_high", "p", high, low);
    model.node("Add", &["p", "state"], &["s"], []);
    model.node("Tanh", &["s"], &["y"], []);
    model.output("y", &any());
    model
}

#[test]
fn ifs_on_a_scalar_and_on_shapes_are_captured_for_each_value() {
    let engine = engine();
    let model = load(speech(&engine));
    let session = model.on(&engine);
    let state = ramp(&engine, &[2, 5]);
    let (wide, narrow) = (ramp(&engine, &[2, 6]), ramp(&engine, &[2, 3]));
    for round in 0..3 {
        for (sr, x) in [(16000, &wide), (8000, &narrow)] {
            // Given in host memory, and as what the device makes.
            let sr = match round {
                0 => ints(&engine, &[sr], &[]),
                _ => Tensor::full(&engine, &[], sr, DType::I64).unwrap(),
            };
            let inputs = [("x", x), ("state", &state), ("sr", &sr)];
            let (shape, values) = run(&session, &inputs);
            let (plain_shape, plain) = plainly(&model, &inputs);
            assert_eq!(shape, plain_shape);
            for (a, b) in values.iter().zip(&plain) {
                assert!((a - b).abs() < 1e-6, "{values:?} is not {plain:?}");
            }
        }
        assert_eq!(session.captures(), 2);
    }
    // The other rate does not fit this width, and says so as it would without a capture.
    let sr = ints(&engine, &[8000], &[]);
    let inputs = [("x", wide), ("state", state), ("sr", sr)];
    let error = session.run(inputs).unwrap_err().to_string();
    assert!(
        error.contains("node MatMul") && error.contains("[2, 6]"),
        "{error}"
    );
    let prepared = session.prepared();
    assert_eq!(prepared.len(), 2);
    for plan in prepared {
        assert!(plan.plain.is_none());
        let [sr] = &plan.specialised[..] else {
            panic!("{plan:?}");
        };
        assert_eq!(sr.input, "sr");
        assert!(["16000", "8000"].contains(&sr.value.to_string().as_str()));
        assert!(sr.place.to_string().contains("If"), "{}", sr.place);
    }
}

/// `y` is the first `n` rows of `x`.
fn first(model: &mut Writer, engine: &Engine, n: &str) {
    model.input("x", &any());
    model.constant("zero", &ints(engine, &[0], &[1])).unwrap();
    model.node("Slice", &["x", "zero", n], &["part"], []);
    model.node("Neg", &["part"], &["y"], []);
    model.output("y", &any());
}

#[test]
fn an_input_that_counts_is_given_up_until_replays_have_paid() {
    let engine = engine();
    let mut model = Writer::new("count", 17);
    model.input("n", &write::tensor(DType::I64, &[Dim::Fixed(1)]));
    first(&mut model, &engine, "n");
    let model = load(model);
    let session = model.on(&engine);
    let x = ramp(&engine, &[64, 2]);
    let check = |n: usize| {
        let (shape, values) = run(
            &session,
            &[("x", &x), ("n", &ints(&engine, &[n as i64], &[1]))],
        );
        assert_eq!(shape, [n, 2]);
        let wanted: Vec<f32> = (0..2 * n).map(|i| 1.0 - i as f32 * 0.25).collect();
        assert_eq!(values, wanted);
        session.captures()
    };
    for n in 1..=40 {
        assert_eq!(check(n), n.min(9));
    }
    for _ in 0..100 {
        assert_eq!(check(3), 9);
    }
    assert_eq!(check(41), 10);
    assert_eq!(check(42), 10);
}

#[test]
fn a_bounded_number_of_graphs_is_kept() {
    let engine = engine();
    let mut model = Writer::new("count", 17);
    model.input("n", &write::tensor(DType::I64, &[Dim::Fixed(1)]));
    first(&mut model, &engine, "n");
    let session = load(model).on(&engine);
    for rows in 2..20 {
        let x = ramp(&engine, &[rows, 1]);
        for n in [1, 2] {
            let (shape, _) = run(&session, &[("x", &x), ("n", &ints(&engine, &[n], &[1]))]);
            assert_eq!(shape, [n as usize, 1]);
        }
    }
    assert_eq!(session.captures(), 32);
}

#[test]
fn what_depends_on_a_large_input_is_not_captured_and_says_where() {
    let engine = engine();
    let mut model = Writer::new("found", 17);
    model.input("x", &any());
    model.node("NonZero", &["x"], &["at"], []);
    model.node("Cast", &["at"], &["y"], [write::int("to", 1)]);
    model.output("y", &any());
    let session = load(model).on(&engine);
    let x = Tensor::eye(&engine, 20, 20, DType::F32).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&session, &[("x", &x)]).0, [2, 20]);
    }
    assert_eq!(session.captures(), 0);
    let prepared = session.prepared();
    let why = prepared[0].plain.as_deref().unwrap();
    for text in ["node NonZero", "input \"x\"", "FLOAT [20, 20]"] {
        assert!(why.contains(text), "{text} is not in {why}");
    }
}

#[test]
fn what_depends_on_weights_alone_is_computed_once() {
    let engine = engine();
    let mut model = Writer::new("kept", 17);
    model.input("x", &any());
    let mask: Vec<f32> = (0..400).map(|i| f32::from(i % 40 == 0)).collect();
    let mask = Tensor::from_slice(&engine, &mask, &[400]).unwrap();
    model.constant("mask", &mask).unwrap();
    model.constant("flat", &ints(&engine, &[-1], &[1])).unwrap();
    model.node("Mul", &["mask", "mask"], &["square"], []);
    model.node("NonZero", &["square"], &["at"], []);
    model.node("Reshape", &["at", "flat"], &["rows"], []);
    model.node("Gather", &["x", "rows"], &["y"], [write::int("axis", 0)]);
    model.output("y", &any());
    let model = load(model);
    let session = model.on(&engine);
    let x = ramp(&engine, &[400, 2]);
    let first = run(&session, &[("x", &x)]);
    assert_eq!(first.0, [10, 2]);
    assert_eq!(first, plainly(&model, &[("x", &x)]));
    assert_eq!(run(&session, &[("x", &x)]), first);
    assert_eq!(session.captures(), 1);
    assert!(session.prepared()[0].specialised.is_empty());
}

#[test]
fn a_mask_that_decides_by_its_sum_and_a_loop_that_an_input_counts() {
    let engine = engine();
    let mut model = Writer::new("mask", 17);
    model.input("mask", &write::tensor(DType::I64, &[Dim::Any]));
    model.node("ReduceSum", &["mask"], &["n"], []);
    let mut body = Writer::new("body", 17);
    body.input("i", &write::tensor(DType::I64, &[]));
    body.input("go", &write::tensor(DType::Bool, &[]));
    body.input("a", &any());
    body.node("Identity", &["go"], &["on"], []);
    body.node("Add", &["a", "x"], &["b"], []);
    body.output("on", &write::tensor(DType::Bool, &[]));
    body.output("b", &any());
    let body = [write::graph("body", body.into_graph())];
    model.node("Loop", &["n", "", "x"], &["sum"], body);
    model.node("Identity", &["sum"], &["y"], []);
    model.input("x", &any());
    model.output("y", &any());
    let model = load(model);
    let session = model.on(&engine);
    let x = ramp(&engine, &[3, 3]);
    for (mask, captures) in [
        ([1, 0, 1], 1),
        ([1, 1, 1], 2),
        ([0, 0, 0], 3),
        ([1, 0, 1], 3),
    ] {
        let times = mask.iter().sum::<i64>() as f32 + 1.0;
        let mask = ints(&engine, &mask, &[3]);
        let (_, values) = run(&session, &[("x", &x), ("mask", &mask)]);
        let wanted: Vec<f32> = x
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .map(|x| x * times)
            .collect();
        assert_eq!(values, wanted);
        assert_eq!(session.captures(), captures);
    }
}

#[test]
fn tensors_in_sequences_and_optionals_are_inputs_of_a_graph() {
    let engine = engine();
    let mut model = Writer::new("listed", 17);
    model.input("list", &Type::Sequence(Box::new(any())));
    model.input("at", &write::tensor(DType::I64, &[]));
    model.input("more", &Type::Optional(Box::new(any())));
    model.node("SequenceAt", &["list", "at"], &["x"], []);
    model.node("OptionalHasElement", &["more"], &["has"], []);
    let (yes, no) = (
        only("OptionalGetElement", &["more"], "a"),
        only("Identity", &["x"], "b"),
    );
    branch(&mut model, "has", "z", yes, no);
    model.node("Add", &["x", "z"], &["y"], []);
    model.output("y", &any());
    let session = load(model).on(&engine);
    let parts: Vec<Tensor> = (1..3).map(|n| ramp(&engine, &[n, 20])).collect();
    let list = Value::Sequence(std::sync::Arc::new(
        parts.iter().cloned().map(Value::from).collect(),
    ));
    let one = Tensor::ones(&engine, &[1, 20], DType::F32).unwrap();
    for (more, at, captures) in [(false, 0, 1), (false, 1, 2), (true, 1, 3), (false, 0, 3)] {
        let mut inputs = vec![
            ("list", list.clone()),
            ("at", ints(&engine, &[at], &[]).into()),
        ];
        if more {
            inputs.push(("more", one.clone().into()));
        }
        let outputs = session.run(inputs).unwrap();
        let x = parts[at as usize].to_vec::<f32>().unwrap();
        let wanted = x.iter().map(|x| x + if more { 1.0 } else { *x });
        let values: Vec<f32> = outputs.tensor("y").unwrap().to_vec().unwrap();
        assert_eq!(values, wanted.collect::<Vec<f32>>());
        assert_eq!(session.captures(), captures);
    }
}
