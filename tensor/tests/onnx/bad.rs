//! Models that are wrong, and inputs that do not fit: one error that names the file and the place,
//! never a panic, and no memory that the file only claims to need.
use crate::support;

use std::path::Path;

use prost::Message;
use support::engine;
use tensor::onnx::proto::{
    AttributeProto, EXTERNAL, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    SparseTensorProto, StringStringEntryProto, TensorProto, attribute_type,
};
use tensor::onnx::{Dim, Model, OnnxError, write};
use tensor::{DType, Engine, Tensor};

fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    let own = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
    NodeProto {
        op_type: op.into(),
        input: own(inputs),
        output: own(outputs),
        attribute,
        ..NodeProto::default()
    }
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto {
        domain: domain.into(),
        version,
    }
}

fn ints(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: 7,
        dims: vec![values.len() as i64],
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: 1,
        dims: dims.to_vec(),
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn number(name: &str, value: i64) -> TensorProto {
    TensorProto {
        dims: vec![],
        ..ints(name, &[value])
    }
}

/// Nodes over constants and the input `x`, floats `[2, n]`; the output is `y`.
fn model(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> ModelProto {
    let ty = write::tensor(DType::F32, &[Dim::Fixed(2), Dim::Named("n".into())]);
    let mut writer = write::Writer::new("bad", 17);
    writer.input("x", &ty);
    writer.output("y", &tensor::onnx::Type::Other(String::new()));
    let mut model = ModelProto::decode(&writer.finish()[..]).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node = nodes;
    graph.initializer = constants;
    model
}

fn one(op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> ModelProto {
    model(vec![node(op, inputs, &["y"], attributes)], vec![])
}

fn load(model: &ModelProto) -> Result<Model, OnnxError> {
    Model::from_bytes("bad.onnx", model.encode_to_vec())
}

/// What loading or running says, on both executors; it must name the file.
fn failure(model: &ModelProto) -> String {
    let model = match load(model) {
        Ok(model) => model,
        Err(e) => return named(&e),
    };
    let texts = [Engine::reference_within(1 << 30), engine()].map(|engine| {
        let x = Tensor::from_slice(&engine, &[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        named(&model.on(&engine).run([("x", x)]).unwrap_err())
    });
    texts[1].clone()
}

fn named(e: &OnnxError) -> String {
    let text = e.to_string();
    assert!(text.starts_with("bad.onnx: "), "{text}");
    text
}

/// The error has all of these words.
fn fails(model: &ModelProto, words: &[&str]) {
    let text = failure(model);
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn every_prefix_is_an_error() {
    let whole = model(
        vec![node("Add", &["x", "w"], &["y"], vec![])],
        vec![floats("w", &[2, 1], &[1.0, 2.0])],
    );
    let bytes = whole.encode_to_vec();
    for end in 0..bytes.len() {
        if let Err(e) = Model::from_bytes("bad.onnx", bytes[..end].to_vec()) {
            named(&e);
        }
    }
    assert!(Model::from_bytes("bad.onnx", Vec::new()).is_err());
    assert!(Model::from_bytes("bad.onnx", b"PK\x03\x04 not a model".to_vec()).is_err());
    load(&whole).unwrap();
}

#[test]
fn names_must_make_sense() {
    let neg = |a: &str, b: &str| node("Neg", &[a], &[b], vec![]);
    fails(
        &model(vec![neg("a", "y"), neg("y", "a")], vec![]),
        &["Neg", "cycles"],
    );
    fails(&model(vec![neg("y", "y")], vec![]), &["Neg", "\"y\""]);
    fails(
        &model(vec![neg("x", "y"), neg("x", "y")], vec![]),
        &["Neg", "\"y\""],
    );
    fails(
        &model(vec![neg("z", "y")], vec![]),
        &["\"z\"", "no node produces"],
    );
    fails(
        &model(vec![neg("x", "z")], vec![]),
        &["\"y\"", "no node produces"],
    );
    fails(
        &model(vec![neg("x", "x"), neg("x", "y")], vec![]),
        &["\"x\"", "cycles"],
    );
    let twice = vec![ints("w", &[1]), ints("w", &[2])];
    fails(&model(vec![neg("x", "y")], twice), &["\"w\"", "twice"]);
    let mut none = model(vec![neg("x", "y")], vec![]);
    none.graph = None;
    fails(&none, &["no graph in"]);
    none.opset_import.clear();
    none.graph = Some(GraphProto::default());
    fails(&none, &["operator set"]);
}

#[test]
fn all_that_is_missing_is_listed() {
    let mut wrong = model(
        vec![
            node("Nothing", &["x"], &["a"], vec![]),
            node("Never", &["a"], &["b"], vec![]),
            node("Nothing", &["b"], &["y"], vec![]),
        ],
        vec![],
    );
    fails(&wrong, &["Nothing", "Never", "and 1 more"]);
    assert!(load(&wrong).err().unwrap().is_unsupported());
    wrong.opset_import.push(opset("", 99));
    fails(&wrong, &["operator set 99", "Never"]);
    wrong.graph.as_mut().unwrap().node[0].domain = "mine".into();
    fails(&wrong, &["mine.Nothing", "import"]);
}

#[test]
fn shapes_and_attributes_must_fit() {
    let wide = floats("w", &[3, 3], &[0.0; 9]);
    let pair = |op: &str| {
        model(
            vec![node(op, &["x", "w"], &["y"], vec![])],
            vec![wide.clone()],
        )
    };
    fails(&pair("Add"), &["Add", "[2, 2]", "[3, 3]"]);
    fails(&pair("MatMul"), &["MatMul", "inner sizes"]);
    fails(
        &one("Softmax", &["x"], vec![write::int("axis", 5)]),
        &["axis", "5"],
    );
    fails(
        &one("Softmax", &["x"], vec![write::string("axis", "no")]),
        &["axis", "a string"],
    );
    fails(
        &one("Transpose", &["x"], vec![write::ints("perm", &[0, 7])]),
        &["Transpose"],
    );
    fails(
        &one("Cast", &["x"], vec![write::int("to", 14)]),
        &["COMPLEX64"],
    );
    fails(&one("Cast", &["x"], vec![write::int("to", 77)]), &["77"]);
    fails(&one("Cast", &["x"], vec![]), &["attribute to"]);
    fails(&one("Add", &["x"], vec![]), &["input 1"]);
    let twice = vec![write::int("axis", 0), write::int("axis", 1)];
    fails(&one("Softmax", &["x"], twice), &["axis", "twice"]);
    let mut strange = write::int("axis", 0);
    strange.r#type = 55;
    fails(&one("Softmax", &["x"], vec![strange]), &["55"]);
    let mixed = model(
        vec![node("Add", &["x", "i"], &["y"], vec![])],
        vec![ints("i", &[1, 2])],
    );
    fails(&mixed, &["Add", "one type"]);
}

#[test]
fn inputs_must_fit() {
    let model = load(&one("Relu", &["x"], vec![])).unwrap();
    let engine = Engine::reference();
    let tensor = |shape: &[usize], dtype| Tensor::zeros(&engine, shape, dtype).unwrap();
    let good = tensor(&[2, 3], DType::F32);
    let says = |inputs: &[(&str, &Tensor)]| {
        let inputs = inputs.iter().map(|&(n, t)| (n, t.clone()));
        named(&model.run(inputs).unwrap_err())
    };
    assert!(says(&[]).contains("found no input"));
    assert!(says(&[("z", &good)]).contains("no such input; inputs: \"x\""));
    assert!(says(&[("x", &good), ("x", &good)]).contains("twice"));
    assert!(says(&[("x", &tensor(&[3, 3], DType::F32))]).contains("expected FLOAT [2, n]"));
    assert!(says(&[("x", &tensor(&[2], DType::F32))]).contains("found FLOAT [2]"));
    assert!(says(&[("x", &tensor(&[2, 3], DType::I64))]).contains("found INT64 [2, 3]"));
    model.run([("x", good)]).unwrap();
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let huge = 1i64 << 62;
    let claims = |dims: &[i64]| {
        model(
            vec![node("Neg", &["w"], &["y"], vec![])],
            vec![floats("w", dims, &[])],
        )
    };
    fails(&claims(&[huge]), &["\"w\""]);
    fails(&claims(&[1 << 31, 1 << 31, 1 << 31]), &["\"w\""]);
    fails(&claims(&[-1]), &["\"w\"", "[-1]"]);
    fails(&claims(&[1 << 40]), &["\"w\"", "found 0"]);
    let with = |op: &str, inputs: &[&str], attributes: Vec<AttributeProto>, constants| {
        fails(
            &model(vec![node(op, inputs, &["y"], attributes)], constants),
            &[op, "y"],
        );
    };
    // 2^62 elements; 2^40 bytes fit an address, but no memory.
    for size in [huge, 1 << 38] {
        let sizes = || ints("s", &[size]);
        let shape = ints("s", &[size / 2, 2, 2]);
        for constants in [vec![sizes()], vec![ints("s", &[size, size])]] {
            let model = model(
                vec![node("ConstantOfShape", &["s"], &["y"], vec![])],
                constants,
            );
            fails(&model, &["\"y\""]);
        }
        fails(
            &model(
                vec![node("Expand", &["x", "s"], &["y"], vec![])],
                vec![shape],
            ),
            &["\"y\""],
        );
        let tile = ints("s", &[size, 1]);
        fails(
            &model(vec![node("Tile", &["x", "s"], &["y"], vec![])], vec![tile]),
            &["\"y\""],
        );
        let pads = ints("s", &[size, 0, size, 0]);
        fails(
            &model(vec![node("Pad", &["x", "s"], &["y"], vec![])], vec![pads]),
            &["\"y\""],
        );
        let limits = vec![number("a", 0), number("b", size), number("c", 1)];
        fails(
            &model(
                vec![node("Range", &["a", "b", "c"], &["y"], vec![])],
                limits,
            ),
            &["\"y\""],
        );
        let resize = vec![ints("s", &[2, size])];
        let inputs = ["x", "", "", "s"];
        fails(
            &model(vec![node("Resize", &inputs, &["y"], vec![])], resize),
            &["\"y\""],
        );
        let hot = vec![
            ints("i", &[1, 2]),
            number("d", size),
            floats("v", &[2], &[0.0, 1.0]),
        ];
        fails(
            &model(vec![node("OneHot", &["i", "d", "v"], &["y"], vec![])], hot),
            &["\"y\""],
        );
    }
    with("Reshape", &["x", "s"], vec![], vec![ints("s", &[huge, 4])]);
    with("Reshape", &["x", "s"], vec![], vec![ints("s", &[-1, 3])]);
    with("Reshape", &["x", "s"], vec![], vec![ints("s", &[-2, 2])]);
    with("Expand", &["x", "s"], vec![], vec![ints("s", &[-1])]);
    with("Gather", &["x", "s"], vec![], vec![ints("s", &[huge])]);
    with("Slice", &["x", "s"], vec![], vec![ints("s", &[huge])]);
    // Large on the way to a small output.
    let tail = |op: &str| node(op, &["big"], &["y"], vec![]);
    let big = node("ConstantOfShape", &["s"], &["big"], vec![]);
    for size in [1 << 36, huge] {
        let square = model(
            vec![big.clone(), tail("EyeLike")],
            vec![ints("s", &[size, 4])],
        );
        fails(&square, &["\""]);
        let join = node(
            "Concat",
            &["big", "big", "big"],
            &["y"],
            vec![write::int("axis", 0)],
        );
        fails(
            &model(vec![big.clone(), join], vec![ints("s", &[size])]),
            &["\""],
        );
    }
    // No element, but axes whose sum overflows.
    let join = node(
        "Concat",
        &["big", "big", "big"],
        &["y"],
        vec![write::int("axis", 0)],
    );
    failure(&model(vec![big, join], vec![ints("s", &[huge, 0])]));
}

#[test]
fn nan_weights_run() {
    let nan = model(
        vec![node("Mul", &["x", "w"], &["y"], vec![])],
        vec![floats("w", &[1], &[f32::NAN])],
    );
    let model = load(&nan).unwrap();
    for engine in [Engine::reference(), engine()] {
        let x = Tensor::from_slice(&engine, &[1f32, 0.0], &[2, 1]).unwrap();
        let outputs = model.on(&engine).run([("x", x)]).unwrap();
        let y: Vec<f32> = outputs.tensor("y").unwrap().to_vec().unwrap();
        assert!(y.iter().all(|y| y.is_nan()));
    }
}

#[test]
fn external_data_stays_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("model");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("outside"), [0; 64]).unwrap();
    std::fs::write(inside.join("weights"), [0; 16]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path().join("outside"), inside.join("link")).unwrap();
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: key.into(),
        value: value.into(),
    };
    let path = inside.join("bad.onnx");
    let says = |location: &str, more: &[(&str, &str)]| {
        let mut w = floats("w", &[2, 2], &[]);
        w.data_location = EXTERNAL;
        w.external_data = vec![entry("location", location)];
        w.external_data
            .extend(more.iter().map(|(k, v)| entry(k, v)));
        let bad = model(vec![node("Add", &["x", "w"], &["y"], vec![])], vec![w]);
        std::fs::write(&path, bad.encode_to_vec()).unwrap();
        Model::load(&path).map(drop).map_err(|e| e.to_string())
    };
    says("weights", &[]).unwrap();
    says("./weights", &[("offset", "0"), ("length", "16")]).unwrap();
    let outside = folder.path().join("outside").display().to_string();
    for location in ["../outside", &outside, "", "a/../../outside", "\0"] {
        let text = says(location, &[]).unwrap_err();
        assert!(
            text.contains("bad.onnx") && text.contains("folder"),
            "{text}"
        );
    }
    #[cfg(unix)]
    assert!(says("link", &[]).unwrap_err().contains("a link"));
    assert!(says("missing", &[]).unwrap_err().contains("missing"));
    let most = u64::MAX.to_string();
    for range in [
        &[("offset", "1")][..],
        &[("offset", "17")],
        &[("length", "17")],
        &[("offset", &most)],
        &[("offset", &most), ("length", "16")],
        &[("length", "-1")],
        &[("offset", "x")],
    ] {
        let text = says("weights", range).unwrap_err();
        assert!(text.contains("\"w\""), "{text}");
    }
    // A model in memory has no folder.
    assert!(Model::load(Path::new("/nowhere/bad.onnx")).is_err());
    let bytes = std::fs::read(&path).unwrap();
    named(&Model::from_bytes("bad.onnx", bytes).err().unwrap());
}

#[test]
fn graphs_within_graphs_end() {
    let graph = |name: &str, g: GraphProto| AttributeProto {
        name: name.into(),
        r#type: attribute_type::GRAPH,
        g: Some(g),
        ..AttributeProto::default()
    };
    let output = model(vec![], vec![]).graph.unwrap().output;
    // Deeper than the decoder goes, and as deep as it goes.
    for depth in [10, 30, 300] {
        let mut inner = node("Neg", &["x"], &["y"], vec![]);
        for _ in 0..depth {
            let body = GraphProto {
                node: vec![inner],
                output: output.clone(),
                ..GraphProto::default()
            };
            let branches = vec![
                graph("then_branch", body.clone()),
                graph(
                    "else_branch",
                    GraphProto {
                        node: vec![node("Neg", &["x"], &["y"], vec![])],
                        output: output.clone(),
                        ..GraphProto::default()
                    },
                ),
            ];
            inner = node("If", &["c"], &["y"], branches);
        }
        let truth = TensorProto {
            name: "c".into(),
            data_type: 9,
            int32_data: vec![1],
            ..TensorProto::default()
        };
        if let Err(e) = load(&model(vec![inner], vec![truth])) {
            named(&e);
        }
    }
    let lost = one("If", &["x"], vec![]);
    fails(&lost, &["If"]);
    let typed = AttributeProto {
        name: "then_branch".into(),
        r#type: attribute_type::GRAPH,
        ..AttributeProto::default()
    };
    fails(&one("If", &["x"], vec![typed]), &["a graph"]);
}

#[test]
fn loops_end() {
    // A million iterations, each of them run.
    if !conformance::part::Part::chosen().has(0, 4) {
        return;
    }
    let mut writer = write::Writer::new("body", 17);
    writer.node("Identity", &["go"], &["still"], []);
    writer.node("Neg", &["v"], &["w"], []);
    let mut body = writer.into_graph();
    let port = |name: &str| tensor::onnx::proto::ValueInfoProto {
        name: name.into(),
        r#type: None,
    };
    body.input = vec![port("i"), port("go"), port("v")];
    body.output = vec![port("still"), port("w"), port("w")];
    let truth = TensorProto {
        name: "c".into(),
        data_type: 9,
        int32_data: vec![1],
        ..TensorProto::default()
    };
    let count = number("n", 1 << 62);
    let endless = node(
        "Loop",
        &["n", "c", "x"],
        &["z", "y"],
        vec![write::graph("body", body)],
    );
    fails(&model(vec![endless], vec![count, truth]), &["Loop"]);
}

fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: nodes,
        opset_import: vec![opset("", 17), opset("own", 1)],
        ..FunctionProto::default()
    }
}

fn call(name: &str, input: &str, output: &str) -> NodeProto {
    NodeProto {
        domain: "own".into(),
        ..node(name, &[input], &[output], vec![])
    }
}

#[test]
fn functions_end() {
    let mut model = model(vec![call("F0", "x", "y")], vec![]);
    model.opset_import.push(opset("own", 1));
    model.functions = vec![function("F0", vec![call("F0", "a", "b")])];
    fails(&model, &["F0", "itself"]);
    model.functions = vec![
        function("F0", vec![call("F1", "a", "b")]),
        function("F1", vec![call("F0", "a", "b")]),
    ];
    fails(&model, &["itself"]);
    // Each calls the next one twice: 2^40 nodes.
    model.functions = (0..40)
        .map(|i| {
            let next = format!("F{}", i + 1);
            function(
                &format!("F{i}"),
                vec![call(&next, "a", "m"), call(&next, "m", "b")],
            )
        })
        .collect();
    model
        .functions
        .push(function("F40", vec![node("Neg", &["a"], &["b"], vec![])]));
    fails(&model, &["nodes with functions inlined"]);
    model.functions = vec![function("F0", vec![]), function("F0", vec![])];
    fails(&model, &["F0", "twice"]);
    model.functions = vec![function("F0", vec![node("Neg", &["x"], &["b"], vec![])])];
    fails(&model, &["\"x\"", "no node produces"]);
    model.functions = vec![function("F0", vec![])];
    fails(&model, &["\"y\""]);
}

#[test]
fn sparse_constants_must_fit() {
    let sparse = |dims: &[i64], values: TensorProto, indices: TensorProto| {
        let mut model = model(vec![node("Neg", &["w"], &["y"], vec![])], vec![]);
        model.graph.as_mut().unwrap().sparse_initializer = vec![SparseTensorProto {
            values: Some(values),
            indices: Some(indices),
            dims: dims.to_vec(),
        }];
        model
    };
    let two = || floats("w", &[2], &[1.0, 2.0]);
    fails(
        &sparse(&[4], two(), ints("i", &[0, 4])),
        &["\"w\"", "index 1"],
    );
    fails(
        &sparse(&[4], two(), ints("i", &[-1, 0])),
        &["\"w\"", "index 0"],
    );
    fails(&sparse(&[4], two(), ints("i", &[0])), &["\"w\"", "[1]"]);
    fails(&sparse(&[1 << 62], two(), ints("i", &[0, 1])), &["\"w\""]);
    fails(
        &sparse(&[1 << 35], two(), ints("i", &[0, 1])),
        &["\"w\"", "bytes"],
    );
    fails(
        &sparse(&[4], two(), floats("i", &[2], &[0.0, 1.0])),
        &["INT64"],
    );
}

#[test]
fn strings_are_utf_8() {
    let mut w = TensorProto {
        name: "w".into(),
        data_type: 8,
        dims: vec![1],
        string_data: vec![vec![0xff, 0xfe].into()],
        ..TensorProto::default()
    };
    let of = |w: &TensorProto| {
        model(
            vec![node("Identity", &["w"], &["y"], vec![])],
            vec![w.clone()],
        )
    };
    fails(&of(&w), &["\"w\"", "UTF-8"]);
    w.string_data.clear();
    fails(&of(&w), &["\"w\"", "expected 1 strings"]);
    // A name that is none makes the whole message no message.
    let mut bytes = model(vec![node("NEGNEG", &["x"], &["y"], vec![])], vec![]).encode_to_vec();
    let at = bytes.windows(6).position(|w| w == b"NEGNEG").unwrap();
    bytes[at] = 0xff;
    named(&Model::from_bytes("bad.onnx", bytes).err().unwrap());
}
