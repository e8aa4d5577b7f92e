//! Tensors from literals: numbers and nested arrays.

use crate::element::Element;
use crate::error::Result;
use crate::graph::{Engine, Shape, Tensor};

/// What [`Tensor::new`] takes: a number, or arrays of numbers, nested as deep as the tensor has axes.
pub trait Nested {
    /// The numbers.
    type Item: Element;

    /// Sizes of the axes, outermost first.
    fn shape() -> Shape;

    /// Appends the bytes of all numbers, row-major.
    fn write(&self, to: &mut Vec<u8>);
}

impl<T: Element> Nested for T {
    type Item = T;

    fn shape() -> Shape {
        Shape::new()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.put(to);
    }
}

impl<A: Nested, const N: usize> Nested for [A; N] {
    type Item = A::Item;

    fn shape() -> Shape {
        [vec![N], A::shape()].concat()
    }

    fn write(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|part| part.write(to));
    }
}

impl Tensor {
    /// A tensor from a literal, with the type of its numbers. For a number of elements known at run time only, use
    /// [`Tensor::from_slice`].
    ///
    /// ```
    /// # fn main() -> tensor::Result<()> {
    /// # use tensor::{Engine, Tensor};
    ///
    /// let engine = Engine::reference();
    /// let x = Tensor::new(&engine, [[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert_eq!(Tensor::new(&engine, 7i64)?.item::<i64>()?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn new<A: Nested>(engine: &Engine, values: A) -> Result<Tensor> {
        let mut bytes = Vec::new();
        values.write(&mut bytes);
        Tensor::from_bytes(engine, bytes, &A::shape(), A::Item::DTYPE)
    }
}
