//! The format's own test cases: a folder with a model, inputs and expected outputs.
//!
//! A case is `model.onnx` with folders `test_data_set_N`, each holding `input_K.pb` and
//! `output_K.pb`. A model of the light set is a file of its own with one expected output beside it
//! (`NAME_output_0.pb`); its inputs are the numbers 0, 1/n, 2/n...

use std::path::{Path, PathBuf};

use codegen::DType;
use codegen::interp::scalar;
use prost::Message;

use super::data::{self, External, Literal};
use super::elem::Elem;
use super::error::{Location, OnnxError};
use super::graph::Graph;
use super::model::Model;
use super::proto::{OptionalProto, SequenceProto, TensorProto, container_type};
use super::session::Session;
use super::types::{Dim, Type};
use super::value::{Array, Value};
use crate::graph::{Engine, Tensor};

/// How far numbers may be from what is expected: `absolute + relative * |expected|`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Part of the expected value.
    pub relative: f64,
    /// Added to it.
    pub absolute: f64,
}

impl Default for Tolerance {
    /// What the format's own runner uses.
    fn default() -> Tolerance {
        Tolerance {
            relative: 1e-3,
            absolute: 1e-7,
        }
    }
}

/// How a case ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every output of every data set is as expected.
    Passed,
    /// The model needs this unsupported feature.
    Unsupported(String),
    /// An output is wrong, or an error occurred.
    Failed(String),
}

/// The cases in a folder, sorted: folders that hold `model.onnx`, at any depth, and light models.
///
/// # Errors
/// The system refuses to list a folder.
pub fn cases(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(dir) = pending.pop() {
        if dir.join("model.onnx").is_file() {
            found.push(dir);
            continue;
        }
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "onnx") && expected(&path).is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The output that a light model has beside it.
fn expected(model: &Path) -> PathBuf {
    PathBuf::from(model.with_extension("").display().to_string() + "_output_0.pb")
}

/// Runs a case on an engine.
pub fn run(case: &Path, engine: &Engine, tolerance: Tolerance) -> Verdict {
    match attempt(case, engine, tolerance) {
        Ok(()) => Verdict::Passed,
        Err(Stop::Wrong(what)) => match contradiction(case) {
            Some(why) => Verdict::Unsupported(format!("{why} ({what})")),
            None => Verdict::Failed(what),
        },
        Err(Stop::Model(e)) => match e {
            OnnxError::Unsupported { missing, .. } => {
                let names: Vec<&str> = missing.iter().map(|m| m.what.as_str()).collect();
                Verdict::Unsupported(names.join("; "))
            }
            e => Verdict::Failed(e.to_string()),
        },
        Err(Stop::Random(op)) => Verdict::Unsupported(format!(
            "{op}: random numbers of this generator differ from the case's"
        )),
    }
}

/// Cases of the package onnx 1.18.0 whose stored output is not what the format says, with the
/// operator and why. They are reported, not compared away: a case that agrees passes.
const CONTRADICTIONS: [(&str, &str); 5] = [
    (
        "test_adam_multiple",
        "Adam: the case was generated with epsilon 0.01, but its model has the default 1e-6",
    ),
    ("test_qlinearmatmul_2D_int8_float16", WRAPPED),
    ("test_qlinearmatmul_2D_int8_float32", WRAPPED),
    ("test_qlinearmatmul_3D_int8_float16", WRAPPED),
    ("test_qlinearmatmul_3D_int8_float32", WRAPPED),
];
const WRAPPED: &str = "QLinearMatMul: the case's INT8 output wraps around where the format (and ONNX \
                       Runtime) saturates";

fn contradiction(case: &Path) -> Option<&'static str> {
    let name = case.file_name()?.to_str()?;
    let found = CONTRADICTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, why)| *why)
}

enum Stop {
    Model(OnnxError),
    Wrong(String),
    /// Only values differ, and an operator of this name is random.
    Random(String),
}

impl From<OnnxError> for Stop {
    fn from(e: OnnxError) -> Stop {
        Stop::Model(e)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(what.into()))
}

fn attempt(case: &Path, engine: &Engine, tolerance: Tolerance) -> Result<(), Stop> {
    let light = case.is_file();
    let path = match light {
        true => case.to_path_buf(),
        false => case.join("model.onnx"),
    };
    let model = Model::load(&path)?;
    let session = model.on(engine);
    if light {
        let inputs = ramps(&model, engine)?;
        return check(&model, &session, inputs, &[expected(case)], tolerance);
    }
    let mut sets = 0;
    loop {
        let folder = case.join(format!("test_data_set_{sets}"));
        if !folder.is_dir() {
            break;
        }
        let files = |kind: &str| -> Vec<PathBuf> {
            let numbered = (0..).map(|i| folder.join(format!("{kind}_{i}.pb")));
            numbered.take_while(|p| p.is_file()).collect()
        };
        let types: Vec<(String, Type)> = model
            .inputs()
            .chain(model.defaults())
            .map(|(n, t)| (n.to_string(), t.clone()))
            .collect();
        let mut inputs = Vec::new();
        for (path, (name, ty)) in files("input").iter().zip(types) {
            inputs.push((name, read(path, &ty, engine)?));
        }
        check(&model, &session, inputs, &files("output"), tolerance)?;
        sets += 1;
    }
    match sets {
        0 => wrong(format!("{}: no test_data_set_0", case.display())),
        _ => Ok(()),
    }
}

/// The inputs of light models: 0, 1/n, 2/n... for n elements.
fn ramps(model: &Model, engine: &Engine) -> Result<Vec<(String, Value)>, Stop> {
    let mut inputs = Vec::new();
    for (name, ty) in model.inputs() {
        let Type::Tensor(Elem::Plain(DType::F32), Some(dims)) = ty else {
            return wrong(format!(
                "input {name}: expected floats of fixed shape, found {ty}"
            ));
        };
        let fixed = dims.iter().map(|d| match d {
            Dim::Fixed(n) => Some(*n),
            _ => None,
        });
        let Some(shape) = fixed.collect::<Option<Vec<usize>>>() else {
            return wrong(format!("input {name}: expected a fixed shape, found {ty}"));
        };
        let n: usize = shape.iter().product();
        let ramp: Vec<f32> = (0..n).map(|i| i as f32 / n as f32).collect();
        let tensor = Tensor::from_slice(engine, &ramp, &shape);
        let tensor = tensor.map_err(|e| model.program().engine_error(e))?;
        inputs.push((name.to_string(), tensor.into()));
    }
    Ok(inputs)
}

fn check(
    model: &Model,
    session: &Session,
    inputs: Vec<(String, Value)>,
    expected: &[PathBuf],
    tolerance: Tolerance,
) -> Result<(), Stop> {
    let engine = session.engine().clone();
    let random = random(&model.program().graph);
    // Twice: the second run takes the path of a model in service.
    for round in ["first", "second"] {
        let outputs = session.run(inputs.iter().map(|(n, v)| (n, v.clone())))?;
        let types: Vec<Type> = model.outputs().map(|(_, t)| t.clone()).collect();
        if outputs.0.len() < expected.len() {
            return wrong(format!(
                "{} outputs, expected {}",
                outputs.0.len(),
                expected.len()
            ));
        }
        for ((path, ty), (name, found)) in expected.iter().zip(&types).zip(&outputs.0) {
            let want = read(path, ty, &engine)?;
            let Err(what) = compare(&want, found, tolerance) else {
                continue;
            };
            if let Some(op) = &random
                && same_form(&want, found)
            {
                return Err(Stop::Random(op.clone()));
            }
            return wrong(format!("{round} run: output {name}: {what}"));
        }
    }
    Ok(())
}

/// The first operator of a graph, or of one in it, that makes random numbers.
fn random(graph: &Graph) -> Option<String> {
    graph.nodes.iter().find_map(|node| {
        let makes = match node.op.as_str() {
            "Bernoulli" | "Multinomial" => true,
            // In training mode, which is an input.
            "Dropout" => node.inputs.get(2).is_some_and(Option::is_some),
            op => op.starts_with("Random"),
        };
        match makes {
            true => Some(node.op.clone()),
            false => node.graphs().find_map(|graph| random(graph)),
        }
    })
}

/// Whether two values are of one kind, type and shape.
fn same_form(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            a.elem == b.elem && a.tensor.shape() == b.tensor.shape()
        }
        (Value::Strings(a), Value::Strings(b)) => a.shape == b.shape,
        (Value::Sequence(a), Value::Sequence(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_form(a, b))
        }
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => same_form(a, b),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), b) => same_form(a, b),
        _ => false,
    }
}

/// Reads a value of a type from a file of one message.
///
/// # Errors
/// The system refuses the file, or it holds something else.
pub fn read(path: &Path, ty: &Type, engine: &Engine) -> Result<Value, OnnxError> {
    let bytes = crate::io::shared(path)?.bytes;
    let file = path.display().to_string();
    let malformed = |what: String| OnnxError::Malformed {
        file: file.clone(),
        place: Location::named("value", ""),
        what,
    };
    let undecoded = |e: prost::DecodeError| malformed(format!("expected a value of {ty}: {e}"));
    let mut external = External::new(path.parent(), None);
    // The makers of the cases had no `bfloat16`: they wrote its bits as `uint16`.
    let bits = matches!(ty, Type::Tensor(Elem::Plain(DType::BF16), _));
    let mut literal = |proto: &TensorProto| -> Result<Value, OnnxError> {
        match data::literal(proto, &mut external) {
            Ok(mut literal) => {
                if let Literal::Array { elem, .. } = &mut literal
                    && bits
                    && *elem == Elem::Plain(DType::U16)
                {
                    *elem = Elem::Plain(DType::BF16);
                }
                Ok(Value::of(&literal, engine))
            }
            Err(data::DataFault::Wrong(what)) => Err(malformed(what)),
            Err(data::DataFault::File(e)) => Err(e.into()),
            Err(data::DataFault::Unsupported(what)) => Err(OnnxError::Unsupported {
                file: file.clone(),
                missing: vec![super::error::Missing {
                    what,
                    place: Location::named("value", &proto.name),
                    count: 1,
                }],
            }),
        }
    };
    match ty {
        Type::Sequence(_) => {
            let proto = SequenceProto::decode(bytes).map_err(undecoded)?;
            sequence(&proto, &mut literal)
        }
        Type::Optional(_) => {
            let proto = OptionalProto::decode(bytes).map_err(undecoded)?;
            optional(&proto, &mut literal)
        }
        _ => literal(&TensorProto::decode(bytes).map_err(undecoded)?),
    }
}

type Literally<'a> = dyn FnMut(&TensorProto) -> Result<Value, OnnxError> + 'a;

fn sequence(proto: &SequenceProto, literal: &mut Literally) -> Result<Value, OnnxError> {
    let items: Result<Vec<Value>, OnnxError> = match proto.elem_type {
        container_type::SEQUENCE => proto
            .sequence_values
            .iter()
            .map(|s| sequence(s, literal))
            .collect(),
        container_type::OPTIONAL => proto
            .optional_values
            .iter()
            .map(|o| optional(o, literal))
            .collect(),
        _ => proto.tensor_values.iter().map(literal).collect(),
    };
    Ok(Value::Sequence(items?.into()))
}

fn optional(proto: &OptionalProto, literal: &mut Literally) -> Result<Value, OnnxError> {
    let value = match (
        &proto.tensor_value,
        &proto.sequence_value,
        &proto.optional_value,
    ) {
        (Some(tensor), ..) => Some(literal(tensor)?),
        (_, Some(items), _) => Some(sequence(items, literal)?),
        (_, _, Some(inner)) => Some(optional(inner, literal)?),
        _ => None,
    };
    Ok(Value::Optional(value.map(std::sync::Arc::new)))
}

/// A value as the message of its kind, as [`read`] takes it.
///
/// # Errors
/// The device's.
pub fn encode(name: &str, value: &Value) -> crate::Result<Vec<u8>> {
    Ok(match value {
        Value::Sequence(_) => sequence_proto(name, value)?.encode_to_vec(),
        Value::Optional(_) => optional_proto(name, value)?.encode_to_vec(),
        plain => plain
            .literal()?
            .map_or_else(Vec::new, |l| data::to_proto(name, &l).encode_to_vec()),
    })
}

fn sequence_proto(name: &str, value: &Value) -> crate::Result<SequenceProto> {
    let mut out = SequenceProto {
        name: name.into(),
        elem_type: container_type::TENSOR,
        ..SequenceProto::default()
    };
    let Value::Sequence(items) = value else {
        return Ok(out);
    };
    for item in items.iter() {
        match item {
            Value::Sequence(_) => {
                out.elem_type = container_type::SEQUENCE;
                out.sequence_values.push(sequence_proto("", item)?);
            }
            Value::Optional(_) => {
                out.elem_type = container_type::OPTIONAL;
                out.optional_values.push(optional_proto("", item)?);
            }
            plain => out
                .tensor_values
                .extend(plain.literal()?.map(|l| data::to_proto("", &l))),
        }
    }
    Ok(out)
}

fn optional_proto(name: &str, value: &Value) -> crate::Result<OptionalProto> {
    let mut out = OptionalProto {
        name: name.into(),
        ..OptionalProto::default()
    };
    let Value::Optional(Some(inner)) = value else {
        return Ok(out);
    };
    match &**inner {
        Value::Sequence(_) => {
            out.elem_type = container_type::SEQUENCE;
            out.sequence_value = Some(sequence_proto("", inner)?);
        }
        Value::Optional(_) => {
            out.elem_type = container_type::OPTIONAL;
            out.optional_value = Some(Box::new(optional_proto("", inner)?));
        }
        plain => {
            out.elem_type = container_type::TENSOR;
            out.tensor_value = plain.literal()?.map(|l| data::to_proto("", &l));
        }
    }
    Ok(out)
}

/// Compares a value with the expected one; the error names the first difference.
pub fn compare(want: &Value, found: &Value, tolerance: Tolerance) -> Result<(), String> {
    match (want, found) {
        (Value::Tensor(a), Value::Tensor(b)) => compare_arrays(a, b, tolerance),
        (Value::Strings(a), Value::Strings(b)) if a == b => Ok(()),
        (Value::Strings(a), Value::Strings(b)) => Err(format!("expected {a:?}, found {b:?}")),
        (Value::Sequence(a), Value::Sequence(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                compare(a, b, tolerance).map_err(|e| format!("element {i}: {e}"))?;
            }
            Ok(())
        }
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => compare(a, b, tolerance),
        (Value::Optional(Some(a)), b) => compare(a, b, tolerance),
        (a, b) => Err(format!("expected {}, found {}", a.kind(), b.kind())),
    }
}

fn compare_arrays(want: &Array, found: &Array, tolerance: Tolerance) -> Result<(), String> {
    let (a, b) = (&want.tensor, &found.tensor);
    if want.elem != found.elem || a.shape() != b.shape() {
        return Err(format!(
            "expected {} {:?}, found {} {:?}",
            want.elem,
            a.shape(),
            found.elem,
            b.shape()
        ));
    }
    let read = |t: &Tensor| t.to_bytes().map_err(|e| e.to_string());
    let (x, y) = (read(a)?, read(b)?);
    let Elem::Plain(dtype) = want.elem else {
        return match x == y {
            true => Ok(()),
            false => Err(format!("expected codes {x:?}, found {y:?}")),
        };
    };
    let size = dtype.size();
    let pairs = x.chunks_exact(size).zip(y.chunks_exact(size));
    let mut worst: Option<(f64, usize, String)> = None;
    let mut count = 0usize;
    for (i, (x, y)) in pairs.enumerate() {
        let (x, y) = (scalar::read(dtype, x), scalar::read(dtype, y));
        if !dtype.is_float() {
            let truth = |bits: u64| match dtype {
                DType::Bool => i128::from(bits != 0),
                _ => scalar::to_int(dtype, bits),
            };
            let (x, y) = (truth(x), truth(y));
            if x != y {
                count += 1;
                worst.get_or_insert((0.0, i, format!("expected {x}, found {y}")));
            }
            continue;
        }
        let (x, y) = (scalar::to_f64(dtype, x), scalar::to_f64(dtype, y));
        let same = x == y || x.is_nan() && y.is_nan();
        // A type with few digits cannot be closer than its own step.
        let step = match dtype {
            DType::BF16 => 1.0 / 64.0,
            DType::F8E4M3 | DType::F8E5M2 => 0.0,
            _ => tolerance.relative,
        };
        let limit = tolerance.absolute + step.max(tolerance.relative) * x.abs();
        let off = (x - y).abs();
        if !same && (off.is_nan() || off > limit) {
            count += 1;
            if worst.as_ref().is_none_or(|w| off > w.0) {
                worst = Some((off, i, format!("expected {x}, found {y}")));
            }
        }
    }
    match worst {
        None => Ok(()),
        Some((_, i, text)) => Err(format!(
            "{count} of {} elements differ; element {i} of {:?}: {text}",
            a.numel(),
            a.shape()
        )),
    }
}
