//! What a model bundle says.

use std::fmt;

/// What a bundle was made from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// The name of the model's file.
    pub model: String,
    /// SHA-256 of the model's file.
    pub model_sha256: [u8; 32],
    /// The version of doorbell that compiled it.
    pub doorbell: String,
    /// The options that it was compiled with, `name=value`.
    pub options: Vec<String>,
}

/// An element type. Numbers in the file are those of ONNX (onnx.proto, `TensorProto.DataType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Element {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F8E4M3,
    F8E5M2,
    F16,
    BF16,
    F32,
    F64,
}

/// Number in the file, name, bytes.
const ELEMENTS: [(Element, u8, &str, u64); 15] = [
    (Element::Bool, 9, "bool", 1),
    (Element::I8, 3, "i8", 1),
    (Element::I16, 5, "i16", 2),
    (Element::I32, 6, "i32", 4),
    (Element::I64, 7, "i64", 8),
    (Element::U8, 2, "u8", 1),
    (Element::U16, 4, "u16", 2),
    (Element::U32, 12, "u32", 4),
    (Element::U64, 13, "u64", 8),
    (Element::F8E4M3, 17, "f8e4m3", 1),
    (Element::F8E5M2, 19, "f8e5m2", 1),
    (Element::F16, 10, "f16", 2),
    (Element::BF16, 16, "bf16", 2),
    (Element::F32, 1, "f32", 4),
    (Element::F64, 11, "f64", 8),
];

impl Element {
    fn row(self) -> (u8, &'static str, u64) {
        // Every variant has a row, which a test checks.
        let row = ELEMENTS.iter().find(|row| row.0 == self);
        row.map_or((0, "", 1), |&(_, number, name, bytes)| {
            (number, name, bytes)
        })
    }

    /// The number in the file.
    pub fn number(self) -> u8 {
        self.row().0
    }

    /// The type of a number.
    pub fn of_number(number: u8) -> Option<Element> {
        ELEMENTS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The type of a name: `f32`.
    pub fn of_name(name: &str) -> Option<Element> {
        ELEMENTS.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        self.row().2
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

/// An input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// Its type.
    pub element: Element,
    /// Its sizes, outermost first.
    pub shape: Vec<u64>,
}

impl Port {
    /// Its size in bytes; none beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        let count = self.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
        count.checked_mul(self.element.bytes())
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.element, self.shape)
    }
}

/// A value that a run finds as the run before left it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The input of the model that it takes the place of, its type and sizes.
    pub port: Port,
    /// Where its first value is in the section of constants; zeros without one.
    pub initial: Option<u64>,
}

/// Code for one device, with everything that a run does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TargetPlan {
    /// The kind of device, as in `DEV`: `CPU`, `AMD`, `NV`, `QCOM`.
    pub device: String,
    /// The instruction set: `x86_64`, `gfx1100`, `sm_89`.
    pub arch: String,
    /// What a processor has to have besides, separated by commas: a level of x86-64, features by LLVM's names; empty on GPUs.
    pub features: String,
    /// What compiled it.
    pub compiler: String,
    /// Memory.
    pub regions: Vec<Region>,
    /// Code.
    pub objects: Vec<CodeObject>,
    /// What is done once, when the bundle is loaded: weights in the order in which kernels read them.
    pub prologue: Vec<Step>,
    /// What each run does, in order.
    pub steps: Vec<Step>,
}

impl TargetPlan {
    /// As in `DEV` and `--target`.
    pub fn name(&self) -> String {
        let TargetPlan {
            device,
            arch,
            features,
            ..
        } = self;
        match features.as_str() {
            "" => format!("{device}::{arch}"),
            // A level of x86-64 says the architecture.
            level if level.starts_with("x86-64-") => format!("{device}::{level}"),
            others => format!("{device}::{arch},{others}"),
        }
    }
}

/// A piece of memory. No two share bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// What is in it.
    pub content: Content,
    /// Its size.
    pub bytes: u64,
}

/// What a region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Memory of the model alone, with any bytes in it at first.
    Own,
    /// The bytes at this offset of the section of constants.
    Constant(u64),
    /// The input with this number.
    Input(u32),
    /// The output with this number.
    Output(u32),
    /// The state with this number.
    State(u32),
}

/// A kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeObject {
    /// What it is called in traces and errors.
    pub name: String,
    /// The symbol to start at.
    pub entry: String,
    /// Where it is in the target's section of code.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// Its arguments in order: whether each is an address; else it is a number of 64 bits.
    pub addresses: Vec<bool>,
    /// Bytes of local memory of a group.
    pub local_bytes: u32,
}

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The region.
    pub region: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Where it begins.
    pub at: Place,
    /// How long it is.
    pub bytes: u64,
}

/// An argument of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// The address of a place.
    Address(Place),
    /// A number.
    Number(u64),
}

/// One command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Runs a kernel.
    Launch(Launch),
    /// Copies bytes between places that do not overlap.
    Copy {
        /// To here.
        to: Place,
        /// From here.
        from: Place,
        /// How many.
        bytes: u64,
    },
}

/// A launch of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The code object.
    pub object: u32,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// One per argument of the object.
    pub arguments: Vec<Argument>,
    /// Bytes that it reads.
    pub reads: Vec<Extent>,
    /// Bytes that it writes.
    pub writes: Vec<Extent>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_number_and_a_name_of_its_own() {
        for (element, number, name, bytes) in ELEMENTS {
            assert_eq!(Element::of_number(number), Some(element));
            assert_eq!(Element::of_name(name), Some(element));
            assert_eq!((element.number(), element.bytes()), (number, bytes));
        }
        assert_eq!(ELEMENTS.len(), Element::F64 as usize + 1);
    }

    #[test]
    fn sizes_beyond_64_bits_are_none() {
        let port = |shape: &[u64]| Port {
            name: "x".into(),
            element: Element::F32,
            shape: shape.to_vec(),
        };
        assert_eq!(port(&[2, 3]).bytes(), Some(24));
        assert_eq!(port(&[]).bytes(), Some(4));
        assert_eq!(port(&[1 << 40, 1 << 40]).bytes(), None);
        assert_eq!(port(&[2, 3]).to_string(), "f32 [2, 3]");
    }
}
