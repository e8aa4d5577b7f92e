//! Element types of the format and how tensors hold them.

use std::fmt;

use codegen::DType;

/// An element type of ONNX (`TensorProto.DataType`).
///
/// Types that no kernel computes with are carried in a wider or equal type: integers of 4 and 2 bits
/// as `i8`/`u8` by value, 4-bit and `fnuz` floats and `FLOAT8E8M0` as their codes in `u8`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Elem {
    /// A type that tensors have.
    Plain(DType),
    /// `FLOAT8E4M3FNUZ`: no infinity, no negative zero, NaN is 0x80.
    F8E4M3Fnuz,
    /// `FLOAT8E5M2FNUZ`: the same rules with five exponent bits.
    F8E5M2Fnuz,
    /// `UINT4`.
    U4,
    /// `INT4`.
    I4,
    /// `FLOAT4E2M1`.
    F4E2M1,
    /// `FLOAT8E8M0`: powers of two from 2^-127 on, and NaN, which is 0xff.
    F8E8M0,
    /// `UINT2`.
    U2,
    /// `INT2`.
    I2,
}

/// Number in the format and name of every type, with what holds it.
const TABLE: [(i32, &str, Option<Elem>); 29] = [
    (0, "UNDEFINED", None),
    (1, "FLOAT", Some(Elem::Plain(DType::F32))),
    (2, "UINT8", Some(Elem::Plain(DType::U8))),
    (3, "INT8", Some(Elem::Plain(DType::I8))),
    (4, "UINT16", Some(Elem::Plain(DType::U16))),
    (5, "INT16", Some(Elem::Plain(DType::I16))),
    (6, "INT32", Some(Elem::Plain(DType::I32))),
    (7, "INT64", Some(Elem::Plain(DType::I64))),
    (8, "STRING", None),
    (9, "BOOL", Some(Elem::Plain(DType::Bool))),
    (10, "FLOAT16", Some(Elem::Plain(DType::F16))),
    (11, "DOUBLE", Some(Elem::Plain(DType::F64))),
    (12, "UINT32", Some(Elem::Plain(DType::U32))),
    (13, "UINT64", Some(Elem::Plain(DType::U64))),
    (14, "COMPLEX64", None),
    (15, "COMPLEX128", None),
    (16, "BFLOAT16", Some(Elem::Plain(DType::BF16))),
    (17, "FLOAT8E4M3FN", Some(Elem::Plain(DType::F8E4M3))),
    (18, "FLOAT8E4M3FNUZ", Some(Elem::F8E4M3Fnuz)),
    (19, "FLOAT8E5M2", Some(Elem::Plain(DType::F8E5M2))),
    (20, "FLOAT8E5M2FNUZ", Some(Elem::F8E5M2Fnuz)),
    (21, "UINT4", Some(Elem::U4)),
    (22, "INT4", Some(Elem::I4)),
    (23, "FLOAT4E2M1", Some(Elem::F4E2M1)),
    (24, "FLOAT8E8M0", Some(Elem::F8E8M0)),
    (25, "UINT2", Some(Elem::U2)),
    (26, "INT2", Some(Elem::I2)),
    (27, "FLOAT6E2M3", None),
    (28, "FLOAT6E3M2", None),
];

/// The number of `STRING` in the format.
pub const STRING: i32 = 8;

impl Elem {
    /// The type with this number; `None` for strings, complex numbers and numbers that the format
    /// does not have. [`type_name`] names it for an error.
    pub fn from_number(number: i64) -> Option<Elem> {
        let row = TABLE.iter().find(|row| i64::from(row.0) == number)?;
        row.2
    }

    /// The type of this name: the first operator sets write it so.
    pub fn from_name(name: &str) -> Option<Elem> {
        let row = TABLE.iter().find(|row| row.1 == name)?;
        row.2
    }

    /// Its number in the format.
    pub fn number(self) -> i32 {
        let row = TABLE.iter().find(|row| row.2 == Some(self));
        row.map_or(0, |row| row.0)
    }

    /// The type of the tensors that hold it.
    pub fn held(self) -> DType {
        match self {
            Elem::Plain(dtype) => dtype,
            Elem::I4 | Elem::I2 => DType::I8,
            Elem::F8E4M3Fnuz
            | Elem::F8E5M2Fnuz
            | Elem::F8E8M0
            | Elem::F4E2M1
            | Elem::U4
            | Elem::U2 => DType::U8,
        }
    }

    /// Bits of one element in a file.
    pub fn bits(self) -> usize {
        match self {
            Elem::Plain(dtype) => dtype.size() * 8,
            Elem::F8E4M3Fnuz | Elem::F8E5M2Fnuz | Elem::F8E8M0 => 8,
            Elem::U4 | Elem::I4 | Elem::F4E2M1 => 4,
            Elem::U2 | Elem::I2 => 2,
        }
    }
}

/// The name that the format gives to a number.
pub fn type_name(number: i64) -> String {
    match TABLE.iter().find(|row| i64::from(row.0) == number) {
        Some(row) => row.1.to_string(),
        None => format!("element type {number}"),
    }
}

impl From<DType> for Elem {
    fn from(dtype: DType) -> Elem {
        Elem::Plain(dtype)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&type_name(i64::from(self.number())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        for (number, name, elem) in TABLE {
            assert_eq!(Elem::from_number(number.into()), elem);
            assert_eq!(type_name(number.into()), name);
            assert_eq!(Elem::from_name(name), elem);
            if let Some(elem) = elem {
                assert_eq!((elem.number(), elem.to_string()), (number, name.into()));
            }
        }
        assert_eq!(Elem::from_number(99), None);
        assert_eq!(type_name(-1), "element type -1");
    }
}
