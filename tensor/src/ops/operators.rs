//! `+ - * /` and the minus sign. Shapes may be incompatible, so each returns a [`Result`]: `((&a * 2)? + &b)?`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Operand;
use crate::error::Result;
use crate::graph::Tensor;

macro_rules! operator {
    ($($Trait:ident $name:ident $as:path;)*) => {$(
        impl<T: Into<Operand>> $Trait<T> for &Tensor {
            type Output = Result<Tensor>;

            fn $name(self, other: T) -> Result<Tensor> {
                Tensor::$name(self, other)
            }
        }

        impl<T: Into<Operand>> $Trait<T> for Tensor {
            type Output = Result<Tensor>;

            fn $name(self, other: T) -> Result<Tensor> {
                Tensor::$name(&self, other)
            }
        }

        from_the_left!($Trait $name $as, f64 i64);
    )*};
}

fn same(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.clone())
}

/// A number that stands first takes the tensor's type, as one that stands second does. One type of each
/// kind: among several the compiler could not choose for `2 * &x`.
macro_rules! from_the_left {
    ($Trait:ident $name:ident $as:path, $($number:ty)*) => {$(
        impl $Trait<&Tensor> for $number {
            type Output = Result<Tensor>;

            fn $name(self, tensor: &Tensor) -> Result<Tensor> {
                let (b, a) = super::pair(stringify!($name), &$as(tensor)?, self.into())?;
                Tensor::$name(&a, b)
            }
        }

        impl $Trait<Tensor> for $number {
            type Output = Result<Tensor>;

            fn $name(self, tensor: Tensor) -> Result<Tensor> {
                $Trait::$name(self, &tensor)
            }
        }
    )*};
}

operator! {
    Add add same;
    Sub sub same;
    Mul mul same;
    Div div Tensor::to_float;
}

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Engine;
    use codegen::DType;

    #[test]
    fn operators_are_the_methods() {
        let engine = Engine::reference();
        let a = Tensor::new(&engine, [[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
        let b = Tensor::new(&engine, [10.0f32, 20.0]).unwrap();
        let values = |t: Result<Tensor>| t.unwrap().to_vec::<f32>().unwrap();
        assert_eq!(values(&a + &b), [11.0, 22.0, 13.0, 24.0]);
        assert_eq!(values(a.clone() - b.clone()), [-9.0, -18.0, -7.0, -16.0]);
        assert_eq!(values((&a * 2).unwrap() + &b), [12.0, 24.0, 16.0, 28.0]);
        assert_eq!(values(1.0 / &a), [1.0, 0.5, 1.0 / 3.0, 0.25]);
        assert_eq!(values(8 - a.clone()), [7.0, 6.0, 5.0, 4.0]);
        assert_eq!(values(-&a), [-1.0, -2.0, -3.0, -4.0]);
        let c = Tensor::new(&engine, [1i32, 2, 3]).unwrap();
        assert_eq!((2 * &c).unwrap().to_vec::<i32>().unwrap(), [2, 4, 6]);
        assert_eq!((0.5 * &c).unwrap().dtype(), DType::F32);
        let error = (&a + &c).unwrap_err().to_string();
        assert!(error.starts_with("add: shapes [[2, 2], [3]]"), "{error}");
    }
}
