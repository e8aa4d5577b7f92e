//! Declared types of values: element types, sizes, containers.

use std::fmt;

use super::elem::{self, Elem};
use super::proto::{
    Dimension, SequenceType, TensorShapeProto, TensorType, TypeProto, ValueInfoProto, dimension,
    type_proto,
};
use crate::io::Quoted;

/// A size of an axis, as a model declares it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dim {
    /// Always this.
    Fixed(usize),
    /// A hint: usually equal for equal names.
    Named(String),
    /// Anything.
    Any,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Named(name) => f.write_str(Quoted::new(name).to_string().trim_matches('"')),
            Dim::Any => f.write_str("?"),
        }
    }
}

/// The declared type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// Numbers; no shape if any is allowed.
    Tensor(Elem, Option<Vec<Dim>>),
    /// Strings.
    Strings(Option<Vec<Dim>>),
    /// A list of values of one type.
    Sequence(Box<Type>),
    /// A value or none.
    Optional(Box<Type>),
    /// Unknown or unsupported, as text.
    Other(String),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = |f: &mut fmt::Formatter<'_>, dims: &Option<Vec<Dim>>| match dims {
            None => f.write_str("[...]"),
            Some(dims) => {
                let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "[{}]", dims.join(", "))
            }
        };
        match self {
            Type::Tensor(elem, shape) => {
                write!(f, "{elem} ")?;
                dims(f, shape)
            }
            Type::Strings(shape) => {
                write!(f, "{} ", elem::type_name(elem::STRING.into()))?;
                dims(f, shape)
            }
            Type::Sequence(of) => write!(f, "sequence of {of}"),
            Type::Optional(of) => write!(f, "optional {of}"),
            Type::Other(text) => f.write_str(text),
        }
    }
}

/// What a file says about a value.
pub(super) fn value_type(info: &ValueInfoProto) -> Type {
    match &info.r#type {
        Some(ty) => type_of(ty),
        None => Type::Other(String::new()),
    }
}

/// A type as a file has it; what is not there or not known is [`Type::Other`].
pub(super) fn type_of(proto: &TypeProto) -> Type {
    let of = |inner: &Option<Box<TypeProto>>| {
        let unknown = || Box::new(Type::Other(String::new()));
        inner
            .as_ref()
            .map_or_else(unknown, |t| Box::new(type_of(t)))
    };
    match &proto.value {
        None => Type::Other(String::new()),
        Some(type_proto::Value::Tensor(t)) => {
            let dims = t.shape.as_ref().map(|shape| {
                let dims = shape.dim.iter().map(|d| match &d.value {
                    Some(dimension::Value::DimValue(n)) => {
                        usize::try_from(*n).map_or(Dim::Any, Dim::Fixed)
                    }
                    Some(dimension::Value::DimParam(name)) if !name.is_empty() => {
                        Dim::Named(name.clone())
                    }
                    _ => Dim::Any,
                });
                dims.collect()
            });
            match Elem::from_number(t.elem_type.into()) {
                Some(elem) => Type::Tensor(elem, dims),
                None if t.elem_type == elem::STRING => Type::Strings(dims),
                None if t.elem_type == 0 => Type::Other(String::new()),
                None => Type::Other(elem::type_name(t.elem_type.into())),
            }
        }
        Some(type_proto::Value::Sequence(s)) => Type::Sequence(of(&s.elem_type)),
        Some(type_proto::Value::Optional(o)) => Type::Optional(of(&o.elem_type)),
        Some(type_proto::Value::Map(_)) => Type::Other("maps".into()),
        Some(type_proto::Value::SparseTensor(_)) => Type::Other("sparse tensors".into()),
    }
}

/// The way back of [`type_of`].
pub(super) fn type_proto(ty: &Type) -> TypeProto {
    let shape = |dims: &Option<Vec<Dim>>| {
        let dims = dims.as_ref()?.iter().map(|dim| Dimension {
            value: match dim {
                Dim::Fixed(n) => Some(dimension::Value::DimValue(*n as i64)),
                Dim::Named(name) => Some(dimension::Value::DimParam(name.clone())),
                Dim::Any => None,
            },
        });
        Some(TensorShapeProto {
            dim: dims.collect(),
        })
    };
    let array = |number: i32, dims: &Option<Vec<Dim>>| {
        type_proto::Value::Tensor(TensorType {
            elem_type: number,
            shape: shape(dims),
        })
    };
    let inner = |of: &Type| {
        Box::new(SequenceType {
            elem_type: Some(Box::new(type_proto(of))),
        })
    };
    TypeProto {
        value: match ty {
            Type::Tensor(elem, dims) => Some(array(elem.number(), dims)),
            Type::Strings(dims) => Some(array(elem::STRING, dims)),
            Type::Sequence(of) => Some(type_proto::Value::Sequence(inner(of))),
            Type::Optional(of) => Some(type_proto::Value::Optional(inner(of))),
            Type::Other(_) => None,
        },
    }
}
