//! Numbers that become elements must fit, see [`Scalar`].

use codegen::DType;
use codegen::interp::scalar;

use super::dtype_error;
use crate::element::Scalar;
use crate::error::Result;

impl Scalar {
    /// The bits of the value, which must fit into the type; `op` is who asks.
    ///
    /// # Errors
    /// An integer outside of the range of an integer type; NaN or an infinity for one.
    pub fn fit(self, op: &'static str, dtype: DType) -> Result<u64> {
        if !dtype.is_int() {
            return Ok(self.bits(dtype));
        }
        let (low, high) = scalar::int_limits(dtype);
        match self.whole() {
            Some(x) if (low..=high).contains(&x) => Ok(scalar::from_int(dtype, x)),
            found => {
                // The narrowest type that holds both the tensor and the number.
                let wide = [DType::I16, DType::I32, DType::I64]
                    .into_iter()
                    .find(|&wide| {
                        let (from, to) = scalar::int_limits(wide);
                        from <= low && high <= to && found.is_some_and(|x| from <= x && x <= to)
                    })
                    .unwrap_or(DType::F64);
                dtype_error(
                    op,
                    format!(
                        "{self} does not fit into {dtype}, {low} to {high}; cast to {wide} first"
                    ),
                )
            }
        }
    }

    /// The value without its fraction; none if it is NaN or infinite.
    fn whole(self) -> Option<i128> {
        match self {
            Scalar::Float(x) => x.is_finite().then_some(x as i128),
            Scalar::Int(x) => Some(i128::from(x)),
            Scalar::Bool(x) => Some(i128::from(x)),
        }
    }
}
