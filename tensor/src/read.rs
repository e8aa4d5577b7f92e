//! Realizing and reading tensors.

use std::fmt;

use codegen::interp::scalar;

use crate::element::Element;
use crate::error::Result;
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Engine, Tensor};
use crate::ops::{dtype_error, shape_error};

impl Engine {
    /// Its name in messages.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Computes these tensors together; shared parts are computed once.
    ///
    /// # Errors
    /// A tensor of another engine; errors of compiling and of the device.
    pub fn realize(&self, tensors: &[&Tensor]) -> Result<()> {
        if let Some(executor) = DeviceExecutor::of(self) {
            executor.check()?;
        }
        let mut missing = Vec::new();
        for &tensor in tensors {
            if tensor.engine() != self {
                return Err(crate::Error::Engines {
                    op: "realize",
                    a: self.name(),
                    b: tensor.engine().name(),
                });
            }
            if tensor.storage().is_none() {
                missing.push(tensor.clone());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        self.0.realize(&missing)
    }
}

impl Tensor {
    /// Computes the value into memory, if necessary; returns the tensor itself.
    ///
    /// # Errors
    /// From compiling, or from the device.
    pub fn realize(&self) -> Result<&Tensor> {
        self.engine().realize(&[self])?;
        Ok(self)
    }

    /// The elements as little-endian bytes, row-major.
    ///
    /// # Errors
    /// From compiling, or from the device; [`Error::Index`](crate::Error::Index) of this or another value
    /// that the device has computed since the last wait.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.realize()?;
        let mut bytes = vec![0; self.numel() * self.dtype().size()];
        match self.storage() {
            Some(storage) => self.engine().0.read(&storage, &mut bytes)?,
            None => {
                return shape_error(
                    "read",
                    format!("{} left {self:?} without storage", self.engine().name()),
                );
            }
        }
        Ok(bytes)
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// A `T` that is not the element type; errors from compiling or from the device.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype() {
            return dtype_error(
                "to_vec",
                format!(
                    "the tensor is {}, but {} was requested; cast it first",
                    self.dtype(),
                    T::DTYPE
                ),
            );
        }
        let bytes = self.to_bytes()?;
        Ok(bytes
            .chunks_exact(self.dtype().size())
            .map(|element| T::from_bits(scalar::read(T::DTYPE, element)))
            .collect())
    }

    /// The elements as `f64`, row-major, whatever the type; large 64-bit integers round.
    ///
    /// # Errors
    /// From compiling, or from the device.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>> {
        let dtype = self.dtype();
        let bytes = self.to_bytes()?;
        Ok(bytes
            .chunks_exact(dtype.size())
            .map(|element| number(dtype, scalar::read(dtype, element)))
            .collect())
    }

    /// The only element of a tensor.
    ///
    /// # Errors
    /// Another number of elements; as [`Tensor::to_vec`].
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.numel() != 1 {
            return shape_error(
                "item",
                format!(
                    "expected exactly one element, found shape {:?}; use to_vec",
                    self.shape()
                ),
            );
        }
        match self.to_vec()?.pop() {
            Some(element) => Ok(element),
            None => shape_error("item", "no value was read".into()),
        }
    }

    /// The values as text, nested as numpy prints them; long axes show three elements at each end.
    ///
    /// # Errors
    /// From compiling, or from the device.
    pub fn show(&self) -> Result<String> {
        const EDGE: usize = 3;
        let dtype = self.dtype();
        let bytes = self.to_bytes()?;
        let text = |at: usize| {
            let start = at * dtype.size();
            let bits = scalar::read(dtype, &bytes[start..start + dtype.size()]);
            match dtype {
                codegen::DType::Bool => (bits != 0).to_string(),
                _ if dtype.is_float() => format!("{:.4}", scalar::to_f64(dtype, bits)),
                _ => scalar::to_int(dtype, bits).to_string(),
            }
        };
        let shape = self.shape();
        if shape.is_empty() {
            return Ok(text(0));
        }
        if self.numel() == 0 {
            return Ok(format!("[] (shape {shape:?})"));
        }
        let long = self.numel() > 1000;
        let shown: Vec<Vec<usize>> = shape
            .iter()
            .map(|&len| match long && len > 2 * EDGE {
                true => (0..EDGE).chain(len - EDGE..len).collect(),
                false => (0..len).collect(),
            })
            .collect();
        // An odometer over the shown coordinates; `turned` axes rolled over before this element.
        let rank = shape.len();
        let mut at = vec![0; rank];
        let mut out = "[".repeat(rank);
        loop {
            let linear = (0..rank).fold(0, |sum, i| sum * shape[i] + shown[i][at[i]]);
            out += &text(linear);
            let mut axis = rank;
            while axis > 0 && at[axis - 1] + 1 == shown[axis - 1].len() {
                at[axis - 1] = 0;
                axis -= 1;
            }
            let turned = rank - axis;
            out += &"]".repeat(turned);
            if axis == 0 {
                return Ok(out);
            }
            let before = shown[axis - 1][at[axis - 1]];
            at[axis - 1] += 1;
            let gap = shown[axis - 1][at[axis - 1]] != before + 1;
            if turned == 0 {
                out += if gap { ", ..., " } else { ", " };
            } else {
                let indent = " ".repeat(axis);
                out += ",\n";
                out += &indent;
                if gap {
                    out += "...,\n";
                    out += &indent;
                }
                out += &"[".repeat(turned);
            }
        }
    }
}

/// The values, as [`Tensor::show`]: they are computed for it. Where that fails, the error stands in their
/// place.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.show() {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<{e}>"),
        }
    }
}

fn number(dtype: codegen::DType, bits: u64) -> f64 {
    if dtype.is_float() {
        scalar::to_f64(dtype, bits)
    } else {
        scalar::to_int(dtype, bits) as f64
    }
}
