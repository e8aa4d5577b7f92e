//! Values passed between nodes: tensors, strings, sequences, optionals.

use std::fmt;
use std::sync::Arc;

use codegen::DType;

use super::data::Literal;
use super::elem::Elem;
use super::error::{Result, wrong};
use super::subnormal::{self, Flushed};
use crate::graph::{Engine, Storage, Tensor};

/// Elements of a value that is computed on the host; more are the device's work.
pub(super) const HOST_ELEMENTS: usize = 1 << 16;

/// Bytes above which a constant is read from its file when it is used, not before.
const LARGE: usize = 4096;

/// Strings that a movement may make; a few numbers can ask for any number of copies.
pub(super) const MOST_STRINGS: usize = 1 << 24;

/// Bytes that the strings of one value may have: in a loop, joining doubles them again and again.
const MOST_BYTES: usize = 1 << 30;

/// Refuses strings of too many bytes before they are made.
pub(super) fn check_bytes(lengths: impl Iterator<Item = usize>) -> Result<()> {
    match lengths.fold(0usize, usize::saturating_add) {
        ..=MOST_BYTES => Ok(()),
        n => wrong(format!(
            "expected strings of at most {MOST_BYTES} bytes, found {n}"
        )),
    }
}

/// Numbers with the type that the model gives them; see [`Elem::held`].
#[derive(Clone, Debug)]
pub struct Array {
    /// The elements, or their codes.
    pub tensor: Tensor,
    /// What they are.
    pub elem: Elem,
}

/// Strings, row-major; always on the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strings {
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// The elements.
    pub items: Arc<[String]>,
}

/// A value of a model.
#[derive(Clone, Debug)]
pub enum Value {
    /// Numbers.
    Tensor(Array),
    /// Strings.
    Strings(Strings),
    /// A list.
    Sequence(Arc<Vec<Value>>),
    /// A value or none.
    Optional(Option<Arc<Value>>),
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        let elem = Elem::Plain(tensor.dtype());
        Value::Tensor(Array { tensor, elem })
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Tensor(array)
    }
}

impl From<Strings> for Value {
    fn from(strings: Strings) -> Value {
        Value::Strings(strings)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Strings(s) => write!(f, "{} {:?}", self.kind(), s.items),
            Value::Sequence(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "{}: {}", self.kind(), items.join("; "))
            }
            Value::Optional(Some(value)) => write!(f, "{value}"),
            _ => f.write_str(&self.kind()),
        }
    }
}

impl Value {
    /// The tensor, if it is one and its type is one that tensors have.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(Array {
                tensor,
                elem: Elem::Plain(_),
            }) => Some(tensor),
            _ => None,
        }
    }

    /// What it is, for a message.
    pub(super) fn kind(&self) -> String {
        match self {
            Value::Tensor(a) => format!("{} {:?}", a.elem, a.tensor.shape()),
            Value::Strings(s) => format!("strings {:?}", s.shape),
            Value::Sequence(items) => format!("a sequence of {}", items.len()),
            Value::Optional(Some(_)) => "an optional value".into(),
            Value::Optional(None) => "an empty optional".into(),
        }
    }

    /// The value as a constant of a file, if it is a tensor or strings.
    pub(super) fn literal(&self) -> crate::Result<Option<Literal>> {
        Ok(match self {
            Value::Tensor(a) => Some(Literal::Array {
                elem: a.elem,
                shape: a.tensor.shape().to_vec(),
                bytes: a.tensor.to_bytes()?.into(),
                place: None,
            }),
            Value::Strings(s) => Some(Literal::Strings {
                shape: s.shape.clone(),
                items: s.items.clone(),
            }),
            Value::Sequence(_) | Value::Optional(_) => None,
        })
    }

    /// The same in other memory where others have that, too: an input that a model gives back.
    pub(super) fn unshared(self) -> Value {
        match self {
            Value::Tensor(array) if array.tensor.is_shared() => Array {
                tensor: array.tensor.copied(),
                elem: array.elem,
            }
            .into(),
            Value::Sequence(items) => {
                let items = items.iter().cloned().map(Value::unshared);
                Value::Sequence(Arc::new(items.collect()))
            }
            Value::Optional(Some(value)) => {
                Value::Optional(Some(Arc::new(Value::clone(&value).unshared())))
            }
            other => other,
        }
    }

    /// The tensors in it.
    pub(super) fn tensors<'a>(&'a self, out: &mut Vec<&'a Tensor>) {
        match self {
            Value::Tensor(a) => out.push(&a.tensor),
            Value::Strings(_) | Value::Optional(None) => {}
            Value::Sequence(items) => items.iter().for_each(|item| item.tensors(out)),
            Value::Optional(Some(value)) => value.tensors(out),
        }
    }

    /// The value of a literal, on an engine.
    pub(super) fn of(literal: &Literal, engine: &Engine) -> Value {
        Value::constant(literal, engine, false)
    }

    /// The value of a constant of a model, on an engine, without subnormal numbers if they are to be
    /// flushed. Large ones stay in their file until they are used.
    pub(super) fn constant(literal: &Literal, engine: &Engine, flush: bool) -> Value {
        match literal {
            Literal::Array {
                elem,
                shape,
                bytes,
                place,
            } => {
                // A number alone is part of the kernels that use it.
                let held = elem.held();
                let copied = || {
                    let mut copy: Arc<[u8]> = Arc::from(&bytes[..]);
                    if flush && let Some(bytes) = Arc::get_mut(&mut copy) {
                        subnormal::flush(held, bytes);
                    }
                    copy
                };
                if bytes.len() == held.size() {
                    let bits = codegen::interp::scalar::read(held, &copied());
                    if let Ok(tensor) = Tensor::full_bits(engine, shape, bits, held) {
                        return Array {
                            tensor,
                            elem: *elem,
                        }
                        .into();
                    }
                }
                let storage = match place {
                    Some(place) if bytes.len() >= LARGE => {
                        let (place, dtype) = (place.clone(), held);
                        Storage::Source(match flush {
                            true => Arc::new(Flushed { place, dtype }),
                            false => Arc::new(place),
                        })
                    }
                    _ => Storage::Host(copied()),
                };
                let tensor = Tensor::stored(engine, storage, shape, held);
                Array {
                    tensor,
                    elem: *elem,
                }
                .into()
            }
            Literal::Strings { shape, items } => Strings {
                shape: shape.clone(),
                items: items.clone(),
            }
            .into(),
        }
    }
}

/// Whether a shape and type make a number that is folded while the graph is built: shapes, axes,
/// factors. Weights are larger, and stay on the device.
pub(super) fn is_small(dtype: DType, numel: usize) -> bool {
    match dtype.is_float() {
        true => numel <= 16,
        false => numel <= HOST_ELEMENTS,
    }
}
