//! Running a model that may be anything, in little memory.

use tensor::onnx::{Dim, Elem, Model, Type};
use tensor::{DType, Engine, Tensor};

/// Elements of an input, at most.
const MOST_INPUT: usize = 1 << 12;

/// Loads a model and runs it on zeros and ones, if its inputs are small. Errors are fine; a panic
/// or memory without bound is not.
pub fn run(bytes: &[u8]) {
    let Ok(model) = Model::from_bytes("fuzz", bytes.to_vec()) else {
        return;
    };
    let engine = Engine::reference_within(16 << 20);
    for one in [false, true] {
        let mut inputs: Vec<(String, Tensor)> = Vec::new();
        for (name, ty) in model.inputs() {
            let Some(tensor) = filled(&engine, ty, one) else {
                return;
            };
            inputs.push((name.to_string(), tensor));
        }
        let Ok(outputs) = model.on(&engine).run(inputs) else {
            return;
        };
        for (_, value) in outputs.0 {
            if let Some(tensor) = value.as_tensor() {
                let bytes = tensor.to_bytes().expect("outputs are realized");
                assert_eq!(bytes.len(), tensor.numel() * tensor.dtype().size());
            }
        }
    }
}

/// A tensor of an input's type; axes that may have any size have 2.
fn filled(engine: &Engine, ty: &Type, one: bool) -> Option<Tensor> {
    let Type::Tensor(Elem::Plain(dtype), Some(dims)) = ty else {
        return None;
    };
    let shape: Vec<usize> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Fixed(n) => *n,
            Dim::Named(_) | Dim::Any => 2,
        })
        .collect();
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
    if count > MOST_INPUT {
        return None;
    }
    let ones = Tensor::full(engine, &shape, i64::from(one), DType::I64).ok()?;
    ones.cast(*dtype).ok()
}
