//! Control flow of models on the CPU device: what is unrolled into a captured graph, and what runs
//! without one.

use crate::support;

use prost::Message;
use support::engine;
use tensor::onnx::proto::{FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model, Session};
use tensor::{DType, Engine, Tensor};

fn session(engine: &Engine, model: Writer) -> Session {
    Model::from_bytes("model", model.finish())
        .unwrap()
        .on(engine)
}

fn run(session: &Session, inputs: &[(&str, &Tensor)]) -> Vec<f32> {
    let inputs = inputs.iter().map(|(n, t)| (*n, (*t).clone()));
    let outputs = session.run(inputs).unwrap();
    outputs.tensor("y").unwrap().to_vec().unwrap()
}

/// `y = If(condition, -x, x x)`, where the product only fits matrices that are square.
fn choice(model: &mut Writer) {
    let mut yes = Writer::new("yes", 17);
    yes.node("Neg", &["x"], &["n"], []);
    yes.output("n", &write::tensor(DType::F32, &[Dim::Any, Dim::Any]));
    let mut no = Writer::new("no", 17);
    no.node("MatMul", &["x", "x"], &["p"], []);
    no.output("p", &write::tensor(DType::F32, &[Dim::Any, Dim::Any]));
    let branches = [
        write::graph("then_branch", yes.into_graph()),
        write::graph("else_branch", no.into_graph()),
    ];
    model.node("If", &["condition"], &["y"], branches);
    model.input("x", &write::tensor(DType::F32, &[Dim::Any, Dim::Any]));
    model.output("y", &write::tensor(DType::F32, &[Dim::Any, Dim::Any]));
}

#[test]
fn a_branch_that_shapes_choose_is_the_only_one_in_the_graph() {
    let engine = engine();
    let mut model = Writer::new("choice", 17);
    let three = Tensor::from_slice(&engine, &[3i64], &[1]).unwrap();
    model.constant("three", &three).unwrap();
    model.node("Shape", &["x"], &["rows"], [write::int("end", 1)]);
    model.node("Less", &["rows", "three"], &["condition"], []);
    choice(&mut model);
    let session = session(&engine, model);
    let x = Tensor::from_slice(&engine, &[1.0f32, 2.0, 3.0], &[1, 3]).unwrap();
    assert_eq!(run(&session, &[("x", &x)]), [-1.0, -2.0, -3.0]);
    let x = Tensor::eye(&engine, 3, 3, DType::F32).unwrap();
    assert_eq!(run(&session, &[("x", &x)])[..4], [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(session.captures(), 2);
}

#[test]
fn a_branch_that_an_input_chooses_is_chosen_at_every_run() {
    let engine = engine();
    let mut model = Writer::new("choice", 17);
    model.input("condition", &write::tensor(DType::Bool, &[]));
    choice(&mut model);
    let session = session(&engine, model);
    let x = Tensor::from_slice(&engine, &[2.0f32], &[1, 1]).unwrap();
    for (truth, wanted) in [(true, -2.0), (false, 4.0), (true, -2.0)] {
        let condition = Tensor::full(&engine, &[], truth, DType::Bool).unwrap();
        let y = run(&session, &[("x", &x), ("condition", &condition)]);
        assert_eq!(y, [wanted]);
    }
    assert_eq!(session.captures(), 2);
}

#[test]
fn loops_of_known_length_are_unrolled_up_to_a_bound_and_what_they_know_stays_known() {
    let engine = engine();
    for (trips, captures) in [(5i64, 1), (2000, 0)] {
        let number = |n: i64| Tensor::from_slice(&engine, &[n], &[1]).unwrap();
        let mut body = Writer::new("body", 17);
        body.input("i", &write::tensor(DType::I64, &[]));
        body.input("go", &write::tensor(DType::Bool, &[]));
        body.input("n", &write::tensor(DType::I64, &[Dim::Fixed(1)]));
        body.input("a", &write::tensor(DType::F32, &[Dim::Any]));
        body.node("Identity", &["go"], &["on"], []);
        body.node("Add", &["n", "one"], &["m"], []);
        body.node("Add", &["a", "x"], &["b"], []);
        body.output("on", &write::tensor(DType::Bool, &[]));
        body.output("m", &write::tensor(DType::I64, &[Dim::Fixed(1)]));
        body.output("b", &write::tensor(DType::F32, &[Dim::Any]));
        let mut model = Writer::new("count", 17);
        model.input("x", &write::tensor(DType::F32, &[Dim::Any]));
        model.constant("trips", &number(trips)).unwrap();
        model.constant("zero", &number(0)).unwrap();
        model.constant("one", &number(1)).unwrap();
        let body = [write::graph("body", body.into_graph())];
        model.node("Loop", &["trips", "", "zero", "x"], &["n", "sum"], body);
        // A shape that the loop counted to.
        model.node("Concat", &["n", "one"], &["shape"], [write::int("axis", 0)]);
        model.node("Expand", &["sum", "shape"], &["y"], []);
        model.output("y", &write::tensor(DType::F32, &[Dim::Any, Dim::Any]));
        let session = session(&engine, model);
        let x = Tensor::from_slice(&engine, &[1.0f32, 0.5], &[2]).unwrap();
        for _ in 0..2 {
            let y = run(&session, &[("x", &x)]);
            assert_eq!(y.len() as i64, 2 * trips);
            let times = (trips + 1) as f32;
            assert_eq!(y[..2], [times, 0.5 * times]);
        }
        assert_eq!(session.captures(), captures);
    }
}

#[test]
fn subgraphs_of_functions_of_subgraphs_are_bounded() {
    // Function k calls function k + 1 in a branch.
    let function = |k: usize| {
        let call = NodeProto {
            op_type: format!("f{}", k + 1),
            domain: "own".into(),
            input: vec!["x".into()],
            output: vec!["z".into()],
            ..NodeProto::default()
        };
        let mut branch = Writer::new("branch", 17).into_graph();
        branch.node.push(call);
        branch.output.extend([tensor::onnx::proto::ValueInfoProto {
            name: "z".into(),
            ..Default::default()
        }]);
        let branches = ["then_branch", "else_branch"];
        FunctionProto {
            name: format!("f{k}"),
            domain: "own".into(),
            input: vec!["x".into()],
            output: vec!["y".into()],
            node: vec![NodeProto {
                op_type: "If".into(),
                input: vec!["x".into()],
                output: vec!["y".into()],
                attribute: branches.map(|n| write::graph(n, branch.clone())).to_vec(),
                ..NodeProto::default()
            }],
            opset_import: ["", "own"]
                .map(|domain| OperatorSetIdProto {
                    domain: domain.into(),
                    version: if domain.is_empty() { 17 } else { 1 },
                })
                .to_vec(),
            ..FunctionProto::default()
        }
    };
    let mut model = Writer::new("deep", 17);
    model.input("x", &write::tensor(DType::Bool, &[]));
    model.output("y", &write::tensor(DType::Bool, &[]));
    let mut model = ModelProto::decode(&model.finish()[..]).unwrap();
    model.opset_import.push(OperatorSetIdProto {
        domain: "own".into(),
        version: 1,
    });
    model.functions = (0..1000).map(function).collect();
    if let Some(graph) = &mut model.graph {
        graph.node.push(NodeProto {
            op_type: "f0".into(),
            domain: "own".into(),
            input: vec!["x".into()],
            output: vec!["y".into()],
            ..NodeProto::default()
        });
    }
    let error = match Model::from_bytes("deep", model.encode_to_vec()) {
        Ok(_) => panic!("was loaded"),
        Err(e) => e.to_string(),
    };
    assert!(error.contains("64"), "{error}");
}
