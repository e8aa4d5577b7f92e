//! Any bytes are a model of known operators with plausible inputs and attributes, which runs or is
//! an error. Bytes that are a model by themselves hardly ever reach the operators.
#![no_main]

mod run;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use tensor::onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, attribute_type as kind,
};

fuzz_target!(|bytes: &[u8]| run::run(&model(&mut Choices(bytes)).encode_to_vec()));

/// Names of attributes, with the form that most operators give them.
const ATTRIBUTES: &[(&str, i32)] = &[
    ("alpha", kind::FLOAT), ("beta", kind::FLOAT), ("gamma", kind::FLOAT), ("epsilon", kind::FLOAT),
    ("axis", kind::INT), ("axes", kind::INTS), ("keepdims", kind::INT), ("perm", kind::INTS),
    ("group", kind::INT), ("pads", kind::INTS), ("strides", kind::INTS), ("dilations", kind::INTS),
    ("kernel_shape", kind::INTS), ("output_shape", kind::INTS), ("output_padding", kind::INTS),
    ("auto_pad", kind::STRING), ("mode", kind::STRING), ("ceil_mode", kind::INT),
    ("count_include_pad", kind::INT), ("to", kind::INT), ("saturate", kind::INT),
    ("block_size", kind::INT), ("output_dtype", kind::INT), ("dtype", kind::INT), ("k", kind::INT),
    ("split", kind::INTS), ("num_outputs", kind::INT), ("batch_dims", kind::INT),
    ("blocksize", kind::INT), ("reduction", kind::STRING), ("transA", kind::INT),
    ("transB", kind::INT), ("shape", kind::INTS), ("value", kind::TENSOR), ("starts", kind::INTS),
    ("ends", kind::INTS), ("to_as", kind::INTS), ("equation", kind::STRING), ("p", kind::INT),
    ("hidden_size", kind::INT), ("direction", kind::STRING), ("layout", kind::INT),
    ("num_heads", kind::INT), ("q_num_heads", kind::INT), ("kv_num_heads", kind::INT),
    ("is_causal", kind::INT), ("num_groups", kind::INT), ("size", kind::INT), ("largest", kind::INT),
    ("sorted", kind::INT), ("exclusive", kind::INT), ("reverse", kind::INT), ("upper", kind::INT),
    ("allowzero", kind::INT), ("scales", kind::FLOATS), ("sizes", kind::INTS), ("bits", kind::INT),
    ("K", kind::INT), ("N", kind::INT), ("onesided", kind::INT), ("inverse", kind::INT),
    ("pooled_shape", kind::INTS), ("spatial_scale", kind::FLOAT), ("output_height", kind::INT),
    ("output_width", kind::INT), ("sampling_ratio", kind::INT), ("align_corners", kind::INT),
    ("coordinate_transformation_mode", kind::STRING), ("nearest_mode", kind::STRING),
    ("sample_size", kind::INT), ("min", kind::FLOAT), ("max", kind::FLOAT), ("value_int", kind::INT),
    ("select_last_index", kind::INT), ("noop_with_empty_axes", kind::INT), ("stash_type", kind::INT),
    ("high", kind::FLOAT), ("low", kind::FLOAT), ("seed", kind::INT), ("consumed_inputs", kind::INTS),
];

const WORDS: &[&str] = &[
    "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "linear", "nearest", "cubic", "reflect", "edge",
    "wrap", "constant", "add", "mul", "sum", "mean", "none", "max", "min", "bidirectional", "reverse",
    "forward", "ij,jk->ik", "...i,i...->...", "ii->i", "align_corners", "asymmetric", "half_pixel",
    "tf_crop_and_resize", "floor", "ceil", "DCR", "CRD", "tanh", "LEFT", "RIGHT", "bilinear", "zeros",
    "border", "avg",
];

/// Numbers with which shapes and positions go wrong.
const NUMBERS: &[i64] = &[
    0, 1, 2, 3, 4, 5, 7, 8, 16, 23, -1, -2, -3, -5, 100, 1 << 20, 1 << 31, 1 << 40, 1 << 62, i64::MAX,
    i64::MIN,
];

/// Element types, by number; plain ones more often.
const TYPES: &[i32] = &[1, 1, 1, 1, 7, 7, 7, 6, 9, 9, 2, 3, 10, 11, 16, 8, 4, 5, 12, 13, 17, 18, 21, 22, 23];

/// Bytes as decisions; zeros once they are used up.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first.into()
            }
            None => 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        let wide = self.byte() << 8 | self.byte();
        wide % n.max(1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn number(&mut self) -> i64 {
        match self.byte() {
            // Small ones fit together more often.
            b if b < 200 => (b % 6) as i64 - (b / 150) as i64,
            _ => self.pick(NUMBERS),
        }
    }

    fn numbers(&mut self) -> Vec<i64> {
        (0..self.below(6)).map(|_| self.number()).collect()
    }
}

fn tensor(c: &mut Choices, name: String) -> TensorProto {
    let rank = c.below(5);
    let dims: Vec<i64> = (0..rank).map(|_| [1, 2, 3, 4, 1, 2, 0, 5][c.below(8)]).collect();
    let count: i64 = dims.iter().product();
    let data_type = c.pick(TYPES);
    let mut out = TensorProto {
        dims,
        data_type,
        name,
        ..TensorProto::default()
    };
    for _ in 0..count {
        match data_type {
            1 => out.float_data.push(c.number() as f32 * 0.5),
            11 => out.double_data.push(c.number() as f64 * 0.5),
            7 => out.int64_data.push(c.number()),
            12 | 13 => out.uint64_data.push(c.number() as u64),
            8 => out.string_data.push(c.pick(WORDS).as_bytes().to_vec().into()),
            21..=23 if out.int32_data.len() as i64 * 2 >= count => {}
            _ => out.int32_data.push(c.number() as i32),
        }
    }
    out
}

fn attribute(c: &mut Choices) -> AttributeProto {
    let (name, form) = c.pick(ATTRIBUTES);
    let mut out = AttributeProto {
        name: name.into(),
        r#type: form,
        ..AttributeProto::default()
    };
    match form {
        kind::FLOAT => out.f = c.number() as f32 * 0.25,
        kind::FLOATS => out.floats = c.numbers().iter().map(|&n| n as f32 * 0.5).collect(),
        kind::INTS => out.ints = c.numbers(),
        kind::STRING => out.s = c.pick(WORDS).as_bytes().to_vec().into(),
        kind::TENSOR => out.t = Some(tensor(c, String::new())),
        _ => out.i = c.number(),
    }
    out
}

fn operators() -> &'static [(&'static str, &'static str)] {
    static ALL: OnceLock<Vec<(&str, &str)>> = OnceLock::new();
    ALL.get_or_init(|| {
        // In one order: an input means the same in every run.
        let mut all: Vec<_> = tensor::onnx::operators().collect();
        all.sort_unstable();
        all
    })
}

fn model(c: &mut Choices) -> ModelProto {
    let mut graph = GraphProto::default();
    let mut names: Vec<String> = Vec::new();
    for i in 0..1 + c.below(5) {
        let name = format!("c{i}");
        graph.initializer.push(tensor(c, name.clone()));
        names.push(name);
    }
    for i in 0..1 + c.below(3) {
        let (domain, op) = c.pick(operators());
        let mut input = Vec::new();
        for _ in 0..c.below(6) {
            input.push(match c.below(8) {
                0 => String::new(),
                _ => names[c.below(names.len())].clone(),
            });
        }
        let outputs: Vec<String> = (0..1 + c.below(3)).map(|k| format!("v{i}_{k}")).collect();
        let mut node = NodeProto {
            op_type: op.into(),
            domain: domain.into(),
            input,
            output: outputs.clone(),
            ..NodeProto::default()
        };
        for _ in 0..c.below(5) {
            let new = attribute(c);
            if node.attribute.iter().all(|a| a.name != new.name) {
                node.attribute.push(new);
            }
        }
        graph.node.push(node);
        names.push(outputs[0].clone());
    }
    let last = names.last().cloned().unwrap_or_default();
    graph.output.push(ValueInfoProto {
        name: last,
        r#type: None,
    });
    let version = [23, 21, 18, 17, 13, 11, 9, 6, 1][c.below(9)];
    let import = |domain: &str, version| OperatorSetIdProto {
        domain: domain.into(),
        version,
    };
    ModelProto {
        ir_version: 10,
        opset_import: vec![
            import("", version),
            import("ai.onnx.ml", 3),
            import("ai.onnx.preview.training", 1),
            import("com.microsoft", 1),
        ],
        graph: Some(graph),
        ..ModelProto::default()
    }
}
